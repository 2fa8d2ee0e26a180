"""The state of a queue (Open, Closing, Closed), computed from the requested state and the queue's content.

A queue is closed by its annotation (``headgate.dev/state: Closed``; ``Open`` opens it), or by a client that writes
``status.state``, as Volcano's controller does; the annotation takes precedence. It is Closing while it has pods or
groups and Closed when it is empty. Queues below a closed queue are closed and opened with it, unless they were closed
themselves; a condition records by which queue they were closed. The root is always open. A queue that is not open
grants nothing (``TreeQueue.may_grant`` in ``capacity/cache/queue_tree.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.names import ROOT, STATE
from headgate.kube.conditions import Condition, find
from headgate.kube.lenient_reader import find_object, find_text

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


def read_desired_state(name: str, obj: Mapping[str, Any]) -> DesiredQueueState:
    """Read the requested state from the queue as decoded JSON."""
    status, parent = find_object(obj, "status"), find_text(obj, "spec", "parent") or ROOT
    requested = find_object(obj, "metadata", "annotations").get(STATE)
    if name == ROOT or requested == OPEN:
        return DesiredQueueState(parent="" if name == ROOT else parent)
    if requested == CLOSED:
        return DesiredQueueState(is_open=False, parent=parent)
    is_closed = status.get("state") in (CLOSED, CLOSING)
    return DesiredQueueState(is_open=not (is_closed and not _was_closed_by_ancestor(status)), parent=parent)


def closed_by(name: str, desired_of: Callable[[str], DesiredQueueState | None]) -> str:
    """The queue that keeps this one closed: itself, or its nearest closed ancestor; empty if it is open."""
    seen: set[str] = set()
    current = name
    while current and current not in seen:
        desired = desired_of(current)
        if desired is None:
            return ""
        if not desired.is_open:
            return current
        seen.add(current)
        current = desired.parent
    return ""


def state_of(closing_queue: str, job_count: int) -> str:
    """The state of a queue. ``closing_queue``: the result of :func:`closed_by`. ``job_count``: the number of PodGroups
    and pods without a group, in this queue and below it."""
    if not closing_queue:
        return OPEN
    return CLOSING if job_count else CLOSED


def condition_of(name: str, closing_queue: str) -> Condition | None:
    """The condition that says why the queue is not open; None if it is open."""
    if not closing_queue:
        return None
    if closing_queue == name:
        return {"type": CONDITION, "status": "False", "reason": CLOSED_BY_USER, "message": "it was closed"}
    message = f"the queue {closing_queue} above it was closed"
    return {"type": CONDITION, "status": "False", "reason": ANCESTOR_CLOSED, "message": message}


def _was_closed_by_ancestor(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions")
    if not isinstance(conditions, list) or not all(isinstance(each, dict) for each in conditions):
        return False
    found = find(conditions, CONDITION)
    return found is not None and found.get("reason") == ANCESTOR_CLOSED
