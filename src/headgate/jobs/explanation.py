"""Explains why a job or a pod has no Workload and what has to happen next, for ``headgate explain``.

The checks are in the order of the controller (``jobs/framework/job_plan.py``): whether the object is managed, whether
it is gated, whether a Workload can be created. A client cannot read the flags of Headgate's processes, so the
explanation assumes the defaults and says so where they matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.framework.management import UnknownAncestor
from headgate.jobs.framework.release_mark import BY_UNINSTALL, WITHOUT_WEBHOOK, is_released
from headgate.jobs.framework.scheduling_gated_by import gated_by
from headgate.jobs.framework.workload import prebuilt_name, queue_of
from headgate.jobs.kinds.job_kind import JobKind, has_suspend_set, hold_text, is_suspended
from headgate.jobs.names import DEFAULT_QUEUE, QUEUE_NAME, SCHEDULING_GATED_BY
from headgate.jobs.pods.managed_pod import read_managed_pod
from headgate.jobs.pods.pod_metadata import foreign_gates_of, group_of, has_fast_admission, is_gated, total_count
from headgate.jobs.settings import DEFAULT, JobSettings

Object = dict[str, Any]

_CONTROLLER_NEEDED: Final = "headgate run --components quota,jobs, headgate up or Kueue has to run on this cluster"


OWNER_NOT_READABLE: Final = "OwnerNotReadable"
"""The reason of an :class:`UnknownAncestor` whose owner the user may not read."""


class MissingWorkload(msgspec.Struct, frozen=True):
    """Why there is no Workload. ``state``: one of finished, unmanaged, child (an owner of the object has the Workload),
    gated, released (it runs, and no Workload is created), missing, unknown (the user may not list Workloads; then
    ``facts`` says what the object itself shows). ``next``: the steps that lead to a Workload. ``gate``: what gates the
    object."""

    state: str
    summary: str
    next: tuple[str, ...] = ()
    gate: str = ""
    ancestor: str = ""
    facts: tuple[str, ...] = ()


def unadmitted_job_note(kind: JobKind, job: Object) -> str:
    """Why a job that has no admission is not stopped; empty if it would be."""
    runs = not has_suspend_set(kind, job) and kind.outcome(job) is None
    return BY_UNINSTALL if runs and is_released(job) else ""


def unadmitted_pod_note(pod: Object) -> str:
    """Why a pod that has no admission is not deleted; empty if it would be."""
    if is_gated(pod) or not (read := read_managed_pod(pod)).may_run_unadmitted:
        return ""
    return BY_UNINSTALL if read.is_released else WITHOUT_WEBHOOK


def unknown_workload(job: Object, reason: str, kind: JobKind | None = None) -> MissingWorkload:
    """The explanation if Workloads cannot be listed; ``reason`` says why not. ``kind``: None for a pod."""
    outcome = None if kind is None else kind.outcome(job)
    if outcome is not None:
        return MissingWorkload("finished", f"it has finished: {outcome.message}")
    queue, gate = queue_of(job), gated_by(job)
    facts = [f"its label {QUEUE_NAME} names LocalQueue {queue}" if queue else f"it has no label {QUEUE_NAME}"]
    if gate is not None:
        facts.append(f"its annotation {SCHEDULING_GATED_BY} names {gate}")
    if kind is not None:
        facts.append("it is suspended" if is_suspended(kind, job) else "it is not suspended")
    return MissingWorkload("unknown", f"its Workload cannot be seen: {reason}", facts=tuple(facts))


def explain_missing_workload(
    kind: JobKind,
    job: Object,
    labels: Mapping[str, str] | None,
    ancestor: Object | UnknownAncestor | None,
    local_queues: Mapping[str, Any] | None,
    settings: JobSettings = DEFAULT,
) -> MissingWorkload:
    """``labels``: the labels of the namespace; None if they cannot be read. ``ancestor``: the managed owner of the job.
    ``local_queues``: by ``namespace/name``; None if they cannot be read."""
    metadata = job["metadata"]
    namespace, queue = metadata["namespace"], queue_of(job)
    outcome = kind.outcome(job)
    if outcome is not None:
        return MissingWorkload("finished", f"it has finished, and its Workload is gone: {outcome.message}")
    if isinstance(ancestor, UnknownAncestor):
        return _explain_unknown_ancestor(ancestor)
    if ancestor is not None:
        ancestor_name = f"{ancestor.get('kind', '').lower() or 'job'} {ancestor['metadata']['name']}"
        return MissingWorkload(
            "child",
            f"it belongs to {ancestor_name} and waits for the Workload of that",
            (f"headgate explain {ancestor_name}",),
            "",
            ancestor_name,
        )
    if labels is not None and not settings.namespaces.matches(labels):
        summary = f"jobs in namespace {namespace} are not managed (managedJobsNamespaceSelector, by default)"
        return MissingWorkload("unmanaged", summary, ("the job has to be made in another namespace",))
    if note := unadmitted_job_note(kind, job):
        return MissingWorkload("released", note, (hold_text(kind),))
    if not queue:
        return _without_queue(kind, job, f"{namespace}/{DEFAULT_QUEUE}" in (local_queues or {}))
    gate = gated_by(job)
    if gate is not None:
        step = f"{gate} has to take the annotation {SCHEDULING_GATED_BY} off the job"
        return MissingWorkload("gated", f"it has no Workload because the gate {gate} is set", (step,), gate)
    steps = [_CONTROLLER_NEEDED]
    if local_queues is not None and f"{namespace}/{queue}" not in local_queues:
        steps.append(f"LocalQueue {namespace}/{queue} has to be created, or the label {QUEUE_NAME} has to name another")
    prebuilt = prebuilt_name(job)
    if prebuilt:
        steps.insert(0, f"the Workload {namespace}/{prebuilt}, which the job names, has to be created")
    return MissingWorkload("missing", f"no Workload has been created for it{_running_note(kind, job)}", tuple(steps))


def explain_missing_pod_workload(
    pod: Object, ancestor: Object | UnknownAncestor | None, members: int, gates: tuple[str, ...] = ()
) -> MissingWorkload:
    """``members``: how many pods of its group exist; negative if that cannot be read. ``gates``: the scheduling gates
    of other controllers on these pods."""
    if isinstance(ancestor, UnknownAncestor):
        return _explain_unknown_ancestor(ancestor)
    if note := unadmitted_pod_note(pod):
        return MissingWorkload("released", note, ("to queue it, create it again",))
    owner = {} if ancestor is None else ancestor
    gate = gated_by(pod) or gated_by(owner)
    if gate is not None:
        gated_object = "the pod" if gated_by(pod) else f"{owner.get('kind', 'its owner')} {owner['metadata']['name']}"
        step = f"{gate} has to take the annotation {SCHEDULING_GATED_BY} off {gated_object}"
        return MissingWorkload(
            "gated", f"it has no Workload because the gate {gate} of {gated_object} is set", (step,), gate
        )
    others = foreign_gates_of(pod)
    if others or gates:
        listed, subject = (", ".join(others), "it") if others else (", ".join(gates), "its group")
        step = f"the controller that set {listed} has to remove it from spec.schedulingGates"
        return MissingWorkload("gated", f"{subject} is held by scheduling gates of others: {listed}", (step,), listed)
    group = group_of(pod)
    total = total_count(pod) if group else 1
    if isinstance(total, str):
        return MissingWorkload("missing", total, ("the pod has to be created again with both",))
    if 0 <= members < total and not has_fast_admission(pod):
        summary = f"its group {group} has {members} of {total} pods: its Workload is created when all exist"
        return MissingWorkload("missing", summary, (f"{total - members} more pods of the group have to be created",))
    if members < 0:
        return MissingWorkload(
            "missing", f"it has no Workload, and how many pods of its group {group} there are is not known"
        )
    return MissingWorkload("missing", "no Workload has been created for it", (_CONTROLLER_NEEDED,))


def _explain_unknown_ancestor(ancestor: UnknownAncestor) -> MissingWorkload:
    if ancestor.reason == OWNER_NOT_READABLE:
        return MissingWorkload("unknown", f"whether it belongs to a job in a queue cannot be seen: {ancestor.message}")
    return MissingWorkload(
        "child", ancestor.message, ("its owner has to exist, or its owner reference has to be removed",)
    )


def _without_queue(kind: JobKind, job: Object, has_default: bool) -> MissingWorkload:
    summary = f"it is in no queue: it has no label {QUEUE_NAME}"
    if has_default:
        summary += f", and was made before there was a LocalQueue {DEFAULT_QUEUE}"
    step = f"kubectl label {kind.resource.plural} {job['metadata']['name']} {QUEUE_NAME}=NAME"
    state_text = (
        "; it is suspended, so nothing will start it" if is_suspended(kind, job) else "; it runs, and uses no quota"
    )
    return MissingWorkload("unmanaged", summary + state_text, (step,))


def _running_note(kind: JobKind, job: Object) -> str:
    """An addition to the summary if the job was not suspended at creation."""
    return "" if is_suspended(kind, job) else ", and it is not suspended: the webhook that does so was not asked"
