"""What is said about a pod: its ``PodScheduled`` condition, and Events, in the words that people and autoscalers know.

A condition is written only when it says something new, and never ``Unschedulable`` on a pod that has a gate: to an
autoscaler that would be a shortage. A pod that waits behind gates for longer than :data:`GATED_S` gets one Event that
names them, since ``kubectl describe`` shows nothing else about gates; of such Events there is a limit
(:class:`EventLimit`). Pure; nothing is written here.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Final

from headgate.kube import conditions, gates
from headgate.scheduling.effects import Effect, Say, SetStatus
from headgate.scheduling.pod import Pod, Scheduled

GATED_S: Final = 10.0
GATED_EVENTS_PER_HOUR: Final = 1000

_NOTICE_EVERY_S: Final = 0.05
_HOUR_S: Final = 3600.0
_LONGEST_NOTE: Final = 1024
_CUT: Final = " ..."


def cut(note: str) -> str:
    """An Event's note holds so many bytes and no more."""
    if len(note) <= _LONGEST_NOTE:
        return note
    return note[: _LONGEST_NOTE - len(_CUT)] + _CUT


def scheduled(pod: Pod, node_name: str) -> Say:
    message = f"Successfully assigned {pod.namespace}/{pod.name} to {node_name}"
    return Say(pod, "Normal", "Scheduled", "Binding", cut(message))


def failed(pod: Pod, message: str) -> Say:
    return Say(pod, "Warning", "FailedScheduling", "Scheduling", cut(message))


def held(pod: Pod, why: str, message: str, *, once: bool) -> Say:
    if why == conditions.SCHEDULER_ERROR:
        return Say(pod, "Warning", "FailedScheduling", "Scheduling", cut(message), once=once)
    return Say(pod, "Normal", why, "Scheduling", cut(message), once=once)


def preempted(victim: Pod, preemptor: Pod, node_name: str) -> Say:
    message = f"Preempted by pod {preemptor.uid} on node {node_name}"
    return Say(victim, "Normal", "Preempted", "Preempting", message, related=preemptor)


class Conditions:
    """What the pods' statuses say, as far as it was written here and the watch may not have shown it yet."""

    def __init__(self) -> None:
        self._told: dict[str, Scheduled] = {}
        self._promised: dict[str, str] = {}

    def failed(
        self,
        pod: Pod,
        message: str,
        reason: str = conditions.UNSCHEDULABLE,
        *,
        nominated_node: str | None = None,
        too_early: bool = False,
    ) -> Iterator[Effect]:
        """``nominated_node`` is what the pod is promised from now on; ``None`` leaves that as it is. ``too_early``: the
        pod has gates for all that is known."""
        promise = nominated_node if self._is_new(pod, nominated_node) else None
        says = Scheduled("False", reason, message, pod.generation)
        is_news = not pod.gates and not too_early and says != self._told.get(pod.uid, pod.scheduled)
        if not is_news and promise is None:
            return
        if is_news:
            self._told[pod.uid] = says
        if promise is not None:
            self._promised[pod.uid] = promise
        yield SetStatus(pod, _condition(says) if is_news else None, promise)

    def waiting(self, pod: Pod, reason: str, message: str) -> Iterator[Effect]:
        """Not for want of a node; a pod that has gates is never told that it is."""
        says = Scheduled("False", reason, message, pod.generation)
        if says != self._told.get(pod.uid, pod.scheduled) and not (pod.gates and reason == conditions.UNSCHEDULABLE):
            self._told[pod.uid] = says
            yield SetStatus(pod, _condition(says))

    def held(self, pod: Pod, plugin: str, reason: str, *, is_error: bool) -> Iterator[Effect]:
        """A PreEnqueue plugin holds the pod, or (``is_error``) failed on it: its words, in the condition and, if it is
        another plugin than was told before, in an Event. A pod with scheduling gates keeps the condition of those."""
        why = conditions.SCHEDULER_ERROR if is_error else conditions.PRE_ENQUEUE_REJECTED
        message = conditions.held_message(plugin, reason)
        is_known = self.reason(pod) == why and self.holder(pod) == plugin
        if not pod.gates:
            yield from self.waiting(pod, why, message)
        if not is_known:
            yield held(pod, why, message, once=bool(pod.gates))

    def has_node(self, pod: Pod, why: str, message: str) -> Iterator[Effect]:
        """A pod that has a node waits for a plugin before it is bound, or (``SchedulerError``) is not bound by it."""
        said = list(self.waiting(pod, why, message))
        yield from said
        if said:
            yield held(pod, why, message, once=False)

    def holder(self, pod: Pod) -> str:
        """The PreEnqueue plugin that holds the pod, as was last said of it; empty if none was named."""
        says = self._told.get(pod.uid, pod.scheduled)
        found = None if says is None else conditions.held_by(says.reason, says.message)
        return "" if found is None else found[0]

    def reason(self, pod: Pod) -> str:
        """Why the pod has no node, as was last said of it."""
        says = self._told.get(pod.uid, pod.scheduled)
        return "" if says is None else says.reason

    def promised(self, pod: Pod, nominated_node: str) -> Iterator[Effect]:
        """Another node, or none, with nothing else to say."""
        if self._is_new(pod, nominated_node):
            self._promised[pod.uid] = nominated_node
            yield SetStatus(pod, None, nominated_node)

    def _is_new(self, pod: Pod, nominated_node: str | None) -> bool:
        return nominated_node not in (None, self._promised.get(pod.uid, pod.nominated_node))

    def seen(self, pod: Pod) -> bool:
        """The API server shows the pod as we told it: nothing has to be remembered. Whether that is so by this."""
        is_told = pod.scheduled is not None and pod.scheduled == self._told.get(pod.uid)
        if is_told:
            self._told.pop(pod.uid, None)
        is_promised = pod.nominated_node == self._promised.get(pod.uid)
        if is_promised:
            self._promised.pop(pod.uid, None)
        return is_told or is_promised

    def forget(self, uid: str) -> None:
        self._told.pop(uid, None)
        self._promised.pop(uid, None)


def _condition(says: Scheduled) -> conditions.Condition:
    return {
        "type": conditions.POD_SCHEDULED,
        "status": says.status,
        "reason": says.reason,
        "message": says.message,
        "observedGeneration": says.observed_generation,
    }


class Notices:
    """Which gated pods are to be told of, and when: all wait equally long, so the first to come is the first due.

    Ten thousand that come together are told of one after the other, at a pace that no server minds.
    """

    def __init__(self, wait_s: float = GATED_S) -> None:
        self._wait_s = wait_s
        self._due: deque[tuple[float, str]] = deque()
        self._again_s = -math.inf

    def waits(self, uid: str, now_s: float) -> None:
        self._due.append((now_s + self._wait_s, uid))

    def next_s(self) -> float | None:
        return max(self._due[0][0], self._again_s) if self._due else None

    def due(self, now_s: float) -> Iterator[str]:
        while self._due and max(self._due[0][0], self._again_s) <= now_s:
            yield self._due.popleft()[1]

    def told(self, now_s: float) -> None:
        """A notice went out; those who lost their gates meanwhile cost no time."""
        self._again_s = now_s + _NOTICE_EVERY_S


class EventLimit:
    """So many Events at once, and as many again per hour, which is how long API servers keep them by default."""

    def __init__(self, per_hour: int) -> None:
        self.withheld = 0
        self._most = float(per_hour)
        self._left = self._most
        self._since_s: float | None = None

    def take(self, now_s: float) -> bool:
        """Whether one more Event may be emitted."""
        if self._since_s is not None:
            self._left = min(self._most, self._left + (now_s - self._since_s) * self._most / _HOUR_S)
        self._since_s = now_s
        if self._left < 1.0:
            self.withheld += 1
            return False
        self._left -= 1.0
        return True


def gated_notice(pod: Pod) -> Say:
    names = ", ".join(pod.gates)
    message = f"Not scheduled until its scheduling gates are lifted: {names}"
    return Say(pod, "Normal", gates.SCHEDULING_GATED, "Scheduling", cut(message), once=True)
