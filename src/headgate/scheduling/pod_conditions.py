"""The ``PodScheduled`` condition and the Events of pods, in the form that users and autoscalers expect.

A condition is written only when it changes, and never with ``Unschedulable`` on a gated pod: an autoscaler would see a
shortage. A pod that is gated for longer than :data:`GATED_S` gets one Event that names its gates, since ``kubectl
describe`` shows nothing else about gates; :class:`EventRateLimit` limits these Events. Pure: this module returns
effects.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Final

from headgate.kube import conditions, scheduling_gates
from headgate.scheduling.cache.pod import PodInfo, PodScheduledCondition
from headgate.scheduling.framework.effects import Effect, EmitPodEvent, SetStatus

GATED_S: Final = 10.0
GATED_EVENTS_PER_HOUR: Final = 1000

_NOTICE_EVERY_S: Final = 0.05
_HOUR_S: Final = 3600.0
_MAX_NOTE_BYTES: Final = 1024
_ELLIPSIS: Final = " ..."


def truncate_note(note: str) -> str:
    """Cuts a note to the most bytes that an Event may have."""
    if len(note) <= _MAX_NOTE_BYTES:
        return note
    return note[: _MAX_NOTE_BYTES - len(_ELLIPSIS)] + _ELLIPSIS


def scheduled_event(pod: PodInfo, node_name: str) -> EmitPodEvent:
    message = f"Successfully assigned {pod.namespace}/{pod.name} to {node_name}"
    return EmitPodEvent(pod, "Normal", "Scheduled", "Binding", truncate_note(message))


def failed_event(pod: PodInfo, message: str) -> EmitPodEvent:
    return EmitPodEvent(pod, "Warning", "FailedScheduling", "Scheduling", truncate_note(message))


def held_event(pod: PodInfo, reason: str, message: str, *, once: bool) -> EmitPodEvent:
    if reason == conditions.SCHEDULER_ERROR:
        return EmitPodEvent(pod, "Warning", "FailedScheduling", "Scheduling", truncate_note(message), once=once)
    return EmitPodEvent(pod, "Normal", reason, "Scheduling", truncate_note(message), once=once)


def preempted_event(victim: PodInfo, preemptor: PodInfo, node_name: str) -> EmitPodEvent:
    message = f"Preempted by pod {preemptor.uid} on node {node_name}"
    return EmitPodEvent(victim, "Normal", "Preempted", "Preempting", message, related=preemptor)


class PodConditions:
    """Conditions that were written by this process and that the watch may not have shown yet."""

    def __init__(self) -> None:
        self._written: dict[str, PodScheduledCondition] = {}
        self._nominated: dict[str, str] = {}

    def failed(
        self,
        pod: PodInfo,
        message: str,
        reason: str = conditions.UNSCHEDULABLE,
        *,
        nominated_node: str | None = None,
        too_early: bool = False,
    ) -> Iterator[Effect]:
        """``nominated_node``: ``None`` leaves the nomination unchanged. ``too_early``: the removal of the pod's gates
        is not confirmed yet, so only the nomination is written."""
        nomination = nominated_node if self._is_new(pod, nominated_node) else None
        condition = PodScheduledCondition("False", reason, message, pod.generation)
        is_new = not pod.gates and not too_early and condition != self._written.get(pod.uid, pod.scheduled)
        if not is_new and nomination is None:
            return
        if is_new:
            self._written[pod.uid] = condition
        if nomination is not None:
            self._nominated[pod.uid] = nomination
        yield SetStatus(pod, _condition(condition) if is_new else None, nomination)

    def waiting(self, pod: PodInfo, reason: str, message: str) -> Iterator[Effect]:
        """The pod waits for something else than a node. ``Unschedulable`` is never written on a pod with gates."""
        condition = PodScheduledCondition("False", reason, message, pod.generation)
        if condition != self._written.get(pod.uid, pod.scheduled) and not (
            pod.gates and reason == conditions.UNSCHEDULABLE
        ):
            self._written[pod.uid] = condition
            yield SetStatus(pod, _condition(condition))

    def held(self, pod: PodInfo, plugin: str, reason: str, *, is_error: bool) -> Iterator[Effect]:
        """A PreEnqueue plugin rejected the pod, or (``is_error``) failed on it: the condition gets its message, and an
        Event is emitted if it is another plugin than before. A pod with scheduling gates keeps its condition."""
        why = conditions.SCHEDULER_ERROR if is_error else conditions.PRE_ENQUEUE_REJECTED
        message = conditions.plugin_message(plugin, reason)
        is_known = self.reason(pod) == why and self.holder(pod) == plugin
        if not pod.gates:
            yield from self.waiting(pod, why, message)
        if not is_known:
            yield held_event(pod, why, message, once=bool(pod.gates))

    def has_node(self, pod: PodInfo, reason: str, message: str) -> Iterator[Effect]:
        """A pod that has a node waits for a plugin before it is bound, or (``SchedulerError``) is not bound by it."""
        effects = list(self.waiting(pod, reason, message))
        yield from effects
        if effects:
            yield held_event(pod, reason, message, once=False)

    def holder(self, pod: PodInfo) -> str:
        """The PreEnqueue plugin that the condition names; empty if it names none."""
        condition = self._written.get(pod.uid, pod.scheduled)
        found = None if condition is None else conditions.parse_pre_enqueue_message(condition.reason, condition.message)
        return "" if found is None else found[0]

    def reason(self, pod: PodInfo) -> str:
        """The reason of the condition."""
        condition = self._written.get(pod.uid, pod.scheduled)
        return "" if condition is None else condition.reason

    def nominated(self, pod: PodInfo, nominated_node: str) -> Iterator[Effect]:
        """Writes another nominated node, or none, and leaves the condition unchanged."""
        if self._is_new(pod, nominated_node):
            self._nominated[pod.uid] = nominated_node
            yield SetStatus(pod, None, nominated_node)

    def _is_new(self, pod: PodInfo, nominated_node: str | None) -> bool:
        return nominated_node not in (None, self._nominated.get(pod.uid, pod.nominated_node))

    def seen(self, pod: PodInfo) -> bool:
        """The watch shows a pod; forgets what it confirms. Returns whether it confirms a write of this process."""
        shows_condition = pod.scheduled is not None and pod.scheduled == self._written.get(pod.uid)
        if shows_condition:
            self._written.pop(pod.uid, None)
        shows_nomination = pod.nominated_node == self._nominated.get(pod.uid)
        if shows_nomination:
            self._nominated.pop(pod.uid, None)
        return shows_condition or shows_nomination

    def forget(self, uid: str) -> None:
        self._written.pop(uid, None)
        self._nominated.pop(uid, None)


def _condition(condition: PodScheduledCondition) -> conditions.Condition:
    return {
        "type": conditions.POD_SCHEDULED,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
    }


class GatedPodNotices:
    """Which gated pods are due for an Event. All wait equally long, so the first added is the first due.

    Events for ten thousand pods that are added together are spread over time."""

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

    def emitted(self, now_s: float) -> None:
        """An Event was emitted. Pods that lost their gates meanwhile do not delay the next one."""
        self._again_s = now_s + _NOTICE_EVERY_S


class EventRateLimit:
    """A token bucket: a burst of Events, and as many again per hour, the default TTL of Events in API servers."""

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


def gated_event(pod: PodInfo) -> EmitPodEvent:
    names = ", ".join(pod.gates)
    message = f"Not scheduled until its scheduling gates are lifted: {names}"
    return EmitPodEvent(
        pod, "Normal", scheduling_gates.SCHEDULING_GATED, "Scheduling", truncate_note(message), once=True
    )
