"""Input and results of the rules for pods: ``pod_lifecycle.py``, ``pod_set_sync.py``, ``ungating.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.framework.job_plan import JobBlocked, has_condition
from headgate.jobs.framework.job_writes import PlannedWrite
from headgate.jobs.framework.management import UnknownAncestor
from headgate.jobs.framework.workload import PriorityClasses
from headgate.jobs.pods.pod_unit import PodUnit
from headgate.jobs.settings import Release
from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from headgate.kube.pods.termination import MAX_TERMINATION_WAIT_S
from headgate.quota import names
from headgate.quota.api.resource_flavor import ResourceFlavor

Object = dict[str, Any]


class PodPlanContext(msgspec.Struct, frozen=True):
    """``gate_of_pod``: the gate of a pod, its own or an owner's (KEP-6915). ``admission_gated_by``: the feature gate.
    ``start_after_terminating``: the feature gate StartAfterTerminatingPods. ``max_wait_s``: how long to wait for a
    terminating pod at most."""

    flavors: Mapping[str, ResourceFlavor]
    classes: PriorityClasses
    release: Release
    gate_of_pod: Callable[[Object], str | UnknownAncestor | None]
    admission_gated_by: bool
    now_s: float
    start_after_terminating: bool = True
    max_wait_s: float = MAX_TERMINATION_WAIT_S


class PodPlanInput(msgspec.Struct, frozen=True):
    unit: PodUnit
    workload: Object | None
    context: PodPlanContext

    def has(self, condition: str) -> bool:
        return self.workload is not None and has_condition(self.workload, condition)

    @property
    def eviction(self) -> Object | None:
        if self.workload is None or not self.has(names.EVICTED):
            return None
        return conditions.find(get_path(self.workload, ("status", "conditions")), names.EVICTED)


class WaitUntil(msgspec.Struct, frozen=True):
    """Nothing to do before this time, unless something changes. ``reason``: for the user, if there is one."""

    until_s: float
    reason: JobBlocked | None = None


class ConfirmNoWorkload(msgspec.Struct, frozen=True):
    """These pods run without a known Workload. The controller reads from the server whether there is one."""

    writes: tuple[PlannedWrite, ...]


PlannedWrites = tuple[PlannedWrite, ...]
Next = PlannedWrites | JobBlocked | WaitUntil | ConfirmNoWorkload | None
Rule = Callable[[PodPlanInput], Next]
STOP_PLANNING: Final[PlannedWrites] = ()
"""No later rule is evaluated."""
