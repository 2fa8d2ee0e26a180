"""Fields of a job by path: reads, changed copies, and the merge patch between two versions of a job.

A step of a path is the name of a field, or the index of an item of a list. A merge patch (RFC 7386) cannot change one
item of a list, so it contains the whole list. The writes of jobs name the resourceVersion of the object, so no change
of another client is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]
Path = tuple[str, ...]
JobPath = tuple[str | int, ...]
"""A path with indexes of lists, in one job."""


def value_at(obj: Any, path: Sequence[str | int]) -> Any:
    """The value at a path; None if there is none."""
    found = obj
    for step in path:
        if isinstance(step, int):
            found = found[step] if isinstance(found, list) and step < len(found) else None
        else:
            found = found.get(step) if isinstance(found, dict) else None
    return found


def with_value(obj: Any, path: Sequence[str | int], value: Any) -> Any:
    """A copy along the path, with another value at its end. Missing maps are created."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(obj)
        items[step] = with_value(items[step], rest, value)
        return items
    known = obj or {}
    return {**known, step: with_value(known.get(step), rest, value)}


def without_value(obj: Any, path: Sequence[str | int]) -> Any:
    """A copy along the path, without the field at its end."""
    *parents, last = path
    parent = value_at(obj, parents)
    if not isinstance(parent, dict) or last not in parent:
        return obj
    return with_value(obj, parents, {key: value for key, value in parent.items() if key != last})


def patch_at(path: Path, value: Any) -> Object:
    """A merge patch that sets the field at this path."""
    for name in reversed(path):
        value = {name: value}
    found: Object = value
    return found


def merge_patches(one: Object, other: Object) -> Object:
    """Two merge patches as one."""
    merged = dict(one)
    for key, value in other.items():
        known = merged.get(key)
        merged[key] = merge_patches(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return merged


def merge_patch_between(before: Object, after: Object) -> Object:
    """The merge patch that turns one version of an object into the other."""
    patch: Object = dict.fromkeys(key for key in before if key not in after)
    for key, value in after.items():
        known = before.get(key)
        if key in before and (known is value or known == value):
            continue
        if isinstance(known, dict) and isinstance(value, dict):
            value = merge_patch_between(known, value)
        patch[key] = value
    return patch


def path_text(path: Sequence[str | int]) -> str:
    """The path as error messages show it: ``spec.tasks[0].template``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
