"""Queue plugins that record their reservations, in the simulations of the scheduler and of the gate controller.

:class:`Recorder` counts what it reserved: each pod at most once at a time, and released exactly once. Its slow
reference is :func:`holding`, which goes through all pods of the queue engine. :class:`Refusing` comes after a Recorder
and rejects, raises or returns an invalid result for some units, so that what the Recorder reserved must be released.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.capacity.cache.pod_record import AllocationState
from headgate.capacity.conf import DEFAULTS, PluginOption, SchedulerConf
from headgate.capacity.engine import QueueEngine
from headgate.scheduling.framework import QUEUE_RESERVATION, PodInfo, QueueUnit, Rejection, on
from headgate.scheduling.framework.cluster_events import DELETE
from headgate.scheduling.gates.gate_controller import GateController, GateSettings
from headgate.scheduling.gates.queue_admission import QueueAdmissionSettings
from headgate.scheduling.queue.scheduling_queue import DEFAULTS as DEFAULTS_OF_QUEUE
from headgate.scheduling.scheduler import Scheduler
from property.simulated_gates import GateSimulation
from property.simulated_queues import QueueSimulation
from property.simulated_scheduler import Ledger
from unit.scheduling.world import configured

HOLDS = (AllocationState.ALLOCATED, AllocationState.RESERVED, AllocationState.RESIZED)
POINTS = ("queueAdmission", "queueReserve", "queueOrder")
REFUSALS_OF_A_METHOD = 2
MAX_REFUSALS = 2 * REFUSALS_OF_A_METHOD + 1
"""How often :class:`Refusing` refuses units with the same first pod: in two methods, and once for the sort key."""
AFTER_A_HOLD_S = DEFAULTS_OF_QUEUE.unschedulable_limit_s + 1.0
"""No hold lasts longer: then a plugin that failed is called again."""


class Recorder:
    """Lets all units in, and knows which pods it has reserved something for, with their queue."""

    name = "Recorder"

    def __init__(self) -> None:
        self.open: dict[str, str] = {}
        self.problems: list[str] = []
        self.restored: set[str] = set()

    def reserve_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None:
        for pod in unit.pods:
            if pod.uid in self.open:
                self.problems.append(f"{pod.uid} is reserved twice")
            self.open[pod.uid] = unit.queue
            if unit.is_restored:
                self.restored.add(pod.uid)
        return None

    def release_pod(self, pod: PodInfo, queue: str, now_s: float, /) -> None:
        if self.open.pop(pod.uid, None) != queue:
            self.problems.append(f"{pod.uid} is released and was not reserved in {queue}")


class Refusing(Recorder):
    """Refuses each unit a few times, at most :data:`MAX_REFUSALS`, in all ways in which a plugin can fail."""

    name = "Refusing"

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, int] = {}

    def _misbehave(self, unit: QueueUnit, method: str) -> Any:
        first = unit.pods[0].uid
        number = self.asked[method + first] = self.asked.get(method + first, 0) + 1
        may_refuse = number <= REFUSALS_OF_A_METHOD and not unit.is_restored
        ways = (sum(map(ord, first + method)) + number) % 6 if may_refuse else 5
        if ways == 0:
            raise SystemExit("no")
        if ways == 1:
            return False
        if ways == 2:
            return Rejection(self.name, "later", look_again_s=1.0)
        if ways == 3:
            return Rejection(self.name, "full", on(QUEUE_RESERVATION, DELETE), look_again_s=40.0)
        return None

    def admit_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None:
        found: Rejection | None = self._misbehave(unit, "admit")
        return found

    def reserve_unit(self, unit: QueueUnit, now_s: float, /) -> Rejection | None:
        found: Rejection | None = self._misbehave(unit, "reserve")
        return super().reserve_unit(unit, now_s) if found is None else found

    def unit_order_key(self, unit: QueueUnit, /) -> tuple[Any, ...]:
        number = sum(map(ord, unit.pods[0].uid)) % 7
        return ("a",) if number == 3 else (float("nan"),) if number == 4 and self._is_new(unit) else (number,)

    def _is_new(self, unit: QueueUnit) -> bool:
        first = "order" + unit.pods[0].uid
        self.asked[first] = self.asked.get(first, 0) + 1
        return self.asked[first] < 2


def conf_with(plugins: list[Any]) -> SchedulerConf:
    tier = tuple(PluginOption(each.name, external_points=(*POINTS, "jobOrder")) for each in plugins)
    return msgspec.structs.replace(DEFAULTS, tiers=(tier, *DEFAULTS.tiers))


def holding(queues: QueueEngine) -> dict[str, str]:
    """The pods that hold capacity, with their queue, by a look at each pod."""
    records = queues._cache.records
    return {uid: each.queue for uid, each in records.items() if each.state in HOLDS}


def check_reservations(queues: QueueEngine, plugins: list[Any]) -> None:
    """After a step. What was let go since then is released at the next step."""
    recorder, *others = plugins
    assert not recorder.problems, recorder.problems
    assert recorder.open == holding(queues)
    for other in others:
        assert not other.problems, other.problems
        assert other.open.items() <= recorder.open.items()


class PluginQueueSimulation(QueueSimulation):
    """``refuses``: whether the second plugin refuses units."""

    refuses = False

    def _new_scheduler(self, ledger: Ledger) -> Scheduler:
        self.plugins: list[Any] = [Recorder(), Refusing()] if self.refuses else [Recorder()]
        read, makers = configured([ledger])
        conf = msgspec.structs.replace(conf_with(self.plugins), has_leases=self.has_leases)
        listed = {point: tuple((each.name, 0) for each in self.plugins) for point in POINTS}
        profiles = tuple(
            msgspec.structs.replace(each, queues=conf, points={**each.points, **listed}) for each in read.profiles
        )
        makers |= {each.name: lambda args, cluster, each=each: each for each in self.plugins}
        read = msgspec.structs.replace(read, profiles=profiles)
        return Scheduler(read, makers, queueing=QueueAdmissionSettings(self.enabled, lambda: self.now_s))

    def step(self, most: int = 3) -> None:
        super().step(most)
        self.check_settled()

    def outlast_refusals(self) -> None:
        """Time passes until the plugins refuse no unit any more. The members of a group may be units one after the
        other, so the holds of all pods may follow each other."""
        self.settle()
        for _ in range(MAX_REFUSALS * len(self.api.pods)):
            self.later(AFTER_A_HOLD_S)
            self.settle()

    def check_settled(self) -> None:
        """The reservations are right when the scheduler has nothing to do at once; otherwise the next step settles
        them."""
        deadline_s = self.scheduler.queues.next_deadline_s()
        if deadline_s is None or deadline_s > float("-inf"):
            check_reservations(self.scheduler.queues, self.plugins)
        for each in self.plugins:
            assert not each.problems, each.problems


class PluginGateSimulation(GateSimulation):
    refuses = False

    def _born(self) -> None:
        super()._born()
        self.plugins: list[Any] = [Recorder(), Refusing()] if self.refuses else [Recorder()]
        settings = GateSettings(time_of_day=lambda: self.now_s, enabled=self.enabled, conf=conf_with(self.plugins))
        self.controller = GateController(["default-scheduler"], settings, plugins=self.plugins)

    def step(self) -> bool:
        is_busy = super().step()
        deadline_s = self.controller.queues.next_deadline_s()
        if self.enabled and (deadline_s is None or deadline_s > float("-inf")):
            check_reservations(self.controller.queues, self.plugins)
        for each in self.plugins:
            assert not each.problems, each.problems
        return is_busy

    def outlast_refusals(self) -> None:
        """As in :class:`PluginQueueSimulation`."""
        self.settle()
        for _ in range(MAX_REFUSALS * len(self.api.pods)):
            self.later(AFTER_A_HOLD_S)
            self.calm()
