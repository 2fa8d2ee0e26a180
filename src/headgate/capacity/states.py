"""Open, Closing, Closed: which state a queue is in, by what people asked for and what is still inside.

A queue is closed by its annotation (``headgate.dev/state: Closed``; ``Open`` opens it), or by whoever writes
``status.state``, as Volcano's controller does; the annotation counts for more. It is Closing while anything is left in
it and Closed when it is empty. Those below a closed queue are closed with it, and open again with it, unless they were
closed themselves: a condition remembers which it was. The root is always open. Who takes nothing from a queue that is
not open is the engine (``tree.py``).
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
BY_ANCESTOR: Final = "AncestorClosed"
ASKED: Final = "Closed"


class Wish(msgspec.Struct, frozen=True):
    """What people want of one queue by itself."""

    is_open: bool = True
    parent: str = ROOT


def read_wish(name: str, wire: Mapping[str, Any]) -> Wish:
    """From the JSON value of the queue."""
    metadata, spec, status = (
        part if isinstance(part := wire.get(each), Mapping) else {} for each in ("metadata", "spec", "status")
    )
    parent = spec.get("parent")
    parent = parent if isinstance(parent, str) and parent else ROOT
    annotations = metadata.get("annotations")
    asked = annotations.get(STATE) if isinstance(annotations, Mapping) else None
    if name == ROOT or asked == OPEN:
        return Wish(parent="" if name == ROOT else parent)
    if asked == CLOSED:
        return Wish(is_open=False, parent=parent)
    shut = status.get("state") in (CLOSED, CLOSING)
    return Wish(is_open=not (shut and not _was_shut_from_above(status)), parent=parent)


def closer_of(name: str, wish_of: Callable[[str], Wish | None]) -> str:
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
        return {"type": CONDITION, "status": "False", "reason": ASKED, "message": "it was closed"}
    said = f"the queue {closer} above it was closed"
    return {"type": CONDITION, "status": "False", "reason": BY_ANCESTOR, "message": said}


def _was_shut_from_above(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions")
    if not isinstance(conditions, list) or not all(isinstance(each, dict) for each in conditions):
        return False
    found = find(conditions, CONDITION)
    return found is not None and found.get("reason") == BY_ANCESTOR
