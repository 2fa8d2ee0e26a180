"""Validation of volumes from the node, the API, a CSI driver, or an image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.apimachinery.file_paths import (
    validate_descending,
    validate_file_path,
    validate_mode,
    validate_no_backsteps,
)
from headgate.apimachinery.validation.pod.claim_template import validate_claim_template
from headgate.apimachinery.validation.pod.env import VOLUME_FIELDS, validate_field_ref, validate_resource_ref
from headgate.apimachinery.validation.pod.options import PodOptions
from headgate.kube import quantity
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required, too_long
from headgate.kube.names import is_dns1123_subdomain
from headgate.kube.validation.go_values import go_named_string

Object = dict[str, Any]
SourceCheck = Callable[[Object, str], FieldErrors]

_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MAX_DRIVER_BYTES: Final = 63


def _validate_empty_dir(source: Object, path: str) -> FieldErrors:
    if quantity.amount(source.get("sizeLimit") or "0").nano >= 0:
        return []
    return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]


def _validate_host_path(source: Object, path: str) -> FieldErrors:
    file = source.get("path", "")
    if not file:
        return [required(f"{path}.path")]
    errors = validate_no_backsteps(file, f"{path}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{path}.type", go_named_string(kind), _HOST_PATH_TYPES))
    return errors


def _validate_git_repo(source: Object, path: str) -> FieldErrors:
    errors = [] if source.get("repository") else [required(f"{path}.repository")]
    return errors + validate_descending(source.get("directory", ""), f"{path}.directory")


def _validate_keyed(name_field: str) -> SourceCheck:
    """Files from a ConfigMap or a Secret."""

    def check(source: Object, path: str) -> FieldErrors:
        errors = [] if source.get(name_field) else [required(f"{path}.{name_field}")]
        errors += validate_mode(source.get("defaultMode"), f"{path}.defaultMode")
        for index, item in enumerate(source.get("items") or ()):
            errors += validate_key_to_path(item, f"{path}.items[{index}]")
        return errors

    return check


def validate_key_to_path(item: Object, path: str) -> FieldErrors:
    errors = [required(f"{path}.{field}") for field in ("key", "path") if not item.get(field)]
    errors += validate_file_path(item.get("path", ""), f"{path}.path")
    return errors + validate_mode(item.get("mode"), f"{path}.mode")


def _validate_downward_api(source: Object, path: str) -> FieldErrors:
    errors = validate_mode(source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items") or ():
        errors += validate_downward_file(item, path)
    return errors


def validate_downward_file(item: Object, path: str) -> FieldErrors:
    """Error paths are those of the volume, not of the item."""
    errors = [] if item.get("path") else [required(f"{path}.path")]
    errors += validate_file_path(item.get("path", ""), f"{path}.path")
    field_ref, resource_ref = item.get("fieldRef"), item.get("resourceFieldRef")
    if field_ref is not None:
        errors += validate_field_ref(field_ref, VOLUME_FIELDS, f"{path}.fieldRef")
        if resource_ref is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", detail))
    elif resource_ref is not None:
        errors += validate_resource_ref(resource_ref, f"{path}.resourceFieldRef", in_volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + validate_mode(item.get("mode"), f"{path}.mode")


def _validate_claim(source: Object, path: str) -> FieldErrors:
    return [] if source.get("claimName") else [required(f"{path}.claimName")]


def _validate_ephemeral(source: Object, path: str) -> FieldErrors:
    template = source.get("volumeClaimTemplate")
    field_path = f"{path}.volumeClaimTemplate"
    return [required(field_path)] if template is None else validate_claim_template(template, field_path)


def _validate_csi(source: Object, path: str) -> FieldErrors:
    errors = validate_csi_driver(source.get("driver", ""), f"{path}.driver")
    secret = source.get("nodePublishSecretRef")
    if secret is not None:
        name = secret.get("name", "")
        if not name:
            errors.append(required(f"{path}.nodePublishSecretRef.name"))
        else:
            errors += [invalid(f"{path}.name", name, message) for message in is_dns1123_subdomain(name)]
    return errors


def validate_csi_driver(driver: str, path: str) -> FieldErrors:
    if not driver:
        return [required(path)]
    errors: FieldErrors = []
    if len(driver.encode("utf-8", "surrogatepass")) > _MAX_DRIVER_BYTES:
        errors.append(too_long(path, _MAX_DRIVER_BYTES))
    return errors + [invalid(path, driver, message) for message in is_dns1123_subdomain(driver.lower())]


def validate_image(source: Object, path: str, options: PodOptions) -> FieldErrors:
    errors: FieldErrors = []
    if options.is_pod and not source.get("reference"):
        errors.append(required(f"{path}.reference"))
    policy = source.get("pullPolicy", "")
    if not policy:
        errors.append(required(f"{path}.pullPolicy"))
    elif policy not in _PULL_POLICIES:
        errors.append(not_supported(f"{path}.pullPolicy", go_named_string(policy), _PULL_POLICIES))
    return errors


FILE_SOURCES: Final[dict[str, SourceCheck]] = {
    "emptyDir": _validate_empty_dir,
    "hostPath": _validate_host_path,
    "gitRepo": _validate_git_repo,
    "secret": _validate_keyed("secretName"),
    "configMap": _validate_keyed("name"),
    "downwardAPI": _validate_downward_api,
    "persistentVolumeClaim": _validate_claim,
    "ephemeral": _validate_ephemeral,
    "csi": _validate_csi,
}
