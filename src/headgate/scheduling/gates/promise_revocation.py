"""Revocation of promises: a pod with a promise and without a node waits for its queue again.

Revocation gives the promised capacity to a pod of higher priority (the preemptor) without a preemption of running pods.
``capacity/preemption/preemption_plan.py`` chooses the promises; ``scheduling/preemption/queue_preemption.py`` chooses
the preemptor. The stamp, which records the promise on the pod, is removed first; until that is done the pod is not
tried and its promise still counts, so that promises never exceed capacity. The patch names the stamp, so a repeated
patch does not remove a later stamp.

Two kinds of promises end in the same way, without a preemptor: those whose lease has ended
(``reservation_leases.py``), and those that the queue engine does not keep (``QueueEngine.promises_to_end``): of a gang
below its minimum, above a lowered limit, or of resized pods that block each other. The latter must end, so a removal
that the API server refuses, perhaps because a role is being replaced, is repeated after a back-off. If the patch that
writes the stamp is still in progress, the removal of the stamp waits for its outcome.

:meth:`PromiseRevocation.release` ends all promises that are revoked for one preemptor together, after the deletion of
its victims was requested: otherwise the capacity of the first ones would be granted to smaller pods. The promises of
one gang end together for the same reason.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Final

import msgspec

from headgate.capacity.api.lease import write_lapse
from headgate.capacity.engine import QueueEngine
from headgate.capacity.names import STAMP
from headgate.kube.backoff import ExponentialBackoff
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.effects import RemoveStamp, WriteResult
from headgate.scheduling.gates.gate_removals import GateRemovals
from headgate.scheduling.queue.scheduling_queue import SchedulingQueue
from headgate.waiting.heap import DeadlineHeap

_LAPSE_OF: Final = "lapse of "
"""Begins the name of promises that lapse together, in place of the uid of a preemptor."""
_END_OF: Final = "end of "
"""Begins the name of promises that the queue engine does not keep, and that end together."""
_BACKOFF: Final = ExponentialBackoff(1.0, 2.0)
_REFUSED_BACKOFF: Final = ExponentialBackoff(5.0, 300.0)
_RETRIED: Final = (WriteResult.LATER, WriteResult.UNKNOWN, WriteResult.GATED)


# Mutable: the state of one patch.
class _StampRemoval(msgspec.Struct, eq=False):
    """``unit``: the uid of the preemptor, or the name of promises that end together. ``must_end``: the queue engine
    does not keep the promise, so a refused patch is repeated. ``effect``: the patch; None until it is sent."""

    unit: str
    lapse: str = ""
    must_end: bool = False
    effect: RemoveStamp | None = None
    retries: int = 0
    refusals: int = 0


# Mutable: the promises that end together: for one preemptor, or those of one gang.
class _Revocation(msgspec.Struct, eq=False):
    """``pending``: the pods whose stamps are still to be removed; ``removed``: those whose stamps are removed.
    ``has_preemptor``: a preemptor waits for them, and says when they end. ``is_lapse``: the promises lapse."""

    pending: set[str]
    removed: dict[str, None] = msgspec.field(default_factory=dict)
    has_preemptor: bool = False
    is_lapse: bool = False


class PromiseRevocation:
    """All revocations in progress. ``has_queues``: whether a profile of the scheduler has queues; without queues there
    are no promises."""

    def __init__(
        self,
        queues: QueueEngine,
        queue: SchedulingQueue[PodInfo],
        gate_removals: GateRemovals,
        *,
        has_queues: bool,
    ) -> None:
        self._queues = queues
        self._has_queues = has_queues
        self._queue = queue
        self._gate_removals = gate_removals
        self._open: dict[str, _StampRemoval] = {}
        self._unsent: dict[str, None] = {}  # pods whose stamp is removed when no patch that writes it is in progress
        self._revocations: dict[str, _Revocation] = {}
        self._retries: DeadlineHeap[str] = DeadlineHeap()

    def is_in_progress(self, uid: str) -> bool:
        """Whether promises are being revoked for this preemptor and :meth:`release` has not ended them yet."""
        return uid in self._revocations

    def begin_lapse(self, uids: Iterable[str], time_of_day_s: float) -> Iterator[RemoveStamp]:
        """Ends the promises of these pods together, because their leases have ended: all, or none as with
        :meth:`begin`, and none while a patch that writes one of their stamps is in progress."""
        pods = self._revocable_pods(uids)
        if not pods or not all(self._shows_last_stamp(each) for each in pods):
            return
        unit = f"{_LAPSE_OF}{pods[0].uid}"
        lapses = self._queues.begin_lapse((each.uid for each in pods), time_of_day_s)
        self._revocations[unit] = _Revocation({each.uid for each in pods}, is_lapse=True)
        for pod in pods:
            self._open[pod.uid] = _StampRemoval(unit, write_lapse(lapses[pod.uid], pod.uid))
            yield from self._send(pod.uid)

    def begin(self, preemptor_uid: str, uids: Iterable[str]) -> Iterator[RemoveStamp]:
        """Revokes all of these promises, or none if one of the pods has no stamp or has a node."""
        pods = self._revocable_pods(uids)
        if not pods:
            return
        self._revocations[preemptor_uid] = _Revocation({each.uid for each in pods}, has_preemptor=True)
        for pod in pods:
            self._open[pod.uid] = _StampRemoval(preemptor_uid)
            self._queues.set_revoking(pod.uid, revoking=True)
            yield from self._send(pod.uid)

    def _send(self, uid: str) -> Iterator[RemoveStamp]:
        """The patch that removes the stamp, or nothing if a patch that writes the stamp is in progress."""
        removal, queued = self._open[uid], self._queue.get(uid)
        self._unsent.pop(uid, None)
        if queued is None:
            self._drop(uid)
            return
        if not self._gate_removals.is_settled(uid):
            self._unsent[uid] = None
            return
        stamp = self._gate_removals.confirmed_stamp(uid) or queued.pod.annotations.get(STAMP, "")
        removal.effect = RemoveStamp(queued.pod, stamp, removal.lapse)
        yield removal.effect

    def _revocable_pods(self, uids: Iterable[str]) -> list[PodInfo]:
        """The pods, or none if the promise of one of them cannot be revoked now."""
        queued = [self._queue.get(uid) for uid in uids]
        pods = [each.pod for each in queued if each is not None and self._is_revocable(each.pod)]
        return [] if len(pods) < len(queued) else pods

    def _is_revocable(self, pod: PodInfo) -> bool:
        has_node = self._queue.nominator.node_of(pod.uid) is not None
        is_free = pod.uid not in self._open and not self._queues.is_being_revoked(pod.uid)
        return bool(pod.annotations.get(STAMP)) and not has_node and is_free

    def _shows_last_stamp(self, pod: PodInfo) -> bool:
        written = self._gate_removals.confirmed_stamp(pod.uid)
        return self._gate_removals.is_settled(pod.uid) and written in ("", pod.annotations.get(STAMP))

    def _end_promises(self) -> Iterator[RemoveStamp]:
        """Removes the stamps of promises that the queue engine does not keep, and of others whose removal waited. The
        promises of a gang end together, so that its capacity is not granted to smaller pods before the gang waits for
        it again."""
        units: dict[Hashable, list[str]] = {}
        for uid in self._queues.promises_to_end():
            units.setdefault(self._queues.atomic_group(uid) or uid, []).append(uid)
        for uids in units.values():
            unit = f"{_END_OF}{uids[0]}"
            self._revocations[unit] = _Revocation(set(uids))
            for uid in uids:
                self._open[uid] = _StampRemoval(unit, must_end=True)
                self._unsent[uid] = None
        for uid in list(self._unsent):
            if self._open[uid].must_end and not self._queues.is_being_revoked(uid):
                self._drop(uid)  # the API server has refused to write the stamp
            elif self._gate_removals.is_settled(uid):
                yield from self._send(uid)

    def answered(self, uid: str, stamp: str, result: WriteResult, now_s: float) -> str:
        """The response has arrived. Returns the uid of the preemptor for which all stamps are removed now; empty if
        some are outstanding. A removal with an unknown outcome, or a refused one of a promise that must end, is
        repeated; it names the stamp, so a later stamp is kept."""
        found = self._open.get(uid)
        if found is None or found.effect is None or found.effect.stamp != stamp:
            return ""
        if result in _RETRIED:
            found.retries += 1
            self._retries.put(uid, now_s + _BACKOFF.delay_s(found.retries))
            return ""
        if result is WriteResult.REFUSED and found.must_end:
            found.refusals += 1
            self._retries.put(uid, now_s + _REFUSED_BACKOFF.delay_s(found.refusals))
            self.release(found.unit)  # the others do not wait for this one, which may take long
            return ""
        del self._open[uid]
        self._retries.discard(uid)
        revocation = self._revocations.get(found.unit)
        if result is WriteResult.REFUSED:
            self._queues.revocation_refused(uid)
            self.release(found.unit)
            return ""
        if revocation is None:  # no longer needed, but the stamp is removed
            if found.lapse:
                self._queues.lapse_confirmed((uid,))
            else:
                self._queues.revocation_confirmed(uid)
            return ""
        revocation.pending.discard(uid)
        revocation.removed[uid] = None
        return self._completed(revocation, found.unit)

    def _completed(self, revocation: _Revocation, unit: str) -> str:
        """The preemptor whose revocation is complete. Promises without a preemptor end at once."""
        if revocation.pending:
            return ""
        if revocation.has_preemptor:
            return unit
        self.release(unit)
        return ""

    def pods_without_stamp(self, preemptor_uid: str) -> Collection[str]:
        """The pods whose stamps were removed for this preemptor; their promises still count."""
        revocation = self._revocations.get(preemptor_uid)
        return () if revocation is None else tuple(revocation.removed)

    def release(self, unit: str) -> None:
        """Ends the promises whose stamps were removed for this preemptor: the next admission step can grant the
        capacity. Patches in progress are not affected."""
        revocation = self._revocations.pop(unit, None)
        if revocation is not None and revocation.is_lapse:
            self._queues.lapse_confirmed(revocation.removed)
            return
        for uid in () if revocation is None else revocation.removed:
            self._queues.revocation_confirmed(uid)

    def forget(self, uid: str) -> str:
        """The pod was deleted, or has a node. Returns the uid of a preemptor as :meth:`answered` does."""
        self.release(uid)
        return self._drop(uid)

    def _drop(self, uid: str) -> str:
        """The stamp of the pod need not be removed any more."""
        found = self._open.pop(uid, None)
        self._unsent.pop(uid, None)
        self._retries.discard(uid)
        revocation = None if found is None else self._revocations.get(found.unit)
        if found is None or revocation is None:
            return ""
        revocation.pending.discard(uid)
        return self._completed(revocation, found.unit)

    def due(self, now_s: float) -> Iterator[RemoveStamp]:
        if not self._has_queues:
            return
        yield from self._end_promises()
        for uid in self._retries.due(now_s):
            effect = self._open[uid].effect
            if effect is not None:
                yield effect

    def next_deadline_s(self) -> float | None:
        if not self._has_queues:
            return None
        if self._queues.has_promises_to_end or any(map(self._gate_removals.is_settled, self._unsent)):
            return -math.inf
        return self._retries.next_deadline_s()
