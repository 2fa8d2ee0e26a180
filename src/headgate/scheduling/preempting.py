"""Makes the room that preemption found: victims are told to go, and whoever else counted on the node is told as well.

:meth:`Preempting.begin` turns a nomination into effects: one :class:`Preempt` for the victims that have to be deleted;
those that only wait for permission are turned away on the spot, those that are going already are left alone. Pods of
lower priority that were promised the same node lose the promise. While the victims are being told, the plugin
``DefaultPreemption`` holds the preemptor (``preemptions.py``). How it was found is the plugin's business.
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

_PLUGIN: Final = "DefaultPreemption"


class Preempting:
    def __init__(
        self, cluster: Cluster, queue: SchedulingQueue[Pod], bindings: Bindings, conditions: telling.Conditions
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._bindings = bindings
        self._conditions = conditions

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
        victims = self._cluster.preemptions.end(done.pod.uid)
        if not ok or not any(self._cluster.matrix.home(uid) is not None for uid in victims):
            # Either it has to be tried again, or it slept through the last event that would have woken it.
            self._queue.activate([done.pod.uid], now_s)
        return [telling.preempted(each, done.pod, done.node_name) for each in done.victims if each.uid in told]
