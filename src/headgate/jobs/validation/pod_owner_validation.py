"""Validation of Deployments, ReplicaSets and StatefulSets whose pods use Kueue's queues, with Kueue's messages.

They count as waiting while none of their pods is ready. The pods of a StatefulSet are one pod group with a fixed size
and equal requests, so a StatefulSet can only be scaled to zero and from zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headgate.jobs.framework.workload import queue_of
from headgate.jobs.kinds.job_fields import Object
from headgate.jobs.pods.pod_metadata import admission_spec
from headgate.jobs.validation.job_validation import (
    QUEUE_PATH,
    validate_elastic,
    validate_gated_by_annotations,
    validate_gated_by_annotations_update,
    validate_priority_update,
    validate_queue_name,
    validate_template_gated_by_annotations,
    validate_topology,
)
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, forbidden, invalid
from headgate.kube.lenient_reader import get_path
from headgate.kube.validation.values import IMMUTABLE, validate_immutable

STATEFUL_SET_PARENT: Final = "statefulset"
"""The value of the annotation SUSPENDING_PARENT of a StatefulSet's pods."""
_POD_PATH: Final = "spec.template.spec"
_TEMPLATE_PATH: Final = "spec.template.metadata"
_POD_TEMPLATE_PATH: Final = "spec.template"
_REPLICAS_PATH: Final = "spec.replicas"


def validate_new_owner(owner: Object, features: FeatureGates) -> FieldErrors:
    found = validate_queue_name(owner) + validate_elastic(owner) + validate_gated_by_annotations(owner, features)
    found += validate_template_gated_by_annotations(_pod_template(owner), _POD_TEMPLATE_PATH, features)
    return found + validate_topology(_template_metadata(owner), _TEMPLATE_PATH)


def validate_owner_update(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    is_waiting = not get_path(old, ("status", "readyReplicas"))
    found = validate_queue_name(new, old) + validate_elastic(new, old)
    if not is_waiting or not queue_of(new):
        found += validate_immutable(queue_of(new), queue_of(old), QUEUE_PATH)
    found += validate_priority_update(new, old, is_waiting=is_waiting)
    found += validate_gated_by_annotations_update(new, old, features)
    found += validate_template_gated_by_annotations(
        _pod_template(new), _POD_TEMPLATE_PATH, features, _pod_template(old)
    )
    return found + validate_topology(_template_metadata(new), _TEMPLATE_PATH, _template_metadata(old))


def validate_stateful_set_update(new: Object, old: Object) -> FieldErrors:
    """Validates an update of a StatefulSet whose pods wait as one group."""
    # only the fields that Kueue compares: containers, node selector, affinity, tolerations, …
    after, before = (admission_spec(get_path(each, ("spec", "template", "spec")) or {}) for each in (new, old))
    found = [invalid(path, value, IMMUTABLE) for path, value in _differences(after, before, _POD_PATH)]
    return found + scale_problems(_replicas(new), _replicas(old), get_path(new, ("status", "replicas")) or 0)


def scale_problems(desired: int, before: int, current: int) -> FieldErrors:
    """Why the replica count of such a StatefulSet, or of its Scale subresource, may not change so. ``current``: the
    number of its pods that still exist."""
    if desired and before:
        return validate_immutable(desired, before, _REPLICAS_PATH)
    if desired and not before and current:
        return [forbidden(_REPLICAS_PATH, "scaling down is still in progress")]
    return []


def _differences(new: Any, old: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The deepest paths at which two specs differ."""
    if isinstance(new, dict) and isinstance(old, dict) and path.count(".") < _MAX_DEPTH:
        for name in sorted(new.keys() | old.keys()):
            yield from _differences(new.get(name), old.get(name), f"{path}.{name}")
    elif _are_containers(new) and _are_containers(old) and len(new) == len(old):
        for number, (one, other) in enumerate(zip(new, old, strict=True)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif new != old:
        yield path, new


_MAX_DEPTH: Final = 5
"""The number of dots in ``spec.template.spec.containers[0].resources.limits``. A value at this depth is reported as a
whole."""


def _are_containers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) and "resources" in each for each in value)


def _replicas(owner: Object) -> int:
    found = get_path(owner, ("spec", "replicas"))
    return 1 if found is None else int(found)


def _pod_template(owner: Object) -> Object:
    return get_path(owner, ("spec", "template")) or {}


def _template_metadata(owner: Object) -> Object:
    return get_path(owner, ("spec", "template", "metadata")) or {}
