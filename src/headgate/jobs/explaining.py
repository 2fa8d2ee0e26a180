"""Why a job or a pod has no Workload, and what would have to happen: for ``headgate explain``.

Asked in the order in which the controller asks (``plan.py``): is it ours, is it gated, may it be one at all. What an
installation was told by flags cannot be seen from outside, so the defaults are assumed, and said where they matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.ancestors import Unsure
from headgate.jobs.gating import gate_of
from headgate.jobs.kind import JobKind, is_suspended
from headgate.jobs.names import DEFAULT_QUEUE, QUEUE_NAME, SCHEDULING_GATED_BY
from headgate.jobs.pods.shape import gates_of_others, group_of, has_fast_admission, total_count
from headgate.jobs.settings import DEFAULT, JobSettings
from headgate.jobs.workload import prebuilt_name, queue_of

Object = dict[str, Any]

_AT_WORK: Final = "headgate run --components quota,jobs, headgate up, or Kueue has to be at work on this cluster"


class Absence(msgspec.Struct, frozen=True):
    """``state``: finished, unmanaged, child, gated or missing."""

    state: str
    summary: str
    next: tuple[str, ...] = ()
    gate: str = ""
    ancestor: str = ""


def why_no_workload(
    kind: JobKind,
    job: Object,
    labels: Mapping[str, str] | None,
    ancestor: Object | Unsure | None,
    local_queues: Mapping[str, Any],
    settings: JobSettings = DEFAULT,
) -> Absence:
    """``labels``: of its namespace; None if they cannot be seen. ``local_queues``: by namespace/name."""
    metadata = job["metadata"]
    namespace, queue = metadata["namespace"], queue_of(job)
    outcome = kind.outcome(job)
    if outcome is not None:
        return Absence("finished", f"it has finished, and its Workload is gone: {outcome.message}")
    if isinstance(ancestor, Unsure):
        return Absence("child", ancestor.message, ("its owner has to be there, or its owner reference has to go",))
    if ancestor is not None:
        above = f"{ancestor.get('kind', '').lower() or 'job'} {ancestor['metadata']['name']}"
        return Absence(
            "child",
            f"it belongs to {above} and waits for the Workload of that",
            (f"headgate explain {above}",),
            "",
            above,
        )
    if labels is not None and not settings.namespaces.matches(labels):
        said = f"jobs in namespace {namespace} are not managed (managedJobsNamespaceSelector, by default)"
        return Absence("unmanaged", said, ("the job has to be made in another namespace",))
    if not queue:
        return _without_queue(kind, job, f"{namespace}/{DEFAULT_QUEUE}" in local_queues)
    gate = gate_of(job)
    if gate is not None:
        step = f"{gate} has to take the annotation {SCHEDULING_GATED_BY} off the job"
        return Absence("gated", f"it is gated by {gate}: no Workload is made of it", (step,), gate)
    steps = [_AT_WORK]
    if f"{namespace}/{queue}" not in local_queues:
        steps.append(f"LocalQueue {namespace}/{queue} has to be created, or the label {QUEUE_NAME} has to name another")
    prebuilt = prebuilt_name(job)
    if prebuilt:
        steps.insert(0, f"the Workload {namespace}/{prebuilt}, which the job names, has to be created")
    return Absence("missing", f"nobody has made a Workload of it{_runs(kind, job)}", tuple(steps))


def why_no_workload_of_pod(
    pod: Object, ancestor: Object | Unsure | None, members: int, gates: tuple[str, ...] = ()
) -> Absence:
    """``members``: how many pods of its group are there; less than nothing if that cannot be seen. ``gates`` of other
    controllers that those pods have."""
    if isinstance(ancestor, Unsure):
        return Absence("child", ancestor.message, ("its owner has to be there, or its owner reference has to go",))
    above = {} if ancestor is None else ancestor
    gate = gate_of(pod) or gate_of(above)
    if gate is not None:
        whose = "the pod" if gate_of(pod) else f"{above.get('kind', 'its owner')} {above['metadata']['name']}"
        step = f"{gate} has to take the annotation {SCHEDULING_GATED_BY} off {whose}"
        return Absence("gated", f"{whose} is gated by {gate}: no Workload is made of it", (step,), gate)
    others = gates_of_others(pod)
    if others or gates:
        listed, what = (", ".join(others), "it") if others else (", ".join(gates), "its group")
        step = f"the controller that set {listed} has to remove it from spec.schedulingGates"
        return Absence("gated", f"{what} is held by scheduling gates of others: {listed}", (step,), listed)
    group = group_of(pod)
    total = total_count(pod) if group else 1
    if isinstance(total, str):
        return Absence("missing", total, ("the pod has to be made anew with both",))
    if 0 <= members < total and not has_fast_admission(pod):
        said = f"its group {group} has {members} of {total} pods: no Workload is made before all are there"
        return Absence("missing", said, (f"{total - members} more pods of the group have to be created",))
    return Absence("missing", "nobody has made a Workload of it", (_AT_WORK,))


def _without_queue(kind: JobKind, job: Object, has_default: bool) -> Absence:
    said = f"it is in no queue: it has no label {QUEUE_NAME}"
    if has_default:
        said += f", and was made before there was a LocalQueue {DEFAULT_QUEUE}"
    step = f"kubectl label {kind.resource.plural} {job['metadata']['name']} {QUEUE_NAME}=NAME"
    waits = "; it is suspended, so nobody will start it" if is_suspended(kind, job) else "; it runs, and uses no quota"
    return Absence("unmanaged", said + waits, (step,))


def _runs(kind: JobKind, job: Object) -> str:
    """A job in a queue that was not suspended when it came in."""
    return "" if is_suspended(kind, job) else ", and it is not suspended: the webhook that does so was not asked"
