"""The resizes that admission allowed and that the statuses of the queues may not include yet.

A queue's status is written seconds after the pods that it counts have changed. So an allowed resize counts here until
the usage in the status has risen by its amount, and for ``LIFETIME_S`` at most, because the write of the resize may
fail after admission. Pure: the time is an argument. The cost of a request does not depend on the number of resizes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

LIFETIME_S: Final = 5.0
"""Longer than the two seconds between two writes of a queue's status plus the time until the new status arrives."""

_Key = tuple[str, str]
"""A queue and a resource."""


class Growth(msgspec.Struct, frozen=True):
    """What one pod requests of one resource, before and after the resize."""

    before: int
    after: int


class AllowedResize(msgspec.Struct, frozen=True):
    """``growths``: by resource. ``shown``: the usage in the statuses of the queues when the resize was allowed, by
    queue and resource."""

    uid: str
    growths: Mapping[str, Growth]
    shown: Mapping[str, Mapping[str, int]]


class _Assumed(msgspec.Struct, frozen=True):
    """The resize of one pod, for one queue and resource."""

    after: int
    amount: int
    """The part that is not yet included in the usage of the status."""
    until_s: float


class _QueueResizes:
    """The resizes of one queue and resource, the oldest first."""

    def __init__(self, shown: int) -> None:
        self.shown = shown
        self.total = 0
        self.by_uid: Final[dict[str, _Assumed]] = {}

    def earlier_amount(self, uid: str, growth: Growth) -> int:
        """The amount of the pod's earlier resize, if that resize was written: then this resize starts from its result.
        Otherwise zero, because this resize replaces the earlier one."""
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
        """The status shows this usage: an increase is attributed to the oldest resizes."""
        increase, self.shown = shown - self.shown, shown
        while increase > 0 and self.by_uid:
            uid, oldest = next(iter(self.by_uid.items()))
            part = min(increase, oldest.amount)
            increase -= part
            self.total -= part
            if part < oldest.amount:
                self.by_uid[uid] = msgspec.structs.replace(oldest, amount=oldest.amount - part)
            else:
                del self.by_uid[uid]

    def expire(self, now_s: float) -> None:
        """Removes the resizes whose time has passed; the oldest is first."""
        while self.by_uid:
            uid, oldest = next(iter(self.by_uid.items()))
            if oldest.until_s > now_s:
                return
            self.remove(uid)


class AssumedResizes:
    """Part of the admission cache."""

    def __init__(self) -> None:
        self._by_key: Final[dict[_Key, _QueueResizes]] = {}
        self._expirations: Final[deque[tuple[float, _Key]]] = deque()

    def __len__(self) -> int:
        return len(self._by_key)

    def used(self, queue: str, resource: str, shown: int, uid: str, growth: Growth, now_s: float) -> int:
        """The usage of the queue before the requested growth of the pod ``uid``. ``shown``: the usage in its status."""
        self._expire(now_s)
        resizes = self._by_key.get((queue, resource))
        if resizes is None:
            return shown
        resizes.observe(shown)
        return shown + resizes.total - resizes.amount_of(uid) + resizes.earlier_amount(uid, growth)

    def assume(self, resize: AllowedResize, now_s: float) -> None:
        """Counts a resize that was allowed."""
        self._expire(now_s)
        until_s = now_s + LIFETIME_S
        for queue, usage in resize.shown.items():
            for resource, growth in resize.growths.items():
                key, shown = (queue, resource), usage.get(resource, 0)
                resizes = self._by_key.setdefault(key, _QueueResizes(shown))
                resizes.observe(shown)
                amount = resizes.earlier_amount(resize.uid, growth) + growth.after - growth.before
                resizes.put(resize.uid, _Assumed(growth.after, amount, until_s))
                self._expirations.append((until_s, key))

    def _expire(self, now_s: float) -> None:
        while self._expirations and self._expirations[0][0] <= now_s:
            _, key = self._expirations.popleft()
            resizes = self._by_key.get(key)
            if resizes is not None:
                resizes.expire(now_s)
                if not resizes.by_uid:
                    del self._by_key[key]
