"""The Deployment controller: moves the ReplicaSets of each Deployment towards its template and its replica count.

One reconcile takes one step of a rollout (scale up the new ReplicaSet, or scale down old ones), writes the status, and
requeues the key; the other modules of this package decide the step. The status and the revision annotation are changed
in one write, and only if they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final

from headgate.controllers.deployments import pod_counts, progress, revisions, rolling_update, scaling, status
from headgate.controllers.deployments.reconciled_deployment import ReconciledDeployment
from headgate.controllers.deployments.replica_sets import REVISION, ReplicaSet, active, read
from headgate.controllers.deployments.rolling_update import ReplicaSetResize
from headgate.controllers.framework.effects import (
    Create,
    Delete,
    Effect,
    EffectResponse,
    EmitEvent,
    Get,
    Patch,
    Replace,
)
from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    Result,
    WatchSpec,
)
from headgate.controllers.ownership.adoption import claim
from headgate.controllers.ownership.cache import Key, OwnerKind, OwnershipCache
from headgate.controllers.ownership.pods import object_reference
from headgate.kube.api_resources import DEPLOYMENTS, PODS, REPLICA_SETS, APIResource
from headgate.kube.object_meta import controller_of, is_controlled_by
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]
TemplateHash = Callable[[Object, int | None], str]
"""Returns the hash of a pod template after a number of collisions."""
_PartialSteps = Generator[Effect, EffectResponse, Result | None]
"""Steps that return the result of the reconcile if it has to end here, and None if it continues."""

KIND: Final = GroupVersionKind("apps", "v1", "Deployment")
_COMPONENT: Final = "deployment-controller"
_OWNER: Final = OwnerKind(KIND, DEPLOYMENTS, REPLICA_SETS, _COMPONENT)
BATCH_S: Final = 0.01
"""The delay after a change of a ReplicaSet: changes come in bursts and are reconciled together."""


class DeploymentController(Controller):
    name = "deployments"

    def __init__(self, hash_template: TemplateHash, batch_s: float = BATCH_S) -> None:
        self._hash_template = hash_template
        self._batch_s = batch_s
        self._cache: Final = OwnershipCache(_OWNER)
        self._pods: Final = pod_counts.ReplicaSetPodCounts()

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(DEPLOYMENTS, ALL_FIELDS),
            WatchSpec(REPLICA_SETS, ALL_FIELDS),
            WatchSpec(PODS, pod_counts.FIELDS),
        )

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            return self._affected_deployments(self._pods.applied(obj))
        if resource == REPLICA_SETS:
            return [Enqueue(key, self._batch_s) for key in self._cache.dependent_applied(obj)]
        return map(Enqueue, self._cache.owner_applied(obj))

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            return self._affected_deployments(self._pods.removed(uid))
        if resource == REPLICA_SETS:
            return map(Enqueue, self._cache.dependent_removed(namespace, name, uid))
        self._cache.owner_removed(namespace, name, uid)
        return ()

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        return map(Enqueue, self._cache.synced(revision)) if resource == REPLICA_SETS else ()

    def _affected_deployments(self, set_uids: Iterable[str]) -> list[Enqueue]:
        enqueues = []
        for uid in set_uids:
            known = self._cache.dependent(uid)
            reference = None if known is None else controller_of(known)
            key = None if reference is None else self._cache.key_of(str(reference.get("uid")))
            if key is not None:
                enqueues.append(Enqueue(key, self._batch_s))
        return enqueues

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        problem = yield from claim(self._cache, key)
        if problem is not None:
            return RequeueWithBackoff(problem)
        owner = self._cache.owner(key)
        if owner is None:
            return Done()
        deployment = ReconciledDeployment(owner, now_s)
        new = revisions.find_new(owner, self._sets(deployment))
        if new is not None:
            early_result = yield from self._update_new_replica_set(deployment, new)
            if early_result is not None:
                return early_result
        if "deletionTimestamp" in owner["metadata"]:
            return (yield from self._report(deployment, rollout=False))
        deployment.conditions = progress.with_pause(owner, deployment.conditions, now_s)
        if owner["spec"].get("paused") or scaling.needs_scaling(owner, self._sets(deployment)):
            return (yield from self._scale(deployment))
        return (
            yield from (
                self._take_rolling_update_step(deployment)
                if rolling_update.has_rolling_update_strategy(owner)
                else self._take_recreate_step(deployment)
            )
        )

    def _sets(self, deployment: ReconciledDeployment) -> list[ReplicaSet]:
        return [read(each) for each in self._cache.dependents(deployment.uid).values()]

    def _split(self, deployment: ReconciledDeployment) -> tuple[list[ReplicaSet], ReplicaSet | None]:
        """The old ReplicaSets, and the new one if there is one."""
        sets = self._sets(deployment)
        new = revisions.find_new(deployment.stored, sets)
        return [each for each in sets if new is None or each.uid != new.uid], new

    # -- new ReplicaSet --------------------------------------------------------------------------------------------

    def _update_new_replica_set(self, deployment: ReconciledDeployment, new: ReplicaSet) -> _PartialSteps:
        """Updates the revision, the annotations and ``minReadySeconds`` of the new ReplicaSet."""
        old, _ = self._split(deployment)
        known = new.obj["metadata"].get("annotations") or {}
        annotations = revisions.revision_annotations(deployment.stored, known, revisions.next_revision(old))
        ready_s = revisions.min_ready_s(deployment.stored)
        if annotations != known or revisions.min_ready_s(new.obj) != ready_s:
            early_result = yield from self._patch(new, {"annotations": annotations}, {"minReadySeconds": ready_s})
            if early_result is not None:
                return early_result
        deployment.annotate(REVISION, annotations.get(REVISION, ""))
        if progress.deadline_s(deployment.stored) is not None and not progress.reason_of(deployment.conditions):
            deployment.set_progressing("True", progress.FOUND, f'Found new replica set "{new.name}"')
        return None

    def _create(self, deployment: ReconciledDeployment) -> _PartialSteps:
        old, _ = self._split(deployment)
        revision = revisions.next_revision(old)
        replicas = rolling_update.new_size(deployment.stored, old, 0)
        template_hash = self._hash_template(deployment.stored["spec"]["template"], deployment.collisions)
        body = revisions.new_replica_set(deployment.stored, KIND, template_hash, revision, replicas)
        name, namespace = body["metadata"]["name"], deployment.namespace
        response = yield Create(REPLICA_SETS, namespace, body)
        is_created = response.ok
        if response.conflict:
            response = yield Get(REPLICA_SETS, namespace, name)
            if response.ok and not self._is_own_replica_set(deployment, response.body):
                deployment.collisions = (deployment.collisions or 0) + 1
                yield from self._write(deployment)
                return RequeueWithBackoff(f"{name} is another ReplicaSet; the next attempt uses another hash")
        if not response.ok:
            return (yield from self._report_create_error(deployment, name, response))
        self._cache.observe_write(response.body)
        if is_created and replicas > 0:
            yield self._event(deployment, f"Scaled up replica set {name} from 0 to {replicas}")
        deployment.annotate(REVISION, str(revision))
        if is_created and progress.deadline_s(deployment.stored) is not None:
            deployment.set_progressing("True", progress.CREATED, f'Created new replica set "{name}"')
        return None

    def _is_own_replica_set(self, deployment: ReconciledDeployment, found: Object) -> bool:
        """Whether an existing ReplicaSet with the name of the new one was created for the same template of this
        Deployment."""
        template = deployment.stored["spec"]["template"]
        return is_controlled_by(found, deployment.stored) and revisions.same_template(
            found["spec"]["template"], template
        )

    def _report_create_error(
        self, deployment: ReconciledDeployment, name: str, response: EffectResponse
    ) -> Generator[Effect, EffectResponse, Result]:
        if response.has_cause("NamespaceTerminating"):
            return Done()
        if not response.unknown:
            message = f'Failed to create new replica set "{name}": {response.message}'
            if progress.deadline_s(deployment.stored) is not None:
                deployment.set_progressing("False", progress.CREATE_ERROR, message)
                yield from self._write(deployment)
            yield EmitEvent(
                object_reference(deployment.stored, KIND), "Warning", progress.CREATE_ERROR, message, _COMPONENT
            )
        return RequeueWithBackoff(response.message)

    # -- sizes -----------------------------------------------------------------------------------------------------

    def _scale(self, deployment: ReconciledDeployment) -> ReconcileSteps:
        """Scales the ReplicaSets and takes no step of the rollout, because the replica count has changed or the rollout
        is paused."""
        old, new = self._split(deployment)
        result = yield from self._resize(deployment, scaling.resizes(deployment.stored, old, new))
        if result is not None:
            return result
        if deployment.stored["spec"].get("paused"):
            early_result = yield from self._clean_up_history(deployment)
            if early_result is not None:
                return early_result
        return self._requeue_if_resized(deployment, (yield from self._report(deployment, rollout=False)))

    def _take_rolling_update_step(self, deployment: ReconciledDeployment) -> ReconcileSteps:
        old, new = self._split(deployment)
        if new is None:
            early_result = yield from self._create(deployment)
            if early_result is not None:
                return early_result
            old, new = self._split(deployment)
        if new is None:
            return RequeueWithBackoff("the new ReplicaSet was deleted right after its creation")
        steps = rolling_update.resize_new(deployment.stored, [*old, new], new) or rolling_update.shrink_old(
            deployment.stored, old, new
        )
        return (yield from self._resize_and_report(deployment, steps))

    def _take_recreate_step(self, deployment: ReconciledDeployment) -> ReconcileSteps:
        old, new = self._split(deployment)
        shrink = [ReplicaSetResize(each.uid, 0) for each in active(old)]
        if shrink or self._has_pods(old):
            return (yield from self._resize_and_report(deployment, shrink))
        if new is None:
            early_result = yield from self._create(deployment)
            if early_result is not None:
                return early_result
            old, new = self._split(deployment)
        grow = [] if new is None else rolling_update.resize_new(deployment.stored, [*old, new], new)
        return (yield from self._resize_and_report(deployment, grow))

    def _has_pods(self, old: Sequence[ReplicaSet]) -> bool:
        """Whether pods of old ReplicaSets are left, including terminating ones."""
        return any(each.status_replicas > 0 or self._pods.unfinished(each.uid) > 0 for each in old)

    def _resize_and_report(self, deployment: ReconciledDeployment, steps: Sequence[ReplicaSetResize]) -> ReconcileSteps:
        result = yield from self._resize(deployment, steps)
        if result is not None:
            return result
        if steps:
            return self._requeue_if_resized(deployment, (yield from self._report(deployment, rollout=True)))
        _, new = self._split(deployment)
        if progress.is_complete(deployment.stored, status.counts(deployment.stored, self._sets(deployment), new)):
            early_result = yield from self._clean_up_history(deployment)
            if early_result is not None:
                return early_result
        return (yield from self._report(deployment, rollout=True))

    @staticmethod
    def _requeue_if_resized(deployment: ReconciledDeployment, reported: Result) -> Result:
        """Requeues at once for the next step if a ReplicaSet was resized, because the controller's own writes do not
        enqueue the key."""
        return (
            Done([Enqueue(deployment.key)])
            if deployment.is_resized and not isinstance(reported, RequeueWithBackoff)
            else reported
        )

    def _resize(self, deployment: ReconciledDeployment, steps: Sequence[ReplicaSetResize]) -> _PartialSteps:
        sizes = revisions.size_annotations(deployment.stored)
        for step in steps:
            known = self._cache.dependent(step.uid)
            if known is None:
                return RequeueWithBackoff("a ReplicaSet was deleted during the reconcile")
            each = read(known)
            annotations = known["metadata"].get("annotations") or {}
            if each.replicas == step.replicas and (
                not step.updates_annotations or sizes.items() <= annotations.items()
            ):
                continue
            early_result = yield from self._patch(each, {"annotations": sizes}, {"replicas": step.replicas})
            if early_result is not None:
                return early_result
            deployment.is_resized = True
            if each.replicas != step.replicas:
                direction = "up" if each.replicas < step.replicas else "down"
                text = f"Scaled {direction} replica set {each.name} from {each.replicas} to {step.replicas}"
                yield self._event(deployment, text)
        return None

    def _clean_up_history(self, deployment: ReconciledDeployment) -> _PartialSteps:
        """Deletes old ReplicaSets beyond the history limit."""
        old, _ = self._split(deployment)
        for each in revisions.beyond_history(deployment.stored, old):
            if self._cache.is_terminating(each.uid):
                continue
            options = {"preconditions": {"uid": each.uid}, "propagationPolicy": "Background"}
            response = yield Delete(REPLICA_SETS, deployment.namespace, each.name, options)
            if response.ok:
                self._cache.deletion_accepted(each.uid)
            elif not response.missing and not response.conflict:
                return RequeueWithBackoff(response.message)
        return None

    def _patch(self, each: ReplicaSet, metadata: Object, spec: Object) -> _PartialSteps:
        namespace = each.obj["metadata"]["namespace"]
        body = {"metadata": {"uid": each.uid, **metadata}, "spec": spec}
        response = yield Patch(REPLICA_SETS, namespace, each.name, body, how="merge")
        if not response.ok:
            return RequeueWithBackoff(response.message)
        self._cache.observe_write(response.body)
        return None

    def _event(self, deployment: ReconciledDeployment, message: str) -> EmitEvent:
        return EmitEvent(object_reference(deployment.stored, KIND), "Normal", "ScalingReplicaSet", message, _COMPONENT)

    # -- status ----------------------------------------------------------------------------------------------------

    def _report(self, deployment: ReconciledDeployment, *, rollout: bool) -> ReconcileSteps:
        """Writes the status. ``rollout``: also update the condition Progressing; false while the Deployment is paused,
        deleted or only scaled."""
        sets = self._sets(deployment)
        _, new = self._split(deployment)
        deployment.counts = counts = status.counts(deployment.stored, sets, new)
        deployment.conditions = status.with_availability(
            deployment.stored, counts, deployment.conditions, deployment.now_s
        )
        if rollout:
            subject = f'Deployment "{deployment.key[1]}"' if new is None else f'ReplicaSet "{new.name}"'
            has_queued_pods = new is not None and self._pods.queued(new.uid) > 0
            updated = progress.with_progress(
                deployment.stored, counts, deployment.conditions, subject, has_queued_pods, deployment.now_s
            )
            deployment.conditions = status.with_failures(sets, new, updated)
        early_result = yield from self._write(deployment)
        if early_result is not None:
            return early_result
        wait_s = (
            progress.next_deadline_check_s(deployment.stored, deployment.status, deployment.now_s) if rollout else None
        )
        return Done() if wait_s is None else RequeueAfter(wait_s)

    def _write(self, deployment: ReconciledDeployment) -> _PartialSteps:
        if not deployment.is_changed:
            return None
        response = yield Replace(DEPLOYMENTS, *deployment.key, deployment.obj, subresource="status")
        if not response.ok:
            return None if response.missing else RequeueWithBackoff(response.message)
        self._cache.owner_applied(response.body)
        return None
