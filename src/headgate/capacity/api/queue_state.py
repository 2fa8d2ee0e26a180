"""The state of a queue (Open, Closing, Closed), computed from the requested state and the queue's content.

A queue is closed by its annotation (``headgate.dev/state: Closed``; ``Open`` opens it), or by a client that writes
``status.state``, as Volcano's controller does; the annotation takes precedence. It is Closing while it has pods or
groups and Closed when it is empty. Queues below a closed queue are closed and opened with it, unless they were closed
themselves: a condition records which. The root is always open. ``capacity/cache/queue_tree.py`` grants nothing from a
queue that is not open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.names import ROOT, STATE
from headgate.kube.conditions import Condition, find

OPEN: Final = "Open"
CLOSED: Final = "Closed"
CLOSING: Final = "Closing"
CONDITION: Final = "Open"
"""The type of the condition that says why a queue is not open."""
ANCESTOR_CLOSED: Final = "AncestorClosed"
CLOSED_BY_USER: Final = "Closed"


class DesiredQueueState(msgspec.Struct, frozen=True):
    """The state that users request for one queue by itself."""

    is_open: bool = True
    parent: str = ROOT


def read_desired_state(name: str, wire: Mapping[str, Any]) -> DesiredQueueState:
    """From the JSON value of the queue."""
    metadata, spec, status = (
        part if isinstance(part := wire.get(each), Mapping) else {} for each in ("metadata", "spec", "status")
    )
    parent = spec.get("parent")
    parent = parent if isinstance(parent, str) and parent else ROOT
    annotations = metadata.get("annotations")
    asked = annotations.get(STATE) if isinstance(annotations, Mapping) else None
    if name == ROOT or asked == OPEN:
        return DesiredQueueState(parent="" if name == ROOT else parent)
    if asked == CLOSED:
        return DesiredQueueState(is_open=False, parent=parent)
    shut = status.get("state") in (CLOSED, CLOSING)
    return DesiredQueueState(is_open=not (shut and not _was_shut_from_above(status)), parent=parent)


def closed_by(name: str, wish_of: Callable[[str], DesiredQueueState | None]) -> str:
    """The queue that keeps this one closed: itself, or the nearest above it; empty if it is open."""
    seen: set[str] = set()
    at = name
    while at and at not in seen:
        wish = wish_of(at)
        if wish is None:
            return ""
        if not wish.is_open:
            return at
        seen.add(at)
        at = wish.parent
    return ""


def state_of(closer: str, tenants: int) -> str:
    """``tenants``: PodGroups and pods of their own, here and below."""
    if not closer:
        return OPEN
    return CLOSING if tenants else CLOSED


def condition_of(name: str, closer: str) -> Condition | None:
    """Why it is not open; None if it is."""
    if not closer:
        return None
    if closer == name:
        return {"type": CONDITION, "status": "False", "reason": CLOSED_BY_USER, "message": "it was closed"}
    said = f"the queue {closer} above it was closed"
    return {"type": CONDITION, "status": "False", "reason": ANCESTOR_CLOSED, "message": said}


def _was_shut_from_above(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions")
    if not isinstance(conditions, list) or not all(isinstance(each, dict) for each in conditions):
        return False
    found = find(conditions, CONDITION)
    return found is not None and found.get("reason") == ANCESTOR_CLOSED
