"""The Deployment controller: moves the ReplicaSets of each Deployment towards its template and its replica count.

One reconcile takes one step of a rollout (scale up the new ReplicaSet, or scale down old ones), writes the status, and
requeues the key; the other modules of this package decide the step. The status and the revision annotation are one
write, and only if something changed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final

from headgate.controllers.deployments import pod_counts, progress, revisions, rolling_update, scaling, status
from headgate.controllers.deployments.draft import DeploymentDraft
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
Hash = Callable[[Object, int | None], str]
"""Returns the hash of a pod template after a number of collisions."""
_Part = Generator[Effect, EffectResponse, Result | None]
"""Steps that end the reconcile with a result, or return None to continue."""

KIND: Final = GroupVersionKind("apps", "v1", "Deployment")
_COMPONENT: Final = "deployment-controller"
_OWNER: Final = OwnerKind(KIND, DEPLOYMENTS, REPLICA_SETS, _COMPONENT)
BATCH_S: Final = 0.01
"""The delay after a change of a ReplicaSet: changes come in bursts and are reconciled together."""


class DeploymentController(Controller):
    name = "deployments"

    def __init__(self, hash_template: Hash, batch_s: float = BATCH_S) -> None:
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

    # -- events in -------------------------------------------------------------------------------------------------

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

    # -- work ------------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        unclaimed = yield from claim(self._cache, key)
        if unclaimed is not None:
            return RequeueWithBackoff(unclaimed)
        owner = self._cache.owner(key)
        if owner is None:
            return Done()
        draft = DeploymentDraft(owner, now_s)
        new = revisions.find_new(owner, self._sets(draft))
        if new is not None:
            stopped = yield from self._update_new_replica_set(draft, new)
            if stopped is not None:
                return stopped
        if "deletionTimestamp" in owner["metadata"]:
            return (yield from self._report(draft, rollout=False))
        draft.conditions = progress.with_pause(owner, draft.conditions, now_s)
        if owner["spec"].get("paused") or scaling.is_scaled(owner, self._sets(draft)):
            return (yield from self._scale(draft))
        return (yield from (self._roll(draft) if rolling_update.is_rolling(owner) else self._recreate(draft)))

    def _sets(self, draft: DeploymentDraft) -> list[ReplicaSet]:
        return [read(each) for each in self._cache.dependents(draft.uid).values()]

    def _split(self, draft: DeploymentDraft) -> tuple[list[ReplicaSet], ReplicaSet | None]:
        """The old ReplicaSets, and the new one if there is one."""
        sets = self._sets(draft)
        new = revisions.find_new(draft.owner, sets)
        return [each for each in sets if new is None or each.uid != new.uid], new

    # -- the new ReplicaSet ----------------------------------------------------------------------------------------

    def _update_new_replica_set(self, draft: DeploymentDraft, new: ReplicaSet) -> _Part:
        """Updates the revision, the annotations and ``minReadySeconds`` of the new ReplicaSet."""
        old, _ = self._split(draft)
        known = new.obj["metadata"].get("annotations") or {}
        annotations = revisions.revision_annotations(draft.owner, known, revisions.next_revision(old))
        ready_s = revisions.min_ready_s(draft.owner)
        if annotations != known or revisions.min_ready_s(new.obj) != ready_s:
            stopped = yield from self._patch(new, {"annotations": annotations}, {"minReadySeconds": ready_s})
            if stopped is not None:
                return stopped
        draft.annotate(REVISION, annotations.get(REVISION, ""))
        if progress.deadline_s(draft.owner) is not None and not progress.reason_of(draft.conditions):
            draft.set_status("True", progress.FOUND, f'Found new replica set "{new.name}"')
        return None

    def _create(self, draft: DeploymentDraft) -> _Part:
        old, _ = self._split(draft)
        revision = revisions.next_revision(old)
        replicas = rolling_update.new_size(draft.owner, old, 0)
        template_hash = self._hash_template(draft.owner["spec"]["template"], draft.collisions)
        body = revisions.new_replica_set(draft.owner, KIND, template_hash, revision, replicas)
        name, namespace = body["metadata"]["name"], draft.namespace
        response = yield Create(REPLICA_SETS, namespace, body)
        is_created = response.ok
        if response.conflict:
            response = yield Get(REPLICA_SETS, namespace, name)
            if response.ok and not self._is_ours(draft, response.body):
                draft.collisions = (draft.collisions or 0) + 1
                yield from self._write(draft)
                return RequeueWithBackoff(f"{name} is another ReplicaSet: its hash is counted on")
        if not response.ok:
            return (yield from self._report_create_error(draft, name, response))
        self._cache.observe_write(response.body)
        if is_created and replicas > 0:
            yield self._event(draft, f"Scaled up replica set {name} from 0 to {replicas}")
        draft.annotate(REVISION, str(revision))
        if is_created and progress.deadline_s(draft.owner) is not None:
            draft.set_status("True", progress.CREATED, f'Created new replica set "{name}"')
        return None

    def _is_ours(self, draft: DeploymentDraft, found: Object) -> bool:
        template = draft.owner["spec"]["template"]
        return is_controlled_by(found, draft.owner) and revisions.same_template(found["spec"]["template"], template)

    def _report_create_error(
        self, draft: DeploymentDraft, name: str, response: EffectResponse
    ) -> Generator[Effect, EffectResponse, Result]:
        if response.has_cause("NamespaceTerminating"):
            return Done()
        if not response.unknown:
            message = f'Failed to create new replica set "{name}": {response.message}'
            if progress.deadline_s(draft.owner) is not None:
                draft.set_status("False", progress.CREATE_ERROR, message)
                yield from self._write(draft)
            yield EmitEvent(object_reference(draft.owner, KIND), "Warning", progress.CREATE_ERROR, message, _COMPONENT)
        return RequeueWithBackoff(response.message)

    # -- sizes -----------------------------------------------------------------------------------------------------

    def _scale(self, draft: DeploymentDraft) -> ReconcileSteps:
        """Scales the ReplicaSets only: the replica count has changed, or the rollout is paused."""
        old, new = self._split(draft)
        result = yield from self._resize(draft, scaling.resizes(draft.owner, old, new))
        if result is not None:
            return result
        if draft.owner["spec"].get("paused"):
            stopped = yield from self._clean_up_history(draft)
            if stopped is not None:
                return stopped
        return self._requeue_if_resized(draft, (yield from self._report(draft, rollout=False)))

    def _roll(self, draft: DeploymentDraft) -> ReconcileSteps:
        old, new = self._split(draft)
        if new is None:
            stopped = yield from self._create(draft)
            if stopped is not None:
                return stopped
            old, new = self._split(draft)
        if new is None:
            return RequeueWithBackoff("the new ReplicaSet is gone already")
        steps = rolling_update.resize_new(draft.owner, [*old, new], new) or rolling_update.shrink_old(
            draft.owner, old, new
        )
        return (yield from self._step(draft, steps))

    def _recreate(self, draft: DeploymentDraft) -> ReconcileSteps:
        old, new = self._split(draft)
        shrink = [ReplicaSetResize(each.uid, 0) for each in active(old)]
        if shrink or self._is_running(old):
            return (yield from self._step(draft, shrink))
        if new is None:
            stopped = yield from self._create(draft)
            if stopped is not None:
                return stopped
            old, new = self._split(draft)
        grow = [] if new is None else rolling_update.resize_new(draft.owner, [*old, new], new)
        return (yield from self._step(draft, grow))

    def _is_running(self, old: Sequence[ReplicaSet]) -> bool:
        """Whether pods of old ReplicaSets are left, including terminating ones."""
        return any(each.counted > 0 or self._pods.unfinished(each.uid) > 0 for each in old)

    def _step(self, draft: DeploymentDraft, steps: Sequence[ReplicaSetResize]) -> ReconcileSteps:
        result = yield from self._resize(draft, steps)
        if result is not None:
            return result
        if steps:
            return self._requeue_if_resized(draft, (yield from self._report(draft, rollout=True)))
        _, new = self._split(draft)
        if progress.is_complete(draft.owner, status.counts(draft.owner, self._sets(draft), new)):
            stopped = yield from self._clean_up_history(draft)
            if stopped is not None:
                return stopped
        return (yield from self._report(draft, rollout=True))

    @staticmethod
    def _requeue_if_resized(draft: DeploymentDraft, reported: Result) -> Result:
        """Own writes enqueue nothing: requeue at once for the next step."""
        return (
            Done([Enqueue(draft.key)])
            if draft.is_resized and not isinstance(reported, RequeueWithBackoff)
            else reported
        )

    def _resize(self, draft: DeploymentDraft, steps: Sequence[ReplicaSetResize]) -> _Part:
        sizes = revisions.size_annotations(draft.owner)
        for step in steps:
            known = self._cache.dependent(step.uid)
            if known is None:
                return RequeueWithBackoff("a ReplicaSet is gone")
            each = read(known)
            annotations = known["metadata"].get("annotations") or {}
            if each.replicas == step.replicas and (not step.annotations_only or sizes.items() <= annotations.items()):
                continue
            stopped = yield from self._patch(each, {"annotations": sizes}, {"replicas": step.replicas})
            if stopped is not None:
                return stopped
            draft.is_resized = True
            if each.replicas != step.replicas:
                direction = "up" if each.replicas < step.replicas else "down"
                text = f"Scaled {direction} replica set {each.name} from {each.replicas} to {step.replicas}"
                yield self._event(draft, text)
        return None

    def _clean_up_history(self, draft: DeploymentDraft) -> _Part:
        """Deletes old ReplicaSets beyond the history limit."""
        old, _ = self._split(draft)
        for each in revisions.beyond_history(draft.owner, old):
            if self._cache.is_terminating(each.uid):
                continue
            options = {"preconditions": {"uid": each.uid}, "propagationPolicy": "Background"}
            response = yield Delete(REPLICA_SETS, draft.namespace, each.name, options)
            if response.ok:
                self._cache.deletion_accepted(each.uid)
            elif not response.missing and not response.conflict:
                return RequeueWithBackoff(response.message)
        return None

    def _patch(self, each: ReplicaSet, metadata: Object, spec: Object) -> _Part:
        namespace = each.obj["metadata"]["namespace"]
        body = {"metadata": {"uid": each.uid, **metadata}, "spec": spec}
        response = yield Patch(REPLICA_SETS, namespace, each.name, body, how="merge")
        if not response.ok:
            return RequeueWithBackoff(response.message)
        self._cache.observe_write(response.body)
        return None

    def _event(self, draft: DeploymentDraft, message: str) -> EmitEvent:
        return EmitEvent(object_reference(draft.owner, KIND), "Normal", "ScalingReplicaSet", message, _COMPONENT)

    # -- the report ------------------------------------------------------------------------------------------------

    def _report(self, draft: DeploymentDraft, *, rollout: bool) -> ReconcileSteps:
        """Writes the status. ``rollout``: include the progress; not while the Deployment is only scaled or paused."""
        sets = self._sets(draft)
        _, new = self._split(draft)
        draft.counts = counts = status.counts(draft.owner, sets, new)
        draft.conditions = status.with_availability(draft.owner, counts, draft.conditions, draft.now_s)
        if rollout:
            subject = f'Deployment "{draft.key[1]}"' if new is None else f'ReplicaSet "{new.name}"'
            held = new is not None and self._pods.held(new.uid) > 0
            updated = progress.with_progress(draft.owner, counts, draft.conditions, subject, held, draft.now_s)
            draft.conditions = status.with_failures(sets, new, updated)
        stopped = yield from self._write(draft)
        if stopped is not None:
            return stopped
        wait_s = progress.next_deadline_check_s(draft.owner, draft.status, draft.now_s) if rollout else None
        return Done() if wait_s is None else RequeueAfter(wait_s)

    def _write(self, draft: DeploymentDraft) -> _Part:
        if not draft.is_changed:
            return None
        response = yield Replace(DEPLOYMENTS, *draft.key, draft.obj, subresource="status")
        if not response.ok:
            return None if response.missing else RequeueWithBackoff(response.message)
        self._cache.owner_applied(response.body)
        return None
