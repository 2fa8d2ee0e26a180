"""Events that wait to be written. Equal Events are one entry with a count. The number of entries is limited. Pure.

An object that emits too many Events is rate-limited after a burst, as in every Kubernetes component. When the backlog
is full, the oldest entry is dropped.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

from headgate.client.event_correlator import RecordableEvent, key_of

_BURST: Final = 25.0
_REFILL_PER_S: Final = 1 / 300
_MAX_OBJECTS: Final = 4096


H = TypeVar("H", bound=RecordableEvent)


class PendingEvent(msgspec.Struct, Generic[H]):
    """An Event to write, when it was added, and how often it occurred since. Mutable: it counts."""

    event: H
    since_s: float = 0.0
    count: int = 1


class EventBacklog(Generic[H]):
    def __init__(self, max_events: int = 4096) -> None:
        self._max_events = max_events
        self._pending: dict[bytes, PendingEvent[H]] = {}
        self._tokens: dict[str, tuple[float, float]] = {}  # by object: tokens, and the time of the last refill
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, event: H, now_s: float) -> None:
        key = key_of(event)
        pending = self._pending.get(key)
        if pending is not None:
            pending.count += 1
        elif self._take_token(event, now_s):
            self._pending[key] = PendingEvent(event, now_s)
            if len(self._pending) > self._max_events:
                del self._pending[next(iter(self._pending))]
                self.dropped += 1
        else:
            self.dropped += 1

    def take(self) -> PendingEvent[H] | None:
        """The oldest entry."""
        return self._pending.pop(next(iter(self._pending))) if self._pending else None

    def _take_token(self, event: H, now_s: float) -> bool:
        about = event.about
        key = about.get("uid") or f"{about.get('kind')}/{about.get('namespace')}/{about.get('name')}"
        tokens, since_s = self._tokens.pop(key, (_BURST, now_s))
        tokens = min(_BURST, tokens + max(0.0, now_s - since_s) * _REFILL_PER_S)
        self._tokens[key] = (tokens - 1 if tokens >= 1 else tokens, now_s)
        if len(self._tokens) > _MAX_OBJECTS:
            del self._tokens[next(iter(self._tokens))]
        return tokens >= 1
