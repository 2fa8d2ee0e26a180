"""The ``PodScheduled`` condition and the Events of pods, in the form that users and autoscalers expect.

A condition is written only when it changes, and never with ``Unschedulable`` on a gated pod: an autoscaler would see a
shortage. A pod that is gated for longer than :data:`GATED_S` gets one Event that names its gates, since ``kubectl
describe`` shows nothing else about gates; :class:`EventRateLimit` limits these Events. The module does no I/O: it
returns effects.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from headgate.kube import conditions, scheduling_gates
from headgate.scheduling.cache.pod import PodInfo, PodScheduledCondition
from headgate.scheduling.framework.effects import Effect, EmitPodEvent, SetStatus

GATED_S: Final = 10.0
"""How long a pod is gated before an Event names its gates."""
GATED_EVENTS_PER_HOUR: Final = 1000

_MIN_NOTICE_INTERVAL_S: Final = 0.05
_HOUR_S: Final = 3600.0
_MAX_NOTE_BYTES: Final = 1024
_ELLIPSIS: Final = " ..."


def truncate_note(note: str) -> str:
    """Cuts a note to the maximum length of an Event's note."""
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


def differ_only_in_own_writes(before: PodInfo, after: PodInfo) -> bool:
    """Whether only fields of the status have changed that a scheduler writes to a pod without a node."""
    written = {"revision": before.revision, "scheduled": before.scheduled, "nominated_node": before.nominated_node}
    return msgspec.structs.replace(after, **written) == before


class PodConditions:
    """Builds the writes of conditions, and remembers the conditions that this process has written and the watch has
    not shown yet."""

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
        """The condition of a pod that does not wait for a node. ``Unschedulable`` is never written on a pod with
        gates."""
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
        is_known = self.reason(pod) == why and self.gating_plugin(pod) == plugin
        if not pod.gates:
            yield from self.waiting(pod, why, message)
        if not is_known:
            yield held_event(pod, why, message, once=bool(pod.gates))

    def waiting_for_plugin(self, pod: PodInfo, reason: str, message: str) -> Iterator[Effect]:
        """The condition and Event of a pod that has a node: a plugin makes it wait before it is bound, or
        (``SchedulerError``) a Bind plugin did not bind it."""
        effects = list(self.waiting(pod, reason, message))
        yield from effects
        if effects:
            yield held_event(pod, reason, message, once=False)

    def gating_plugin(self, pod: PodInfo) -> str:
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
        """The watch shows the pod: forgets the writes that it confirms. Returns whether it confirms any."""
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
    """Notices: which pods have waited for ``wait_s`` and are due for an Event or a condition. All wait equally long, so
    the first added is the first due. Between two notices there is a minimum interval, so that ten thousand pods that
    are added together do not cause ten thousand writes at once."""

    def __init__(self, wait_s: float = GATED_S) -> None:
        self._wait_s = wait_s
        self._due: deque[tuple[float, str]] = deque()
        self._next_notice_s = -math.inf

    def waits(self, uid: str, now_s: float) -> None:
        """The pod begins to wait."""
        self._due.append((now_s + self._wait_s, uid))

    def next_s(self) -> float | None:
        return max(self._due[0][0], self._next_notice_s) if self._due else None

    def due(self, now_s: float) -> Iterator[str]:
        while self._due and max(self._due[0][0], self._next_notice_s) <= now_s:
            yield self._due.popleft()[1]

    def emitted(self, now_s: float) -> None:
        """A notice was emitted: the next one has to wait. Pods that are no longer gated need no notice and delay
        none."""
        self._next_notice_s = now_s + _MIN_NOTICE_INTERVAL_S


class EventRateLimit:
    """A token bucket: a burst of ``per_hour`` Events, refilled within an hour, the default TTL of Events in API
    servers. ``withheld``: the number of Events that were not emitted."""

    def __init__(self, per_hour: int) -> None:
        self.withheld = 0
        self._burst = float(per_hour)
        self._tokens = self._burst
        self._since_s: float | None = None

    def take(self, now_s: float) -> bool:
        """Whether one more Event may be emitted."""
        if self._since_s is not None:
            self._tokens = min(self._burst, self._tokens + (now_s - self._since_s) * self._burst / _HOUR_S)
        self._since_s = now_s
        if self._tokens < 1.0:
            self.withheld += 1
            return False
        self._tokens -= 1.0
        return True


def gated_event(pod: PodInfo) -> EmitPodEvent:
    names = ", ".join(pod.gates)
    message = f"Not scheduled until its scheduling gates are lifted: {names}"
    return EmitPodEvent(
        pod, "Normal", scheduling_gates.SCHEDULING_GATED, "Scheduling", truncate_note(message), once=True
    )
