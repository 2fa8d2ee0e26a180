"""Validation of a PriorityClass: reserved names and values, and an immutable priority."""

from __future__ import annotations

from typing import Any, Final

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, forbidden, not_supported, required
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import validate_immutable

Object = dict[str, Any]

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
SYSTEM_PREFIX: Final = "system-"
SYSTEM_CLASSES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
PREEMPTION_POLICIES: Final = ("Never", "PreemptLowerPriority")


def _system_problem(name: str, value: int, is_default: bool) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    if SYSTEM_CLASSES[name] != value:
        return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


def validate_priority_class_create(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain)
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith(SYSTEM_PREFIX):
        if problem := _system_problem(name, value, bool(obj.get("globalDefault"))):
            text = "priority class names with 'system-' prefix are reserved for system use only. error: "
            errors.append(forbidden("metadata.name", text + problem))
    elif value > HIGHEST_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        errors.append(forbidden("value", text))
    return errors + validate_preemption_policy(obj.get("preemptionPolicy"), "preemptionPolicy")


def validate_preemption_policy(policy: str | None, path: str) -> FieldErrors:
    if policy is None or policy in PREEMPTION_POLICIES:
        return []
    if not policy:
        return [required(path)]
    return [not_supported(path, policy, ("PreemptLowerPriority", "Never"))]


def validate_priority_class_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    if new.get("value", 0) != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + validate_immutable(new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")
