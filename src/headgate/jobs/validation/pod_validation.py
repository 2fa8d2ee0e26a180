"""Validation of pods in Kueue's queues, on create and update, with Kueue's messages.

``jobs/validation/job_validation.py`` has the rules for all kinds; ``jobs/pods/pod_metadata.py`` reads the fields.
"""

from __future__ import annotations

from typing import Final

from headgate.jobs import names
from headgate.jobs.pods.pod_metadata import group_of, is_gated, is_unretriable, total_count
from headgate.jobs.validation.job_validation import (
    ANNOTATIONS,
    LABELS,
    annotation,
    label,
    prebuilt_path,
    prebuilt_workload,
    validate_name,
    validate_new,
    validate_topology,
    validate_update,
)
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, required
from headgate.kube.lenient_reader import Object
from headgate.kube.validation.values import validate_immutable

_MANAGED_PATH: Final = f"{LABELS}[{names.MANAGED}]"
_COUNT_PATH: Final = f"{ANNOTATIONS}[{names.TOTAL_COUNT}]"
_RETRIABLE_PATH: Final = f"{ANNOTATIONS}[{names.RETRIABLE_IN_GROUP}]"
_ENDED: Final = ("Succeeded", "Failed")


def validate_new_pod(pod: Object, features: FeatureGates) -> FieldErrors:
    return (
        validate_new(pod, features)
        + _problems_of_pod_fields(pod)
        + validate_topology(pod.get("metadata") or {}, "metadata")
    )


def validate_pod_update(new: Object, old: Object, features: FeatureGates, *, has_default: bool) -> FieldErrors:
    found = validate_update(
        new, old, features, was_waiting=_is_waiting(old), is_waiting=_is_waiting(new), has_default=has_default
    )
    if _validated_fields(new) != _validated_fields(old):
        found += _problems_of_pod_fields(new)
    if group_of(new) and is_unretriable(old) and not is_unretriable(new):
        found.append(forbidden(_RETRIABLE_PATH, "unretriable pod group can't be converted to retriable"))
    if group_of(old):
        found += validate_immutable(group_of(new), group_of(old), _group_path(new))
    return found + validate_topology(new.get("metadata") or {}, "metadata", old.get("metadata"))


def _problems_of_pod_fields(pod: Object) -> FieldErrors:
    """Problems of labels and annotations that only pods have: the label of managed pods and the pod group."""
    found: FieldErrors = []
    if label(pod, names.MANAGED) not in (None, "true"):
        found.append(forbidden(_MANAGED_PATH, "managed label value can only be 'true'"))
    found += _group_problems(pod)
    group, prebuilt = group_of(pod), prebuilt_workload(pod)
    if group and prebuilt and prebuilt != group:
        found.append(invalid(prebuilt_path(pod), prebuilt, "prebuilt workload and pod group should be equal"))
    return found


def _group_problems(pod: Object) -> FieldErrors:
    group, value = group_of(pod), annotation(pod, names.TOTAL_COUNT)
    where = "annotation" if annotation(pod, names.POD_GROUP_NAME) else "label"
    both = f"both the '{names.TOTAL_COUNT}' annotation and the '{names.POD_GROUP_NAME}' {where} should be set"
    found: FieldErrors = []
    if group:
        found += validate_name(group, _group_path(pod))
        if value is None:
            return [*found, required(_COUNT_PATH, both)]
    elif value is not None:
        return [required(_group_path(pod), both)]
    count = total_count(pod)
    if value is not None and isinstance(count, str):
        found.append(invalid(_COUNT_PATH, value, count))
    return found


def _group_path(pod: Object) -> str:
    where = ANNOTATIONS if annotation(pod, names.POD_GROUP_NAME) else LABELS
    return f"{where}[{names.POD_GROUP_NAME}]"


def _validated_fields(pod: Object) -> tuple[object, ...]:
    """The fields that the rules for pods use."""
    return label(pod, names.MANAGED), group_of(pod), annotation(pod, names.TOTAL_COUNT), prebuilt_workload(pod)


def _is_waiting(pod: Object) -> bool:
    """Whether the pod is gated, or has ended."""
    return is_gated(pod) or (pod.get("status") or {}).get("phase") in _ENDED
