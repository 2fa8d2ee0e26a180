"""A gate controller beside the fake API server with queues, another scheduler that binds, and the faults between them.

The other scheduler tries every pod without gates, whatever its queue: it binds the pod to the first node that fits, or
says that there is none. The requests of the gate controller wait here until they are answered: correctly, with a
failure, or not at all although they were executed. The controller can crash at any time; its successor knows only what
the API server shows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import GATE, GROUP_NAMES, POD_GROUPS, QUEUES
from headgate.kube.pods.termination import OVERDUE_AFTER_S
from headgate.kube.timestamps import parse_time
from headgate.scheduling.framework.effects import Effect, RemoveSchedulingGate, SetStatus, WriteResult
from headgate.scheduling.gates.gate_controller import GateController, GateSettings
from property.fake_api import MOST_PODS, SIZES, cpu_of, node_of, uid_of
from property.fake_api_with_queues import (
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

RESOURCES = {"queues": QUEUES, "groups": POD_GROUPS}
PATIENCE_S = 700.0
"""Every back-off, and the longest wait for terminating pods, is over by then."""


class GateSimulation:
    """``strict``: no pod gets a node without a promise, and no limit is lowered, so that every limit holds."""

    def __init__(self, *, strict: bool = True) -> None:
        self.api = QueuedApi()
        self.strict = strict
        self.enabled = True
        self.now_s = 1000.0
        self.outputs: list[tuple[str, Any]] = []
        """All writes so far: the uid of the pod, and the stamp or the condition."""
        self._born()
        for resource in ("queues", "groups"):
            self.list_again(resource)

    def _born(self) -> None:
        settings = GateSettings(time_of_day=lambda: self.now_s, enabled=self.enabled)
        self.controller = GateController(["default-scheduler"], settings)
        self.lifts: list[RemoveSchedulingGate] = []
        self.lift_ghosts: list[RemoveSchedulingGate] = []
        self.statuses: list[SetStatus] = []
        self.asked: set[str] = set()
        self.granted: dict[str, str] = {}
        """By uid, the stamp of the last removal, unless the API server refused it."""
        self.gone: set[str] = set()
        """The pods that do not exist any more, by the response to a removal."""

    # The controller and its effects

    def step(self) -> bool:
        """Whether there was anything to do."""
        effects = self.controller.step(self.now_s)
        self._want(effects)
        return bool(effects)

    def _want(self, effects: list[Effect]) -> None:
        groups = set()
        new_grants: list[RemoveSchedulingGate] = []
        for effect in effects:
            if isinstance(effect, RemoveSchedulingGate):
                assert all(each.pod.uid != effect.pod.uid for each in self.lifts), "one removal at a time"
                self.lifts.append(effect)
                self.outputs.append((effect.pod.uid, effect.stamp))
                if effect.stamp and self.granted.get(effect.pod.uid) != effect.stamp:
                    self.granted[effect.pod.uid] = effect.stamp
                    new_grants.append(effect)
                # A removal that the server delayed is repeated, also if another member was deleted in the meantime.
                if effect.stamp and effect.pod.uid not in self.asked:
                    groups.add(effect.pod.annotations.get(GROUP_NAMES[0], ""))
                self.asked.add(effect.pod.uid)
            else:
                assert isinstance(effect, SetStatus), effect
                assert (effect.condition or {}).get("reason") == "SchedulingGated", effect
                self.statuses.append(effect)
                self.outputs.append((effect.pod.uid, effect.condition))
        for group in groups - {""}:
            self._check_whole(group)
        for grant in new_grants:
            self._check_grant(grant)

    def _check_grant(self, grant: RemoveSchedulingGate) -> None:
        """What the controller has seen, in events and in responses, and what removals of gates in progress write, fits
        in the limits that it has seen: also after a limit was lowered."""
        promised = read_stamp(grant.stamp, grant.pod.uid)
        assert promised is not None
        for queue in path_of(promised.queue):
            known = self.api.watches["queues"].known.get(queue)
            if known is not None:
                limit, used = int(known["spec"]["capability"]["cpu"]), self._used_with_grants(queue)
                assert used <= limit, f"the grant to {grant.pod.uid} lifts {queue} to {used} of {limit}"

    def _used_with_grants(self, queue: str) -> int:
        used = 0
        for wire in self.api.watches["pods"].known.values():
            stamp = None if node_of(wire) else read_stamp(self.granted.get(uid_of(wire)), uid_of(wire))
            if wire["metadata"].get("deletionTimestamp") or uid_of(wire) in self.gone:
                continue
            if stamp is not None:
                used += stamp.requests["cpu"] // 1000 if queue in path_of(stamp.queue) else 0
            elif holds(wire) and queue in path_of(queue_of(wire)):
                used += held_cpu(wire)
        return used

    def _check_whole(self, group: str) -> None:
        """The first gate of a gang is lifted when its minimum has capacity: on nodes, promised, or in flight."""
        under_way = {each.pod.uid for each in self.lifts}
        known = self.api.watches["pods"].known.values()
        members = [each for each in known if each["metadata"]["annotations"].get(GROUP_NAMES[0]) == group]
        have = [each for each in members if holds(each) or uid_of(each) in under_way or uid_of(each) in self.api.lifted]
        assert len(have) >= self._minimum(group) or not self.strict, f"{len(have)} of {group} are promised"

    def _minimum(self, group: str) -> int:
        """As the controller has seen it."""
        return int(self.api.watches["groups"].known[group]["spec"]["minMember"])

    def show(self, what: tuple[str, int]) -> bool:
        resource, number = what
        shown = False
        for _ in range(number):
            event = self.api.watches[resource].next()
            if event is not None:
                self._deliver(resource, event.name, event.uid, event.wire)
                shown = True
        return shown

    def list_again(self, resource: str) -> None:
        for event in self.api.watches[resource].list_again(self.api.there(resource)):
            self._deliver(resource, event.name, event.uid, event.wire)

    def _deliver(self, resource: str, name: str, uid: str, wire: Any) -> None:
        if resource == "pods" and wire is None:
            self.controller.pod_removed(uid, self.now_s)
        elif resource == "pods":
            self.controller.pod_applied(wire, self.now_s)
        elif resource in RESOURCES and wire is None:
            self.controller.object_removed(RESOURCES[resource], "default", name)
        elif resource in RESOURCES:
            self.controller.object_applied(RESOURCES[resource], wire)

    # Responses

    def answer_lift(self, what: tuple[int, str]) -> bool:
        if not self.lifts:
            return False
        index, how = what
        lift = self.lifts.pop(index % len(self.lifts))
        result = self._lifted(lift, how)
        if result is WriteResult.REFUSED:
            self.granted.pop(lift.pod.uid, None)  # without the feature there is no promise
        if result is WriteResult.GONE:
            self.gone.add(lift.pod.uid)
        self._want(self.controller.gate_removed(lift.pod.uid, result, "because", self.now_s))
        return True

    def _lifted(self, lift: RemoveSchedulingGate, how: str) -> WriteResult:
        is_written = self.api.lifted.get(lift.pod.uid) == lift.stamp
        if how == "refused" and (is_written or any(each.pod.uid == lift.pod.uid for each in self.lift_ghosts)):
            how = "later"  # an API server that refuses a patch has refused it before
        if how in ("later", "refused"):
            return WriteResult(how)
        if how == "unheard":
            self.lift_ghosts.append(lift)
            return WriteResult.UNKNOWN
        result = self._lift(lift)
        return WriteResult.UNKNOWN if how == "lost" else result

    def _lift(self, lift: RemoveSchedulingGate) -> WriteResult:
        is_first = lift.pod.uid not in self.api.lifted
        result = self.api.lift(lift.pod.name, lift.pod.uid, lift.stamp)
        wire = self.api.pods.get(lift.pod.name)
        if is_first and lift.stamp and result is WriteResult.DONE and wire is not None and self.strict:
            self._check_room(wire)
        return result

    def _check_room(self, wire: Any) -> None:
        """With the pod whose gate was removed, the pods of every queue are within its limit, together with terminating
        pods that are not overdue."""
        for queue in path_of(queue_of(wire)):
            if queue in self.api.limits:
                here = [each for each in self.api.pods.values() if queue in path_of(queue_of(each))]
                used = sum(held_cpu(each) for each in here if holds(each) or self._is_leaving(each))
                assert used <= self.api.limits[queue], f"{uid_of(wire)} lifts {queue} to {used}"

    def _is_leaving(self, wire: Any) -> bool:
        deleted = wire["metadata"].get("deletionTimestamp")
        if not deleted or not node_of(wire):
            return False
        return float(parse_time(deleted)) + OVERDUE_AFTER_S > self.now_s

    def answer_status(self, index: int) -> bool:
        """A condition is written to the version of the pod that the controller has seen, or not at all."""
        if not self.statuses:
            return False
        status = self.statuses.pop(index % len(self.statuses))
        wire = self.api.pods.get(status.pod.name)
        if wire is not None and wire["metadata"]["resourceVersion"] == status.pod.revision:
            assert GATE in gate_names(wire)
            self.api.set_status(status.pod.name, status.pod.uid, status.condition, None)
        return True

    def lift_ghost(self, index: int) -> None:
        if self.lift_ghosts:
            self._lift(self.lift_ghosts[index % len(self.lift_ghosts)])

    # The other scheduler, and other events

    def schedule(self) -> bool:
        """The other scheduler tries every pod without gates. Whether it changed any."""
        changed = False
        for name, wire in list(self.api.pods.items()):
            if node_of(wire) or gate_names(wire) or wire["metadata"].get("deletionTimestamp"):
                continue
            fits = [node for node in self.api.nodes if self._fits_node(wire, node)]
            if fits:
                self.api.bind(name, uid_of(wire), fits[0])
                changed = True
            elif not any(each.get("reason") == "Unschedulable" for each in wire["status"].get("conditions") or ()):
                condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                self.api.set_status(name, uid_of(wire), condition, None)
                changed = True
        return changed

    def _fits_node(self, wire: Any, node: str) -> bool:
        there = self.api.on_node(node)
        return len(there) < MOST_PODS and sum(map(cpu_of, there)) + cpu_of(wire) <= SIZES[node]

    def delete_slowly(self, name: str, grace_s: int) -> None:
        self.api.delete_slowly(name, self.now_s + grace_s)

    def set_limit(self, queue: str, cpu: int) -> None:
        self.strict &= cpu >= self.api.limits[queue]
        self.api.set_limit(queue, cpu)

    def later(self, seconds: float) -> None:
        self.now_s += seconds

    def switch(self, on: bool) -> None:
        """The next controller has the feature on or off."""
        self.enabled, self.strict = on, False
        self.die()

    def die(self, arriving: tuple[bool, ...] = ()) -> None:
        """Some of the requests in flight arrive; the next controller lists everything."""
        for lift, arrives in zip([*self.lifts, *self.lift_ghosts], arriving, strict=False):
            if arrives:
                self._lift(lift)
        self._born()
        for resource, watch in self.api.watches.items():
            watch.known.clear()
            self.list_again(resource)

    # Quiescence

    def settle(self) -> None:
        """All events are delivered and all requests answered, terminating pods go, and all back-offs end."""
        for _ in range(4):
            self.calm()
            self.later(PATIENCE_S)
        self.calm()

    def calm(self, *, reaps: bool = True) -> None:
        for _ in range(500):
            busy = [self.show((each, 1)) for each in self.api.watches]
            busy += [self.step(), self.answer_lift((0, "truth")), self.answer_status(0), self.schedule()]
            busy.append(reaps and self.api.reap())
            if not any(busy):
                return
        raise AssertionError("it does not come to rest")

    def work(self) -> None:
        """All events are delivered and all requests answered; terminating pods stay on their nodes."""
        self.calm(reaps=False)

    # Invariants

    def check_gates(self) -> None:
        for wire in self.api.pods.values():
            reasons = [each.get("reason") for each in wire["status"].get("conditions") or ()]
            if gate_names(wire):
                assert "Unschedulable" not in reasons, f"{uid_of(wire)} looks like a shortage and has a gate"

    def check_ledger(self) -> None:
        """When all events are delivered, the ledger equals a recount."""
        for queue in LIMITS:
            alive = [each for each in self.api.pods.values() if holds(each) and queue in path_of(queue_of(each))]
            usage = self.controller.queues.usage(queue)
            on_nodes = sum(held_cpu(each) for each in alive if node_of(each))
            promised = sum(held_cpu(each) for each in alive if not node_of(each))
            assert usage.allocated.get("cpu", 0) == 1000 * on_nodes, queue
            if self.enabled:
                assert usage.reserved.get("cpu", 0) == 1000 * promised, queue

    def check_no_pod_is_stranded(self) -> None:
        """A pod with the queue gate alone waits because its queue is full, or because its gang is incomplete."""
        for wire in self.api.pods.values():
            if GATE not in gate_names(wire) or not may_be_granted(wire):
                continue
            assert self.enabled, f"{uid_of(wire)} kept its gate although the feature is off"
            assert not self._fits_queue(wire), f"{uid_of(wire)} waits although there is capacity"

    def _fits_queue(self, wire: Any) -> bool:
        asked, group = cpu_of(wire), wire["metadata"]["annotations"].get(GROUP_NAMES[0], "")
        if group:
            members = [
                each for each in self.api.pods.values() if each["metadata"]["annotations"].get(GROUP_NAMES[0]) == group
            ]
            lacking = self._minimum(group) - sum(map(holds, members))
            if lacking > 0:
                waiting = sorted(cpu_of(each) for each in members if not holds(each) and may_be_granted(each))
                if len(waiting) < lacking:
                    return False
                asked = sum(waiting[-lacking:])  # the largest members: if these fit, so do any others
            else:
                asked = cpu_of(first_waiting(members))  # further members get capacity one by one
        limits = self.api.limits
        path = [each for each in path_of(queue_of(wire)) if each in limits]
        if any(limits[below] > limits[above] for below, above in pairwise(path)):
            return False  # an invalid branch admits no pod
        return all(self.api.used(each) + asked <= limits[each] for each in path)

    def placed_or_stamped(self) -> dict[str, tuple[str, bool, tuple[str, ...]]]:
        """By uid: node, whether it is promised, and gates."""
        return {
            uid_of(each): (node_of(each), is_stamped(each), tuple(gate_names(each))) for each in self.api.pods.values()
        }
