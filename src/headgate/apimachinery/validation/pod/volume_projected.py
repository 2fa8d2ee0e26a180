"""Rules for projected volumes: several sources in one directory, no two of them at the same path.

Sources that Kubernetes v1.35 has behind gates that are off (trust bundles, pod certificates) are removed from a pod
before it is validated (``apimachinery/pods/disabled_fields.py``) and so have no rules here.
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
    taken: set[str] = set()
    for index, source in enumerate(projected.get("sources") or ()):
        field_path = f"{path}.sources[{index}]"
        for field in ("secret", "configMap"):
            if source.get(field) is not None:
                errors += _validate_keyed(source[field], taken, path, f"{field_path}.{field}")
        if source.get("downwardAPI") is not None:
            errors += _validate_downward(source["downwardAPI"], taken, path, f"{field_path}.downwardAPI")
        if source.get("serviceAccountToken") is not None:
            errors += _validate_token(source["serviceAccountToken"], path, f"{field_path}.serviceAccountToken", options)
        if sum(source.get(field) is not None for field in _SOURCES) > 1:
            errors.append(forbidden(field_path, "may not specify more than 1 volume type per source"))
    return errors


def _validate_keyed(source: Object, taken: set[str], path: str, at: str) -> FieldErrors:
    errors = [] if source.get("name") else [required(f"{at}.name")]
    for index, item in enumerate(source.get("items") or ()):
        errors += validate_key_to_path(item, f"{at}.items[{index}]")
        errors += _take(item.get("path", ""), taken, source.get("name", ""), path)
    return errors


def _validate_downward(source: Object, taken: set[str], path: str, at: str) -> FieldErrors:
    errors: FieldErrors = []
    for item in source.get("items") or ():
        errors += validate_downward_file(item, at)
        errors += _take(item.get("path", ""), taken, item.get("path", ""), path)
    return errors


def _validate_token(token: Object, path: str, at: str, options: PodOptions) -> FieldErrors:
    errors: FieldErrors = []
    seconds, file = token.get("expirationSeconds", 0), token.get("path", "")
    if seconds < _MIN_TOKEN_S:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{at}.expirationSeconds", seconds, detail))
    if seconds > _MAX_TOKEN_S:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{at}.expirationSeconds", seconds, detail))
    if not file:
        errors.append(required(f"{path}.path"))
    elif not options.any_token_path:
        errors += validate_file_path(file, f"{path}.path")
    return errors


def _take(file: str, taken: set[str], shown: str, path: str) -> FieldErrors:
    if not file:
        return []
    if file in taken:
        return [invalid(path, shown, "conflicting duplicate paths")]
    taken.add(file)
    return []
