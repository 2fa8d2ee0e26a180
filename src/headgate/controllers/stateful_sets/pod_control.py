"""Performs the steps of a plan: claims first, then pods, with the Events of Kubernetes.

The requests of a stage are sent in batches that grow (1, 2, 4 …) while all requests succeed. A failure ends the
reconcile and is returned as an error text. The responses are added to the caches at once, so the next reconcile does
not repeat completed steps. ``plan.py`` decides the steps.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from headgate.controllers.framework.effects import (
    Create,
    Delete,
    Effect,
    EffectResponse,
    EmitEvent,
    ParallelRequests,
    Patch,
)
from headgate.controllers.ownership.cache import OwnershipCache
from headgate.controllers.ownership.pods import object_reference
from headgate.controllers.stateful_sets import identity
from headgate.controllers.stateful_sets.claim_cache import ClaimCache
from headgate.controllers.stateful_sets.claim_retention import belongs_to_deleted_pod, has_conflict, wanted_owners
from headgate.controllers.stateful_sets.identity import KIND
from headgate.controllers.stateful_sets.plan import (
    PlanStage,
    PlanStep,
    ProvideClaims,
    RepairPod,
    StartPod,
    StatefulSetPod,
    StatefulSetRules,
    StopPod,
    uses_current_revision,
)
from headgate.kube.api_resources import PERSISTENT_VOLUME_CLAIMS, PODS

Object = dict[str, Any]
Problem = str | None
"""An error text, or None after success."""
TaskSteps = Generator[Effect, EffectResponse, Problem]
Verb = Literal["Create", "Update", "Delete"]

_LARGEST_BATCH: Final = 500


class TemplateRevision(msgspec.Struct, frozen=True):
    """A revision by name, and the pod template in it."""

    name: str
    template: Object


class StatefulSetTask(msgspec.Struct, frozen=True):
    """The set, and the data of one reconcile."""

    set_: Object
    rules: StatefulSetRules
    current: TemplateRevision
    update: TemplateRevision
    pods: OwnershipCache
    claims: ClaimCache

    @property
    def namespace(self) -> str:
        namespace: str = self.set_["metadata"]["namespace"]
        return namespace


def execute_plan(task: StatefulSetTask, stages: Iterable[PlanStage]) -> TaskSteps:
    for stage in stages:
        done, size = 0, 1
        while done < len(stage):
            problem = yield from _execute_batch(task, stage[done : done + size])
            if problem is not None:
                return problem
            done += size
            size = min(2 * size, _LARGEST_BATCH)
    return None


def needs_repair(task: StatefulSetTask, member: StatefulSetPod) -> bool:
    if member.ordinal in task.rules.ordinals and not identity.has_identity(member.pod):
        return True
    return bool(_claims_with_wrong_owners(task, member.pod, member.ordinal))


def _execute_batch(task: StatefulSetTask, steps: Sequence[PlanStep]) -> TaskSteps:
    starts = [
        step.ordinal
        for step in steps
        if isinstance(step, StartPod) and not _must_wait_for_claim_deletion(task, step.ordinal)
    ]
    waiting = [step.member for step in steps if isinstance(step, ProvideClaims)]
    failures = yield from _create_claims(task, [*starts, *(member.ordinal for member in waiting)])
    problem = next(iter(failures.values()), None)
    for ordinal in starts:
        if ordinal in failures:
            yield _pod_event(task, "Create", identity.pod_name(task.set_, ordinal), failures[ordinal])
    problem = (yield from _create_pods(task, [each for each in starts if each not in failures])) or problem
    for member in waiting:
        problem = (yield from _update_claim_owners(task, member.pod, member.ordinal)) or problem
    for step in steps:
        if isinstance(step, RepairPod):
            problem = (yield from _repair_pod(task, step.member)) or problem
    return (yield from _delete_pods(task, [step.member for step in steps if isinstance(step, StopPod)])) or problem


# -- claims ------------------------------------------------------------------------------------------------------------


def _must_wait_for_claim_deletion(task: StatefulSetTask, ordinal: int) -> bool:
    """Whether the pod must wait until the claim of a scaled-down pod of the same name is deleted."""
    metadata = task.set_["metadata"]
    for name in identity.claim_names(task.set_, ordinal):
        claim = task.claims.get(task.namespace, name)
        if claim is not None and belongs_to_deleted_pod(claim, task.set_, identity.pod_name(task.set_, ordinal)):
            task.claims.wait_until_gone(task.namespace, name, (task.namespace, metadata["name"]))
            return True
    return False


def _create_claims(task: StatefulSetTask, ordinals: Sequence[int]) -> Generator[Effect, EffectResponse, dict[int, str]]:
    """Creates missing claims. Returns the failures by ordinal."""
    failures: dict[int, str] = {}
    missing_claims: list[tuple[int, Object]] = []
    for ordinal in ordinals:
        for template in identity.claim_templates(task.set_):
            name = identity.claim_name(task.set_, template, ordinal)
            claim = task.claims.get(task.namespace, name)
            if claim is None:
                missing_claims.append((ordinal, identity.claim_from(task.set_, template, ordinal)))
            elif "deletionTimestamp" in claim["metadata"]:
                failures[ordinal] = f"pvc {name} is being deleted"
    if not missing_claims:
        return failures
    response = yield ParallelRequests(
        tuple(Create(PERSISTENT_VOLUME_CLAIMS, task.namespace, claim) for _, claim in missing_claims)
    )
    for (ordinal, claim), each in zip(missing_claims, response.parts, strict=True):
        name = claim["metadata"]["name"]
        if each.ok:
            task.claims.observe_write(each.body)
        else:
            failures[ordinal] = f"failed to create PVC {name}: {each.message}"
        if not each.conflict:
            yield _claim_event(task, name, ordinal, None if each.ok else each.message)
    return failures


def _claims_with_wrong_owners(task: StatefulSetTask, pod: Object, ordinal: int) -> list[tuple[Object, list[Object]]]:
    """Claims whose owners do not match the policy, with the correct owners."""
    found = []
    is_scaled_down = ordinal not in task.rules.ordinals
    for name in identity.claim_names(task.set_, ordinal):
        claim = task.claims.get(task.namespace, name)
        owners = None if claim is None else wanted_owners(claim, task.set_, pod, is_scaled_down=is_scaled_down)
        if claim is not None and owners is not None:
            found.append((claim, owners))
    return found


def _update_claim_owners(task: StatefulSetTask, pod: Object, ordinal: int) -> TaskSteps:
    for claim, owners in _claims_with_wrong_owners(task, pod, ordinal):
        metadata = claim["metadata"]
        if has_conflict(claim, task.set_, pod):
            text = (
                f"PersistentVolumeClaim {metadata['name']} has a conflicting OwnerReference that acts as a manging "
                "controller, the retention policy is ignored for this claim"
            )
            yield _event(task, "Warning", "ConflictingController", text)
        known = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"metadata": {**known, "ownerReferences": owners}}
        response = yield Patch(PERSISTENT_VOLUME_CLAIMS, task.namespace, metadata["name"], body, "merge")
        if not response.ok:
            problem = f"could not update claim {metadata['name']} for delete policy ownerRefs: {response.message}"
            yield _pod_event(task, "Update", pod["metadata"]["name"], problem)
            return problem
        task.claims.observe_write(response.body)
    return None


# -- pods --------------------------------------------------------------------------------------------------------------


def _create_pods(task: StatefulSetTask, ordinals: Sequence[int]) -> TaskSteps:
    if not ordinals:
        return None
    versions = [task.current if uses_current_revision(task.rules, each) else task.update for each in ordinals]
    bodies = [
        identity.member_from(task.set_, version.template, version.name, ordinal)
        for ordinal, version in zip(ordinals, versions, strict=True)
    ]
    response = yield ParallelRequests(tuple(Create(PODS, task.namespace, body) for body in bodies))
    problem: Problem = None
    for ordinal, each in zip(ordinals, response.parts, strict=True):
        if each.ok:
            task.pods.observe_write(each.body)
            problem = (yield from _update_claim_owners(task, each.body, ordinal)) or problem
        else:
            problem = problem or each.message
        if not each.conflict:  # a conflict: a pod of that name exists, and the watch will deliver it
            yield _pod_event(task, "Create", identity.pod_name(task.set_, ordinal), None if each.ok else each.message)
    return problem


def _delete_pods(task: StatefulSetTask, members: Sequence[StatefulSetPod]) -> TaskSteps:
    if not members:
        return None
    response = yield ParallelRequests(tuple(_deletion(task, member) for member in members))
    problem: Problem = None
    for member, each in zip(members, response.parts, strict=True):
        metadata = member.pod["metadata"]
        if each.ok:
            task.pods.deletion_accepted(metadata["uid"])
        elif each.missing:
            task.pods.deletion_confirmed(metadata["uid"])
        elif not each.conflict:  # a conflict means that a new pod has this name
            problem = problem or each.message
        if each.ok or not (each.missing or each.conflict):
            yield _pod_event(task, "Delete", metadata["name"], None if each.ok else each.message)
    return problem


def _deletion(task: StatefulSetTask, member: StatefulSetPod) -> Delete:
    metadata = member.pod["metadata"]
    return Delete(PODS, task.namespace, metadata["name"], {"preconditions": {"uid": metadata["uid"]}})


def _repair_pod(task: StatefulSetTask, member: StatefulSetPod) -> TaskSteps:
    if not needs_repair(task, member):  # an earlier step may have corrected it
        return None
    metadata = member.pod["metadata"]
    problem = yield from _update_claim_owners(task, member.pod, member.ordinal)
    if problem is not None or member.ordinal not in task.rules.ordinals:
        return problem
    if not identity.has_identity(member.pod):
        labels = identity.identity_labels(task.set_, member.ordinal)
        body = {"metadata": {"uid": metadata["uid"], "labels": labels}}
        response = yield Patch(PODS, task.namespace, metadata["name"], body, "merge")
        if response.ok:
            task.pods.observe_write(response.body)
        elif not response.missing:
            problem = response.message
    yield _pod_event(task, "Update", metadata["name"], problem)
    return problem


# -- events ------------------------------------------------------------------------------------------------------------


def _pod_event(task: StatefulSetTask, verb: Verb, pod: str, problem: Problem) -> EmitEvent:
    text = f"{verb} Pod {pod} in StatefulSet {task.set_['metadata']['name']}"
    if problem is None:
        return _event(task, "Normal", f"Successful{verb}", f"{text} successful")
    return _event(task, "Warning", f"Failed{verb}", f"{text} failed error: {problem}")


def _claim_event(task: StatefulSetTask, claim: str, ordinal: int, problem: Problem) -> EmitEvent:
    pod, set_name = identity.pod_name(task.set_, ordinal), task.set_["metadata"]["name"]
    if problem is None:
        text = f"Create Claim {claim} Pod {pod} in StatefulSet {set_name} success"
        return _event(task, "Normal", "SuccessfulCreate", text)
    text = f"Create Claim {claim} for Pod {pod} in StatefulSet {set_name} failed error: {problem}"
    return _event(task, "Warning", "FailedCreate", text)


def _event(task: StatefulSetTask, type_: Literal["Normal", "Warning"], reason: str, message: str) -> EmitEvent:
    return EmitEvent(object_reference(task.set_, KIND), type_, reason, message, task.pods.kind.component)
