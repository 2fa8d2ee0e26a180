"""Validation of ConfigMap, Secret and ServiceAccount: keys, sizes, and the required data of each type of secret."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, required, too_long
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import validate_immutable, validate_text

Object = dict[str, Any]

MAX_DATA_BYTES: Final = 1024 * 1024
_FROZEN: Final = "field is immutable when `immutable` is set"
_REDACTED: Final = "<secret contents redacted>"
_SERVICE_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"


def _decoded_bytes(text: str) -> int:
    return len(text) // 4 * 3 - text[-2:].count("=")


def _validate_immutable(new: Object, old: Object, fields: tuple[str, ...]) -> FieldErrors:
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _FROZEN)]
    return errors + [forbidden(name, _FROZEN) for name in fields if (new.get(name) or {}) != (old.get(name) or {})]


def validate_config_map(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    texts, binaries = obj.get("data") or {}, obj.get("binaryData") or {}
    for key in texts:
        errors += validate_text(names.is_config_map_key, key, f"data[{key}]")
        if key in binaries:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in binaries:
        errors += validate_text(names.is_config_map_key, key, f"binaryData[{key}]")
    size = sum(len(text.encode()) for text in texts.values()) + sum(map(_decoded_bytes, binaries.values()))
    if size > MAX_DATA_BYTES:
        errors.append(too_long("[]", MAX_DATA_BYTES))
    return errors


def validate_config_map_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    return errors + _validate_immutable(new, old, ("data", "binaryData")) + validate_config_map(new)


def validate_secret(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    data = obj.get("data") or {}
    for key in data:
        errors += validate_text(names.is_config_map_key, key, f"data[{key}]")
    if sum(map(_decoded_bytes, data.values())) > MAX_DATA_BYTES:
        errors.append(too_long("data", MAX_DATA_BYTES))
    rule = _SECRET_TYPES.get(obj.get("type", ""))
    return errors + rule(obj, data) if rule else errors


def validate_secret_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    errors += validate_immutable(new.get("type", ""), old.get("type", ""), "type")
    return errors + _validate_immutable(new, old, ("data",)) + validate_secret(new)


def _validate_service_account_token(obj: Object, data: Mapping[str, str]) -> FieldErrors:
    if (obj["metadata"].get("annotations") or {}).get(_SERVICE_ACCOUNT_NAME):
        return []
    return [required(f"metadata.annotations[{_SERVICE_ACCOUNT_NAME}]")]


def _json_in(key: str) -> Callable[[Object, Mapping[str, str]], FieldErrors]:
    def rule(obj: Object, data: Mapping[str, str]) -> FieldErrors:
        if key not in data:
            return [required(f"data[{key}]")]
        problem = _json_problem(data[key])
        return [invalid(f"data[{key}]", _REDACTED, problem)] if problem else []

    return rule


def _json_problem(encoded: str) -> str:
    """Docker's configuration must be a JSON object; common mistakes get the messages of Go's decoder."""
    try:
        text = base64.b64decode(encoded).decode()
        value = json.loads(text)
    except (binascii.Error, UnicodeDecodeError):
        return "invalid character"
    except RecursionError:
        return "exceeded max depth"
    except ValueError as problem:
        offset = getattr(problem, "pos", 0)
        if offset >= len(text):
            return "unexpected end of JSON input"
        return f"invalid character {text[offset]!r} looking for beginning of value"
    if value is None or isinstance(value, dict):
        return ""
    go_types = {str: "string", bool: "bool", list: "array"}
    return (
        f"json: cannot unmarshal {go_types.get(type(value), 'number')} into Go value of type map[string]interface {{}}"
    )


def _validate_basic_auth(obj: Object, data: Mapping[str, str]) -> FieldErrors:
    if "username" in data or "password" in data:
        return []
    return [required("data[username]"), required("data[password]")]


def _validate_ssh_auth(obj: Object, data: Mapping[str, str]) -> FieldErrors:
    return [] if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]


def _validate_tls(obj: Object, data: Mapping[str, str]) -> FieldErrors:
    return [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]


_SECRET_TYPES: Final[dict[str, Callable[[Object, Mapping[str, str]], FieldErrors]]] = {
    "kubernetes.io/service-account-token": _validate_service_account_token,
    "kubernetes.io/dockercfg": _json_in(".dockercfg"),
    "kubernetes.io/dockerconfigjson": _json_in(".dockerconfigjson"),
    "kubernetes.io/basic-auth": _validate_basic_auth,
    "kubernetes.io/ssh-auth": _validate_ssh_auth,
    "kubernetes.io/tls": _validate_tls,
}


def validate_service_account(obj: Object) -> FieldErrors:
    return validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)


def validate_service_account_update(new: Object, old: Object) -> FieldErrors:
    return validate_object_meta_update(new["metadata"], old["metadata"]) + validate_service_account(new)
