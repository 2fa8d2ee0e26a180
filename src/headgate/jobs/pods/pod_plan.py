"""Plans the next batch of writes for a pod or a group and its Workload, or the reason why there is none.

After each batch the plan is made again from the server's responses, so a restarted process continues where the last one
stopped. The rules are evaluated in this order; the first that returns something decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.jobs.framework.job_plan import has_finalizer, is_terminating
from headgate.jobs.pods import group_workload, pod_lifecycle, pod_set_sync, pod_writes, ungating
from headgate.jobs.pods.pod_plan_input import Next, Object, PodPlanContext, PodPlanInput, Rule, WaitUntil
from headgate.jobs.pods.pod_unit import PodUnit

_RULES: Final[tuple[Rule, ...]] = (
    pod_lifecycle.replaced_group,
    pod_lifecycle.finished,
    pod_lifecycle.deleted,
    pod_lifecycle.gated,
    pod_lifecycle.missing,
    pod_lifecycle.add_owners,
    pod_lifecycle.evicted,
    pod_lifecycle.deleted_by_user,
    pod_set_sync.remove_excess_pods,
    pod_set_sync.sync_workload,
    pod_set_sync.sync_waiting_for_replacements,
    pod_set_sync.sync_reclaimable,
    ungating.ungate,
    pod_set_sync.sync_pods_ready,
)


def plan_pods(unit: PodUnit, workloads: Sequence[Object], context: PodPlanContext) -> Next:
    name = group_workload.workload_name(unit)
    workload = next((each for each in workloads if each["metadata"]["name"] == name), None)
    for each in workloads:
        if each is not workload:
            return (pod_writes.delete_workload(each),) if has_finalizer(each) or not is_terminating(each) else None
    case = PodPlanInput(unit, workload, context)
    wait: WaitUntil | None = None
    for rule in _RULES:
        step = rule(case)
        if isinstance(step, WaitUntil):
            wait = step
        elif step is not None:
            return step or wait
    return wait
