"""What a rule for pods is asked, and what it may say. Rules: ``life.py``, ``upkeep.py``, ``starting.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.jobs.ancestors import Unsure
from headgate.jobs.kind import at
from headgate.jobs.plan import Wait, has_condition
from headgate.jobs.pods.unit import Unit
from headgate.jobs.settings import Release
from headgate.jobs.workload import Classes
from headgate.jobs.writing import Act
from headgate.kube import conditions
from headgate.kube.termination import MAX_WAIT_S
from headgate.quota import names
from headgate.quota.flavor import ResourceFlavor

Object = dict[str, Any]


class Around(msgspec.Struct, frozen=True):
    """``held_by``: who holds a pod back, by the pod itself or by whose it is (KEP-6915). ``holding``: the feature gate
    AdmissionGatedBy. ``starts_late``: StartAfterTerminatingPods. ``max_wait_s``: how long a terminating
    pod is waited for at most."""

    flavors: Mapping[str, ResourceFlavor]
    classes: Classes
    release: Release
    held_by: Callable[[Object], str | Unsure | None]
    holding: bool
    now_s: float
    starts_late: bool = True
    max_wait_s: float = MAX_WAIT_S


class Case(msgspec.Struct, frozen=True):
    unit: Unit
    workload: Object | None
    around: Around

    def has(self, condition: str) -> bool:
        return self.workload is not None and has_condition(self.workload, condition)

    @property
    def eviction(self) -> Object | None:
        if self.workload is None or not self.has(names.EVICTED):
            return None
        return conditions.find(at(self.workload, ("status", "conditions")), names.EVICTED)


class Sleep(msgspec.Struct, frozen=True):
    """Nothing is to be done before then, unless something changes. ``why``: if the user should know."""

    until_s: float
    why: Wait | None = None


class Unseen(msgspec.Struct, frozen=True):
    """These run without a Workload, as far as is known. Whether there really is none is to be asked first."""

    acts: tuple[Act, ...]


Acts = tuple[Act, ...]
Next = Acts | Wait | Sleep | Unseen | None
Rule = Callable[[Case], Next]
ENOUGH: Final[Acts] = ()
"""Nothing that comes later is asked."""
