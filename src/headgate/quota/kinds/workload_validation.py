"""Validation of a Workload beyond its schema: countable pod sets, and a status that matches them.

Each rule is a small function from an object in v1beta2 to field errors, with Kueue's messages.
``workload_update_validation.py`` validates transitions.
"""

from __future__ import annotations

from typing import Final

from headgate.kube import conditions, quantity
from headgate.kube.field_errors import FieldErrors, invalid, invalid_without_value, not_found, not_supported, required
from headgate.kube.lenient_reader import Object, find_integer, find_object, find_objects, find_text, find_texts
from headgate.kube.quantity import Quantity
from headgate.kube.resource_amounts import read_units
from headgate.kube.validation.labels import validate_labels
from headgate.kube.validation.object_meta import validate_annotations
from headgate.kube.validation.taints import validate_tolerations
from headgate.kube.validation.values import NEGATIVE
from headgate.quota.names import QUOTA_RESERVED

_RESERVED: Final = "the key is reserved for internal kueue use"
_KIND_OF_GROUP: Final = {"scheduling.k8s.io": "PriorityClass", "kueue.x-k8s.io": "WorkloadPriorityClass"}
_CONTAINERS: Final = ("initContainers", "containers")


def workload_problems(obj: Object) -> FieldErrors:
    spec, status = find_object(obj, "spec"), find_object(obj, "status")
    found: FieldErrors = []
    flexible = 0
    for path, pods in find_objects(spec, "podSets", "spec"):
        found += _pod_set_problems(pods, path)
        flexible += pods.get("minCount") is not None
    if flexible > 1:
        found.append(invalid("spec.podSets", flexible, "at most one podSet can use minCount"))
    found += _priority_problems(spec)
    if has_reservation(obj):
        found += _admission_problems(spec, status)
    found += _reclaimable_problems(spec, status)
    found += _checks(spec, status)
    return found


def has_reservation(obj: Object) -> bool:
    """Whether quota is reserved for the Workload."""
    return conditions.is_true(
        [each for _, each in find_objects(find_object(obj, "status"), "conditions", "")], QUOTA_RESERVED
    )


def counts_of(spec: Object) -> dict[str, int]:
    """How many pods each pod set has."""
    return {
        find_text(pods, "name") or "main": find_integer(pods, "count", 1)
        for _, pods in find_objects(spec, "podSets", "")
    }


def _pod_set_problems(pods: Object, path: str) -> FieldErrors:
    template, at = find_object(pods, "template"), f"{path}.template"
    found: FieldErrors = []
    if find_integer(pods, "minCount") > find_integer(pods, "count", 1):
        detail = "minCount should be positive and less or equal to count"
        found.append(invalid_without_value(path, detail))
    found += validate_labels(find_texts(find_object(template, "metadata"), "labels"), f"{at}.metadata.labels")
    found += validate_annotations(
        find_texts(find_object(template, "metadata"), "annotations"), f"{at}.metadata.annotations"
    )
    inside = find_object(template, "spec")
    for field in _CONTAINERS:
        for place, container in find_objects(inside, field, f"{at}.spec"):
            found += _resource_problems(find_object(container, "resources"), f"{place}.resources")
    return found + _resource_problems(find_object(inside, "resources"), f"{at}.spec.resources")


def _resource_problems(resources: Object, path: str) -> FieldErrors:
    found: FieldErrors = []
    for field in ("requests", "limits"):
        for name, value in find_object(resources, field).items():
            at = f"{path}.{field}[{name}]"
            found += [invalid(at, name, _RESERVED)] if name == "pods" else []
            amount = quantity.parse(value) if isinstance(value, int | float | str) else "must be a quantity"
            if not isinstance(amount, Quantity):
                found.append(invalid(at, value, amount))
            elif amount.nano < 0:
                found.append(invalid(at, amount.canonical, NEGATIVE))
    return found


def _priority_problems(spec: Object) -> FieldErrors:
    reference = spec.get("priorityClassRef")
    if not isinstance(reference, dict):
        return []
    found: FieldErrors = []
    if spec.get("priority") is None:
        found.append(invalid_without_value("spec", "priority should not be nil when priorityClassRef is set"))
    group, kind = find_text(reference, "group"), find_text(reference, "kind")
    expected_kind = _KIND_OF_GROUP.get(group)
    if expected_kind is not None and kind != expected_kind:
        found.append(
            invalid_without_value(
                "spec.priorityClassRef", f"only the {expected_kind} kind is allowed for the {group} group"
            )
        )
    return found


def _admission_problems(spec: Object, status: Object) -> FieldErrors:
    admission = status.get("admission")
    if not isinstance(admission, dict):
        return [required("status.admission", "must be set while the QuotaReserved condition is true")]
    known = counts_of(spec)
    found: FieldErrors = []
    assignments = list(find_objects(admission, "podSetAssignments", "status.admission"))
    if len(assignments) != len(known):
        found.append(
            invalid_without_value("<nil>", "podSetAssignments must have the same number of podSets as the spec")
        )
    for path, each in assignments:
        name, count = find_text(each, "name") or "main", find_integer(each, "count")
        if name not in known:
            found.append(not_found(f"{path}.name", name))
        for resource, value in find_object(each, "resourceUsage").items() if count > 0 else ():
            units = read_units(resource, value, path)
            if isinstance(units, int) and units % count:
                found.append(invalid(f"{path}.resourceUsage[{resource}]", value, f"is not a multiple of {count}"))
    return found


def _reclaimable_problems(spec: Object, status: Object) -> FieldErrors:
    known = counts_of(spec)
    found: FieldErrors = []
    for _, each in find_objects(status, "reclaimablePods", "status"):
        name, count = find_text(each, "name"), find_integer(each, "count")
        path = f"status.reclaimablePods[{name}]"
        if name not in known:
            found.append(not_supported(f"{path}.name", name, list(known)))
        elif count > known[name]:
            found.append(invalid(f"{path}.count", count, f"should be less or equal to {known[name]}"))
    return found


def _checks(spec: Object, status: Object) -> FieldErrors:
    known = counts_of(spec)
    found: FieldErrors = []
    for path, check in find_objects(status, "admissionChecks", "status"):
        for at, update in find_objects(check, "podSetUpdates", path):
            name = find_text(update, "name")
            if name not in known:
                found.append(not_supported(f"{at}.name", name, sorted(known)))
            found += validate_tolerations(
                [each for _, each in find_objects(update, "tolerations", "")], f"{at}.tolerations"
            )
            found += validate_annotations(find_texts(update, "annotations"), f"{at}.annotations")
            found += validate_labels(find_texts(update, "nodeSelector"), f"{at}.nodeSelector")
            found += validate_labels(find_texts(update, "labels"), f"{at}.labels")
    return found
