"""Conversion between the version of a request and the stored version.

Most kinds have one version and are not changed. Two have more: events of ``events.k8s.io/v1`` are stored as core
events, which renames fields and is done here; autoscalers of ``autoscaling/v1`` are stored as ``v2``
(``autoscaler_conversion.py``). Neither function changes its argument; both expect an object that was decoded by its
schema and, for a write, defaulted in the version of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headgate.apiserver.kinds.autoscaler_conversion import v1_to_v2, v2_to_v1, without_v1_annotations
from headgate.apiserver.kinds.kind import ServedKind

Object = dict[str, Any]

# In the order of the fields of each version: (core name, events.k8s.io name).
_CORE_TO_EVENTS: Final = {
    "eventTime": "eventTime",
    "series": "series",
    "reportingComponent": "reportingController",
    "reportingInstance": "reportingInstance",
    "action": "action",
    "reason": "reason",
    "involvedObject": "regarding",
    "related": "related",
    "message": "note",
    "type": "type",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_ORDER: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "series",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
_EVENTS_TO_CORE: Final = {_CORE_TO_EVENTS[name]: name for name in _CORE_ORDER}


def to_stored(kind: ServedKind, obj: Object) -> Object:
    """``obj`` of ``kind`` in the stored version."""
    convert = _TO_STORED.get(kind.gvk)
    return obj if convert is None else convert(obj)


def from_stored(kind: ServedKind, stored: Object) -> Object:
    """A stored object in the version of ``kind``."""
    convert = _FROM_STORED.get(kind.gvk)
    return stored if convert is None else convert(stored)


def _event_to_core(event: Object) -> Object:
    return _renamed(event, "v1", _EVENTS_TO_CORE)


def _event_from_core(event: Object) -> Object:
    return _renamed(event, "events.k8s.io/v1", _CORE_TO_EVENTS)


def _renamed(obj: Object, api_version: str, names: Mapping[str, str]) -> Object:
    head = {name: obj[name] for name in ("kind", "apiVersion", "metadata") if name in obj}
    if "apiVersion" in head:
        head["apiVersion"] = api_version
    return head | {new: obj[old] for old, new in names.items() if old in obj}


_EVENT: Final = ("events.k8s.io", "v1", "Event")
_AUTOSCALER_V1: Final = ("autoscaling", "v1", "HorizontalPodAutoscaler")
_AUTOSCALER_V2: Final = ("autoscaling", "v2", "HorizontalPodAutoscaler")

_TO_STORED: Final[Mapping[tuple[str, str, str], Callable[[Object], Object]]] = {
    _EVENT: _event_to_core,
    _AUTOSCALER_V1: v1_to_v2,
    _AUTOSCALER_V2: without_v1_annotations,
}
_FROM_STORED: Final[Mapping[tuple[str, str, str], Callable[[Object], Object]]] = {
    _EVENT: _event_from_core,
    _AUTOSCALER_V1: v2_to_v1,
}
