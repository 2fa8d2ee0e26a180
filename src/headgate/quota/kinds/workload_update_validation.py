"""Validation of Workload updates: while a Workload holds quota, what was admitted is immutable.

Each rule is a small function from the new and the old object in v1beta2 to field errors, with Kueue's messages.
"""

from __future__ import annotations

from typing import Final

from headgate.kube import conditions
from headgate.kube.field_errors import FieldErrors, invalid, invalid_without_value, required
from headgate.kube.lenient_reader import Object, find_integer, find_object, find_objects, find_text
from headgate.kube.validation.values import IMMUTABLE
from headgate.quota.kinds.workload_validation import has_reservation
from headgate.quota.names import ADMITTED, CHECK_READY

_WHILE_RESERVED: Final = "is immutable while workload quota reserved"
_POD_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")


def workload_update_problems(new: Object, old: Object) -> FieldErrors:
    """The problems of an update; empty if it is allowed."""
    after, before = find_object(new, "spec"), find_object(old, "spec")
    had_quota, has_quota = has_reservation(old), has_reservation(new)
    found = _pod_set_problems(after, before) + _priority_class_problems(after, before) if had_quota else []
    if had_quota and has_quota:
        if after.get("queueName") != before.get("queueName"):
            found.append(invalid_without_value("spec.queueName", f"queueName {_WHILE_RESERVED}"))
        found += _reclaimable_problems(find_object(new, "status"), find_object(old, "status"))
    field = "maximumExecutionTimeSeconds"
    if _is_admitted(new) and _is_admitted(old) and find_integer(after, field) != find_integer(before, field):
        found.append(invalid_without_value(f"spec.{field}", f"{field} {_WHILE_RESERVED}"))
    found += _admission_problems(find_object(new, "status"), find_object(old, "status"))
    return found + _pod_set_update_problems(find_object(new, "status"), find_object(old, "status"))


def _pod_set_problems(after: Object, before: Object) -> FieldErrors:
    new, old = (list(find_objects(each, "podSets", "spec")) for each in (after, before))
    if len(new) != len(old):
        return [invalid_without_value("spec.podSets", IMMUTABLE)]
    return [
        invalid_without_value(path, IMMUTABLE) for (path, one), (_, other) in zip(new, old, strict=True) if one != other
    ]


def _priority_class_problems(after: Object, before: Object) -> FieldErrors:
    """Only the name of a WorkloadPriorityClass may change."""
    name = "priorityClassRef"
    new, old = after.get(name), before.get(name)
    if not isinstance(new, dict) or not isinstance(old, dict):
        return (
            [invalid_without_value(f"spec.{name}", f"{name} {_WHILE_RESERVED}")]
            if (new is None) != (old is None)
            else []
        )
    found = [
        invalid_without_value(f"spec.{name}.{field}", f"{name}.{field} {_WHILE_RESERVED}")
        for field in ("group", "kind")
        if new.get(field) != old.get(field)
    ]
    if (new.get("group"), new.get("kind")) == _POD_CLASS and new.get("name") != old.get("name"):
        detail = f"{name}.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"
        found.append(invalid_without_value(f"spec.{name}.name", detail))
    return found


def _reclaimable_problems(after: Object, before: Object) -> FieldErrors:
    """The number of reclaimable pods never decreases."""
    new, old = (
        {
            find_text(each, "name"): find_integer(each, "count")
            for _, each in find_objects(status, "reclaimablePods", "")
        }
        for status in (after, before)
    )
    found: FieldErrors = []
    for name, count in old.items():
        path = f"status.reclaimablePods[{name}]"
        if name not in new:
            found.append(required(path, "cannot be removed"))
        elif new[name] < count:
            found.append(invalid(f"{path}.count", new[name], f"cannot be less than {count}"))
    return found


def _admission_problems(after: Object, before: Object) -> FieldErrors:
    """The admission can be set or unset, but not changed."""
    new, old = after.get("admission"), before.get("admission")
    return (
        [invalid_without_value("status.admission", IMMUTABLE)]
        if new is not None and old is not None and new != old
        else []
    )


def _pod_set_update_problems(after: Object, before: Object) -> FieldErrors:
    new = {find_text(each, "name"): each for _, each in find_objects(after, "admissionChecks", "")}
    return [
        invalid_without_value(f"{path}.podSetUpdates", IMMUTABLE)
        for path, old in find_objects(before, "admissionChecks", "status")
        for now in [new.get(find_text(old, "name"))]
        if now is not None
        and old.get("state") == now.get("state") == CHECK_READY
        and (old.get("podSetUpdates") or []) != (now.get("podSetUpdates") or [])
    ]


def _is_admitted(obj: Object) -> bool:
    return conditions.is_true(
        [each for _, each in find_objects(find_object(obj, "status"), "conditions", "")], ADMITTED
    )
