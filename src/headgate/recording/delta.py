"""The difference between two states of an object, as a small value that msgpack can encode.

``make_delta(old, new)`` and ``apply_delta(old, delta)`` are inverse, exactly: ``True`` and ``1`` are different values,
and so are ``1`` and ``1.0``. A delta shares no structure with the states, and the new state shares the unchanged parts
of the old one. Lists are compared by position: the lists of Kubernetes objects (conditions, containers, gates) mostly
change at one place, grow at the end, or are short.
"""

from __future__ import annotations

from typing import Any

Delta = list[Any]
"""``[0, value]``; ``[1, {key: delta}, [removed keys]]``; ``[2, {position: delta}, length kept, [appended values]]``."""


class InvalidDelta(Exception):
    """The delta does not belong to this state: the recording is damaged."""


def make_delta(old: Any, new: Any) -> Delta | None:
    """None if both are the same."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _map_delta(old, new)
    if isinstance(old, list) and isinstance(new, list):
        return _list_delta(old, new)
    if type(old) is type(new) and old == new:
        return None
    return [0, new]


def _map_delta(old: dict[str, Any], new: dict[str, Any]) -> Delta | None:
    changed: dict[str, Delta] = {}
    for key, value in new.items():
        if key not in old:
            changed[key] = [0, value]
        elif (delta := make_delta(old[key], value)) is not None:
            changed[key] = delta
    removed = [key for key in old if key not in new]
    return [1, changed, removed] if changed or removed else None


def _list_delta(old: list[Any], new: list[Any]) -> Delta | None:
    kept = min(len(old), len(new))
    changed = {
        position: delta for position in range(kept) if (delta := make_delta(old[position], new[position])) is not None
    }
    appended = new[kept:]
    return [2, changed, kept, appended] if changed or appended or kept < len(old) else None


def apply_delta(old: Any, delta: Any) -> Any:
    """The new state. Raises ``InvalidDelta``."""
    match delta:
        case [0, value]:
            return value
        case [1, dict(changed), list(removed)] if isinstance(old, dict):
            found = {key: value for key, value in old.items() if key not in removed}
            for key, each in changed.items():
                found[key] = apply_delta(found.get(key), each)
            return found
        case [2, dict(changed), int(kept), list(appended)] if isinstance(old, list) and kept <= len(old):
            items = old[:kept]
            for position, each in changed.items():
                if not isinstance(position, int) or not 0 <= position < kept:
                    raise InvalidDelta("a list has no such position")
                items[position] = apply_delta(items[position], each)
            return items + appended
    raise InvalidDelta("a delta does not match the state before it")
