"""Which Event stands for which happening, and what is written about it: once, then counted.

Kept for a while only; an Event that was removed meanwhile is written anew. Pure bookkeeping and bodies;
``client/events/shell.py`` sends them for the scheduler, ``control/shell.py`` for the controllers.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from headgate.kube.timestamps import format_time

Object = dict[str, Any]

_MOST: Final = 4096
_DEFAULT_NAMESPACE: Final = "default"


class Happening(Protocol):
    """What is told, about which object, by whom."""

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


class Told(msgspec.Struct):
    """An Event that was written. Mutable: it counts."""

    namespace: str
    name: str
    count: int


class Recorder:
    def __init__(self) -> None:
        self._told: Final[dict[bytes, Told]] = {}

    def before(self, emit: Happening) -> Told | None:
        return self._told.get(key_of(emit))

    def wrote(self, emit: Happening, event: Object) -> None:
        key = key_of(emit)
        self._told.pop(key, None)
        metadata = event["metadata"]
        self._told[key] = Told(metadata["namespace"], metadata["name"], event["count"])
        if len(self._told) > _MOST:
            del self._told[next(iter(self._told))]

    def forget(self, emit: Happening) -> None:
        self._told.pop(key_of(emit), None)


def event(emit: Happening, now_s: float, count: int = 1, name: str = "") -> Object:
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


def repetition(told: Told, emit: Happening, now_s: float, count: int = 1) -> Object:
    return {"count": told.count + count, "lastTimestamp": format_time(now_s), "message": emit.message}


def key_of(emit: Happening) -> bytes:
    told = (emit.about, emit.reason, emit.message, emit.type, emit.component)
    return msgspec.json.encode(told, order="sorted")
