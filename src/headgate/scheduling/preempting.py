"""Makes the room that preemption found: victims are told to go, and whoever else counted on the node is told as well.

:meth:`Preempting.begin` turns a nomination into effects: one :class:`Preempt` for the victims that have to be deleted;
those that only wait for permission are turned away on the spot, those that are going already are left alone. Pods of
lower priority that were promised the same node lose the promise. While the victims are being told, the plugin
``DefaultPreemption`` holds the preemptor (``preemptions.py``); if they cannot be told it is tried again at once, and
from the second time on after a while. How the room was found is the plugin's business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from headgate.scheduling import telling
from headgate.scheduling.bindings import Bindings, Step
from headgate.scheduling.cluster import Cluster
from headgate.scheduling.contract import Nominated
from headgate.scheduling.effects import Effect, Preempt
from headgate.scheduling.pod import Pod
from headgate.scheduling.queue import SchedulingQueue
from headgate.waiting.heap import Heap

_PLUGIN: Final = "DefaultPreemption"
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 10.0
"""How long victims usually take to leave: so long a pod that goes by queues is not called a shortage."""


class Preempting:
    def __init__(
        self, cluster: Cluster, queue: SchedulingQueue[Pod], bindings: Bindings, conditions: telling.Conditions
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._bindings = bindings
        self._conditions = conditions
        self._failures: dict[str, int] = {}
        self._later: Heap[str] = Heap()
        self._leave_by_s: dict[str, float] = {}

    def begin(self, pod: Pod, found: Nominated) -> Iterator[Step]:
        for each in self._queue.nominations.on_node(found.node_name):
            if each.priority < pod.priority:
                self._queue.nominate(each, "")
                yield from self._conditions.promised(each, "")
        doomed: list[Pod] = []
        for victim in found.victims:
            if victim.deleting:
                continue
            turned_away = self._bindings.reject(victim.uid, _PLUGIN, "preempted")
            if turned_away is None:
                doomed.append(victim)
            else:
                yield turned_away
                yield telling.preempted(victim, pod, found.node_name)
        if doomed:
            self._cluster.preemptions.begin(pod.uid, [each.uid for each in doomed])
            yield Preempt(pod, found.node_name, tuple(doomed))

    def ended(self, done: Preempt, told: Collection[str], *, ok: bool, now_s: float) -> list[Effect]:
        """``told``: the uids of victims that were there still, and were told to go; ``ok``: none was forgotten."""
        uid = done.pod.uid
        if not ok and self._queue.get(uid) is not None:
            self._failed(uid, now_s)
        else:
            self._failures.pop(uid, None)
            victims = self._cluster.preemptions.end(uid)
            if not any(self._cluster.matrix.home(each) is not None for each in victims):
                # It slept through the last event that would have woken it.
                self._queue.activate([uid], now_s)
            elif self._queue.get(uid) is not None:
                self._cluster.preemptions.leave(uid, told)
                if done.pod.scheduler_name in self._cluster.victim_rules:
                    by_s = now_s + max(each.grace_s for each in done.victims)
                    self._leave_by_s[uid] = by_s
                    self._later.put(uid, by_s)
                    # Maybe only quota had to become free, and it does: nothing that happens on nodes would wake it.
                    self._queue.activate([uid], now_s)
        return [telling.preempted(each, done.pod, done.node_name) for each in done.victims if each.uid in told]

    def is_making_room(self, pod: Pod, now_s: float) -> bool:
        """Whether a pod that goes by queues waits for its victims to leave, who still have time to: to an autoscaler
        that is no shortage. It is tried again when their time is over."""
        under_way, matrix = self._cluster.preemptions, self._cluster.matrix
        if pod.scheduler_name not in self._cluster.victim_rules:
            return False
        if pod.uid in under_way:
            return True
        until_s = self._leave_by_s.get(pod.uid, now_s)
        return until_s > now_s and any(matrix.home(each) is not None for each in under_way.told(pod.uid))

    def _failed(self, uid: str, now_s: float) -> None:
        before = self._failures.get(uid, 0)
        self._failures[uid] = before + 1
        wait_s = min(_FIRST_WAIT_S * 2.0 ** (before - 1), _LONGEST_WAIT_S) if before else 0.0
        self._later.put(uid, now_s + wait_s)
        self.due(now_s)

    def due(self, now_s: float) -> None:
        """Those whose preemption failed are tried again when their time has come; until then they are held."""
        while (first := self._later.first()) is not None and first[0] <= now_s:
            self._later.pop()
            self._cluster.preemptions.end(first[1])
            self._queue.activate([first[1]], now_s)

    def next_deadline_s(self) -> float | None:
        first = self._later.first()
        return None if first is None else float(first[0])

    def forget(self, uid: str) -> None:
        """The pod is gone, or has a node."""
        self._cluster.preemptions.forget(uid)
        self._leave_by_s.pop(uid, None)
        self._failures.pop(uid, None)
        if uid in self._later:
            self._later.discard(uid)
            self._cluster.preemptions.end(uid)
