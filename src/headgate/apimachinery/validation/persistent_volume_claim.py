"""Validation of a PersistentVolumeClaim, which may only grow. ``apimachinery/validation/pod/claim_template.py``
validates the spec.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.object_diff import object_diff
from headgate.apimachinery.validation.pod.claim_template import validate_claim_spec
from headgate.apimachinery.validation.pod.resources import validate_amount
from headgate.kube import names, quantity
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.pod_resources import is_native
from headgate.kube.validation.labels import validate_label_selector
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import IMMUTABLE, validate_immutable, validate_text

Object = dict[str, Any]

_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_RESIZE_STATUSES: Final = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizePending",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
)


def validate_claim_create(obj: Object, old: Object | None = None) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    old_spec = (old or {}).get("spec") or {}
    sources = (old_spec.get(field) or {} for field in ("dataSource", "dataSourceRef"))
    return errors + validate_claim_spec(
        obj.get("spec") or {},
        "spec",
        any_value=bool(validate_label_selector(old_spec.get("selector"), "")),
        any_group=any(each.get("apiGroup") is not None for each in sources),
    )


def _storage(resource_list: Object) -> quantity.Quantity:
    return quantity.amount(resource_list.get("storage", "0"))


def validate_claim_update(new: Object, old: Object) -> FieldErrors:
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    errors = validate_object_meta_update(new["metadata"], old["metadata"]) + validate_claim_create(new, old)
    allowed, class_moved = _with_allowed_changes(new, old)
    if not class_moved:
        annotations = new["metadata"].get("annotations") or {}
        old_annotations = old["metadata"].get("annotations") or {}
        if annotations.get(_CLASS_ANNOTATION, "") != old_annotations.get(_CLASS_ANNOTATION, ""):
            path = f"metadata.annotations.{_CLASS_ANNOTATION}"
            errors.append(invalid(path, annotations.get(_CLASS_ANNOTATION, ""), IMMUTABLE))
    if spec != allowed:
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        errors.append(forbidden("spec", f"{text}\n{object_diff(allowed, spec)}"))
    new_size = _storage((spec.get("resources") or {}).get("requests") or {})
    old_size = _storage((old_spec.get("resources") or {}).get("requests") or {})
    if new_size < old_size and new_size <= _storage((old.get("status") or {}).get("capacity") or {}):
        text = "field can not be less than status.capacity"
        errors.append(forbidden("spec.resources.requests.storage", text))
    errors += validate_immutable(spec.get("volumeMode"), old_spec.get("volumeMode"), "volumeMode")
    return errors + _validate_attributes_class_kept(new, old)


def _with_allowed_changes(new: Object, old: Object) -> tuple[Object, bool]:
    """The old spec with every allowed change of the new one, and whether the storage class moved from the annotation to
    the field."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    allowed = dict(old_spec)

    def copy_field(field: str) -> None:
        allowed.pop(field, None)
        if field in spec:
            allowed[field] = spec[field]

    if not old_spec.get("volumeName"):
        copy_field("volumeName")
    old_class = (old["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    new_class = (new["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    unset = old_spec.get("storageClassName") is None and spec.get("storageClassName") is not None
    class_from_annotation = (
        unset and old_class is not None and spec["storageClassName"] == old_class and new_class in (None, old_class)
    )
    if unset and (old_class is None or spec["storageClassName"] == old_class):
        copy_field("storageClassName")
    if (new.get("status") or {}).get("phase") == "Bound":
        copy_field("volumeAttributesClassName")
        requests = (spec.get("resources") or {}).get("requests")
        if requests is not None:
            old_resources = old_spec.get("resources") or {}
            merged = {**(old_resources.get("requests") or {}), "storage": requests.get("storage")}
            allowed["resources"] = {**old_resources, "requests": merged}
    return allowed, class_from_annotation


def _validate_attributes_class_kept(new: Object, old: Object) -> FieldErrors:
    field = "volumeAttributesClassName"
    name = (new.get("spec") or {}).get(field)
    current = (old.get("status") or {}).get("currentVolumeAttributesClassName")
    if name == (old.get("spec") or {}).get(field) or current is None or name:
        return []
    what = "nil" if name is None else "empty string"
    text = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
    return [forbidden(f"spec.{field}", text)]


def validate_claim_status_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    status = new.get("status") or {}
    if not new["metadata"].get("resourceVersion"):
        errors.append(required("resourceVersion"))
    if not (new.get("spec") or {}).get("accessModes"):
        errors.append(required("Spec.accessModes"))
    for name, amount in (status.get("capacity") or {}).items():
        errors += validate_storage_amount(amount, f"status.capacity[{name}]")
    for name, phase in (status.get("allocatedResourceStatuses") or {}).items():
        errors += _validate_resource_key(name, "status.allocatedResourceStatuses")
        if phase not in _RESIZE_STATUSES:
            errors.append(not_supported("status.allocatedResourceStatuses", name, sorted(_RESIZE_STATUSES)))
    for name, amount in (status.get("allocatedResources") or {}).items():
        bad_key = _validate_resource_key(name, "status.allocatedResources")
        errors += bad_key or validate_amount("storage", quantity.amount(amount), f"status.allocatedResources[{name}]")
    return errors


def validate_storage_amount(amount: str, path: str) -> FieldErrors:
    value = quantity.amount(amount).value()
    return [invalid(path, value, "must be a valid resource quantity")] if value < 0 else []


def _validate_resource_key(name: str, path: str) -> FieldErrors:
    errors = validate_text(names.is_qualified_name, name, path)
    if not errors and is_native(name) and name != "storage":
        errors.append(not_supported(path, name, ["storage"]))
    return errors
