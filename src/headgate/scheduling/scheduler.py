"""The scheduler: what the API shows comes in, what is to be written goes out, and everything between is decided here.

Pods of our profiles that have no node go to the queue, pods on nodes and the nodes to the matrix, the objects around
them to the parts of the cluster; each tells the queue the events that waiting pods may wait for. :meth:`Scheduler.step`
tries pods and returns the effects; their results come back by :meth:`bound`, :meth:`prepared` and :meth:`preempted`.
It does no I/O and knows no clock: ``control/scheduler/`` watches, writes and keeps time. Everything can be rebuilt from
the API alone, so whoever dies in the middle starts again with an empty one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube.resource import Resource
from headgate.scheduling import events, telling
from headgate.scheduling.bindings import Bindings, Failure, Step, Way
from headgate.scheduling.cluster import Cluster
from headgate.scheduling.configuration.values import Configuration
from headgate.scheduling.contract import Placement, Rejection, Unplaced
from headgate.scheduling.counters import Sample
from headgate.scheduling.cycle import Cycle
from headgate.scheduling.effects import Effect, Preempt, Result
from headgate.scheduling.events import Event, Owned
from headgate.scheduling.metrics import ERROR, SCHEDULED, UNSCHEDULABLE, Metrics
from headgate.scheduling.node import Node, read_node
from headgate.scheduling.pod import Pod, read_pod
from headgate.scheduling.preempting import Preempting
from headgate.scheduling.profile import MAKERS, Maker, Team, assemble
from headgate.scheduling.queue import QueueSettings, SchedulingQueue
from headgate.scheduling.queued import Queued, Where
from headgate.scheduling.shape import Shapes

Object = Mapping[str, Any]

_GATES: Final = "SchedulingGates"
_UNGATED: Final = events.on(events.UNSCHEDULABLE_POD, events.POD_GATES_ELIMINATED)
# The pod may be on its node for all that these answers say: its room stays taken until the watch shows where it is, or
# another attempt is answered. An answer that denies just the last of several attempts says nothing of the others.
_OPEN: Final = (Result.UNKNOWN, Result.TAKEN)
_NOT_NOW: Final = (Result.LATER, Result.REFUSED)
_UNFIT: Final = (AttributeError, KeyError, TypeError, ValueError)


class Scheduler:
    """``makers`` that raise are the caller's to catch: they say what is wrong with a plugin's arguments."""

    def __init__(
        self,
        configuration: Configuration,
        makers: Mapping[str, Maker] = MAKERS,
        owned: Owned = events.nobody_owns,
        report: Callable[[str], None] = lambda problem: None,
        metrics: Metrics | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.cluster = Cluster()
        self.teams: dict[str, Team] = {
            profile.name: assemble(profile, self.cluster, makers) for profile in configuration.profiles
        }
        for team in self.teams.values():
            for part in team.parts:
                self.cluster.join(part)
        self.annotations = frozenset(name for team in self.teams.values() for name in team.annotations)
        first = next(iter(self.teams.values()))
        settings = QueueSettings(float(configuration.pod_initial_backoff_s), float(configuration.pod_max_backoff_s))
        self.queue: SchedulingQueue[Pod] = SchedulingQueue(
            {name: team.pre_enqueue for name, team in self.teams.items()},
            first.queue_sort,
            settings,
            owned,
            self.metrics,
        )
        self._cycles: dict[str, Cycle] = {
            profile.name: Cycle(
                self.cluster.matrix,
                self.teams[profile.name].lineup,
                _either(profile.percentage_of_nodes_to_score, configuration.percentage_of_nodes_to_score),
                self.queue.nominations,
                self.metrics.watch(profile.name),
            )
            for profile in configuration.profiles
        }
        self.bindings = Bindings(self.metrics)
        self._conditions = telling.Conditions()
        self._preempting = Preempting(self.cluster, self.queue, self.bindings, self._conditions)
        self._notices = telling.Notices()
        self._shapes = Shapes()
        self._nodes: dict[str, tuple[Object, Node]] = {}
        self._owed: list[Effect] = []  # decided on an event, and taken along by the next step
        self._report = report

    # What the API shows

    def pod_applied(self, wire: Object, now_s: float) -> None:
        pod = read_pod(wire, self._shapes, self.annotations)
        if isinstance(pod, str):
            self._report(pod)
        elif pod.terminal:
            self.pod_removed(pod.uid, now_s)
        elif pod.node_name:
            self._arrived(pod, now_s)
        elif pod.deleting:
            self.pod_removed(pod.uid, now_s)
        elif pod.scheduler_name in self.teams:
            self._waits(pod, now_s)

    def pod_removed(self, uid: str, now_s: float) -> None:
        """Gone, or never to run again."""
        matrix = self.cluster.matrix
        self._conditions.forget(uid)
        self._preempting.forget(uid)
        self._settle(uid, now_s)
        self.queue.delete(uid, now_s)
        row = matrix.home(uid)
        old = None if row is None else matrix.pods_on(row)[uid]
        matrix.pod_removed(uid)
        if old is not None:
            self._happened([Event(events.ASSIGNED_POD, events.DELETE, old=old)], now_s)

    def _arrived(self, pod: Pod, now_s: float) -> None:
        matrix = self.cluster.matrix
        self._conditions.forget(pod.uid)
        self._preempting.forget(pod.uid)
        self._settle(pod.uid, now_s, pod.node_name)
        self.queue.delete(pod.uid, now_s, bound=True)
        row = matrix.home(pod.uid)
        old = None if row is None else matrix.pods_on(row)[pod.uid]
        was_assumed = matrix.is_assumed(pod.uid)
        matrix.pod_applied(pod)
        happened = [Event(events.ASSIGNED_POD, events.ADD, new=pod)]
        if old is not None and old.node_name != pod.node_name:
            happened.insert(0, Event(events.ASSIGNED_POD, events.DELETE, old=old))
        elif old is not None and not was_assumed:
            happened = events.of_pod_update(old, pod)
        self._happened(happened, now_s)

    def _settle(self, uid: str, now_s: float, node_name: str = "") -> None:
        settled = self.bindings.settled(uid, node_name)
        if settled is None:
            return
        way, written = settled
        if way.node_name == node_name:
            self._reached(way, now_s)
            self._owed += [*written, telling.scheduled(way.pod, node_name)]
        else:
            self._missed(way, ERROR, now_s)
        self.queue.done(way.queued)

    def _waits(self, pod: Pod, now_s: float) -> None:
        self._conditions.seen(pod)
        known = self.queue.get(pod.uid)
        if known is None and self.cluster.matrix.node_of(pod.uid):
            return  # it has been bound, and this is how it looked before
        if known is None:
            self.queue.add(pod, now_s)
            if pod.gates:
                self._notices.gated(pod.uid, now_s)
        else:
            self.queue.update(pod, now_s)

    def node_applied(self, wire: Object, now_s: float) -> None:
        name = wire["metadata"]["name"]
        node = read_node(wire)
        before = self._nodes.pop(name, None)
        if isinstance(node, str):
            self._report(f"node {name} is left out: {node}")
            self.cluster.matrix.node_refused(name, node)
            return
        self._nodes[name] = (wire, node)
        self.cluster.matrix.node_applied(node)
        happened = [Event(events.NODE, events.ADD)] if before is None else events.of_node_update(before[0], wire)
        old = None if before is None else before[1]
        self._happened([msgspec.structs.replace(event, old=old, new=node) for event in happened], now_s)

    def node_removed(self, name: str, now_s: float) -> None:
        self.cluster.matrix.node_removed(name)
        before = self._nodes.pop(name, None)
        if before is not None:
            self._happened([Event(events.NODE, events.DELETE, old=before[1])], now_s)

    def object_applied(self, resource: Resource, wire: Object, now_s: float) -> None:
        try:
            happened = self.cluster.applied(resource, wire)
        except _UNFIT as broken:
            metadata = wire.get("metadata") or {}
            named = f"{resource.plural} {metadata.get('namespace') or ''}/{metadata.get('name')}"
            self._report(f"{named} is left out, since it cannot be read: {broken!r}")
            return
        self._happened(happened, now_s)

    def object_removed(self, resource: Resource, namespace: str, name: str, now_s: float) -> None:
        self._happened(self.cluster.removed(resource, namespace, name), now_s)

    def _happened(self, happened: Iterable[Event], now_s: float) -> None:
        """Who waits for it may be tried, and who awaits it before a binding goes on with the next step."""
        for event in happened:
            self.queue.event(event, now_s)
            self._owed += self._carry_out(self.bindings.look_again(event, now_s), now_s)

    # Trying

    def step(self, now_s: float, most: int) -> list[Effect]:
        """Try up to so many pods that may be tried now; fewer if there are no more."""
        effects, self._owed = self._owed, []
        effects += self._due(now_s)
        for _ in range(most):
            queued = self.queue.pop(now_s)
            if queued is None:
                break
            effects += self._attempt(queued, now_s)
        return effects

    def next_deadline_s(self) -> float | None:
        """When :meth:`step` has something to do, unless something happens before."""
        waits = (self.queue, self.bindings, self._preempting)
        found = (*(each.next_deadline_s() for each in waits), self._notices.next_s())
        return min((moment for moment in found if moment is not None), default=None)

    def _due(self, now_s: float) -> list[Effect]:
        self._preempting.due(now_s)
        effects = self._carry_out(self.bindings.due(now_s), now_s)
        for uid in self._notices.due(now_s):
            queued = self.queue.get(uid)
            if queued is not None and queued.where is Where.GATED and queued.pod.gates:
                effects.append(telling.gated_notice(queued.pod))
                self._notices.told(now_s)
        return effects

    def _attempt(self, queued: Queued[Pod], now_s: float) -> list[Effect]:
        pod = queued.pod
        if self.bindings.get(pod.uid) is not None:
            # Deleted and known again while its binding is under way: that has to end first.
            self.queue.fail(queued, (), now_s)
            return []
        clock = self.metrics.clock
        began_s = clock()
        outcome = self._cycles[pod.scheduler_name].place(pod)
        took_s = clock() - began_s
        self.metrics.decided(took_s)
        if isinstance(outcome, Placement):
            self._conditions.forget(pod.uid)  # what was not written yet will not be, now that it has a node
            begun = self.bindings.begin(queued, self.teams[pod.scheduler_name], outcome.node_name, now_s)
            return self._carry_out(begun, now_s)
        self.metrics.attempted(ERROR if outcome.is_error else UNSCHEDULABLE, pod.scheduler_name, took_s)
        if outcome.nominated is not None:
            self.metrics.preempted(len(outcome.nominated.victims))
        return self._unplaced(queued, outcome, now_s)

    def _unplaced(self, queued: Queued[Pod], outcome: Unplaced, now_s: float) -> list[Effect]:
        rejections = () if outcome.is_error else outcome.rejections
        effects: list[Effect] = []
        if outcome.nominated is not None:
            effects = self._carry_out(self._preempting.begin(queued.pod, outcome.nominated), now_s)
        return effects + self._failed(
            queued, outcome.message, rejections, now_s, outcome.promise, by_error=outcome.is_error
        )

    def _failed(
        self,
        queued: Queued[Pod],
        message: str,
        rejections: Sequence[Rejection],
        now_s: float,
        promise: str | None = "",
        *,
        by_error: bool | None = None,
    ) -> list[Effect]:
        """``by_error``: whether it was an error, if that is not to be told from there being no rejections."""
        if self.queue.fail(queued, rejections, now_s) is None:
            return []  # it is gone, or has a node
        pod = queued.pod
        if promise is not None:
            self.queue.nominate(pod, promise)
        is_error = not rejections if by_error is None else by_error
        told = self._conditions.failed(pod, message, by_error=is_error, nominated_node=promise)
        return [*told, telling.failed(pod, message)]

    def _carry_out(self, steps: Iterable[Step], now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        for step in steps:
            if isinstance(step, Failure):
                freed = self._forget(step.way.pod.uid)
                self._missed(step.way, UNSCHEDULABLE if step.rejections else ERROR, now_s)
                effects += self._failed(step.way.queued, step.message, step.rejections, now_s)
                self._freed(freed, now_s)
            else:
                effects.append(step)
        return effects

    def _forget(self, uid: str) -> Pod | None:
        """A pod that was counted in is counted out again; returns it if others may have its room."""
        matrix = self.cluster.matrix
        if not matrix.is_assumed(uid):
            return None
        row = matrix.home(uid)
        pod = None if row is None else matrix.pods_on(row)[uid]
        matrix.forget(uid)
        return pod

    def _freed(self, pod: Pod | None, now_s: float) -> None:
        """To all others it is as if the pod had been deleted."""
        if pod is not None:
            event = Event(events.ASSIGNED_POD, events.DELETE, old=pod)
            self.queue.event(event, now_s, lambda waiting: waiting.uid != pod.uid)

    # What became of effects

    def preempted(self, done: Preempt, told: Collection[str], now_s: float, *, ok: bool) -> list[Effect]:
        """Victims were told to go; see :meth:`Preempting.ended`."""
        return self._preempting.ended(done, told, ok=ok, now_s=now_s)

    def prepared(self, uid: str, problem: str, now_s: float) -> list[Effect]:
        """What had to be written before a binding is written, or (``problem``) is not."""
        way = self.bindings.get(uid)
        return [] if way is None else self._carry_out(self.bindings.prepared(way, problem, now_s), now_s)

    def bound(self, uid: str, result: Result, message: str, now_s: float) -> list[Effect]:
        way = self.bindings.get(uid)
        if way is None:
            return []
        if result in _OPEN or (way.retries and result in _NOT_NOW):
            if self.queue.get(uid) is way.queued:
                self.bindings.unknown(way, now_s)
                return []
            # The watch was faster, and showed where the pod is.
            arrived = self.cluster.matrix.node_of(uid) == way.node_name
            result = Result.DONE if arrived else Result.GONE
        written = self.bindings.end(way, arrived=result is Result.DONE)
        if result is Result.DONE:
            self._reached(way, now_s)
            self.queue.done(way.queued)
            self._conditions.forget(uid)
            return [*written, telling.scheduled(way.pod, way.node_name)]
        self._missed(way, ERROR, now_s)
        freed = self._forget(uid)
        effects = self._not_bound(way, result, message, now_s)
        self._freed(freed, now_s)
        return effects

    def _not_bound(self, way: Way, result: Result, message: str, now_s: float) -> list[Effect]:
        if result is Result.GONE:
            self.queue.done(way.queued)
            return []
        if result is Result.GATED:
            # Only the loss of its gates can help; asking again and again would not.
            self.queue.fail(way.queued, (Rejection(_GATES, message, _UNGATED, expires=False),), now_s)
            self.queue.nominate(way.pod, "")
            return list(self._conditions.promised(way.queued.pod, ""))
        return self._failed(way.queued, f"binding rejected: {message}", (), now_s)

    # What is measured

    def _reached(self, way: Way, now_s: float) -> None:
        queued = way.queued
        self.metrics.attempted(SCHEDULED, way.pod.scheduler_name, now_s - way.since_s)
        if queued.initial_attempt_s is not None:
            self.metrics.placed(queued.attempts, now_s - queued.initial_attempt_s)

    def _missed(self, way: Way, result: str, now_s: float) -> None:
        self.metrics.attempted(result, way.pod.scheduler_name, now_s - way.since_s)

    def page(self, now_s: float) -> bytes:
        """All metrics, in Prometheus' text format."""
        matrix = self.cluster.matrix
        sizes = {"nodes": matrix.count, "pods": matrix.pod_count, "assumed_pods": len(matrix.assumed())}
        cache = (Sample("scheduler_cache_size", (("type", each),), size) for each, size in sizes.items())
        return self.metrics.page(now_s, (*self.queue.samples(), *cache))


def _either(own: int | None, common: int) -> int:
    return common if own is None else own
