"""Plans the next batch of writes for a unit (a single pod or a pod group) and its Workload.

After each batch the plan is made again from the server's responses, so a restarted process continues where the last one
stopped. The rules are evaluated in the order of ``_RULES``. The first rule that returns writes, or a reason why nothing
can be written, decides. A rule that returns ``WaitUntil`` does not stop the later rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.jobs.framework.job_plan import has_finalizer, is_terminating
from headgate.jobs.pods import group_workload, pod_lifecycle, pod_set_sync, pod_writes, ungating
from headgate.jobs.pods.pod_plan_input import Object, PodPlanContext, PodPlanInput, PodPlanStep, Rule, WaitUntil
from headgate.jobs.pods.pod_unit import PodUnit

_RULES: Final[tuple[Rule, ...]] = (
    pod_lifecycle.leave_released_pods,
    pod_lifecycle.delete_replaced_workload,
    pod_lifecycle.finish_workload,
    pod_lifecycle.stop_for_deleted_workload,
    pod_lifecycle.hold_gated_pods,
    pod_lifecycle.create_workload,
    pod_lifecycle.add_owners,
    pod_lifecycle.restore_finalizer,
    pod_lifecycle.stop_evicted_pods,
    pod_lifecycle.release_quota_of_deleted_pods,
    pod_set_sync.remove_excess_pods,
    pod_set_sync.sync_workload,
    pod_set_sync.sync_waiting_for_replacements,
    pod_set_sync.sync_reclaimable,
    ungating.ungate,
    pod_set_sync.sync_pods_ready,
)


def plan_pods(unit: PodUnit, workloads: Sequence[Object], context: PodPlanContext) -> PodPlanStep:
    """The next batch of writes, or why there is none. ``workloads``: all Workloads of the unit; those with another name
    than the expected one are deleted first."""
    name = group_workload.workload_name(unit)
    workload = next((each for each in workloads if each["metadata"]["name"] == name), None)
    for each in workloads:
        if each is not workload:
            return (pod_writes.delete_workload(each),) if has_finalizer(each) or not is_terminating(each) else None
    state = PodPlanInput(unit, workload, context)
    wait: WaitUntil | None = None
    for rule in _RULES:
        step = rule(state)
        if isinstance(step, WaitUntil):
            wait = step
        elif step is not None:
            return step or wait
    return wait
