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
    LIMITS,
    QueuedApi,
    first_waiting,
    gate_names,
    held_cpu,
    holds,
    is_stamped,
    may_be_granted,
    path_of,
    queue_of,
)
from property.simulated_scheduler import Ledger, SchedulerSimulation
from unit.scheduling.world import configured

RESOURCES = {"queues": QUEUES, "groups": POD_GROUPS}


class QueueSimulation(SchedulerSimulation):
    """``enabled``: the feature gate of the scheduler that starts next. ``has_leases``: its feature gate
    ReservationLease."""

    api: QueuedApi
    has_leases = False

    def __init__(self) -> None:
        self.enabled = True
        self.lowered = False
        self.has_changed_groups = False
        super().__init__()

    def _new_api(self) -> QueuedApi:
        return QueuedApi()

    def _new_scheduler(self, ledger: Ledger) -> Scheduler:
        read, makers = configured([ledger])
        queues = msgspec.structs.replace(SETTINGS, has_leases=self.has_leases)
        profiles = tuple(msgspec.structs.replace(each, queues=queues) for each in read.profiles)
        read = msgspec.structs.replace(read, profiles=profiles)
        return Scheduler(read, makers, queueing=QueueAdmissionSettings(self.enabled, lambda: self.now_s))

    def _born(self) -> None:
        self.lifts: list[RemoveSchedulingGate] = []
        self.lift_ghosts: list[RemoveSchedulingGate] = []
        self.granted: dict[str, RemoveSchedulingGate] = {}
        """By uid, the last grant; it counts as long as its stamp may still be written."""
        self.removals: list[RemoveStamp] = []
        self.asked: set[str] = set()
        super()._born()
        self.ledger: Ledger

    def _want(self, effect: Effect) -> None:
        if isinstance(effect, RemoveSchedulingGate):
            assert all(each.pod.uid != effect.pod.uid for each in self.lifts), "one removal at a time"
            self.lifts.append(effect)
            if effect.stamp and (before := self.granted.get(effect.pod.uid)) != effect:
                self.granted[effect.pod.uid] = effect
                if before is None or before.stamp != effect.stamp:
                    self.new_grants.append(effect)
            group = effect.pod.annotations.get(GROUP_NAMES[0])
            if group and effect.stamp and effect.pod.uid not in self.asked:
                self.begun.add(group)
            self.asked.add(effect.pod.uid)
        elif isinstance(effect, RemoveStamp):
            others = [each["spec"].get("priority", 0) for each in self.api.pods.values() if not node_of(each)]
            is_lower = any(effect.pod.priority < each for each in others)
            group = effect.pod.annotations.get(GROUP_NAMES[0])
            is_short = group and len(self._with_room(group)) < self._minimum(group)
            assert self.lowered or is_lower or is_short or self.has_changed_groups or effect.lapse, (
                "promises are revoked after a lowered limit, for higher priority, of incomplete gangs, or by a lapse"
            )
            self.removals.append(effect)
        else:
            super()._want(effect)

    def _call(self, method: str, *args: Any, **more: Any) -> None:
        self.begun: set[str] = set()
        self.new_grants: list[RemoveSchedulingGate] = []
        super()._call(method, *args, **more)
        for grant in self.new_grants:
            self._check_grant(grant)
        for group in self.begun:
            self._check_whole(group)

    def _check_grant(self, grant: RemoveSchedulingGate) -> None:
        """What the API shows, and what removals of gates that are in progress write, fits in the limits that the
        scheduler has seen: also after a limit was lowered."""
        promised = read_stamp(grant.stamp, grant.pod.uid)
        assert promised is not None
        for queue in path_of(promised.queue):
            known = self.api.watches["queues"].known.get(queue)
            if known is None or self.api.hears_the_dead:
                continue
            limit, used = int(known["spec"]["capability"]["cpu"]), self._used_with_grants(queue)
            assert used <= limit, f"the grant to {grant.pod.uid} lifts {queue} to {used} of {limit}"

    def _used_with_grants(self, queue: str) -> int:
        """Bound, promised, or about to be promised, in the queue and all below it."""
        used = 0
        for wire in self.api.pods.values():
            grant = self.granted.get(uid_of(wire))
            stamp = None if grant is None or node_of(wire) else read_stamp(grant.stamp, uid_of(wire))
            if wire["metadata"].get("deletionTimestamp"):
                continue
            if stamp is not None:
                used += stamp.requests["cpu"] // 1000 if queue in path_of(stamp.queue) else 0
            elif holds(wire) and queue in path_of(queue_of(wire)):
                used += held_cpu(wire)
        return used

    def _check_whole(self, group: str) -> None:
        """The first gate of a gang is lifted when its minimum has capacity. A member that did not opt in has none any
        more if no node was found for it in the same step."""
        have = self._with_room(group)
        without_gates = [each for each in self._members(group) if not gate_names(each) and each not in have]
        opted_out = [each for each in without_gates if each["metadata"]["annotations"].get(OPT_IN) != "true"]
        assert len(have) + len(opted_out) >= self._minimum(group), f"{len(have)} of {group} are promised"

    def _minimum(self, group: str) -> int:
        """As the scheduler has seen it."""
        return int(self.api.watches["groups"].known[group]["spec"]["minMember"])

    def _with_room(self, group: str) -> list[Any]:
        """The members of the group that are on a node, promised, or in flight. A terminating pod is none of them, also
        while the scheduler has no reason for its wait."""
        under_way = {each.pod.uid for each in self.lifts}
        return [
            each
            for each in self._members(group)
            if holds(each) or uid_of(each) in under_way or self.scheduler.queues.peek_wait_reason(uid_of(each)) is None
        ]

    def _members(self, group: str) -> list[Any]:
        """Those that do not terminate."""
        alive = [
            each for each in self.api.watches["pods"].known.values() if not each["metadata"].get("deletionTimestamp")
        ]
        return [each for each in alive if each["metadata"]["annotations"].get(GROUP_NAMES[0]) == group]

    def _hear(self, resource: str, name: str, uid: str, wire: Any) -> None:
        if resource not in RESOURCES:
            super()._hear(resource, name, uid, wire)
        elif wire is None:
            self._call("object_removed", RESOURCES[resource], "default", name, self.now_s)
        else:
            self._call("object_applied", RESOURCES[resource], wire, self.now_s)

    # Responses

    def answer_lift(self, what: tuple[int, str]) -> None:
        if not self.lifts:
            return
        index, how = what
        lift = self.lifts.pop(index % len(self.lifts))
        result = self._lifted(lift, how)
        if result in (WriteResult.REFUSED, WriteResult.GONE):
            self.granted.pop(lift.pod.uid, None)
        self._call("gate_removed", lift.pod.uid, result, "because", self.now_s)

    def _lifted(self, lift: RemoveSchedulingGate, how: str) -> WriteResult:
        is_written = self.api.lifted.get(lift.pod.uid) == lift.stamp
        if how == "refused" and (is_written or any(each.pod.uid == lift.pod.uid for each in self.lift_ghosts)):
            how = "later"  # an API server that refuses a patch had refused it before
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
        if stamp is not None and self.scheduler.queues.is_revoked_stamp(lift.pod.uid, stamp):
            del self.api.lifted[lift.pod.uid]
        result = self.api.lift(lift.pod.name, lift.pod.uid, lift.stamp)
        wire = self.api.pods.get(lift.pod.name)
        if lift.stamp and result is WriteResult.DONE and wire is not None and not self.lowered and not node_of(wire):
            for queue in path_of(queue_of(wire)):
                if queue in self.api.limits:
                    used = self.api.used(queue)
                    assert used <= self.api.limits[queue], f"{lift.pod.uid} lifts {queue} to {used}"
        return result

    def answer_removal(self, what: tuple[int, str]) -> None:
        """The stamp of a revoked promise, or of one that is to be revoked, is removed; the sender repeats a failed
        removal."""
        index, how = what
        if not self.removals or how == "later":
            return
        removal = self.removals.pop(index % len(self.removals))
        result = self._unstamp(removal)
        if how == "lost":
            result = self._unstamp(removal)
        self._call("stamp_removed", removal.pod.uid, removal.stamp, result, self.now_s)

    def _unstamp(self, removal: RemoveStamp) -> WriteResult:
        """A patch that writes the stamp arrives before, or not at all."""
        self.lift_ghosts = [each for each in self.lift_ghosts if each.stamp != removal.stamp]
        self.granted.pop(removal.pod.uid, None)
        return self.api.unstamp(removal.pod.name, removal.pod.uid, removal.stamp, removal.lapse)

    def delete_slowly(self, name: str, grace_s: int) -> None:
        self.api.delete_slowly(name, self.now_s + grace_s)

    def late_lift(self, lift: RemoveSchedulingGate) -> None:
        """A write of a scheduler that crashed before its successor began: the capacity may have been promised again
        since."""
        self.api.hears_the_dead = self.lowered = True
        self._lift(lift)

    def lift_ghost(self, index: int) -> None:
        if self.lift_ghosts:
            self._lift(self.lift_ghosts[index % len(self.lift_ghosts)])

    def set_limit(self, queue: str, cpu: int) -> None:
        """After a limit was lowered, earlier promises may exceed it."""
        self.lowered |= cpu < self.api.limits[queue]
        self.api.set_limit(queue, cpu)

    def regroup(self, name: str, group: str) -> None:
        self.has_changed_groups = True
        self.api.regroup(name, group)

    def set_minimum(self, group: str, members: int) -> None:
        self.has_changed_groups = True
        self.api.set_minimum(group, members)

    def switch(self, on: bool) -> None:
        """The next scheduler has the feature gate on or off."""
        self.enabled = on
        self.die()

    def die(self, applied: tuple[bool, ...] = (), lifted: tuple[bool, ...] | None = None) -> None:
        """``lifted``: which gate removals arrive; by default it is drawn together with the other requests."""
        arriving = applied[::-1] if lifted is None else lifted
        for lift, arrives in zip([*self.lifts, *self.lift_ghosts], arriving, strict=False):
            if arrives:
                self._lift(lift)
        for removal, arrives in zip(self.removals, applied, strict=False):
            if arrives:
                self._unstamp(removal)
        super().die(applied)

    # Quiescence

    def _is_busy(self) -> bool:
        return bool(self.lifts) or bool(self.removals) or super()._is_busy()

    def _answer_all(self) -> None:
        self.show(("queues", 1))
        self.show(("groups", 1))
        self.answer_lift((0, "truth"))
        self.answer_removal((0, "truth"))
        super()._answer_all()

    # Invariants

    def check_gates(self) -> None:
        for wire in self.api.pods.values():
            if GATE in gate_names(wire):
                reasons = [each.get("reason") for each in wire["status"].get("conditions") or ()]
                assert "Unschedulable" not in reasons, f"{uid_of(wire)} looks like a shortage and has a gate"

    def check_ledger(self) -> None:
        """When all events are delivered, the ledger equals the amounts counted from the API."""
        queues = self.scheduler.queues
        for queue in LIMITS:
            allocated = self._sum(queue, lambda wire: bool(node_of(wire)))
            reserved = self._sum(queue, lambda wire: not node_of(wire) and is_stamped(wire))
            usage = queues.usage(queue)
            assert usage.allocated.get("cpu", 0) == 1000 * allocated, queue
            assert usage.reserved.get("cpu", 0) == 1000 * reserved, queue

    def _sum(self, queue: str, counts: Any) -> int:
        alive = (wire for wire in self.api.pods.values() if holds(wire) and queue in path_of(queue_of(wire)))
        return sum(held_cpu(wire) for wire in alive if counts(wire))

    def check_nobody_is_stranded(self) -> None:
        """A pod whose only gate is the queue gate waits because its queue is full, or because its gang is
        incomplete."""
        for wire in self.api.pods.values():
            annotations = wire["metadata"]["annotations"]
            if annotations.get(OPT_IN) != "true" or FOREIGN in gate_names(wire) or holds(wire):
                continue
            assert self.enabled or not gate_names(wire), f"{uid_of(wire)} kept its gate although the feature is off"
            if not self.enabled or wire["metadata"].get("deletionTimestamp"):
                continue
            group = annotations.get(GROUP_NAMES[0], "")
            assert not self._fits(wire, group), f"{uid_of(wire)} waits although there is capacity"

    def check_nobody_waits_behind_a_promise_of_lower_priority(self) -> None:
        """Whether the pod would fit into its queue if promises of lower priority without a node were revoked."""
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
        """All events are delivered and all requests answered, no pod ends, and time passes until all back-offs are
        over."""
        for _ in range(3):
            self._quiet(reaps=False)
            self.now_s += 11.0
        self._quiet(reaps=False)

    def check_terminating(self) -> None:
        """A pod with a promise and no node waits if it fits after terminating pods are gone; otherwise it is
        Unschedulable."""
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
        """Whether the pod fits together with the pods that stay, the overdue ones, and nominated pods of at least its
        priority."""
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
            lacking = self._minimum(group) - len(in_already)
            if lacking > 0:
                waiting = sorted(cpu_of(each) for each in alive if not holds(each) and may_be_granted(each))
                if len(waiting) < lacking:
                    return False
                asked = sum(waiting[-lacking:])  # the largest members: if these fit, so do any others
            else:
                asked = cpu_of(first_waiting(alive))  # further members get capacity one by one
        return self._has_room(wire, asked)

    def _has_room(self, wire: Any, asked: int) -> bool:
        limits = self.api.limits
        path = [each for each in path_of(queue_of(wire)) if each in limits]
        if any(limits[below] > limits[above] for below, above in pairwise(path)):
            return False  # an invalid subtree admits nothing
        return all(self.api.used(each) + asked <= limits[each] for each in path)
