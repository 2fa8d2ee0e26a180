"""Validation of ResourceClaim, ResourceClaimTemplate and DeviceClass; ``device_claim.py`` validates a claim's content.

``resource_claim_status.py`` validates the status of a claim, ``resource_slice.py`` the devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.apimachinery.validation.devices.device_claim import (
    MAX_CONFIG,
    validate_configuration,
    validate_device_claim,
    validate_selectors,
)
from headgate.apimachinery.validation.devices.device_names import validate_each
from headgate.apimachinery.validation.pod.claim_template import validate_template_meta
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, forbidden
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import validate_immutable

Object = dict[str, Any]

_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"


def _validate_meta(obj: Object) -> FieldErrors:
    return validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)


def _validate_class_meta(obj: Object) -> FieldErrors:
    return validate_object_meta(obj["metadata"], namespaced=False, name_rule=names.name_is_long_name)


def validate_resource_claim_create(obj: Object, namespace_labels: Mapping[str, str]) -> FieldErrors:
    devices = (obj.get("spec") or {}).get("devices") or {}
    errors = _validate_admin_access(devices, namespace_labels) + _validate_meta(obj)
    return errors + validate_device_claim(devices, "spec.devices")


def validate_resource_claim_update(new: Object, old: Object) -> FieldErrors:
    errors = _validate_meta(new) + validate_object_meta_update(new["metadata"], old["metadata"])
    return errors + validate_immutable(new.get("spec"), old.get("spec"), "spec")


def validate_claim_template_create(obj: Object, namespace_labels: Mapping[str, str]) -> FieldErrors:
    devices = ((obj.get("spec") or {}).get("spec") or {}).get("devices") or {}
    return _validate_admin_access(devices, namespace_labels) + _validate_template(obj)


def _validate_template(obj: Object) -> FieldErrors:
    spec = obj.get("spec") or {}
    errors = _validate_meta(obj) + validate_template_meta(spec.get("metadata") or {}, "spec.metadata")
    return errors + validate_device_claim((spec.get("spec") or {}).get("devices") or {}, "spec.spec.devices")


def validate_claim_template_update(new: Object, old: Object) -> FieldErrors:
    errors = _validate_template(new) + validate_object_meta_update(new["metadata"], old["metadata"])
    return errors + validate_immutable(new.get("spec"), old.get("spec"), "spec")


def _validate_admin_access(devices: Object, namespace_labels: Mapping[str, str]) -> FieldErrors:
    for i, request in enumerate(devices.get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            return validate_admin_access(f"spec.devices.requests[{i}].adminAccess", namespace_labels)
    return []


def validate_admin_access(path: str, namespace_labels: Mapping[str, str]) -> FieldErrors:
    """Admin access requires a label on the namespace."""
    if namespace_labels.get(_ADMIN_LABEL) == "true":
        return []
    text = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
    return [forbidden(path, text)]


def validate_device_class(obj: Object) -> FieldErrors:
    return _validate_class_meta(obj) + _validate_class_spec(obj.get("spec") or {}, {})


def validate_device_class_update(new: Object, old: Object) -> FieldErrors:
    errors = _validate_class_meta(new) + validate_object_meta_update(new["metadata"], old["metadata"])
    return errors + _validate_class_spec(new.get("spec") or {}, old.get("spec") or {})


def _validate_class_spec(spec: Object, old: Object) -> FieldErrors:
    config = spec.get("config") or []
    stored = config == old.get("config")
    errors = validate_selectors(spec.get("selectors") or [], "spec.selectors")
    return errors + validate_each(
        config, "spec.config", MAX_CONFIG, lambda each, at: validate_configuration(each, at, stored=stored)
    )
