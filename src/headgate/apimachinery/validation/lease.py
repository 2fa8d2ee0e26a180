"""Validation of a Lease."""

from __future__ import annotations

from typing import Any

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, invalid
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import validate_nonnegative

Object = dict[str, Any]


def validate_lease_create(obj: Object) -> FieldErrors:
    errors = validate_object_meta(
        obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain, kube_finalizers=False
    )
    return errors + _validate_spec(obj.get("spec") or {})


def validate_lease_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"], kube_finalizers=False)
    return errors + _validate_spec(new.get("spec") or {})


def _validate_spec(spec: Object) -> FieldErrors:
    errors: FieldErrors = []
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if "leaseTransitions" in spec:
        errors += validate_nonnegative(spec["leaseTransitions"], "spec.leaseTransitions")
    return errors
