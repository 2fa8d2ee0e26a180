"""Validation of a Namespace: its finalizers, and that its phase matches its deletion."""

from __future__ import annotations

from typing import Any

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, invalid
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import validate_text

Object = dict[str, Any]

_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def _validate_finalizer(name: str, path: str) -> FieldErrors:
    errors = validate_text(names.is_qualified_name, name, path)
    if "/" not in name and name not in _STANDARD_FINALIZERS:
        text = "name is neither a standard finalizer name nor is it fully qualified"
        errors.append(invalid(path, name, text))
    return errors


def _finalizers(namespace: Object) -> list[str]:
    finalizers: list[str] = (namespace.get("spec") or {}).get("finalizers") or []
    return finalizers


def validate_namespace_create(namespace: Object) -> FieldErrors:
    errors = validate_object_meta(namespace["metadata"], namespaced=False, name_rule=names.name_is_dns_label)
    for name in _finalizers(namespace):
        errors += _validate_finalizer(name, "spec.finalizers")
    return errors


def validate_namespace_update(new: Object, old: Object) -> FieldErrors:
    return validate_namespace_create(new) + validate_object_meta_update(new["metadata"], old["metadata"])


def validate_namespace_status_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    phase = (new.get("status") or {}).get("phase", "")
    # Kubernetes has a capital letter in this path.
    if new["metadata"].get("deletionTimestamp") is None:
        if phase != "Active":
            errors.append(invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty"))
    elif phase != "Terminating":
        errors.append(invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"))
    return errors


def validate_namespace_finalize_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    for i, name in enumerate(_finalizers(new)):
        errors += _validate_finalizer(name, f"spec.finalizers[{i}]")
    return errors
