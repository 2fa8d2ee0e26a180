"""Input and results of the rules for pods: ``pod_lifecycle.py``, ``pod_set_sync.py``, ``ungating.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.framework.job_plan import JobBlocked, has_condition, is_admitted
from headgate.jobs.framework.job_writes import PlannedWrite
from headgate.jobs.framework.management import UnknownAncestor
from headgate.jobs.framework.workload import PriorityClasses
from headgate.jobs.pods.managed_pod import ManagedPod
from headgate.jobs.pods.pod_unit import PodUnit
from headgate.jobs.settings import Release
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from headgate.kube.pods.termination import MAX_TERMINATION_WAIT_S
from headgate.quota import names
from headgate.quota.api.resource_flavor import ResourceFlavor

Object = dict[str, Any]


class PodPlanContext(msgspec.Struct, frozen=True):
    """Input of a plan that is not specific to one unit. ``gate_of_pod``: the name in the annotation
    ``scheduling-gated-by`` of a pod or its owner (Kueue's KEP-6915). ``honours_admission_gates``: the feature gate
    AdmissionGatedBy is on. ``start_after_terminating``: the feature gate StartAfterTerminatingPods is on.
    ``max_wait_s``: the longest time to wait for a terminating pod. ``may_restore``: whether the finalizer may be added
    to this Workload now."""

    flavors: Mapping[str, ResourceFlavor]
    classes: PriorityClasses
    quota_release: Release
    gate_of_pod: Callable[[Object], str | UnknownAncestor | None]
    honours_admission_gates: bool
    now_s: float
    start_after_terminating: bool = True
    max_wait_s: float = MAX_TERMINATION_WAIT_S
    may_restore: Callable[[Object], bool] = lambda workload: True


class PodPlanInput(msgspec.Struct, frozen=True):
    """What the rules read: the pods, their Workload, and the context."""

    unit: PodUnit
    workload: Object | None
    context: PodPlanContext

    def workload_has(self, condition: str) -> bool:
        """Whether there is a Workload with this condition."""
        return self.workload is not None and has_condition(self.workload, condition)

    @property
    def unadmitted_pods(self) -> list[ManagedPod]:
        """The pods that run without an admission and are left alone (``ManagedPod.may_run_unadmitted``); none if the
        Workload is admitted: then every pod of the unit has quota."""
        if self.workload is not None and is_admitted(self.workload):
            return []
        return [each for each in self.unit.members if each.may_run_unadmitted]

    @property
    def quota_pods(self) -> list[ManagedPod]:
        """The pods that have quota, or wait for it: all except ``unadmitted_pods``."""
        left = {each.uid for each in self.unadmitted_pods}
        return [each for each in self.unit.members if each.uid not in left]

    @property
    def running_pods(self) -> list[ManagedPod]:
        """The pods to stop if they may not run: those that run, except ``unadmitted_pods``."""
        return [each for each in self.quota_pods if each.is_running]

    @property
    def eviction(self) -> Object | None:
        """The condition Evicted, if it is true."""
        if self.workload is None or not self.workload_has(names.EVICTED):
            return None
        return conditions.find(get_path(self.workload, ("status", "conditions")), names.EVICTED)


class WaitUntil(msgspec.Struct, frozen=True):
    """There is nothing to do before this time, unless an event changes the state. ``reason``: why the unit waits, if
    the user gets an Event about it."""

    until_s: float
    reason: JobBlocked | None = None


class ConfirmNoWorkload(msgspec.Struct, frozen=True):
    """The writes stop pods that run without a Workload in the cache. The controller performs them only after it has
    read from the API server that there is no Workload."""

    writes: tuple[PlannedWrite, ...]


PlannedWrites = tuple[PlannedWrite, ...]
PodPlanStep = PlannedWrites | JobBlocked | WaitUntil | ConfirmNoWorkload | None
"""The result of a rule, and of the plan. None: the rule has nothing to do, and the next rule is evaluated."""
Rule = Callable[[PodPlanInput], PodPlanStep]
STOP_PLANNING: Final[PlannedWrites] = ()
"""There is nothing to write, and no later rule is evaluated."""
