"""Where a workload stores its replica counts: built-in kinds at fixed paths, custom kinds at the paths of their
CustomResourceDefinition.

``apiserver/subresources/scale.py`` builds a Scale from them, and writes its number back.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apiserver.custom.strategy import nested
from headgate.apiserver.kinds.scheme import ScalePaths
from headgate.kube import labels

Object = dict[str, Any]


class ReplicaCounts(msgspec.Struct, frozen=True):
    """``desired`` is None if the object has none; ``problem``: a field has the wrong type."""

    desired: int | None
    present: int
    selector: str | None
    problem: str = ""


def read_counts(workload: Object, paths: ScalePaths | None) -> ReplicaCounts:
    return _read_builtin(workload) if paths is None else _read_custom(workload, paths)


def _read_builtin(workload: Object) -> ReplicaCounts:
    spec = workload.get("spec") or {}
    selector, text = spec.get("selector"), None
    if selector is not None:
        is_label_map = workload.get("kind") == "ReplicationController"  # other kinds have a LabelSelector
        text = str(labels.from_set(selector) if is_label_map else labels.from_label_selector(selector))
    return ReplicaCounts(spec.get("replicas", 0), (workload.get("status") or {}).get("replicas", 0), text)


def _read_custom(workload: Object, paths: ScalePaths) -> ReplicaCounts:
    desired, problem = nested(workload, paths.spec, int)
    present, status_problem = nested(workload, paths.status, int)
    selector, selector_problem = nested(workload, paths.selector, str) if paths.selector else (None, "")
    return ReplicaCounts(desired, present or 0, selector or None, problem or status_problem or selector_problem)


def with_replicas(workload: Object, paths: ScalePaths | None, replicas: int) -> Object:
    """``workload`` with another number of replicas. The argument is not changed."""
    return _put(workload, ("spec", "replicas") if paths is None else paths.spec, replicas)


def _put(value: Object, path: tuple[str, ...], replicas: int) -> Object:
    name, *rest = path
    child = value.get(name)
    inner = _put(child if isinstance(child, dict) else {}, tuple(rest), replicas) if rest else replicas
    return {**value, name: inner}
