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

_log: Final = logging.getLogger(__name__)
_FIRST_RETRY_S: Final = 0.1
_LONGEST_RETRY_S: Final = 60.0

Subject = tuple[str, ...]


class _Failed(msgspec.Struct):
    """An event that is to be delivered again. Mutable: a newer event of the same object takes its place."""

    event: InformerEvent
    backoff: Backoff
    timer: asyncio.Handle | None = (
        None  # uvloop answers a short delay with a Handle that has no time: only cancel() is used
    )


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
        self._failed: dict[Subject, _Failed] = {}
        self._postponed: dict[Subject, InformerEvent] = {}

    def __len__(self) -> int:
        """How many events wait to be delivered again."""
        return len(self._failed)

    def deliver(self, event: InformerEvent) -> None:
        """Never raises an ``Exception``. An older event of the same object that failed is not delivered any more."""
        subject = _subject(event)
        self._postponed.pop(subject, None)
        try:
            self._handle(event)
        except Exception as error:
            self._set_aside(subject, event, error)
        else:
            if subject not in self._postponed:
                self._forget(subject)
            else:
                self._stop_timer(subject)

    def postpone(self, event: InformerEvent) -> None:
        """The handler returns, or has returned, and is not done with the event."""
        self._postponed[_subject(event)] = event

    def finish(self, event: InformerEvent, error: Exception | None) -> None:
        """The handler is done with a postponed event. If it failed, the event is delivered again, unless a newer one of
        the same object was delivered since."""
        subject = _subject(event)
        if self._postponed.get(subject) is event:
            del self._postponed[subject]
            if error is None:
                self._forget(subject)
            else:
                self._set_aside(subject, event, error)

    def close(self) -> None:
        """Nothing is delivered again from now on."""
        self._postponed.clear()
        for subject in list(self._failed):
            self._forget(subject)

    def _set_aside(self, subject: Subject, event: InformerEvent, error: Exception) -> None:
        failed = self._failed.get(subject)
        is_new = failed is None
        if failed is None:
            failed = self._failed[subject] = _Failed(event, Backoff(self._first_retry_s, _LONGEST_RETRY_S))
        elif failed.timer is not None:
            failed.timer.cancel()
        failed.event = event
        wait_s = failed.backoff.next(self._jitter())
        failed.timer = asyncio.get_running_loop().call_later(wait_s, self._deliver_again, subject)
        _log.error(
            "%s: %s %s could not be taken in and is tried again in %.1f s: %s: %s",
            self._name,
            self._kind,
            _place(event),
            wait_s,
            type(error).__name__,
            error,
            exc_info=error if is_new else None,
        )

    def _deliver_again(self, subject: Subject) -> None:
        failed = self._failed.get(subject)
        if failed is not None:
            failed.timer = None
            self.deliver(failed.event)

    def _forget(self, subject: Subject) -> None:
        self._stop_timer(subject)
        self._failed.pop(subject, None)

    def _stop_timer(self, subject: Subject) -> None:
        failed = self._failed.get(subject)
        if failed is not None and failed.timer is not None:
            failed.timer.cancel()
            failed.timer = None


def _subject(event: InformerEvent) -> Subject:
    """An object is known by its uid: a successor of the same name is another object."""
    match event:
        case ObjectApplied(wire):
            metadata = wire.get("metadata") or {}
            return _text(metadata, "namespace"), _text(metadata, "name"), _text(metadata, "uid")
        case ObjectDeleted(namespace, name, uid):
            return namespace, name, uid
        case _:
            return ()


def _place(event: InformerEvent) -> str:
    subject = _subject(event)
    if not subject:
        return "list"
    namespace, name, _ = subject
    return f"{namespace}/{name}" if namespace else name


def _text(metadata: dict[str, object], field: str) -> str:
    value = metadata.get(field)
    return value if isinstance(value, str) else ""
