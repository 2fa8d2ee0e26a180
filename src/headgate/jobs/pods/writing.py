"""The writes of pods and of their Workloads, each as one request with the Events that tell of it, in Kueue's words.

A pod is named by its uid, never by its version: others write to pods all the time, and none of these writes can undo
theirs. Which of them is due is ``plan.py``'s to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.jobs.kind import at
from headgate.jobs.names import COMPONENT, MANAGED, OWN_GATES, TERMINATION_TARGET
from headgate.jobs.placing import Telling, Unfit, merged, told
from headgate.jobs.plan import is_kept
from headgate.jobs.pods.composing import KIND, reference_to
from headgate.jobs.pods.member import Member
from headgate.jobs.writing import (
    Act,
    guard,
    patch_status,
    patch_workload,
    release_finalizer,
    told_of,
    with_told,
    without_quota,
)
from headgate.kube import conditions
from headgate.kube.gates import gate_names
from headgate.kube.resource import PODS
from headgate.kube.timestamps import format_time
from headgate.owners.effects import Delete, Emit, Patch
from headgate.owners.families.pods import about
from headgate.quota import names
from headgate.quota.kinds.names import WORKLOADS

Object = dict[str, Any]

_MOST_TEXT: Final = 1024


def tell(member: Member, reason: str, message: str, *, is_warning: bool = False) -> Emit:
    to = about(member.pod, KIND)
    return Emit(to, "Warning" if is_warning else "Normal", reason, message[:_MOST_TEXT], COMPONENT)


# -- pods ----------------------------------------------------------------------------------------------------------


def start(member: Member, workload: Object, what: Telling) -> Act | Unfit:
    """One patch: where it may run, whose it is, and our gates off; or why it cannot. Gates of others stay."""
    changed = told(member.pod, what)
    if isinstance(changed, Unfit):
        return changed
    lifted = [{"$patch": "delete", "name": gate} for gate in gate_names(member.pod) if gate in OWN_GATES]
    body = merged(changed, {"metadata": {"uid": member.uid}, "spec": {"schedulingGates": lifted}})
    queue = at(workload, ("status", "admission", "clusterQueue"))
    return Act(_patch(member, body), (tell(member, "Started", f"Admitted by clusterQueue {queue}"),), starts=True)


def stop(members: Sequence[Member], reason: str, message: str, now_s: float) -> tuple[Act, ...]:
    """They are told why they have to end, all of them, and then they have to."""
    unmarked = [each for each in members if not each.is_marked]
    if not unmarked:
        return tuple(Act(_delete(each), (tell(each, "Stopped", message),)) for each in members)
    condition = {
        "type": TERMINATION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message[:_MOST_TEXT],
        "lastTransitionTime": format_time(now_s),
    }
    return tuple(
        Act(_patch(each, {"metadata": {"uid": each.uid}, "status": {"conditions": [condition]}}, "status"))
        for each in unmarked
    )


def remove(members: Sequence[Member]) -> tuple[Act, ...]:
    """They have no place: our finalizer first, so that nobody waits for us."""
    kept = [each for each in members if each.is_kept]
    if kept:
        return let_go(kept)
    return tuple(Act(_delete(each), (tell(each, "ExcessPodDeleted", "Excess pod deleted"),)) for each in members)


def let_go(members: Sequence[Member]) -> tuple[Act, ...]:
    """Nothing more is to be seen of them: our finalizer goes."""
    return tuple(
        Act(_patch(each, {"metadata": {"uid": each.uid, "$deleteFromPrimitiveList/finalizers": [MANAGED]}}))
        for each in members
        if each.is_kept
    )


def _patch(member: Member, body: Object, subresource: str = "") -> Patch:
    return Patch(PODS, member.pod["metadata"]["namespace"], member.name, body, "strategic", subresource)


def _delete(member: Member) -> Delete:
    options = {"preconditions": {"uid": member.uid}}
    return Delete(PODS, member.pod["metadata"]["namespace"], member.name, options)


# -- Workloads -----------------------------------------------------------------------------------------------------


def drop(workload: Object) -> Act:
    """It is not what is wanted any more. Its finalizer first: one that is being deleted with it would end its pods."""
    if is_kept(workload):
        return release_finalizer(workload)
    metadata = workload["metadata"]
    return Act(Delete(WORKLOADS, metadata["namespace"], metadata["name"], {"preconditions": guard(workload)}))


def own(workload: Object, members: Sequence[Member]) -> Act:
    """Its new members own it, too."""
    owners = [*(workload["metadata"].get("ownerReferences") or ()), *map(reference_to, members)]
    text = f"Added {len(members)} owner reference(s)"
    event = tell(members[0], "OwnerReferencesAdded", text)
    return Act(patch_workload(workload, {"metadata": {"ownerReferences": owners, **guard(workload)}}), (event,))


def follow(member: Member, workload: Object, spec: Object, gates: str) -> Act:
    annotations = {"annotations": {names.ADMISSION_GATED_BY: gates or None}}
    body: Object = {"metadata": {**annotations, **guard(workload)}, **({"spec": spec} if spec else {})}
    metadata = workload["metadata"]
    text = f"Updated workload {metadata['namespace']}/{metadata['name']} to match its pods"
    return Act(patch_workload(workload, body), (tell(member, "UpdatedWorkload", text),))


def release(workload: Object, eviction: Object | None, missing: bool, comes_back: bool, now_s: float) -> Act:
    """Its quota; and in the same write, whether it has to wait for pods before it may have quota again.

    ``eviction``: why its pods were ended; None: their user did it.
    """
    message = str((eviction or {}).get("message") or "All pods of the workload are being deleted")
    told = without_quota(workload, message, now_s)
    if missing:
        told = _waiting(workload, told, eviction, True, now_s)
    if eviction is not None:
        reason = str(eviction.get("reason", ""))
        back = comes_back and reason == names.BY_PREEMPTION
        told = with_told(workload, told, names.REQUEUED, back, reason, message, now_s)
    return Act(patch_status(workload, {"admission": None, "conditions": told}))


def wait_for_pods(workload: Object, eviction: Object | None, are_missing: bool, now_s: float) -> Act | None:
    """Whether places are to be filled; None if it says so already."""
    known = told_of(workload)
    told = _waiting(workload, known, eviction, are_missing, now_s)
    said = [conditions.find(each, names.WAITING_FOR_REPLACEMENT_PODS) or {} for each in (known, told)]
    is_said = all(said[0].get(field) == said[1].get(field) for field in ("status", "reason", "message"))
    return None if is_said else Act(patch_status(workload, {"conditions": told}))


def _waiting(
    workload: Object, told: list[Object], eviction: Object | None, are_missing: bool, now_s: float
) -> list[Object]:
    type_ = names.WAITING_FOR_REPLACEMENT_PODS
    known = conditions.find(told, type_)
    if known is None and not are_missing:
        return told
    if not are_missing:
        return with_told(workload, told, type_, False, names.PODS_READY, "No pods need replacement", now_s)
    reason, message = "PodsFailed", "Some Failed pods need replacement"
    if eviction is not None:
        reason, message = str(eviction.get("reason") or reason), str(eviction.get("message") or message)
    elif known is not None and known.get("status") == "True":
        return told
    return with_told(workload, told, type_, True, reason, message, now_s)
