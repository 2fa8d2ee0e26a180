"""Validation of projected volumes: several sources in one directory, with unique paths.

Sources that Kubernetes v1.35 has behind gates that are off (trust bundles, pod certificates) are removed from a pod
before validation (``apimachinery/pods/disabled_fields.py``), so there are no rules for them.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.file_paths import validate_file_path, validate_mode
from headgate.apimachinery.validation.pod.options import PodOptions
from headgate.apimachinery.validation.pod.volume_sources import validate_downward_file, validate_key_to_path
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, required

Object = dict[str, Any]

_MIN_TOKEN_S: Final = 600
_MAX_TOKEN_S: Final = 1 << 32
_SOURCES: Final = ("secret", "configMap", "downwardAPI", "serviceAccountToken")


def validate_projected(projected: Object, path: str, options: PodOptions) -> FieldErrors:
    errors = validate_mode(projected.get("defaultMode"), f"{path}.defaultMode")
    used_paths: set[str] = set()
    for index, source in enumerate(projected.get("sources") or ()):
        field_path = f"{path}.sources[{index}]"
        for field in ("secret", "configMap"):
            if source.get(field) is not None:
                errors += _validate_keyed(source[field], used_paths, path, f"{field_path}.{field}")
        if source.get("downwardAPI") is not None:
            errors += _validate_downward(source["downwardAPI"], used_paths, path, f"{field_path}.downwardAPI")
        if source.get("serviceAccountToken") is not None:
            errors += _validate_token(source["serviceAccountToken"], path, f"{field_path}.serviceAccountToken", options)
        if sum(source.get(field) is not None for field in _SOURCES) > 1:
            errors.append(forbidden(field_path, "may not specify more than 1 volume type per source"))
    return errors


def _validate_keyed(source: Object, used_paths: set[str], path: str, source_path: str) -> FieldErrors:
    errors = [] if source.get("name") else [required(f"{source_path}.name")]
    for index, item in enumerate(source.get("items") or ()):
        errors += validate_key_to_path(item, f"{source_path}.items[{index}]")
        errors += _validate_unused(item.get("path", ""), used_paths, source.get("name", ""), path)
    return errors


def _validate_downward(source: Object, used_paths: set[str], path: str, source_path: str) -> FieldErrors:
    errors: FieldErrors = []
    for item in source.get("items") or ():
        errors += validate_downward_file(item, source_path)
        errors += _validate_unused(item.get("path", ""), used_paths, item.get("path", ""), path)
    return errors


def _validate_token(token: Object, path: str, source_path: str, options: PodOptions) -> FieldErrors:
    errors: FieldErrors = []
    seconds, file = token.get("expirationSeconds", 0), token.get("path", "")
    if seconds < _MIN_TOKEN_S:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{source_path}.expirationSeconds", seconds, detail))
    if seconds > _MAX_TOKEN_S:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{source_path}.expirationSeconds", seconds, detail))
    if not file:
        errors.append(required(f"{path}.path"))
    elif not options.any_token_path:
        errors += validate_file_path(file, f"{path}.path")
    return errors


def _validate_unused(file: str, used_paths: set[str], shown: str, path: str) -> FieldErrors:
    if not file:
        return []
    if file in used_paths:
        return [invalid(path, shown, "conflicting duplicate paths")]
    used_paths.add(file)
    return []
