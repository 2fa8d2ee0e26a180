"""Delivers watch events to a handler, and delivers again the events on which the handler failed.

A handler that raises affects only the object it raised on: the failure is logged with the handler's name, the object
and the error, and the newest event of that object is delivered again with back-off. Events of other objects are
delivered meanwhile. A handler that needs more than one turn of the event loop calls ``postpone``, and ``finish`` at its
end. ``client/io/informer.py`` provides the events.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

import msgspec

from headgate.client.backoff import Backoff
from headgate.client.known_objects import InformerEvent, ObjectApplied, ObjectDeleted
from headgate.kube.lenient_reader import find_text

_log: Final = logging.getLogger(__name__)
_FIRST_RETRY_S: Final = 0.1
_MAX_RETRY_S: Final = 60.0

ObjectKey = tuple[str, ...]


class _FailedEvent(msgspec.Struct):
    """An event to deliver again. Mutable: a newer event of the same object replaces it."""

    event: InformerEvent
    backoff: Backoff
    timer: asyncio.Handle | None = None  # not TimerHandle: uvloop returns a Handle without a time for a short delay


class Redelivery:
    """One handler. ``name`` is the handler's name in the log, ``kind`` the kind of the objects."""

    def __init__(
        self,
        name: str,
        kind: str,
        handle: Callable[[InformerEvent], None],
        *,
        jitter: Callable[[], float] = random.random,
        first_retry_s: float = _FIRST_RETRY_S,
    ) -> None:
        self._name = name
        self._kind = kind
        self._handle = handle
        self._jitter = jitter
        self._first_retry_s = first_retry_s
        self._failed: dict[ObjectKey, _FailedEvent] = {}
        self._postponed: dict[ObjectKey, InformerEvent] = {}

    def __len__(self) -> int:
        """The number of events to deliver again."""
        return len(self._failed)

    def deliver(self, event: InformerEvent) -> None:
        """Never raises an ``Exception``. It replaces an older failed event of the same object."""
        key = _key_of(event)
        self._postponed.pop(key, None)
        try:
            self._handle(event)
        except Exception as error:
            self._schedule_retry(key, event, error)
        else:
            if key not in self._postponed:
                self._forget(key)
            else:
                self._stop_timer(key)

    def postpone(self, event: InformerEvent) -> None:
        """The handler returns before it is done with the event."""
        self._postponed[_key_of(event)] = event

    def finish(self, event: InformerEvent, error: Exception | None) -> None:
        """The handler is done with a postponed event. If it failed, the event is delivered again, unless a newer one of
        the same object was delivered since."""
        key = _key_of(event)
        if self._postponed.get(key) is event:
            del self._postponed[key]
            if error is None:
                self._forget(key)
            else:
                self._schedule_retry(key, event, error)

    def close(self) -> None:
        """Cancels all retries."""
        self._postponed.clear()
        for key in list(self._failed):
            self._forget(key)

    def _schedule_retry(self, key: ObjectKey, event: InformerEvent, error: Exception) -> None:
        failed = self._failed.get(key)
        is_new = failed is None
        if failed is None:
            failed = self._failed[key] = _FailedEvent(event, Backoff(self._first_retry_s, _MAX_RETRY_S))
        elif failed.timer is not None:
            failed.timer.cancel()
        failed.event = event
        wait_s = failed.backoff.next(self._jitter())
        failed.timer = asyncio.get_running_loop().call_later(wait_s, self._deliver_again, key)
        _log.error(
            "%s: %s %s could not be processed and is tried again in %.1f s: %s: %s",
            self._name,
            self._kind,
            _describe(event),
            wait_s,
            type(error).__name__,
            error,
            exc_info=error if is_new else None,
        )

    def _deliver_again(self, key: ObjectKey) -> None:
        failed = self._failed.get(key)
        if failed is not None:
            failed.timer = None
            self.deliver(failed.event)

    def _forget(self, key: ObjectKey) -> None:
        self._stop_timer(key)
        self._failed.pop(key, None)

    def _stop_timer(self, key: ObjectKey) -> None:
        failed = self._failed.get(key)
        if failed is not None and failed.timer is not None:
            failed.timer.cancel()
            failed.timer = None


def _key_of(event: InformerEvent) -> ObjectKey:
    """The key has the uid: a later object of the same name is another object."""
    match event:
        case ObjectApplied(wire):
            metadata = wire.get("metadata") or {}
            return find_text(metadata, "namespace"), find_text(metadata, "name"), find_text(metadata, "uid")
        case ObjectDeleted(namespace, name, uid):
            return namespace, name, uid
        case _:
            return ()


def _describe(event: InformerEvent) -> str:
    key = _key_of(event)
    if not key:
        return "list"
    namespace, name, _ = key
    return f"{namespace}/{name}" if namespace else name
