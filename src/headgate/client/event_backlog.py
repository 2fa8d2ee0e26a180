"""Events that wait to be written: one entry per occurrence, counted, bounded, and fair between objects. Pure.

An object that emits too many Events is rate-limited after a burst, as in every Kubernetes component. When the backlog
is full, the oldest entry is dropped: it is worth the least.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

from headgate.client.event_correlator import RecordableEvent, key_of

_BURST: Final = 25.0
_REFILL_PER_S: Final = 1 / 300
_OBJECTS: Final = 4096


H = TypeVar("H", bound=RecordableEvent)


class PendingEvent(msgspec.Struct, Generic[H]):
    """An Event to write, when it was added, and how often it occurred since. Mutable: it counts."""

    happening: H
    since_s: float = 0.0
    count: int = 1


class EventBacklog(Generic[H]):
    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._waiting: dict[bytes, PendingEvent[H]] = {}
        self._allowances: dict[str, tuple[float, float]] = {}  # per object: what is left, and as of when
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, happening: H, now_s: float) -> None:
        key = key_of(happening)
        known = self._waiting.get(key)
        if known is not None:
            known.count += 1
        elif self._allowed(happening, now_s):
            self._waiting[key] = PendingEvent(happening, now_s)
            if len(self._waiting) > self._most:
                del self._waiting[next(iter(self._waiting))]
                self.dropped += 1
        else:
            self.dropped += 1

    def take(self) -> PendingEvent[H] | None:
        """The one that waits longest."""
        return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None

    def _allowed(self, happening: H, now_s: float) -> bool:
        about = happening.about
        owner = about.get("uid") or f"{about.get('kind')}/{about.get('namespace')}/{about.get('name')}"
        left, since_s = self._allowances.pop(owner, (_BURST, now_s))
        left = min(_BURST, left + max(0.0, now_s - since_s) * _REFILL_PER_S)
        self._allowances[owner] = (left - 1 if left >= 1 else left, now_s)
        if len(self._allowances) > _OBJECTS:
            del self._allowances[next(iter(self._allowances))]
        return left >= 1
