"""What Deployments, ReplicaSets and StatefulSets may say to Kueue's queues for the pods they make. Kueue's texts.

They count as waiting while none of their pods is ready. A StatefulSet's pods are one group, which has one size and one
shape: it may only be scaled to zero and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headgate.jobs.kind import Object, at
from headgate.jobs.pods.shape import spec_shape
from headgate.jobs.rules import (
    QUEUE_PATH,
    elastic_problems,
    gates_changes,
    gates_problems,
    priority_changes,
    queue_problems,
    template_gates_problems,
    topology_problems,
)
from headgate.jobs.workload import queue_of
from headgate.kube.errors import FieldErrors, forbidden, invalid
from headgate.kube.features import Features
from headgate.kube.validation.values import IMMUTABLE, immutable

STATEFUL_SET_WORD: Final = "statefulset"
_POD_PATH: Final = "spec.template.spec"
_TEMPLATE_PATH: Final = "spec.template.metadata"
_POD_TEMPLATE_PATH: Final = "spec.template"
_REPLICAS_PATH: Final = "spec.replicas"


def problems_of_new_owner(owner: Object, features: Features) -> FieldErrors:
    found = queue_problems(owner) + elastic_problems(owner) + gates_problems(owner, features)
    found += template_gates_problems(_pod_template(owner), _POD_TEMPLATE_PATH, features)
    return found + topology_problems(_template(owner), _TEMPLATE_PATH)


def problems_of_changed_owner(new: Object, old: Object, features: Features) -> FieldErrors:
    is_waiting = not at(old, ("status", "readyReplicas"))
    found = queue_problems(new, old) + elastic_problems(new, old)
    if not is_waiting or not queue_of(new):
        found += immutable(queue_of(new), queue_of(old), QUEUE_PATH)
    found += priority_changes(new, old, is_waiting=is_waiting)
    found += gates_changes(new, old, features)
    found += template_gates_problems(_pod_template(new), _POD_TEMPLATE_PATH, features, _pod_template(old))
    return found + topology_problems(_template(new), _TEMPLATE_PATH, _template(old))


def problems_of_changed_group(new: Object, old: Object) -> FieldErrors:
    """Of a StatefulSet that waits as one."""
    after, before = (spec_shape(at(each, ("spec", "template", "spec")) or {}) for each in (new, old))
    found = [invalid(path, value, IMMUTABLE) for path, value in _differences(after, before, _POD_PATH)]
    return found + problems_of_scale(_replicas(new), _replicas(old), at(new, ("status", "replicas")) or 0)


def problems_of_scale(wanted: int, had: int, standing: int) -> FieldErrors:
    """Of such a StatefulSet, or of its Scale. ``standing``: how many pods are left of it."""
    if wanted and had:
        return immutable(wanted, had, _REPLICAS_PATH)
    if wanted and not had and standing:
        return [forbidden(_REPLICAS_PATH, "scaling down is still in progress")]
    return []


def _differences(new: Any, old: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Where two shapes differ, as deep as they are alike."""
    if isinstance(new, dict) and isinstance(old, dict) and path.count(".") < _DEEPEST:
        for name in sorted(new.keys() | old.keys()):
            yield from _differences(new.get(name), old.get(name), f"{path}.{name}")
    elif _are_containers(new) and _are_containers(old) and len(new) == len(old):
        for number, (one, other) in enumerate(zip(new, old, strict=True)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif new != old:
        yield path, new


_DEEPEST: Final = 5
"""``spec.template.spec.containers[0].resources`` still has fields; amounts and affinities are told whole."""


def _are_containers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) and "resources" in each for each in value)


def _replicas(owner: Object) -> int:
    found = at(owner, ("spec", "replicas"))
    return 1 if found is None else int(found)


def _pod_template(owner: Object) -> Object:
    return at(owner, ("spec", "template")) or {}


def _template(owner: Object) -> Object:
    return at(owner, ("spec", "template", "metadata")) or {}
