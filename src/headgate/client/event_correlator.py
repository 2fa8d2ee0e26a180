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

_MAX_ENTRIES: Final = 4096
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
        self._recorded: Final[dict[bytes, RecordedEvent]] = {}

    def find(self, event: RecordableEvent) -> RecordedEvent | None:
        return self._recorded.get(key_of(event))

    def record(self, event: RecordableEvent, written: Object) -> None:
        key = key_of(event)
        self._recorded.pop(key, None)
        metadata = written["metadata"]
        self._recorded[key] = RecordedEvent(metadata["namespace"], metadata["name"], written["count"])
        if len(self._recorded) > _MAX_ENTRIES:
            del self._recorded[next(iter(self._recorded))]

    def forget(self, event: RecordableEvent) -> None:
        self._recorded.pop(key_of(event), None)


def new_event(event: RecordableEvent, now_s: float, count: int = 1, name: str = "") -> Object:
    """A new Event. Without ``name``, its name is made of the object's name and the time."""
    now = format_time(now_s)
    namespace = event.about.get("namespace") or _DEFAULT_NAMESPACE
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name or f"{event.about['name']}.{int(now_s * 1e9):x}", "namespace": namespace},
        "involvedObject": event.about,
        "reason": event.reason,
        "message": event.message,
        "type": event.type,
        "source": {"component": event.component},
        "reportingComponent": event.component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": count,
    }


def count_patch(recorded: RecordedEvent, event: RecordableEvent, now_s: float, count: int = 1) -> Object:
    return {"count": recorded.count + count, "lastTimestamp": format_time(now_s), "message": event.message}


def key_of(event: RecordableEvent) -> bytes:
    """Equal for repetitions, also if the object has changed since. client-go leaves the revision out, too."""
    about = {field: value for field, value in event.about.items() if field != "resourceVersion"}
    content = (about, event.reason, event.message, event.type, event.component)
    return msgspec.json.encode(content, order="sorted")
