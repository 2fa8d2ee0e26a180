"""The admission step of a pass: queues that have room take pods in, and their gates go off in the same breath.

Pods of profiles that go by queues are known to ``capacity/`` from first sight. :meth:`Admitting.step` asks it who may
come in, has each one's gate lifted with the stamp that proves it, and lets the scheduling queue try the pod at once,
while the removal is under way. Nothing is said about a pod that cannot be placed before the removal is confirmed, of a
group before those of its whole minimum are: to an autoscaler that would be a shortage too early. With the feature
switched off there are no promises: gates of ours are lifted, at a bounded rate, and pods wait as any others do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from headgate.capacity.names import GATE, OPT_IN, STAMP
from headgate.capacity.queues import Company, Held, Queues, Why
from headgate.capacity.stamp import Stamp, read_stamp, write_stamp
from headgate.capacity.task import read_annotations
from headgate.kube import conditions, gates
from headgate.kube.exposition import Sample
from headgate.kube.timestamps import format_micro_time
from headgate.scheduling import events, telling
from headgate.scheduling.effects import Effect, RemoveStamp, Result
from headgate.scheduling.lifting import Lifts
from headgate.scheduling.pod import Pod
from headgate.scheduling.queue import SchedulingQueue
from headgate.scheduling.queue_metrics import QueueMetrics
from headgate.scheduling.queued import Queued, Where
from headgate.scheduling.tasks import task_of
from headgate.waiting.heap import Heap

WAITING_FOR_QUEUE: Final = "WaitingForQueue"
"""The reason that hides a pod without a gate from autoscalers while its queue has no room."""

RELEASES_PER_S: Final = 100
_FIRST_WAIT_S: Final = 5.0
_LONGEST_WAIT_S: Final = 300.0


class Queueing(msgspec.Struct, frozen=True):
    """``enabled``: the feature gate QueueAllocationGate. ``day`` tells the time of day, for stamps."""

    enabled: bool = True
    day: Callable[[], float] = lambda: 0.0


ENABLED: Final = Queueing()


class Admitting:
    """``names``: the schedulers whose pods go by queues."""

    def __init__(
        self,
        queues: Queues,
        queue: SchedulingQueue[Pod],
        said: telling.Conditions,
        lifts: Lifts,
        names: Iterable[str],
        queueing: Queueing,
        metrics: QueueMetrics,
    ) -> None:
        self.queues = queues
        self._queue = queue
        self._said = said
        self._names = frozenset(names)
        self._lifts = lifts
        self._day = queueing.day
        self._metrics = metrics
        self._enabled = queueing.enabled
        self._unsaid: dict[str, tuple[str, str]] = {}  # reason and message
        self._refusals: dict[str, int] = {}
        self._removing: dict[str, str] = {}  # stamps of promises that were taken back, until the API shows another
        self._owed: list[Effect] = []
        self._releasing: Heap[str] = Heap()
        self._release_s = 0.0
        self._is_asked = False

    # What the API shows

    def saw(self, pod: Pod, now_s: float) -> bool:
        """Whether a removal that was under way is confirmed by this."""
        if pod.scheduler_name not in self._names:
            return False
        task = task_of(pod, enabled=self._enabled)
        self.queues.task_applied(task)
        self._owed += self._remove_stamp(pod, task.stamp)
        if GATE in pod.gates:
            if not self._enabled and pod.annotations.get(OPT_IN) == "true" and len(pod.gates) == 1:
                self._releasing.put(pod.uid, (-pod.priority, pod.created_s, pod.namespace, pod.name))
            return False
        self._releasing.discard(pod.uid)
        is_written = pod.annotations.get(STAMP, "") == self._lifts.stamp(pod.uid)
        if self._lifts.is_open(pod.uid) and not is_written and not pod.node_name:
            return False
        self._ended_unanswered(pod.uid, Result.DONE, now_s)
        return self._lifts.shown(pod.uid)

    def _ended_unanswered(self, uid: str, result: Result, now_s: float) -> None:
        """The watch says what became of a removal, and no answer to it is on its way."""
        if self._lifts.awaits_retry(uid):
            self._metrics.answered(result, self._lifts.ended(uid, now_s))

    def gone(self, uid: str, now_s: float) -> None:
        """The pod will never run again, or never ran."""
        self.queues.task_removed(uid)
        self._ended_unanswered(uid, Result.GONE, now_s)
        self._lifts.forget(uid)
        self._unsaid.pop(uid, None)
        self._refusals.pop(uid, None)
        self._removing.pop(uid, None)
        self._releasing.discard(uid)

    def ended(self, pod: Pod) -> None:
        """A member that succeeded still counts for its gang, as long as it exists: who comes for one that failed would
        otherwise wait for the others for ever."""
        if pod.succeeded and pod.scheduler_name in self._names:
            task = task_of(pod, enabled=self._enabled)
            if task.group:
                self.queues.task_applied(task)

    # The step

    def step(self, now_s: float) -> list[Effect]:
        self._is_asked = False
        effects, self._owed = self._owed, []
        effects += [*self._lifts.due(now_s), *self._release(now_s)]
        grants = self.queues.admit(now_s, self._lifts.room)
        for uid in self.queues.withdrawn():
            effects += self._withdrawn(uid)
        for grant in grants:
            for uid in grant.uids:
                effects += self._promise(uid, grant.queue, now_s)
        for uid in self.queues.stirred():
            effects += self._stir(uid, now_s)
        for uid in self.queues.regrouped():
            effects += self._judge_again(uid, now_s)
        return effects

    def _withdrawn(self, uid: str) -> Iterator[Effect]:
        """A promise was taken back: its stamp goes, and so does the node that was kept for the pod. What the pod waits
        for is told with the others whose turn is over."""
        self._unsaid.pop(uid, None)
        queued = self._queue.get(uid)
        if queued is None:
            return
        pod = queued.pod
        yield from self._remove_stamp(pod, read_stamp(pod.annotations.get(STAMP), uid))
        self._queue.nominate(pod, "")
        yield from self._said.promised(pod, "")

    def _remove_stamp(self, pod: Pod, stamp: Stamp | None) -> Iterator[Effect]:
        """As soon as the API shows it, once."""
        if stamp is None or not self.queues.is_withdrawn(pod.uid, stamp):
            self._removing.pop(pod.uid, None)
        elif self._removing.get(pod.uid) != stamp.at:
            self._removing[pod.uid] = stamp.at
            yield RemoveStamp(pod, pod.annotations[STAMP])

    def unstamped(self, uid: str, stamp: str) -> None:
        """The API server has taken the stamp off; a watch that still shows it is late."""
        read = read_stamp(stamp, uid)
        if read is not None and self._queue.get(uid) is not None:
            self._removing[uid] = read.at

    def _promise(self, uid: str, queue_name: str, now_s: float) -> Iterator[Effect]:
        queued = self._queue.get(uid)
        if queued is None:
            return
        pod = queued.pod
        self._metrics.admitted(queue_name, self._day() - pod.created_s)
        if not self._opted_in(pod):
            return
        stamp = Stamp(uid, queue_name, pod.shape.requests, format_micro_time(self._day()))
        self.queues.stamped(uid, stamp)
        lift = self._lifts.begin(pod, write_stamp(stamp), now_s)
        if lift is not None:
            yield lift

    def _stir(self, uid: str, now_s: float) -> Iterator[Effect]:
        """It may be tried, or no longer: then it is put where it waits, and loses what made it look like a shortage."""
        queued = self._queue.get(uid)
        if queued is None or self.queues.is_resting(uid):
            return
        was_visible = queued.where is not Where.GATED
        held = self.queues.why(uid)
        if held is None:
            self._queue.event(events.of_queue_gate(events.GRANTED, uid), now_s)
            return
        self._queue.activate([uid], now_s)
        if was_visible or self._is_shortage(queued.pod):
            yield from self._hide(queued)

    def _judge_again(self, uid: str, now_s: float) -> Iterator[Effect]:
        """What the last decision about the pod was based on has changed: it is tried if it may be, without any wait; if
        not, its condition says why as of now."""
        queued = self._queue.get(uid)
        if queued is None:
            return
        was_visible = queued.where is not Where.GATED
        self._queue.activate([uid], now_s)
        if was_visible or self._is_shortage(queued.pod) or self._said.reason(queued.pod) == WAITING_FOR_QUEUE:
            yield from self._hide(queued)

    def _is_shortage(self, pod: Pod) -> bool:
        """Whether the pod was told, or is to be told, that it has no node, or none yet; or a node is kept for it."""
        if pod.uid in self._unsaid or self._queue.nominations.node_of(pod.uid) is not None:
            return True
        return self._said.reason(pod) in (conditions.UNSCHEDULABLE, conditions.WAITING_FOR_TERMINATING_PODS)

    def _hide(self, queued: Queued[Pod]) -> Iterator[Effect]:
        """A pod that may not be tried keeps no room from others, and does not look like a shortage."""
        if queued.where is Where.GATED:
            self.hold_back(queued.pod)
            self._queue.nominate(queued.pod, "")
            yield from self._said.promised(queued.pod, "")
            yield from self.tell(queued.pod)

    def _opted_in(self, pod: Pod) -> bool:
        return self._enabled and pod.annotations.get(OPT_IN) == "true"

    def _release(self, now_s: float) -> Iterator[Effect]:
        """Gates that the feature added and, switched off, has to take away."""
        while self._lifts.room and self._release_s <= now_s and (uid := self._releasing.pop()) is not None:
            queued = self._queue.get(uid)
            lift = None if queued is None else self._lifts.begin(queued.pod, "", now_s)
            if lift is not None:
                self._release_s = max(self._release_s, now_s - 1.0) + 1.0 / RELEASES_PER_S
                yield lift

    def next_deadline_s(self) -> float | None:
        if self._is_asked or self._owed or self.queues.has_withdrawn:
            return -math.inf
        release_s = self._release_s if self._releasing and self._lifts.room else None
        found = (self._lifts.next_deadline_s(), self.queues.next_deadline_s(), release_s)
        return min((moment for moment in found if moment is not None), default=None)

    # What became of removals

    def answered(self, uid: str, result: Result, message: str, now_s: float) -> bool:
        """Whether a removal is settled by this; if not, it is asked for again later. Switched off, we do not give up:
        nobody else will lift it."""
        if result is Result.REFUSED and not self._enabled:
            result = Result.LATER
        settled = self._lifts.answered(uid, result, message, now_s)
        is_over = not self._lifts.is_open(uid)
        self._metrics.answered(result, self._lifts.ended(uid, now_s) if is_over else None)
        return settled

    def samples(self) -> Iterator[Sample]:
        return self._metrics.samples(self.queues, self._day()) if self._names else iter(())

    def refused(self, uid: str, message: str, now_s: float) -> list[Effect]:
        """Somebody does not let us: the share goes back, others come in, and we ask again after a while."""
        before = self._refusals.get(uid, 0)
        self._refusals[uid] = before + 1
        until_s = now_s + min(_FIRST_WAIT_S * 2.0**before, _LONGEST_WAIT_S)
        self.queues.refused(uid, until_s, message)
        queued = self._queue.get(uid)
        return [] if queued is None else list(self.tell(queued.pod))

    def confirmed(self, uid: str, now_s: float) -> list[Effect]:
        """Its gate is off: what could not be said before can be now, unless others of its group are not so far."""
        self._refusals.pop(uid, None)
        if not self._enabled:
            self._queue.activate([uid], now_s)
        minimum = self.queues.minimum(uid)
        if any(map(self._lifts.is_open, minimum)):
            return []
        told = dict.fromkeys((uid, *minimum, *self.queues.company(uid).uids))
        return [effect for each in told if not self._lifts.is_open(each) for effect in self._say_now(each)]

    def _say_now(self, uid: str) -> Iterator[Effect]:
        unsaid = self._unsaid.pop(uid, None)
        queued = self._queue.get(uid)
        if unsaid is not None and queued is not None and queued.where not in (Where.IN_FLIGHT, Where.GATED):
            reason, message = unsaid
            yield from self._said.failed(self._ungated(queued.pod), message, reason)

    def _ungated(self, pod: Pod) -> Pod:
        """As the watch will show it in a moment."""
        if GATE not in pod.gates:
            return pod
        left = tuple(each for each in pod.gates if each != GATE)
        return msgspec.structs.replace(pod, gates=left, generation=pod.generation + 1)

    # What may be said

    def held(self, pod: Pod) -> Held | None:
        return self.queues.why(pod.uid) if pod.scheduler_name in self._names else None

    def asks(self, pod: Pod) -> Held | None:
        """Why the pod must not be tried although it may be tried for all that the scheduling queue knows. If it stands
        in line just now, the next step lets it in, and there must be one: nothing else may happen."""
        held = self.queues.held(pod.uid) if pod.scheduler_name in self._names else None
        self._is_asked |= held is not None and held.why is Why.WAITING_TURN
        return held

    def group(self, pod: Pod) -> str:
        """The PodGroup that a pod of ours names."""
        return read_annotations(pod.annotations, pod.uid).group if pod.scheduler_name in self._names else ""

    def company(self, pod: Pod) -> Company:
        """Whom the pod is tried together with, itself among them."""
        return self.queues.company(pod.uid) if pod.scheduler_name in self._names else Company((pod.uid,))

    def unplaced(self, pod: Pod) -> None:
        """It got no node: what a queue promised stays promised, and who was promised nothing gives way to others."""
        if pod.scheduler_name in self._names:
            self.queues.unplaced(pod.uid)

    def has_no_node(self, pod: Pod, is_so: bool) -> None:
        """Whether the pod fits nowhere and was promised no node either."""
        if pod.scheduler_name in self._names:
            self.queues.has_no_node(pod.uid, is_so)

    def hold_back(self, pod: Pod) -> None:
        """There is nothing to be said about the pod now, nor later about how it was before."""
        self._unsaid.pop(pod.uid, None)

    def puts_off(self, pod: Pod, message: str, reason: str = conditions.UNSCHEDULABLE) -> bool:
        """Whether it is too early to say why the pod has no node; it will be said in time."""
        self._unsaid.pop(pod.uid, None)
        if pod.scheduler_name not in self._names:
            return False
        if not any(map(self._lifts.is_open, (pod.uid, *self.queues.minimum(pod.uid)))):
            return False
        self._unsaid[pod.uid] = reason, message
        return True

    def unsaid_reason(self, uid: str) -> str:
        """The reason that is said of the pod as soon as its gate is off, if there is one."""
        return self._unsaid.get(uid, ("", ""))[0]

    def tell(self, pod: Pod) -> Iterator[Effect]:
        """Why the pod waits for its queue, in its condition: a reason that no autoscaler takes for a shortage, unless
        the pod asked for nothing of that kind."""
        held = self.held(pod)
        if held is None or held.why is Why.WAITING_TURN:
            return
        reason = conditions.UNSCHEDULABLE
        if pod.gates:
            reason = gates.SCHEDULING_GATED
        elif self._opted_in(pod):
            reason = WAITING_FOR_QUEUE
        yield from self._said.waiting(pod, reason, held.message)
