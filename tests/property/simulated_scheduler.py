"""A scheduler and a fake API server, with every fault that can happen between two programs.

The requests of the scheduler wait here until they are answered: correctly, with a failure, or not at all although they
were executed. The scheduler can crash at any time; its successor knows only what the API server shows. All events and
requests are recorded, so that they can be repeated.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from headgate.kube.api_resources import NODES
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.effects import (
    Bind,
    Effect,
    EmitPodEvent,
    ObjectPatch,
    PreBindWrites,
    Preempt,
    SetStatus,
    WriteResult,
)
from headgate.scheduling.framework.interface import PermitWait, Rejection
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.pod_lifecycle import IN_FLIGHT, PodState
from headgate.scheduling.queue.scheduling_queue import DEFAULTS
from headgate.scheduling.scheduler import Scheduler
from property.fake_api import SmallApi, gates_of, node_of, reason_of, uid_of
from unit.scheduling.world import configured

PATIENCE_S = 120.0
"""All back-offs and retries are over by then, and no pod has waited for so long that it is retried because of that."""

HELD = "cd"
"""Pods that a plugin holds until the test allows them, or for a time."""
PREPARED = "ef"
"""Pods that need a write before their binding."""

DECIDED = "decided"
"""Not a call of the scheduler: one of its plugins gets an event."""


class Ledger:
    """A plugin that reserves something for every pod that has a node: it must be used, or released, exactly once."""

    name = "Ledger"

    def __init__(self) -> None:
        self.open: dict[str, str] = {}
        self.decided: dict[str, Rejection | None] = {}
        self.problems: list[str] = []

    def reserve(self, pod: PodInfo, node_name: str, /) -> Rejection | None:
        if pod.uid in self.open:
            self.problems.append(f"{pod.uid} is reserved twice")
        self.open[pod.uid] = node_name
        return None

    def unreserve(self, pod: PodInfo, node_name: str, /) -> None:
        self._close(pod.uid)

    def permit(self, pod: PodInfo, node_name: str, /) -> PermitWait | None:
        return PermitWait(5.0) if pod.name in HELD else None

    def released(self) -> dict[str, Rejection | None]:
        found, self.decided = self.decided, {}
        return found

    def pre_bind(self, pod: PodInfo, node_name: str, /) -> list[ObjectPatch]:
        return [ObjectPatch(NODES, "", node_name, "", {})] if pod.name in PREPARED else []

    def post_bind(self, pod: PodInfo, node_name: str, /) -> list[ObjectPatch]:
        self._close(pod.uid)
        return []

    def _close(self, uid: str) -> None:
        if self.open.pop(uid, None) is None:
            self.problems.append(f"nothing was set aside for {uid}")


def new_scheduler(ledger: Ledger, *, minds_gates: bool = True) -> Scheduler:
    configuration, makers = configured([ledger])
    makers["SchedulingGates"] = lambda args, cluster: SchedulingGates(enabled=minds_gates)
    return Scheduler(configuration, makers)


class SchedulerSimulation:
    """``minds_gates``: whether the feature gate of the scheduler is on; that of the server always is."""

    def __init__(self, *, minds_gates: bool = True) -> None:
        self.api = self._new_api()
        self.minds_gates = minds_gates
        self.now_s = 1000.0
        self._born()

    def _new_api(self) -> SmallApi:
        return SmallApi()

    def _new_scheduler(self, ledger: Ledger) -> Scheduler:
        return new_scheduler(ledger, minds_gates=self.minds_gates)

    def _born(self) -> None:
        self.ledger = Ledger()
        self.scheduler = self._new_scheduler(self.ledger)
        self.binds: list[Bind] = []
        self.prepares: list[PreBindWrites] = []
        self.statuses: dict[str, SetStatus] = {}
        self.preempts: list[Preempt] = []
        self.ghosts: list[Bind] = []
        """Bindings whose response the scheduler does not wait for any more, and that may still arrive."""
        self.inputs: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.times_s: list[float] = []
        self.outputs: list[list[Effect]] = []
        self.said: Counter[str] = Counter()

    # The scheduler and its effects

    def _call(self, method: str, *args: Any, **more: Any) -> None:
        self.inputs.append((method, args, more))
        self.times_s.append(self.now_s)
        effects: list[Effect] = getattr(self.scheduler, method)(*args, **more) or []
        self.outputs.append(effects)
        for each in effects:
            self._want(each)

    def _want(self, effect: Effect) -> None:
        match effect:
            case Bind():
                assert all(each.pod.uid != effect.pod.uid for each in self.binds), "it is being bound already"
                self.statuses.pop(effect.pod.uid, None)  # as runtime/scheduler/api_dispatcher.py does
                self.binds.append(effect)
            case SetStatus(pod, condition, promise):
                before = self.statuses.pop(pod.uid, None)
                if before is not None:
                    condition = condition or before.condition
                    promise = before.nominated_node if promise is None else promise
                self.statuses[pod.uid] = SetStatus(pod, condition, promise)
            case PreBindWrites():
                self.statuses.pop(effect.pod.uid, None)
                self.prepares.append(effect)
            case Preempt():
                self.preempts.append(effect)
            case EmitPodEvent():
                self.said[effect.reason] += 1
            case _:
                raise AssertionError(effect)

    def step(self, most: int = 3) -> None:
        self._call("step", self.now_s, most)

    def later(self, by_s: float) -> None:
        self.now_s += by_s

    # Watches

    def show(self, what: tuple[str, int]) -> None:
        resource, count = what
        for _ in range(count):
            told = self.api.watches[resource].next()
            if told is not None:
                self._hear(resource, *told)

    def list_again(self, resource: str) -> None:
        for told in self.api.watches[resource].list_again(self.api.there(resource)):
            self._hear(resource, *told)

    def _hear(self, resource: str, name: str, uid: str, wire: Any) -> None:
        if resource == "pods":
            self._call("pod_removed", uid, self.now_s) if wire is None else self._call("pod_applied", wire, self.now_s)
        elif wire is None:
            self._call("node_removed", name, self.now_s)
        else:
            self._call("node_applied", wire, self.now_s)

    # Responses

    def answer_bind(self, what: tuple[int, str]) -> None:
        if not self.binds:
            return
        index, how = what
        bind = self.binds.pop(index % len(self.binds))
        self._call("bound", bind.pod.uid, self._bound(bind, how), "because", self.now_s)

    def _bound(self, bind: Bind, how: str) -> WriteResult:
        if how in ("later", "refused"):
            return WriteResult(how)
        if how == "unheard":
            self.ghosts.append(bind)
            return WriteResult.UNKNOWN
        before = self.api.bound.get(bind.pod.uid)
        result = self.api.bind(bind.pod.name, bind.pod.uid, bind.node_name)
        if how == "lost":
            return WriteResult.UNKNOWN
        if how == "unread" and result is WriteResult.DONE and before is not None:
            return WriteResult.TAKEN  # it was bound before, and its node could not be read
        return result

    def ghost(self, index: int) -> None:
        if self.ghosts:
            bind = self.ghosts[index % len(self.ghosts)]
            self.api.bind(bind.pod.name, bind.pod.uid, bind.node_name)

    def answer_prepare(self, what: tuple[int, str]) -> None:
        if self.prepares:
            index, problem = what
            prepare = self.prepares.pop(index % len(self.prepares))
            self._call("prepared", prepare.pod.uid, problem, self.now_s)

    def decide(self, what: tuple[int, bool]) -> None:
        """The plugin allows or rejects a pod that it held; the scheduler receives that later."""
        index, well = what
        if self.ledger.open:
            uid = list(self.ledger.open)[index % len(self.ledger.open)]
            verdict = None if well else Rejection(self.ledger.name, "no")
            self.inputs.append((DECIDED, (uid, verdict), {}))
            self.times_s.append(self.now_s)
            self.outputs.append([])
            self.ledger.decided[uid] = verdict

    def answer_status(self, index: int) -> None:
        if self.statuses:
            uid = list(self.statuses)[index % len(self.statuses)]
            status = self.statuses.pop(uid)
            self.api.set_status(status.pod.name, uid, status.condition, status.nominated_node)

    def answer_preempt(self, what: tuple[int, bool]) -> None:
        if not self.preempts:
            return
        index, ok = what
        preempt = self.preempts.pop(index % len(self.preempts))
        told = [each.uid for each in preempt.victims if ok and self.api.delete_by_uid(each.name, each.uid)]
        self._call("preempted", preempt, told, self.now_s, ok=ok)

    # Crashes

    def die(self, applied: tuple[bool, ...] = ()) -> None:
        """Writes in flight arrive or are lost; then another scheduler starts, from the state of the API server."""
        under_way: list[Bind | SetStatus | Preempt] = [
            *self.ghosts,
            *self.binds,
            *self.statuses.values(),
            *self.preempts,
        ]
        for each, arrives in zip(under_way, applied, strict=False):
            if not arrives:
                continue
            if isinstance(each, Bind):
                self.api.bind(each.pod.name, each.pod.uid, each.node_name)
            elif isinstance(each, SetStatus):
                self.api.set_status(each.pod.name, each.pod.uid, each.condition, each.nominated_node)
            else:
                self.api.delete_by_uid(each.victims[0].name, each.victims[0].uid)
        self._born()
        for resource, watch in self.api.watches.items():
            watch.known.clear()
            self.list_again(resource)

    # Quiescence

    def settle(self) -> None:
        """The cluster does not change any more, and all events and responses are delivered; time passes only as the
        scheduler asks."""
        self.settle_until(self.now_s + PATIENCE_S)

    def settle_for(self, by_s: float) -> None:
        """The same, and then the rest of that time passes."""
        end_s = self.now_s + by_s
        self.settle_until(end_s)
        self.now_s = end_s
        self._quiet()

    def settle_until(self, end_s: float) -> None:
        while self.now_s < end_s:
            self._quiet()
            wake_s = self.scheduler.next_deadline_s()
            if wake_s is None or wake_s > end_s:
                break
            self.now_s = max(self.now_s, wake_s)

    def _is_busy(self) -> bool:
        untold = any(watch.waiting for watch in self.api.watches.values())
        return bool(untold or self.binds or self.prepares or self.statuses or self.preempts)

    def _quiet(self, *, reaps: bool = True) -> None:
        for _ in range(1000):
            self.step(16)
            busy = self.outputs[-1] != []
            while self._is_busy():
                busy = True
                self._answer_all()
            busy |= reaps and self.api.reap()
            if not busy:
                return
        raise AssertionError("it does not come to rest")

    def _answer_all(self) -> None:
        self.show(("pods", 1))
        self.show(("nodes", 1))
        self.answer_prepare((0, ""))
        self.answer_bind((0, "truth"))
        self.answer_status(0)
        self.answer_preempt((0, True))

    # Invariants

    def check_places(self) -> None:
        """A pod that the scheduler knows is in exactly one of: the queue, in flight, on a node."""
        scheduler, matrix = self.scheduler, self.scheduler.cluster.matrix
        assert not self.ledger.problems, self.ledger.problems
        assert len(self.ledger.open) == len(scheduler.bindings)
        assert all(scheduler.bindings.get(uid) is not None for uid in self.ledger.open)
        for wire in self.api.watches["pods"].known.values():
            uid = uid_of(wire)
            queued, way = scheduler.queue.get(uid), scheduler.bindings.get(uid)
            waits = queued is not None and queued.state not in IN_FLIGHT
            on_node = way is None and bool(matrix.node_of(uid))
            places = [waits, way is not None and not waits, on_node]
            known_gone = uid_of(self.api.pods.get(wire["metadata"]["name"])) != uid
            assert places.count(True) == 1 or (known_gone and not any(places)), (
                f"{uid}: waits, on its way, on a node: {places}"
            )
            if node_of(wire):
                assert queued is None, f"{uid} has a node and waits"
            elif queued is not None and queued.state in IN_FLIGHT:
                assert matrix.is_assumed(uid), f"{uid} is being bound, and its capacity is not reserved"

    def check_counts(self) -> None:
        queue = self.scheduler.queue
        found = Counter(queued.state for queued in queue.pods())
        backoff = found[PodState.BACKOFF] + found[PodState.ERROR_BACKOFF]
        assert queue.counters.pending() == {
            "active": found[PodState.ACTIVE],
            "backoff": backoff,
            "unschedulable": found[PodState.UNSCHEDULABLE],
            "gated": found[PodState.GATED],
        }
        latest = {flight.queued.uid: flight.latest for flight in queue.in_flight() if not flight.gone}
        by_gate = Counter(gate for queued in queue.pods() for gate in latest.get(queued.uid, queued.pod).gates)
        assert {gate: count for gate, count in self._samples("headgate_gated_pods", "gate").items() if count} == by_gate
        # A pod that was tried is in flight, or the attempt has ended with one of the results.
        ended = sum(self._samples("scheduler_schedule_attempts_total", "result").values())
        decided = sum(self._samples("scheduler_scheduling_algorithm_duration_seconds_count").values())
        assert decided == ended + len(self.scheduler.bindings), "an attempt ended twice, or not at all"
        held = Counter((name, queued.pod.scheduler_name) for queued in queue.pods() for name in queued.rejectors)
        assert queue.counters.unschedulable() == held

    def _samples(self, name: str, label: str = "") -> Counter[str]:
        found: Counter[str] = Counter()
        for each in self.scheduler.metrics.samples(self.now_s):
            if each.name == name:
                found[dict(each.labels).get(label, "")] += int(each.value)
        return found

    def check_peace(self) -> None:
        """Pods that fit are bound, pods that do not fit have a condition, and pods with a gate have no Unschedulable
        condition."""
        for name, wire in self.api.pods.items():
            if gates_of(wire):
                assert reason_of(wire) == "SchedulingGated", f"{name}: {reason_of(wire)}"
                assert not node_of(wire)
            elif not node_of(wire):
                self._check_waits(name, wire)
                told = {"Unschedulable"} | (set() if self.api.nodes else {"SchedulerError"})
                # the result of an attempt of a gated pod is not reported
                told |= set() if self.minds_gates else {"SchedulingGated"}
                assert reason_of(wire) in told, f"{name} waits and was told {reason_of(wire)!r}"
        assert not self.scheduler.bindings
        assert not self.scheduler.cluster.matrix.assumed()
        newborn = self._newborn()
        if "preempts for" in newborn.values() and "binds" not in newborn.values():
            # A pod that waited for a permit, and lets its node go, may have been what spared the victims. The plugins
            # that rejected the preemptor see no difference; as in kube-scheduler, it is tried again after a while.
            self.now_s += DEFAULTS.unschedulable_limit_s
            self.settle()
            newborn = self._newborn()
        for name, wire in self.api.pods.items():
            if not node_of(wire) and not gates_of(wire):
                assert uid_of(wire) not in newborn, (
                    f"{name} waits, and somebody who comes new {newborn[uid_of(wire)]} it"
                )

    def _check_waits(self, name: str, wire: Any) -> None:
        rules = {"affinity", "topologySpreadConstraints", "nodeSelector"} & wire["spec"].keys()
        others = any("podAntiAffinity" in each["spec"].get("affinity", {}) for each in self.api.pods.values())
        if not rules and not others and not self._is_refused(uid_of(wire)):
            assert not self.api.could_run(wire), f"{name} waits and could run on {self.api.could_run(wire)}"

    def _is_refused(self, uid: str) -> bool:
        """Whether the plugin that holds pods holds this one."""
        queued = self.scheduler.queue.get(uid)
        return queued is not None and self.ledger.name in queued.rejectors

    def _newborn(self) -> dict[str, str]:
        """The effects of a new scheduler that knows only the state of the API server."""
        newborn = self._new_scheduler(Ledger())
        for node in self.api.nodes.values():
            newborn.node_applied(node, self.now_s)
        for pod in self.api.pods.values():
            # It does not get pods that may not be bound: other pods might have affinity to them.
            if not self._is_refused(uid_of(pod)) and not gates_of(pod):
                newborn.pod_applied(pod, self.now_s)
        effects = newborn.step(self.now_s, 100)
        doing = {each.pod.uid: "preempts for" for each in effects if isinstance(each, Preempt)}
        bound = [uid_of(each) for each in self.api.pods.values() if newborn.bindings.get(uid_of(each)) is not None]
        return doing | dict.fromkeys(bound, "binds")

    def check_repeats(self) -> None:
        """Another scheduler with the same inputs in the same order returns the same effects, compared as text."""
        ledger = Ledger()
        again = self._new_scheduler(ledger)
        told = zip(self.inputs, self.times_s, self.outputs, strict=True)
        for (method, args, more), self.now_s, wanted in told:
            if method == DECIDED:
                ledger.decided[args[0]] = args[1]
            else:
                assert _words(getattr(again, method)(*args, **more) or []) == _words(wanted)


def _words(effects: list[Effect]) -> str:
    """The text without the numbers of shapes: they depend on which shapes still exist, not on what is done."""
    return re.sub(r"Shape\(number=\d+", "Shape(", repr(effects))
