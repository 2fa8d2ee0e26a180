"""Revocation of promises: a pod that its queue admitted and that has no node waits for its queue again.

Revocation gives capacity to a pod of higher priority without preempting a pod.
``capacity/preemption/preemption_plan.py`` chooses the promises, ``scheduling/preemption/queue_preemption.py`` the pod
they are revoked for. The stamp is removed from the pod first; meanwhile the pod is not tried and its share stays in
use, so that promises never exceed capacity. The patch names the stamp, so repeating it does not touch a later promise.

:meth:`PromiseRevocation.release` releases the shares of all promises revoked for one pod together, after the deletion
of any victims was requested: otherwise the first shares would be granted to smaller pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from headgate.capacity.engine import QueueEngine
from headgate.capacity.names import STAMP
from headgate.kube.backoff import ExponentialBackoff
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.effects import RemoveStamp, WriteResult
from headgate.scheduling.queue.scheduling_queue import SchedulingQueue
from headgate.waiting.heap import DeadlineHeap

_BACKOFF: Final = ExponentialBackoff(1.0, 30.0)
_AGAIN: Final = (WriteResult.LATER, WriteResult.UNKNOWN, WriteResult.GATED)


# Mutable: the state of one patch.
class _StampRemoval(msgspec.Struct, eq=False):
    effect: RemoveStamp
    for_uid: str
    retries: int = 0


# Mutable: the promises that are revoked for one pod.
class _Revocation(msgspec.Struct, eq=False):
    pending: set[str]
    removed: dict[str, None] = msgspec.field(default_factory=dict)


class PromiseRevocation:
    def __init__(self, queues: QueueEngine, queue: SchedulingQueue[PodInfo]) -> None:
        self._queues = queues
        self._queue = queue
        self._open: dict[str, _StampRemoval] = {}
        self._revocations: dict[str, _Revocation] = {}
        self._retries: DeadlineHeap[str] = DeadlineHeap()

    def is_in_progress(self, uid: str) -> bool:
        """Whether promises are being revoked for this pod, or were and are not released yet."""
        return uid in self._revocations

    def begin(self, for_uid: str, uids: Iterable[str]) -> Iterator[RemoveStamp]:
        """Revokes all of these promises, or none if one of the pods has no stamp or has a node."""
        queued = [self._queue.get(uid) for uid in uids]
        pods = [each.pod for each in queued if each is not None and self._is_revocable(each.pod)]
        if len(pods) < len(queued) or not pods:
            return
        self._revocations[for_uid] = _Revocation({each.uid for each in pods})
        for pod in pods:
            effect = RemoveStamp(pod, pod.annotations[STAMP])
            self._open[pod.uid] = _StampRemoval(effect, for_uid)
            self._queues.set_retracting(pod.uid, retracting=True)
            yield effect

    def _is_revocable(self, pod: PodInfo) -> bool:
        has_node = self._queue.nominator.node_of(pod.uid) is not None
        return bool(pod.annotations.get(STAMP)) and not has_node and pod.uid not in self._open

    def answered(self, uid: str, stamp: str, result: WriteResult, now_s: float) -> str:
        """Returns the uid of the pod for which all promises are revoked now; empty if some are outstanding. A removal
        with an unknown outcome is repeated; it names the stamp, so a later stamp is kept."""
        found = self._open.get(uid)
        if found is None or found.effect.stamp != stamp:
            return ""
        if result in _AGAIN:
            found.retries += 1
            self._retries.put(uid, now_s + _BACKOFF.delay_s(found.retries))
            return ""
        del self._open[uid]
        self._retries.discard(uid)
        revocation = self._revocations.get(found.for_uid)
        if result is WriteResult.REFUSED:
            self._queues.retraction_refused(uid)
            self.release(found.for_uid)
            return ""
        if revocation is None:  # no longer needed, but the stamp is removed
            self._queues.retracted(uid)
            return ""
        revocation.pending.discard(uid)
        revocation.removed[uid] = None
        return "" if revocation.pending else found.for_uid

    def taken_off(self, for_uid: str) -> Collection[str]:
        """Whose stamps were taken off for this pod; their shares are still in use."""
        revocation = self._revocations.get(for_uid)
        return () if revocation is None else tuple(revocation.removed)

    def release(self, for_uid: str) -> None:
        """The shares are free for the next admission. Patches that are under way go on by themselves."""
        revocation = self._revocations.pop(for_uid, None)
        for uid in () if revocation is None else revocation.removed:
            self._queues.retracted(uid)

    def forget(self, uid: str) -> str:
        """The pod is gone, or has a node. Returns what :meth:`answered` does."""
        self.release(uid)
        found = self._open.pop(uid, None)
        self._retries.discard(uid)
        revocation = None if found is None else self._revocations.get(found.for_uid)
        if found is None or revocation is None:
            return ""
        revocation.pending.discard(uid)
        return "" if revocation.pending else found.for_uid

    def due(self, now_s: float) -> Iterator[RemoveStamp]:
        for uid in self._retries.due(now_s):
            yield self._open[uid].effect

    def next_deadline_s(self) -> float | None:
        return self._retries.next_deadline_s()
