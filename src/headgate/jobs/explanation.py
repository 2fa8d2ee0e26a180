"""Explains why a job or a pod has no Workload and what has to happen next, for ``headgate explain``.

The checks have the order of the controller (``jobs/framework/job_plan.py``): whether the object is managed, whether it
is gated, whether a Workload is possible. The flags of an installation are not visible to a client, so the defaults are
assumed, and the explanation says so where they matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.framework.management import UnknownAncestor
from headgate.jobs.framework.scheduling_gated_by import gate_of
from headgate.jobs.framework.workload import prebuilt_name, queue_of
from headgate.jobs.kinds.job_kind import JobKind, is_suspended
from headgate.jobs.names import DEFAULT_QUEUE, QUEUE_NAME, SCHEDULING_GATED_BY
from headgate.jobs.pods.pod_metadata import foreign_gates_of, group_of, has_fast_admission, total_count
from headgate.jobs.settings import DEFAULT, JobSettings

Object = dict[str, Any]

_AT_WORK: Final = "headgate run --components quota,jobs, headgate up, or Kueue has to be at work on this cluster"


OWNER_NOT_READABLE: Final = "OwnerNotReadable"
"""The reason of an :class:`UnknownAncestor` for an owner that may be there and may not be read."""


class MissingWorkload(msgspec.Struct, frozen=True):
    """``state``: finished, unmanaged, child, gated, missing; or unknown if the caller cannot read whether a Workload
    exists, with ``facts`` from the job itself."""

    state: str
    summary: str
    next: tuple[str, ...] = ()
    gate: str = ""
    ancestor: str = ""
    facts: tuple[str, ...] = ()


def unknown_workload(job: Object, why: str, kind: JobKind | None = None) -> MissingWorkload:
    """Where Workloads cannot be listed, for the reason ``why``: nothing is claimed about them. ``kind``: None for a
    pod."""
    outcome = None if kind is None else kind.outcome(job)
    if outcome is not None:
        return MissingWorkload("finished", f"it has finished: {outcome.message}")
    queue, gate = queue_of(job), gate_of(job)
    facts = [f"its label {QUEUE_NAME} names LocalQueue {queue}" if queue else f"it has no label {QUEUE_NAME}"]
    if gate is not None:
        facts.append(f"its annotation {SCHEDULING_GATED_BY} names {gate}")
    if kind is not None:
        facts.append("it is suspended" if is_suspended(kind, job) else "it is not suspended")
    return MissingWorkload("unknown", f"its Workload cannot be seen: {why}", facts=tuple(facts))


def explain_missing_workload(
    kind: JobKind,
    job: Object,
    labels: Mapping[str, str] | None,
    ancestor: Object | UnknownAncestor | None,
    local_queues: Mapping[str, Any] | None,
    settings: JobSettings = DEFAULT,
) -> MissingWorkload:
    """``labels``: of its namespace; None if they cannot be seen. ``local_queues``: by namespace/name; None if they
    cannot be seen."""
    metadata = job["metadata"]
    namespace, queue = metadata["namespace"], queue_of(job)
    outcome = kind.outcome(job)
    if outcome is not None:
        return MissingWorkload("finished", f"it has finished, and its Workload is gone: {outcome.message}")
    if isinstance(ancestor, UnknownAncestor):
        return _of_unsure(ancestor)
    if ancestor is not None:
        above = f"{ancestor.get('kind', '').lower() or 'job'} {ancestor['metadata']['name']}"
        return MissingWorkload(
            "child",
            f"it belongs to {above} and waits for the Workload of that",
            (f"headgate explain {above}",),
            "",
            above,
        )
    if labels is not None and not settings.namespaces.matches(labels):
        said = f"jobs in namespace {namespace} are not managed (managedJobsNamespaceSelector, by default)"
        return MissingWorkload("unmanaged", said, ("the job has to be made in another namespace",))
    if not queue:
        return _without_queue(kind, job, f"{namespace}/{DEFAULT_QUEUE}" in (local_queues or {}))
    gate = gate_of(job)
    if gate is not None:
        step = f"{gate} has to take the annotation {SCHEDULING_GATED_BY} off the job"
        return MissingWorkload("gated", f"it is gated by {gate}: no Workload is made of it", (step,), gate)
    steps = [_AT_WORK]
    if local_queues is not None and f"{namespace}/{queue}" not in local_queues:
        steps.append(f"LocalQueue {namespace}/{queue} has to be created, or the label {QUEUE_NAME} has to name another")
    prebuilt = prebuilt_name(job)
    if prebuilt:
        steps.insert(0, f"the Workload {namespace}/{prebuilt}, which the job names, has to be created")
    return MissingWorkload("missing", f"nobody has made a Workload of it{_runs(kind, job)}", tuple(steps))


def explain_missing_pod_workload(
    pod: Object, ancestor: Object | UnknownAncestor | None, members: int, gates: tuple[str, ...] = ()
) -> MissingWorkload:
    """``members``: how many pods of its group are there; less than nothing if that cannot be seen. ``gates`` of other
    controllers that those pods have."""
    if isinstance(ancestor, UnknownAncestor):
        return _of_unsure(ancestor)
    above = {} if ancestor is None else ancestor
    gate = gate_of(pod) or gate_of(above)
    if gate is not None:
        whose = "the pod" if gate_of(pod) else f"{above.get('kind', 'its owner')} {above['metadata']['name']}"
        step = f"{gate} has to take the annotation {SCHEDULING_GATED_BY} off {whose}"
        return MissingWorkload("gated", f"{whose} is gated by {gate}: no Workload is made of it", (step,), gate)
    others = foreign_gates_of(pod)
    if others or gates:
        listed, what = (", ".join(others), "it") if others else (", ".join(gates), "its group")
        step = f"the controller that set {listed} has to remove it from spec.schedulingGates"
        return MissingWorkload("gated", f"{what} is held by scheduling gates of others: {listed}", (step,), listed)
    group = group_of(pod)
    total = total_count(pod) if group else 1
    if isinstance(total, str):
        return MissingWorkload("missing", total, ("the pod has to be made anew with both",))
    if 0 <= members < total and not has_fast_admission(pod):
        said = f"its group {group} has {members} of {total} pods: no Workload is made before all are there"
        return MissingWorkload("missing", said, (f"{total - members} more pods of the group have to be created",))
    if members < 0:
        return MissingWorkload(
            "missing", f"it has no Workload, and how many pods of its group {group} there are is not known"
        )
    return MissingWorkload("missing", "nobody has made a Workload of it", (_AT_WORK,))


def _of_unsure(ancestor: UnknownAncestor) -> MissingWorkload:
    if ancestor.reason == OWNER_NOT_READABLE:
        return MissingWorkload("unknown", f"whether it belongs to a job in a queue cannot be seen: {ancestor.message}")
    return MissingWorkload("child", ancestor.message, ("its owner has to be there, or its owner reference has to go",))


def _without_queue(kind: JobKind, job: Object, has_default: bool) -> MissingWorkload:
    said = f"it is in no queue: it has no label {QUEUE_NAME}"
    if has_default:
        said += f", and was made before there was a LocalQueue {DEFAULT_QUEUE}"
    step = f"kubectl label {kind.resource.plural} {job['metadata']['name']} {QUEUE_NAME}=NAME"
    waits = "; it is suspended, so nobody will start it" if is_suspended(kind, job) else "; it runs, and uses no quota"
    return MissingWorkload("unmanaged", said + waits, (step,))


def _runs(kind: JobKind, job: Object) -> str:
    """A job in a queue that was not suspended when it came in."""
    return "" if is_suspended(kind, job) else ", and it is not suspended: the webhook that does so was not asked"
