"""A scheduler with queues beside the fake API server with queues, and the faults between them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec

from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.conf import DEFAULTS as SETTINGS
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, POD_GROUPS, QUEUES
from headgate.kube.pods.termination import OVERDUE_AFTER_S
from headgate.kube.timestamps import parse_time
from headgate.scheduling.cluster.terminating_pods import WAITING_FOR_TERMINATING_PODS
from headgate.scheduling.framework.effects import Effect, RemoveSchedulingGate, RemoveStamp, WriteResult
from headgate.scheduling.gates.queue_admission import QueueAdmissionSettings
from headgate.scheduling.scheduler import Scheduler
from property.fake_api import MOST_PODS, SIZES, cpu_of, node_of, reason_of, uid_of
from property.fake_api_with_queues import (
    FOREIGN,
    GROUPS,
    LIMITS,
    QueuedApi,
    gate_names,
    holds,
    is_stamped,
    path_of,
    queue_of,
)
from property.simulated_scheduler import Ledger, SchedulerSimulation
from unit.scheduling.world import configured

RESOURCES = {"queues": QUEUES, "groups": POD_GROUPS}


class QueueSimulation(SchedulerSimulation):
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
        return Scheduler(read, makers, queueing=QueueAdmissionSettings(self.enabled, lambda: self.now_s))

    def _born(self) -> None:
        self.lifts: list[RemoveSchedulingGate] = []
        self.lift_ghosts: list[RemoveSchedulingGate] = []
        self.removals: list[RemoveStamp] = []
        self.asked: set[str] = set()
        super()._born()
        self.ledger: Ledger

    def _want(self, effect: Effect) -> None:
        if isinstance(effect, RemoveSchedulingGate):
            assert all(each.pod.uid != effect.pod.uid for each in self.lifts), "one removal at a time"
            self.lifts.append(effect)
            group = effect.pod.annotations.get(GROUP_NAMES[0])
            if group and effect.stamp and effect.pod.uid not in self.asked:
                self.begun.add(group)
            self.asked.add(effect.pod.uid)
        elif isinstance(effect, RemoveStamp):
            others = [each["spec"].get("priority", 0) for each in self.api.pods.values() if not node_of(each)]
            is_lower = any(effect.pod.priority < each for each in others)
            assert self.lowered or is_lower, "promises are taken back from a lowered limit, or for higher priority"
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
            if holds(each) or uid_of(each) in under_way or self.scheduler.queues.peek_wait_reason(uid_of(each)) is None
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
        self._call("gate_removed", lift.pod.uid, self._lifted(lift, how), "because", self.now_s)

    def _lifted(self, lift: RemoveSchedulingGate, how: str) -> WriteResult:
        if how in ("later", "refused"):
            return WriteResult(how)
        if how == "unheard":
            self.lift_ghosts.append(lift)
            return WriteResult.UNKNOWN
        result = self._lift(lift)
        return WriteResult.UNKNOWN if how == "lost" else result

    def _lift(self, lift: RemoveSchedulingGate) -> WriteResult:
        before = self.api.lifted.get(lift.pod.uid)
        stamp = read_stamp(before, lift.pod.uid)
        if stamp is not None and self.scheduler.queues.is_withdrawn(lift.pod.uid, stamp):
            del self.api.lifted[lift.pod.uid]
        result = self.api.lift(lift.pod.name, lift.pod.uid, lift.stamp)
        wire = self.api.pods.get(lift.pod.name)
        if before is None and lift.stamp and result is WriteResult.DONE and wire is not None and not self.lowered:
            for queue in path_of(queue_of(wire)):
                if queue in self.api.limits:
                    used = self.api.used(queue)
                    assert used <= self.api.limits[queue], f"{lift.pod.uid} lifts {queue} to {used}"
        return result

    def answer_removal(self, what: tuple[int, str]) -> None:
        """A stamp whose promise was taken back, or is to be, is removed; whoever sends that tries more than once."""
        index, how = what
        if not self.removals or how == "later":
            return
        removal = self.removals.pop(index % len(self.removals))
        result = self.api.unstamp(removal.pod.name, removal.pod.uid, removal.stamp)
        if how == "lost":
            result = self.api.unstamp(removal.pod.name, removal.pod.uid, removal.stamp)
        self._call("stamp_removed", removal.pod.uid, removal.stamp, result, self.now_s)

    def delete_slowly(self, name: str, grace_s: int) -> None:
        self.api.delete_slowly(name, self.now_s + grace_s)

    def late_lift(self, lift: RemoveSchedulingGate) -> None:
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
        for removal, arrives in zip(self.removals, applied, strict=False):
            if arrives:
                self.api.unstamp(removal.pod.name, removal.pod.uid, removal.stamp)
        super().die(applied)

    # Peace

    def _is_busy(self) -> bool:
        return bool(self.lifts) or bool(self.removals) or super()._is_busy()

    def _answer_all(self) -> None:
        self.show(("queues", 1))
        self.show(("groups", 1))
        self.answer_lift((0, "truth"))
        self.answer_removal((0, "truth"))
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

    def check_nobody_waits_behind_a_promise_of_lower_priority(self) -> None:
        """A pod that would fit into its queue if promises of lower priority that have no node were taken back."""
        for wire in self.api.pods.values():
            annotations = wire["metadata"]["annotations"]
            if node_of(wire) or holds(wire) or annotations.get(OPT_IN) != "true" or not self.enabled:
                continue
            if (
                FOREIGN in gate_names(wire)
                or GROUP_NAMES[0] in annotations
                or wire["metadata"].get("deletionTimestamp")
            ):
                continue
            idle = sum(cpu_of(each) for each in self.api.pods.values() if self._is_idle(each, wire))
            assert not idle or not self._has_room(wire, cpu_of(wire) - idle), f"{uid_of(wire)} waits behind a promise"

    @staticmethod
    def _is_idle(wire: Any, other: Any) -> bool:
        is_lower = wire["spec"].get("priority", 0) < other["spec"].get("priority", 0)
        is_alone = GROUP_NAMES[0] not in wire["metadata"]["annotations"]
        has_node = bool(node_of(wire) or wire["status"].get("nominatedNodeName"))
        is_told = reason_of(wire) == "Unschedulable" and is_stamped(wire)
        return is_lower and is_alone and is_told and not has_node and queue_of(wire) == queue_of(other)

    def calm(self) -> None:
        """Everything is told and answered, no pod ends, and time goes on until all backoffs are over."""
        for _ in range(3):
            self._quiet(reaps=False)
            self.now_s += 11.0
        self._quiet(reaps=False)

    def check_terminating(self) -> None:
        """A pod with a share and no node waits if it fits once terminating pods are gone, and is a shortage if not."""
        for wire in self.api.pods.values():
            if node_of(wire) or gate_names(wire) or not is_stamped(wire) or wire["metadata"].get("deletionTimestamp"):
                continue
            if GROUP_NAMES[0] in wire["metadata"]["annotations"] or not self.api.nodes or not self.enabled:
                continue
            if self._is_refused(uid_of(wire)):
                continue
            reason, promise = reason_of(wire), wire["status"].get("nominatedNodeName", "")
            fits = [name for name in self.api.nodes if self._fits_later(wire, name)]
            if reason == WAITING_FOR_TERMINATING_PODS:
                assert promise in fits, f"{uid_of(wire)} waits for {promise!r} and fits on {fits}"
            elif not promise:
                assert reason == "Unschedulable", f"{uid_of(wire)} has a share and no node, and says {reason!r}"
                assert not fits, f"{uid_of(wire)} is called a shortage and fits on {fits}"

    def _fits_later(self, wire: Any, node: str) -> bool:
        """Beside those who stay, who are overdue, and who were promised the node and are as important."""
        there, leaves = [wire], False
        for each in self.api.pods.values():
            told = each["metadata"].get("deletionTimestamp")
            if node_of(each) == node:
                in_time = told and float(parse_time(told)) + OVERDUE_AFTER_S > self.now_s
                leaves |= bool(in_time)
                there += [] if in_time else [each]
            elif each is not wire and not node_of(each) and each["status"].get("nominatedNodeName") == node:
                there += [each] if each["spec"].get("priority", 0) >= wire["spec"].get("priority", 0) else []
        return leaves and len(there) <= MOST_PODS and sum(map(cpu_of, there)) <= SIZES[node]

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
        return self._has_room(wire, asked)

    def _has_room(self, wire: Any, asked: int) -> bool:
        limits = self.api.limits
        path = [each for each in path_of(queue_of(wire)) if each in limits]
        if any(limits[below] > limits[above] for below, above in pairwise(path)):
            return False  # an invalid branch takes nobody in
        return all(self.api.used(each) + asked <= limits[each] for each in path)
