"""A scheduler whose pods go by queues beside the small API server with queues, and what goes wrong between them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec

from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, POD_GROUPS, QUEUES
from headgate.capacity.settings import DEFAULTS as SETTINGS
from headgate.capacity.stamp import read_stamp
from headgate.scheduling.admitting import Queueing
from headgate.scheduling.effects import Effect, LiftGate, RemoveStamp, Result
from headgate.scheduling.scheduler import Scheduler
from property.queued_api import FOREIGN, GROUPS, LIMITS, QueuedApi, gate_names, holds, is_stamped, path_of, queue_of
from property.scheduled_world import Ledger, World
from property.small_api import cpu_of, node_of, uid_of
from unit.scheduling.world import configured

RESOURCES = {"queues": QUEUES, "groups": POD_GROUPS}


class QueuedWorld(World):
    """``enabled``: the feature gate of the scheduler that is born next."""

    api: QueuedApi

    def __init__(self) -> None:
        self.enabled = True
        self.lowered = False
        super().__init__()

    def _new_api(self) -> QueuedApi:
        return QueuedApi()

    def _new_scheduler(self, ledger: Ledger) -> Scheduler:
        read, makers = configured([ledger])
        profiles = tuple(msgspec.structs.replace(each, queues=SETTINGS) for each in read.profiles)
        read = msgspec.structs.replace(read, profiles=profiles)
        return Scheduler(read, makers, queueing=Queueing(self.enabled, lambda: self.now_s))

    def _born(self) -> None:
        self.lifts: list[LiftGate] = []
        self.lift_ghosts: list[LiftGate] = []
        self.removals: list[RemoveStamp] = []
        self.asked: set[str] = set()
        super()._born()
        self.ledger: Ledger

    def _want(self, effect: Effect) -> None:
        if isinstance(effect, LiftGate):
            assert all(each.pod.uid != effect.pod.uid for each in self.lifts), "one removal at a time"
            self.lifts.append(effect)
            group = effect.pod.annotations.get(GROUP_NAMES[0])
            if group and effect.stamp and effect.pod.uid not in self.asked:
                self.begun.add(group)
            self.asked.add(effect.pod.uid)
        elif isinstance(effect, RemoveStamp):
            assert self.lowered, "promises are taken back when a limit was lowered"
            self.removals.append(effect)
        else:
            super()._want(effect)

    def _call(self, method: str, *args: Any, **more: Any) -> None:
        self.begun: set[str] = set()
        super()._call(method, *args, **more)
        for group in self.begun:
            self._check_whole(group)

    def _check_whole(self, group: str) -> None:
        """Its first gate is lifted when as many as its minimum have room: on a node, promised, or about to be."""
        under_way = {each.pod.uid for each in self.lifts}
        known = self.api.watches["pods"].known.values()
        members = [each for each in known if each["metadata"]["annotations"].get(GROUP_NAMES[0]) == group]
        have = [
            each
            for each in members
            if holds(each) or uid_of(each) in under_way or self.scheduler.queues.why(uid_of(each)) is None
        ]
        assert len(have) >= GROUPS[group], f"{len(have)} of {group} are promised"

    def _hear(self, resource: str, name: str, uid: str, wire: Any) -> None:
        if resource not in RESOURCES:
            super()._hear(resource, name, uid, wire)
        elif wire is None:
            self._call("object_removed", RESOURCES[resource], "default", name, self.now_s)
        else:
            self._call("object_applied", RESOURCES[resource], wire, self.now_s)

    # Answers

    def answer_lift(self, what: tuple[int, str]) -> None:
        if not self.lifts:
            return
        index, how = what
        lift = self.lifts.pop(index % len(self.lifts))
        self._call("lifted", lift.pod.uid, self._lifted(lift, how), "because", self.now_s)

    def _lifted(self, lift: LiftGate, how: str) -> Result:
        if how in ("later", "refused"):
            return Result(how)
        if how == "unheard":
            self.lift_ghosts.append(lift)
            return Result.UNKNOWN
        result = self._lift(lift)
        return Result.UNKNOWN if how == "lost" else result

    def _lift(self, lift: LiftGate) -> Result:
        before = self.api.lifted.get(lift.pod.uid)
        stamp = read_stamp(before, lift.pod.uid)
        if stamp is not None and self.scheduler.queues.is_withdrawn(lift.pod.uid, stamp):
            del self.api.lifted[lift.pod.uid]
        result = self.api.lift(lift.pod.name, lift.pod.uid, lift.stamp)
        wire = self.api.pods.get(lift.pod.name)
        if before is None and lift.stamp and result is Result.DONE and wire is not None and not self.lowered:
            for queue in path_of(queue_of(wire)):
                if queue in self.api.limits:
                    used = self.api.used(queue)
                    assert used <= self.api.limits[queue], f"{lift.pod.uid} lifts {queue} to {used}"
        return result

    def answer_removal(self, index: int) -> None:
        """A stamp whose promise was taken back is removed."""
        if self.removals:
            removal = self.removals.pop(index % len(self.removals))
            self.api.unstamp(removal.pod.name, removal.pod.uid, removal.stamp)

    def late_lift(self, lift: LiftGate) -> None:
        """From somebody who died before its successor began: what there was room for then may be too much now."""
        self.api.hears_the_dead = self.lowered = True
        self._lift(lift)

    def lift_ghost(self, index: int) -> None:
        if self.lift_ghosts:
            self._lift(self.lift_ghosts[index % len(self.lift_ghosts)])

    def set_limit(self, queue: str, cpu: int) -> None:
        """Once a limit was lowered, more may be in use than it allows, by promises of before."""
        self.lowered |= cpu < self.api.limits[queue]
        self.api.set_limit(queue, cpu)

    def switch(self, on: bool) -> None:
        """Whoever starts next has the feature on or off."""
        self.enabled = on
        self.die()

    def die(self, applied: tuple[bool, ...] = (), lifted: tuple[bool, ...] | None = None) -> None:
        """``lifted``: which removals of gates arrive; if nothing is said of them, it is drawn from the others' lot."""
        arriving = applied[::-1] if lifted is None else lifted
        for lift, arrives in zip([*self.lifts, *self.lift_ghosts], arriving, strict=False):
            if arrives:
                self._lift(lift)
        super().die(applied)

    # Peace

    def _is_busy(self) -> bool:
        return bool(self.lifts) or bool(self.removals) or super()._is_busy()

    def _answer_all(self) -> None:
        self.show(("queues", 1))
        self.show(("groups", 1))
        self.answer_lift((0, "truth"))
        self.answer_removal(0)
        super()._answer_all()

    # What must be so

    def check_gates(self) -> None:
        for wire in self.api.pods.values():
            if GATE in gate_names(wire):
                reasons = [each.get("reason") for each in wire["status"].get("conditions") or ()]
                assert "Unschedulable" not in reasons, f"{uid_of(wire)} looks like a shortage and has a gate"

    def check_ledger(self) -> None:
        """When all is told, the ledger has what anybody would count."""
        queues = self.scheduler.queues
        for queue in LIMITS:
            allocated = self._sum(queue, lambda wire: bool(node_of(wire)))
            reserved = self._sum(queue, lambda wire: not node_of(wire) and is_stamped(wire))
            usage = queues.usage(queue)
            assert usage.allocated.get("cpu", 0) == 1000 * allocated, queue
            assert usage.reserved.get("cpu", 0) == 1000 * reserved, queue

    def _sum(self, queue: str, counts: Any) -> int:
        alive = (wire for wire in self.api.pods.values() if holds(wire) and queue in path_of(queue_of(wire)))
        return sum(cpu_of(wire) for wire in alive if counts(wire))

    def check_nobody_is_stranded(self) -> None:
        """Whoever is gated by us alone waits because there is no room, or because its group is not whole."""
        for wire in self.api.pods.values():
            annotations = wire["metadata"]["annotations"]
            if annotations.get(OPT_IN) != "true" or FOREIGN in gate_names(wire) or holds(wire):
                continue
            assert self.enabled or not gate_names(wire), f"{uid_of(wire)} kept its gate although the feature is off"
            if not self.enabled or wire["metadata"].get("deletionTimestamp"):
                continue
            group = annotations.get(GROUP_NAMES[0], "")
            assert not self._fits(wire, group), f"{uid_of(wire)} waits although there is room"

    def _fits(self, wire: Any, group: str) -> bool:
        asked = cpu_of(wire)
        if group:
            members = [
                each for each in self.api.pods.values() if each["metadata"]["annotations"].get(GROUP_NAMES[0]) == group
            ]
            alive = [each for each in members if not each["metadata"].get("deletionTimestamp")]
            in_already = [each for each in alive if holds(each)]
            lacking = GROUPS[group] - len(in_already)
            if lacking > 0:
                waiting = sorted(cpu_of(each) for each in alive if not holds(each) and FOREIGN not in gate_names(each))
                if len(waiting) < lacking:
                    return False
                asked = sum(waiting[-lacking:])  # the costliest: if these fit, so do whichever come first
        limits = self.api.limits
        path = [each for each in path_of(queue_of(wire)) if each in limits]
        if any(limits[below] > limits[above] for below, above in pairwise(path)):
            return False  # an invalid branch takes nobody in
        return all(self.api.used(each) + asked <= limits[each] for each in path)
