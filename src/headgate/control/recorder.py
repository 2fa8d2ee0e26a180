"""Events that controllers tell people: written once, counted when they come again.

Which Event stands for which happening is kept for a while only; an Event that was removed meanwhile is written anew.
Pure bookkeeping and bodies; ``control/shell.py`` sends them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.kube.timestamps import format_time
from headgate.owners.effects import Emit

Object = dict[str, Any]

_MOST: Final = 4096
_DEFAULT_NAMESPACE: Final = "default"


class Told(msgspec.Struct):
    """An Event that was written. Mutable: it counts."""

    namespace: str
    name: str
    count: int


class Recorder:
    def __init__(self) -> None:
        self._told: Final[dict[bytes, Told]] = {}

    def before(self, emit: Emit) -> Told | None:
        return self._told.get(_key(emit))

    def wrote(self, emit: Emit, event: Object) -> None:
        key = _key(emit)
        self._told.pop(key, None)
        metadata = event["metadata"]
        self._told[key] = Told(metadata["namespace"], metadata["name"], event["count"])
        if len(self._told) > _MOST:
            del self._told[next(iter(self._told))]

    def forget(self, emit: Emit) -> None:
        self._told.pop(_key(emit), None)


def event(emit: Emit, now_s: float) -> Object:
    """A new Event; its name is the object's, with the time in it."""
    now = format_time(now_s)
    namespace = emit.about.get("namespace") or _DEFAULT_NAMESPACE
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{emit.about['name']}.{int(now_s * 1e9):x}", "namespace": namespace},
        "involvedObject": emit.about,
        "reason": emit.reason,
        "message": emit.message,
        "type": emit.type,
        "source": {"component": emit.component},
        "reportingComponent": emit.component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def repetition(told: Told, emit: Emit, now_s: float) -> Object:
    return {"count": told.count + 1, "lastTimestamp": format_time(now_s), "message": emit.message}


def _key(emit: Emit) -> bytes:
    return msgspec.json.encode(emit, order="sorted")
