"""Validation of the claim template of an ephemeral volume, and of the spec of any PersistentVolumeClaim."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.validation.pod.resources import validate_amount
from headgate.kube import quantity
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.names import is_dns1123_label, is_dns1123_subdomain
from headgate.kube.validation.go_values import go_named_string
from headgate.kube.validation.labels import validate_label_selector, validate_labels
from headgate.kube.validation.object_meta import validate_annotations

Object = dict[str, Any]

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES: Final = ("Block", "Filesystem")
# Metadata fields that a template may not have, with Go's names: all except labels and annotations.
_NOT_IN_TEMPLATE: Final = (
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
)


def validate_claim_template(template: Object, path: str) -> FieldErrors:
    errors = validate_template_meta(template.get("metadata") or {}, f"{path}.metadata")
    return errors + validate_claim_spec(template.get("spec") or {}, f"{path}.spec")


def validate_template_meta(meta: Object, path: str) -> FieldErrors:
    """Only labels and annotations are allowed. Also for ResourceClaimTemplates."""
    errors = validate_annotations(meta.get("annotations"), f"{path}.annotations")
    errors += validate_labels(meta.get("labels"), f"{path}.labels")
    return errors + [
        forbidden(f"{path}.{shown}", "cannot be set") for field, shown in _NOT_IN_TEMPLATE if meta.get(field)
    ]


def validate_claim_spec(spec: Object, path: str, *, any_value: bool = False, any_group: bool = False) -> FieldErrors:
    """``any_value`` and ``any_group`` allow invalid values in the selector and source of a stored claim."""
    errors: FieldErrors = []
    modes = spec.get("accessModes") or ()
    if not modes:
        errors.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    errors += validate_label_selector(spec.get("selector"), f"{path}.selector", any_value=any_value)
    for mode in modes:
        if mode not in _ACCESS_MODES:
            errors.append(not_supported(f"{path}.accessModes", go_named_string(mode), _ACCESS_MODES))
    if "ReadWriteOncePod" in modes and set(modes) & set(_ACCESS_MODES[:-1]):
        errors.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    errors += _validate_storage((spec.get("resources") or {}).get("requests"), f"{path}.resources[storage]")
    errors += _validate_class(spec.get("storageClassName"), f"{path}.storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in _VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", go_named_string(mode), _VOLUME_MODES))
    errors += _validate_sources(spec, path, any_group)
    return errors + _validate_class(spec.get("volumeAttributesClassName"), f"{path}.volumeAttributesClassName")


def _validate_storage(requests: Object | None, path: str) -> FieldErrors:
    if not requests or "storage" not in requests:
        return [required(path)]
    storage = quantity.amount(requests["storage"])
    if storage.nano <= 0:
        return [invalid(path, storage.canonical, "must be greater than zero")]
    return validate_amount("storage", storage, path)


def _validate_class(name: str | None, path: str) -> FieldErrors:
    return [invalid(path, name, message) for message in is_dns1123_subdomain(name)] if name else []


def _validate_sources(spec: Object, path: str, any_group: bool) -> FieldErrors:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    errors: FieldErrors = []
    if source is not None:
        errors += _validate_source(source, f"{path}.dataSource", any_group)
    if reference is not None:
        errors += _validate_source(reference, f"{path}.dataSourceRef", any_group)
        namespace = reference.get("namespace") or ""
        if namespace:
            field_path = f"{path}.dataSourceRef.namespace"
            errors += [invalid(field_path, namespace, message) for message in is_dns1123_label(namespace)]
        if source is not None:
            same = all(source.get(field) == reference.get(field) for field in ("apiGroup", "kind", "name"))
            if namespace:
                errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
            elif not same:
                errors.append(invalid(path, {}, "must match dataSourceRef"))
    return errors


def _validate_source(source: Object, path: str, any_group: bool) -> FieldErrors:
    errors = [required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, detail))
    if group and not any_group:
        errors += [invalid(f"{path}.apiGroup", group, message) for message in is_dns1123_subdomain(group)]
    return errors
