"""Correlates occurrences with Events: the first one creates an Event, repetitions increase its count.

Entries are kept for a limited time; an Event that was deleted meanwhile is created again. Pure;
``client/io/event_recorder.py`` writes the Events of the scheduler, ``runtime/controller_manager.py`` those of the
controllers.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from headgate.kube.timestamps import format_time

Object = dict[str, Any]

_MOST: Final = 4096
_DEFAULT_NAMESPACE: Final = "default"


class RecordableEvent(Protocol):
    """The content of an Event, its object, and its reporting component."""

    @property
    def about(self) -> Object: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def component(self) -> str: ...


class RecordedEvent(msgspec.Struct):
    """An Event that was written. Mutable: it counts."""

    namespace: str
    name: str
    count: int


class EventCorrelator:
    def __init__(self) -> None:
        self._told: Final[dict[bytes, RecordedEvent]] = {}

    def find(self, emit: RecordableEvent) -> RecordedEvent | None:
        return self._told.get(key_of(emit))

    def record(self, emit: RecordableEvent, event: Object) -> None:
        key = key_of(emit)
        self._told.pop(key, None)
        metadata = event["metadata"]
        self._told[key] = RecordedEvent(metadata["namespace"], metadata["name"], event["count"])
        if len(self._told) > _MOST:
            del self._told[next(iter(self._told))]

    def forget(self, emit: RecordableEvent) -> None:
        self._told.pop(key_of(emit), None)


def new_event(emit: RecordableEvent, now_s: float, count: int = 1, name: str = "") -> Object:
    """A new Event; unless it is given a name of its own, that is the object's, with the time in it."""
    now = format_time(now_s)
    namespace = emit.about.get("namespace") or _DEFAULT_NAMESPACE
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name or f"{emit.about['name']}.{int(now_s * 1e9):x}", "namespace": namespace},
        "involvedObject": emit.about,
        "reason": emit.reason,
        "message": emit.message,
        "type": emit.type,
        "source": {"component": emit.component},
        "reportingComponent": emit.component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": count,
    }


def count_patch(told: RecordedEvent, emit: RecordableEvent, now_s: float, count: int = 1) -> Object:
    return {"count": told.count + count, "lastTimestamp": format_time(now_s), "message": emit.message}


def key_of(emit: RecordableEvent) -> bytes:
    told = (emit.about, emit.reason, emit.message, emit.type, emit.component)
    return msgspec.json.encode(told, order="sorted")
