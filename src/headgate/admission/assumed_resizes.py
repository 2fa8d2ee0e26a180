"""The resizes that admission allowed and that the statuses of the queues may not show yet.

A status is written seconds after the pods that it counts, so an allowed resize counts here at once: until the usage of
the queue has risen by its amount, and for ``LIFETIME_S`` at most, because the write may fail after admission. Pure: the
time is an argument. The cost of a request does not depend on the number of resizes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

LIFETIME_S: Final = 5.0
"""More than the two seconds between two statuses of a queue, and the time until the status arrives."""

_Key = tuple[str, str]
"""A queue and a resource."""


class Growth(msgspec.Struct, frozen=True):
    """What one pod requests of one resource, before and after the resize."""

    before: int
    after: int


class AllowedResize(msgspec.Struct, frozen=True):
    """``growths``: by resource. ``shown``: the usage by queue and resource that the statuses showed."""

    uid: str
    growths: Mapping[str, Growth]
    shown: Mapping[str, Mapping[str, int]]


class _Assumed(msgspec.Struct, frozen=True):
    after: int
    amount: int
    """The part that the status does not show yet."""
    until_s: float


class _Ledger:
    """The resizes of one queue and resource, the oldest first."""

    def __init__(self, shown: int) -> None:
        self.shown = shown
        self.total = 0
        self.by_uid: Final[dict[str, _Assumed]] = {}

    def carried(self, uid: str, growth: Growth) -> int:
        """The amount of the pod's earlier resize, if that was written; otherwise it is replaced."""
        found = self.by_uid.get(uid)
        return found.amount if found is not None and found.after == growth.before else 0

    def amount_of(self, uid: str) -> int:
        found = self.by_uid.get(uid)
        return 0 if found is None else found.amount

    def put(self, uid: str, assumed: _Assumed) -> None:
        self.remove(uid)
        self.by_uid[uid] = assumed
        self.total += assumed.amount

    def remove(self, uid: str) -> None:
        found = self.by_uid.pop(uid, None)
        if found is not None:
            self.total -= found.amount

    def observe(self, shown: int) -> None:
        """A status that rose shows the oldest resizes."""
        risen, self.shown = shown - self.shown, shown
        while risen > 0 and self.by_uid:
            uid, oldest = next(iter(self.by_uid.items()))
            part = min(risen, oldest.amount)
            risen -= part
            self.total -= part
            if part < oldest.amount:
                self.by_uid[uid] = msgspec.structs.replace(oldest, amount=oldest.amount - part)
            else:
                del self.by_uid[uid]

    def expire(self, now_s: float) -> None:
        while self.by_uid:
            uid, oldest = next(iter(self.by_uid.items()))
            if oldest.until_s > now_s:
                return
            self.remove(uid)


class AssumedResizes:
    """Part of the admission cache."""

    def __init__(self) -> None:
        self._ledgers: Final[dict[_Key, _Ledger]] = {}
        self._ends: Final[deque[tuple[float, _Key]]] = deque()

    def __len__(self) -> int:
        return len(self._ledgers)

    def used(self, queue: str, resource: str, shown: int, uid: str, growth: Growth, now_s: float) -> int:
        """The usage of the queue without the requested growth of the pod ``uid``; ``shown`` is that of its status."""
        self._expire(now_s)
        ledger = self._ledgers.get((queue, resource))
        if ledger is None:
            return shown
        ledger.observe(shown)
        return shown + ledger.total - ledger.amount_of(uid) + ledger.carried(uid, growth)

    def assume(self, resize: AllowedResize, now_s: float) -> None:
        """Counts a resize that was allowed."""
        self._expire(now_s)
        until_s = now_s + LIFETIME_S
        for queue, usage in resize.shown.items():
            for resource, growth in resize.growths.items():
                key, shown = (queue, resource), usage.get(resource, 0)
                ledger = self._ledgers.setdefault(key, _Ledger(shown))
                ledger.observe(shown)
                amount = ledger.carried(resize.uid, growth) + growth.after - growth.before
                ledger.put(resize.uid, _Assumed(growth.after, amount, until_s))
                self._ends.append((until_s, key))

    def _expire(self, now_s: float) -> None:
        while self._ends and self._ends[0][0] <= now_s:
            _, key = self._ends.popleft()
            ledger = self._ledgers.get(key)
            if ledger is not None:
                ledger.expire(now_s)
                if not ledger.by_uid:
                    del self._ledgers[key]
