"""What a Workload may say, beyond what its schema tells: pod sets that can be counted, a status that fits them.

Each rule is a small function from an object in v1beta2 to field errors, in Kueue's words. What may follow what is
``workload_changes.py``'s.
"""

from __future__ import annotations

from typing import Final

from headgate.kube import conditions, quantity
from headgate.kube.amounts import read_units
from headgate.kube.errors import FieldErrors, invalid, not_found, not_supported, required, unfit
from headgate.kube.quantity import Quantity
from headgate.kube.validation.labels import validate_labels
from headgate.kube.validation.metadata import validate_annotations
from headgate.kube.validation.pod.tolerations import validate_tolerations
from headgate.kube.validation.values import NEGATIVE
from headgate.quota.kinds.lenient import Object, part, parts, text, texts, whole
from headgate.quota.names import QUOTA_RESERVED

_RESERVED: Final = "the key is reserved for internal kueue use"
_KIND_OF_GROUP: Final = {"scheduling.k8s.io": "PriorityClass", "kueue.x-k8s.io": "WorkloadPriorityClass"}
_CONTAINERS: Final = ("initContainers", "containers")


def workload_problems(obj: Object) -> FieldErrors:
    spec, status = part(obj, "spec"), part(obj, "status")
    found: FieldErrors = []
    flexible = 0
    for path, pods in parts(spec, "podSets", "spec"):
        found += _pod_set(pods, path)
        flexible += pods.get("minCount") is not None
    if flexible > 1:
        found.append(invalid("spec.podSets", flexible, "at most one podSet can use minCount"))
    found += _priority(spec)
    if has_reservation(obj):
        found += _admission(spec, status)
    found += _reclaimable(spec, status)
    found += _checks(spec, status)
    return found


def has_reservation(obj: Object) -> bool:
    return conditions.is_true([each for _, each in parts(part(obj, "status"), "conditions", "")], QUOTA_RESERVED)


def counts_of(spec: Object) -> dict[str, int]:
    """How many pods each pod set has."""
    return {text(pods, "name") or "main": whole(pods, "count", 1) for _, pods in parts(spec, "podSets", "")}


def _pod_set(pods: Object, path: str) -> FieldErrors:
    template, at = part(pods, "template"), f"{path}.template"
    found: FieldErrors = []
    if whole(pods, "minCount") > whole(pods, "count", 1):
        text_ = "minCount should be positive and less or equal to count"
        found.append(unfit(path, text_))
    found += validate_labels(texts(part(template, "metadata"), "labels"), f"{at}.metadata.labels")
    found += validate_annotations(texts(part(template, "metadata"), "annotations"), f"{at}.metadata.annotations")
    inside = part(template, "spec")
    for field in _CONTAINERS:
        for place, container in parts(inside, field, f"{at}.spec"):
            found += _resources(part(container, "resources"), f"{place}.resources")
    return found + _resources(part(inside, "resources"), f"{at}.spec.resources")


def _resources(resources: Object, path: str) -> FieldErrors:
    found: FieldErrors = []
    for field in ("requests", "limits"):
        for name, value in part(resources, field).items():
            at = f"{path}.{field}[{name}]"
            found += [invalid(at, name, _RESERVED)] if name == "pods" else []
            amount = quantity.parse(value) if isinstance(value, int | float | str) else "must be a quantity"
            if not isinstance(amount, Quantity):
                found.append(invalid(at, value, amount))
            elif amount.nano < 0:
                found.append(invalid(at, amount.canonical, NEGATIVE))
    return found


def _priority(spec: Object) -> FieldErrors:
    reference = spec.get("priorityClassRef")
    if not isinstance(reference, dict):
        return []
    found: FieldErrors = []
    if spec.get("priority") is None:
        found.append(unfit("spec", "priority should not be nil when priorityClassRef is set"))
    group, kind = text(reference, "group"), text(reference, "kind")
    wanted = _KIND_OF_GROUP.get(group)
    if wanted is not None and kind != wanted:
        found.append(unfit("spec.priorityClassRef", f"only the {wanted} kind is allowed for the {group} group"))
    return found


def _admission(spec: Object, status: Object) -> FieldErrors:
    admission = status.get("admission")
    if not isinstance(admission, dict):
        return [required("status.admission", "must be set while the QuotaReserved condition is true")]
    known = counts_of(spec)
    found: FieldErrors = []
    given = list(parts(admission, "podSetAssignments", "status.admission"))
    if len(given) != len(known):
        found.append(unfit("<nil>", "podSetAssignments must have the same number of podSets as the spec"))
    for path, each in given:
        name, count = text(each, "name") or "main", whole(each, "count")
        if name not in known:
            found.append(not_found(f"{path}.name", name))
        for resource, value in part(each, "resourceUsage").items() if count > 0 else ():
            units = read_units(resource, value, path)
            if isinstance(units, int) and units % count:
                found.append(invalid(f"{path}.resourceUsage[{resource}]", value, f"is not a multiple of {count}"))
    return found


def _reclaimable(spec: Object, status: Object) -> FieldErrors:
    known = counts_of(spec)
    found: FieldErrors = []
    for _, each in parts(status, "reclaimablePods", "status"):
        name, count = text(each, "name"), whole(each, "count")
        path = f"status.reclaimablePods[{name}]"
        if name not in known:
            found.append(not_supported(f"{path}.name", name, list(known)))
        elif count > known[name]:
            found.append(invalid(f"{path}.count", count, f"should be less or equal to {known[name]}"))
    return found


def _checks(spec: Object, status: Object) -> FieldErrors:
    known = counts_of(spec)
    found: FieldErrors = []
    for path, check in parts(status, "admissionChecks", "status"):
        for at, update in parts(check, "podSetUpdates", path):
            name = text(update, "name")
            if name not in known:
                found.append(not_supported(f"{at}.name", name, sorted(known)))
            found += validate_tolerations([each for _, each in parts(update, "tolerations", "")], f"{at}.tolerations")
            found += validate_annotations(texts(update, "annotations"), f"{at}.annotations")
            found += validate_labels(texts(update, "nodeSelector"), f"{at}.nodeSelector")
            found += validate_labels(texts(update, "labels"), f"{at}.labels")
    return found
