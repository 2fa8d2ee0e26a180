"""Where a workload counts its replicas: built-in kinds all in the same place, custom kinds where they say.

``subresources/scale.py`` makes a Scale of what is read here, and puts its number back.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apiserver.custom.strategy import nested
from headgate.apiserver.kinds.form import ScalePaths
from headgate.kube import labels

Object = dict[str, Any]


class Counts(msgspec.Struct, frozen=True):
    """``wanted`` is None where the object does not say; ``problem``: something else stands in a place."""

    wanted: int | None
    present: int
    selector: str | None
    problem: str = ""


def read(workload: Object, paths: ScalePaths | None) -> Counts:
    return _read_builtin(workload) if paths is None else _read_custom(workload, paths)


def _read_builtin(workload: Object) -> Counts:
    spec = workload.get("spec") or {}
    selector, text = spec.get("selector"), None
    if selector is not None:
        plain = workload.get("kind") == "ReplicationController"
        text = str(labels.from_set(selector) if plain else labels.from_label_selector(selector))
    return Counts(spec.get("replicas", 0), (workload.get("status") or {}).get("replicas", 0), text)


def _read_custom(workload: Object, paths: ScalePaths) -> Counts:
    wanted, problem = nested(workload, paths.spec, int)
    present, other = nested(workload, paths.status, int)
    selector, third = nested(workload, paths.selector, str) if paths.selector else (None, "")
    return Counts(wanted, present or 0, selector or None, problem or other or third)


def put(workload: Object, paths: ScalePaths | None, replicas: int) -> Object:
    """``workload`` with another number of replicas. The caller's object is not changed."""
    return _put(workload, ("spec", "replicas") if paths is None else paths.spec, replicas)


def _put(value: Object, path: tuple[str, ...], replicas: int) -> Object:
    name, *rest = path
    below = value.get(name)
    inner = _put(below if isinstance(below, dict) else {}, tuple(rest), replicas) if rest else replicas
    return {**value, name: inner}
