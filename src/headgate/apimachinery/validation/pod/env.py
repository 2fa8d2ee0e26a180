"""Validation of a container's environment: variables, the sources of their values, and ``envFrom``.

Downward API volumes also use ``fieldRef`` and ``resourceFieldRef``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.apimachinery.file_paths import validate_no_backsteps
from headgate.kube import quantity
from headgate.kube.field_errors import FieldErrors, invalid, not_supported, required
from headgate.kube.names import (
    is_config_map_key,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_env_var_name,
    is_qualified_name,
    name_is_dns_subdomain,
)

Object = dict[str, Any]

_ENV_FIELDS: Final = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
VOLUME_FIELDS: Final = frozenset(
    {"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "metadata.uid"}
)
_KNOWN_FIELDS: Final = (
    _ENV_FIELDS | VOLUME_FIELDS | {"spec.restartPolicy", "spec.schedulerName", "spec.host", "status.phase"}
)
_MAPS: Final = ("metadata.annotations", "metadata.labels")

_RESOURCES: Final = tuple(
    f"{which}.{name}" for which in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")

_BYTE_DIVISORS: Final = (
    "1",
    *(f"1{each}" for each in ("k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")),
)
_DIVISORS: Final = {
    "cpu": (("1m", "1"), "only divisor's values 1m and 1 are supported with the cpu resource"),
    "memory": (
        _BYTE_DIVISORS,
        f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the memory resource",
    ),
    "ephemeral-storage": (
        _BYTE_DIVISORS,
        f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the local ephemeral storage resource",
    ),
    "hugepages": (
        _BYTE_DIVISORS,
        f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the hugepages resource",
    ),
}


def validate_env(variables: Sequence[Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    for index, variable in enumerate(variables):
        field_path, name = f"{path}[{index}]", variable.get("name", "")
        if not name:
            errors.append(required(f"{field_path}.name"))
        else:
            errors += [invalid(f"{field_path}.name", name, message) for message in is_env_var_name(name)]
        source = variable.get("valueFrom")
        if source is not None:
            errors += _validate_source(source, bool(variable.get("value")), f"{field_path}.valueFrom")
    return errors


def _validate_source(source: Object, has_value: bool, path: str) -> FieldErrors:
    errors: FieldErrors = []
    count = 0
    for field, check in _SOURCES.items():
        reference = source.get(field)
        if reference is not None:
            count += 1
            errors += check(reference, f"{path}.{field}")
    if count == 0:
        kinds = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(path, "", f"must specify one of: {kinds}"))
    elif has_value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def validate_field_ref(reference: Object, allowed: frozenset[str], path: str) -> FieldErrors:
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        return [required(f"{path}.apiVersion")]
    if not field:
        return [required(f"{path}.fieldPath")]
    base, key = _split_subscript(field)
    problem = ""
    if version != "v1":
        problem = f"unsupported pod version: {version}"
    elif key is not None and base not in _MAPS:
        problem = f"field label does not support subscript: {field}"
    elif key is None and field not in _KNOWN_FIELDS:
        problem = f"field label not supported: {field}"
    if problem:
        return [invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {problem}")]
    if key is not None:
        name = key.lower() if base == "metadata.annotations" else key
        return [invalid(path, name, message) for message in is_qualified_name(name)]
    field = "spec.nodeName" if field == "spec.host" else field
    return [] if field in allowed else [not_supported(f"{path}.fieldPath", field, sorted(allowed))]


def _split_subscript(field: str) -> tuple[str, str | None]:
    """``metadata.labels['app']`` → ``metadata.labels`` and ``app``."""
    base, opening, key = field.removesuffix("']").partition("['")
    return (base, key) if field.endswith("']") and opening and base else (field, None)


def validate_resource_ref(reference: Object, path: str, *, in_volume: bool) -> FieldErrors:
    errors: FieldErrors = []
    resource = reference.get("resource", "")
    if in_volume and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        errors.append(not_supported(f"{path}.resource", resource, _RESOURCES))
    divisor = quantity.amount(reference.get("divisor") or "0")
    rule = _DIVISORS.get("hugepages" if resource.startswith(_HUGE_PAGES) else _base_resource(resource))
    if divisor.nano != 0 and rule is not None and divisor.canonical not in rule[0]:
        errors.append(invalid(f"{path}.divisor", resource, rule[1]))
    return errors


def _base_resource(resource: str) -> str:
    return resource.partition(".")[2] if resource in _RESOURCES else ""


def _validate_env_field_ref(reference: Object, path: str) -> FieldErrors:
    return validate_field_ref(reference, _ENV_FIELDS, path)


def _validate_env_resource_ref(reference: Object, path: str) -> FieldErrors:
    return validate_resource_ref(reference, path, in_volume=False)


def _validate_key_ref(reference: Object, path: str) -> FieldErrors:
    name, key = reference.get("name", ""), reference.get("key", "")
    errors = [invalid(f"{path}.name", name, message) for message in is_dns1123_subdomain(name)]
    if not key:
        errors.append(required(f"{path}.key"))
    else:
        errors += [invalid(f"{path}.key", key, message) for message in is_config_map_key(key)]
    return errors


def _validate_file_key_ref(reference: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    for field, messages in (("key", is_env_var_name), ("volumeName", is_dns1123_label)):
        text = reference.get(field, "")
        if not text:
            errors.append(required(f"{path}.{field}"))
        else:
            errors += [invalid(f"{path}.{field}", text, message) for message in messages(text)]
    file = reference.get("path", "")
    if not file:
        errors.append(required(f"{path}.path"))
    return errors + validate_no_backsteps(file, f"{path}.path")


_SOURCES: Final = {
    "fieldRef": _validate_env_field_ref,
    "resourceFieldRef": _validate_env_resource_ref,
    "configMapKeyRef": _validate_key_ref,
    "secretKeyRef": _validate_key_ref,
    "fileKeyRef": _validate_file_key_ref,
}


def validate_env_from(sources: Sequence[Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    for index, source in enumerate(sources):
        field_path, prefix = f"{path}[{index}]", source.get("prefix", "")
        if prefix:
            errors += [invalid(f"{field_path}.prefix", prefix, message) for message in is_env_var_name(prefix)]
        count = 0
        for field in ("configMapRef", "secretRef"):
            if source.get(field) is not None:
                count += 1
                errors += _validate_env_reference(source[field].get("name", ""), f"{field_path}.{field}.name")
        if count == 0:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif count > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _validate_env_reference(name: str, path: str) -> FieldErrors:
    # Checked like a prefix, so that a trailing dash is valid.
    return [invalid(path, name, each) for each in name_is_dns_subdomain(name, True)] if name else [required(path)]
