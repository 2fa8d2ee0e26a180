"""The scheduler: what the API shows comes in, what is to be written goes out, and everything between is decided here.

Pods of our profiles that have no node go to the queue, pods on nodes and the nodes to the matrix, the objects around
them to the parts of the cluster; each tells the queue the events that waiting pods may wait for. :meth:`Scheduler.step`
takes pods into their queues and tries those that may be, and returns the effects; their results come back by
:meth:`bound`, :meth:`lifted`, :meth:`prepared` and :meth:`preempted`. What follows from them is ``attempts.py``'s.
It does no I/O and knows no clock: ``control/scheduler/`` watches, writes and keeps time. Everything can be rebuilt from
the API alone, so whoever dies in the middle starts again with an empty one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.queues import Queues
from headgate.capacity.settings import DEFAULTS as SETTINGS
from headgate.kube import conditions
from headgate.kube.exposition import Sample
from headgate.kube.resource import Resource
from headgate.scheduling import events, telling
from headgate.scheduling.admitting import ENABLED, Admitting, Queueing
from headgate.scheduling.attempts import Attempts
from headgate.scheduling.bindings import Bindings
from headgate.scheduling.cluster import Cluster
from headgate.scheduling.configuration.values import Configuration
from headgate.scheduling.contending import Contending
from headgate.scheduling.contract import Failed, Rejection
from headgate.scheduling.cycle import Cycle
from headgate.scheduling.effects import Effect, Preempt, Result
from headgate.scheduling.events import Event
from headgate.scheduling.lifting import Lifts
from headgate.scheduling.meters import BIND, PERMIT
from headgate.scheduling.metrics import GATED_EVENTS_WITHHELD, Metrics
from headgate.scheduling.node import Node, read_node
from headgate.scheduling.plugins.default_preemption import DefaultPreemption
from headgate.scheduling.plugins.queue_allocation import QueueAllocation
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.pod import Pod, read_pod
from headgate.scheduling.preempting import Preempting
from headgate.scheduling.profile import MAKERS, Maker, Team, assemble, joined
from headgate.scheduling.queue import QueueSettings, SchedulingQueue
from headgate.scheduling.queue_objects import QueueObjects
from headgate.scheduling.queued import Where
from headgate.scheduling.retracting import Retracting
from headgate.scheduling.shape import Shapes
from headgate.scheduling.victim_rules import ByQueue

Object = Mapping[str, Any]

_EXPOSED_S: Final = 1.0
"""How long a pod without a gate waits for its queue before its condition says so."""
_CLOCKS_DIFFER_S: Final = 0.5
"""A deletion timestamp is told by the time of day: read twice, it is not the same moment to the hair."""
_TOLD_OTHERWISE: Final = (SchedulingGates.name, DefaultPreemption.name)
"""Plugins whose holds show elsewhere: in the condition of gates, and in the node that the pod is nominated for."""
_UNFIT: Final = (AttributeError, KeyError, TypeError, ValueError)


class Scheduler:
    """``makers`` that raise are the caller's to catch: they say what is wrong with a plugin's arguments. Profiles that
    go by queues share them, so they are told the same of them: the first one's settings count."""

    def __init__(
        self,
        configuration: Configuration,
        makers: Mapping[str, Maker] = MAKERS,
        report: Callable[[str], None] = lambda problem: None,
        metrics: Metrics | None = None,
        queueing: Queueing = ENABLED,
        spared: Collection[str] = (),
        *,
        all_wait: bool = False,
        gated_events: int = telling.GATED_EVENTS_PER_HOUR,
    ) -> None:
        """Pods that go by queues wait for terminating pods before they are called a shortage; so do pods with a label
        in ``spared`` and, with ``all_wait``, all others. ``gated_events``: how many Events per hour name pods' gates.
        """
        self.metrics = metrics or Metrics()
        self._day = queueing.day
        by_queues = {each.name: each.queues for each in configuration.profiles if each.queues is not None}
        names = [each.name for each in configuration.profiles]
        watch = self.metrics.watch("")
        self.cluster = Cluster(spared=spared, waiting=names if all_wait else by_queues, watch=watch)
        queues, lifts = Queues(next(iter(by_queues.values()), SETTINGS)), Lifts()
        allocation = QueueAllocation(queues, lifts, enabled=queueing.enabled)
        self.teams: dict[str, Team] = {
            profile.name: assemble(profile, self.cluster, makers) for profile in configuration.profiles
        }
        for name in by_queues:
            self.teams[name] = joined(self.teams[name], allocation)
            self.cluster.victim_rules[name] = ByQueue(queues)
        if by_queues:
            self.cluster.join(QueueObjects(queues), needed=True)
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
            allocation.owns if by_queues else events.nobody_owns,
            self.metrics,
            dict.fromkeys(by_queues, queues.line()),
        )
        cycles = {
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
        self.queues = queues
        self.names_by_queues = frozenset(by_queues)
        self._admitting = Admitting(
            queues, self.queue, self._conditions, lifts, by_queues, queueing, self.metrics.queues
        )
        self._preempting = Preempting(self.cluster, self.queue, self.bindings, self._conditions)
        self._attempts = Attempts(
            self.teams,
            cycles,
            self.cluster,
            self.queue,
            self.bindings,
            self._conditions,
            self._admitting,
            self._preempting,
            self.metrics,
        )
        self._retracting = Retracting(queues, self.queue)
        self._contending = Contending(
            queues, self.queue, self.cluster, cycles, self._conditions, self._preempting, self._retracting
        )
        self._notices = telling.Notices()
        self._exposed = telling.Notices(_EXPOSED_S)
        self._unbound = telling.Notices()
        self._gated_events = telling.EventLimit(gated_events)
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
            self._admitting.ended(pod)
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
        self.cluster.leaving.removed(uid)
        self._owed += self._attempts.settle(uid, now_s)
        self._attempts.leaves_its_group(uid)
        self._owed += self._retracted(self._retracting.forget(uid), now_s)
        self._admitting.gone(uid, now_s)
        self.queue.delete(uid, now_s)
        row = matrix.home(uid)
        old = None if row is None else matrix.pods_on(row)[uid]
        matrix.pod_removed(uid)
        if old is not None:
            self._attempts.room_changed(old.node_name, now_s)
            self._happened([Event(events.ASSIGNED_POD, events.DELETE, old=old)], now_s)

    def _arrived(self, pod: Pod, now_s: float) -> None:
        matrix = self.cluster.matrix
        self._conditions.forget(pod.uid)
        self._preempting.forget(pod.uid)
        self._owed += self._attempts.settle(pod.uid, now_s, pod.node_name)
        self._owed += self._retracted(self._retracting.forget(pod.uid), now_s)
        self._admitting.saw(pod, now_s)
        self.queue.delete(pod.uid, now_s, bound=True)
        row = matrix.home(pod.uid)
        old = None if row is None else matrix.pods_on(row)[pod.uid]
        was_assumed = matrix.is_assumed(pod.uid)
        matrix.pod_applied(pod)
        if old is None or (not was_assumed and old.shape is not pod.shape):
            self._attempts.room_changed(pod.node_name, now_s)  # somebody else put it there, or it was resized
        if pod.gone_by_s is not None:
            self._terminates(pod, now_s + pod.gone_by_s - self._day(), now_s)
        happened = [Event(events.ASSIGNED_POD, events.ADD, new=pod)]
        if old is not None and old.node_name != pod.node_name:
            happened.insert(0, Event(events.ASSIGNED_POD, events.DELETE, old=old))
        elif old is not None and not was_assumed:
            happened = events.of_pod_update(old, pod)
        self._happened(happened, now_s)

    def _terminates(self, pod: Pod, until_s: float, now_s: float) -> None:
        leaving = self.cluster.leaving
        before_s = leaving.until_s(pod.uid)
        leaving.applied(pod, until_s)
        after_s = leaving.until_s(pod.uid)
        if before_s is None:
            self._attempts.terminates(pod, now_s)
        elif after_s is not None and after_s < before_s - _CLOCKS_DIFFER_S:
            self._attempts.room_changed(pod.node_name, now_s)

    def _waits(self, pod: Pod, now_s: float) -> None:
        is_shown = self._conditions.seen(pod)
        known = self.queue.get(pod.uid)
        if known is None and self.cluster.matrix.node_of(pod.uid):
            return  # it has been bound, and this is how it looked before
        confirmed = self._admitting.saw(pod, now_s)
        if known is None:
            self.queue.add(pod, now_s)
            (self._notices if pod.gates else self._exposed).waits(pod.uid, now_s)
        else:
            before = known.pod
            self.queue.update(pod, now_s, is_own_write=is_shown and _differ_in_own_writes(before, pod))
            if before.gates != pod.gates:
                self._owed += self._retold(pod.uid)
            if before.shape.requests != pod.shape.requests and pod.scheduler_name not in self.names_by_queues:
                self._attempts.resized(pod, now_s)
        if confirmed:
            self._owed += self._attempts.ungated(pod.uid, now_s)

    def node_applied(self, wire: Object, now_s: float) -> None:
        name = wire["metadata"]["name"]
        node = read_node(wire)
        before = self._nodes.pop(name, None)
        if isinstance(node, str):
            self._report(f"node {name} is left out: {node}")
            self.cluster.matrix.node_refused(name, node)
            self._attempts.room_changed(name, now_s)
            return
        self._nodes[name] = (wire, node)
        self.cluster.matrix.node_applied(node)
        happened = [Event(events.NODE, events.ADD)] if before is None else events.of_node_update(before[0], wire)
        old = None if before is None else before[1]
        if old is not None and old != node:
            self._attempts.room_changed(name, now_s)
        self._happened([msgspec.structs.replace(event, old=old, new=node) for event in happened], now_s)

    def node_removed(self, name: str, now_s: float) -> None:
        self.cluster.matrix.node_removed(name)
        before = self._nodes.pop(name, None)
        self._attempts.room_changed(name, now_s)
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
        self._log_problems(now_s)
        self._happened(happened, now_s)

    def object_removed(self, resource: Resource, namespace: str, name: str, now_s: float) -> None:
        happened = self.cluster.removed(resource, namespace, name)
        self._log_problems(now_s)
        self._happened(happened, now_s)

    def _happened(self, happened: Iterable[Event], now_s: float) -> None:
        """Who waits for it may be tried, and who awaits it before a binding goes on with the next step."""
        for event in happened:
            self.queue.event(event, now_s)
            self._owed += self._attempts.carry_out(self.bindings.look_again(event, now_s), now_s)

    # Trying

    def step(self, now_s: float, most: int, is_enough: Callable[[], bool] = lambda: False) -> list[Effect]:
        """Try up to so many pods that may be tried now; fewer if there are no more, or if after one of them the caller
        says that it is enough."""
        effects, self._owed = self._owed, []
        for uid in self.queue.newly_held():
            queued = self.queue.get(uid)
            if self._holder(uid) is not None or (queued is not None and self._conditions.holder(queued.pod)):
                self._exposed.waits(uid, now_s)
        effects += self._admitting.step(now_s)
        self._attempts.look_again_in_groups(now_s)
        effects += self._due(now_s)
        for _ in range(most):
            queued = self.queue.pop(now_s)
            if queued is None:
                break
            effects += self._attempts.attempt(queued, now_s)
            if is_enough():
                break
        # After the attempts: a share that a pod without a node gives back is room that no other pod has to make.
        effects += self._attempts.carry_out(self._contending.step(), now_s)
        for uid in self.bindings.newly_waiting():
            self._unbound.waits(uid, now_s)
        self._log_problems(now_s)
        return effects

    def _log_problems(self, now_s: float) -> None:
        """Of plugins: those that are slow, and those that fail."""
        for problem in (*self.metrics.slow_calls.messages(), *self.metrics.plugin_failures.messages(now_s)):
            self._report(problem)

    def next_deadline_s(self) -> float | None:
        """When :meth:`step` has something to do, unless something happens before."""
        waits = (self.queue, self.bindings, self._preempting, self._admitting, self._retracting)
        notices = (self._notices.next_s(), self._exposed.next_s(), self._unbound.next_s())
        found = (*(each.next_deadline_s() for each in waits), *notices)
        return min((moment for moment in found if moment is not None), default=None)

    def _due(self, now_s: float) -> list[Effect]:
        self._preempting.due(now_s)
        effects: list[Effect] = [*self._retracting.due(now_s)]
        effects += self._attempts.carry_out(self.bindings.due(now_s), now_s)
        for notices in (self._notices, self._exposed):
            for uid in notices.due(now_s):
                said = self._notice(uid, now_s)
                if said:
                    notices.told(now_s)
                effects += said
        for uid in self._unbound.due(now_s):
            said = self._notice_unbound(uid)
            if said:
                self._unbound.told(now_s)
            effects += said
        return effects

    def _retold(self, uid: str) -> list[Effect]:
        """A pod whose gates changed, whoever changed them, and that still waits for its queue: its condition says why
        as of now."""
        queued = self.queue.get(uid)
        if queued is None or queued.where is not Where.GATED or queued.gating is None:
            return []
        return list(self._admitting.tell(queued.pod)) if queued.gating.plugin == QueueAllocation.name else []

    def _notice(self, uid: str, now_s: float) -> list[Effect]:
        """Where people look, why a pod waits that nobody tried for a while."""
        queued = self.queue.get(uid)
        if queued is None or queued.where is not Where.GATED or queued.gating is None:
            return []
        if queued.gating.plugin == QueueAllocation.name:
            return list(self._admitting.tell(queued.pod))
        holder = self._holder(uid)
        if holder is not None:
            return self._held(queued.pod, holder)
        if not queued.pod.gates or not self._gated_events.take(now_s):
            return []
        return [telling.gated_notice(queued.pod)]

    def _notice_unbound(self, uid: str) -> list[Effect]:
        """Why a pod that has had a node for a while is not bound."""
        binder = self.bindings.take_unconfirmed(uid)
        if binder:
            return self._not_bound_by(binder, uid)
        queued, waiting = self.queue.get(uid), self.bindings.waiting(uid)
        if waiting is None or queued is None:
            return []
        why = conditions.WAITING_ON_PERMIT if waiting.point == PERMIT else conditions.WAITING_ON_PRE_BIND
        message = conditions.held_message(waiting.plugin, waiting.text, waiting.point)
        return list(self._conditions.has_node(queued.pod, why, message))

    def _not_bound_by(self, plugin: str, uid: str) -> list[Effect]:
        """The API server accepted what a Bind plugin wrote, and does not show the pod on a node."""
        matrix = self.cluster.matrix
        row = matrix.home(uid)
        if row is None or not matrix.is_assumed(uid):
            return []
        pod = matrix.pods_on(row)[uid]
        text = f"its write was accepted {telling.GATED_S:g} s ago, and the pod is not bound to {matrix.name(row)}"
        message = conditions.held_message(plugin, text, BIND)
        self._report(f"pod {pod.key} is not bound: {message}")
        return list(self._conditions.has_node(pod, conditions.SCHEDULER_ERROR, message))

    def _holder(self, uid: str) -> Rejection | None:
        """The rejection of the plugin that holds the pod, unless its holds show elsewhere."""
        queued = self.queue.get(uid)
        gating = None if queued is None or queued.where is not Where.GATED else queued.gating
        if gating is None or gating.plugin in (*_TOLD_OTHERWISE, QueueAllocation.name):
            return None
        return gating

    def _held(self, pod: Pod, holder: Rejection) -> list[Effect]:
        is_error = isinstance(holder, Failed)
        return list(self._conditions.held(pod, holder.plugin, holder.reason, is_error=is_error))

    # What became of effects

    def bound(self, uid: str, result: Result, message: str, now_s: float) -> list[Effect]:
        effects = self._attempts.bound(uid, result, message, now_s)
        self._log_problems(now_s)
        return effects

    def lifted(self, uid: str, result: Result, message: str, now_s: float) -> list[Effect]:
        """The removal of a gate was answered."""
        if result is Result.GONE:
            self._admitting.answered(uid, result, message, now_s)
            self.pod_removed(uid, now_s)
            return []
        return self._attempts.lifted(uid, result, message, now_s)

    def unstamped(self, uid: str, stamp: str, result: Result, now_s: float) -> list[Effect]:
        """The removal of a stamp was answered."""
        if result is Result.GONE:
            self.pod_removed(uid, now_s)
            return []
        if result in (Result.DONE, Result.TAKEN):
            self._admitting.unstamped(uid, stamp)
        return self._retracted(self._retracting.answered(uid, stamp, result, now_s), now_s)

    def _retracted(self, for_uid: str, now_s: float) -> list[Effect]:
        return self._attempts.carry_out(self._contending.retracted(for_uid), now_s) if for_uid else []

    def prepared(self, uid: str, problem: str, now_s: float) -> list[Effect]:
        """What had to be written before a binding is written, or (``problem``) is not."""
        return self._attempts.prepared(uid, problem, now_s)

    def preempted(self, done: Preempt, told: Collection[str], now_s: float, *, ok: bool) -> list[Effect]:
        """Victims were told to go (see :meth:`Preempting.ended`): what they have of their queues is free at once."""
        for uid in told:
            self.queues.evicted(uid)
        self._retracting.release(done.pod.uid)
        return self._preempting.ended(done, told, ok=ok, now_s=now_s)

    # What is measured

    def page(self, now_s: float) -> bytes:
        """All metrics, in Prometheus' text format."""
        matrix = self.cluster.matrix
        sizes = {"nodes": matrix.count, "pods": matrix.pod_count, "assumed_pods": len(matrix.assumed())}
        cache = (Sample("scheduler_cache_size", (("type", each),), size) for each, size in sizes.items())
        withheld = Sample(GATED_EVENTS_WITHHELD, (), self._gated_events.withheld)
        return self.metrics.page(now_s, (*self.queue.samples(), *cache, *self._admitting.samples(), withheld))


def _differ_in_own_writes(before: Pod, now: Pod) -> bool:
    """Whether nothing but what the scheduler writes into a pod's status is other than before."""
    own = {"revision": before.revision, "scheduled": before.scheduled, "nominated_node": before.nominated_node}
    return msgspec.structs.replace(now, **own) == before


def _either(own: int | None, common: int) -> int:
    return common if own is None else own
