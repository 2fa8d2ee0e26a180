"""Validation of names in dynamic resource allocation: pools, attributes, capacities, and lists of named items.

A driver's name follows the rule of CSI drivers (``apimachinery/validation/pod/volume_sources.py``).
``device_claim.py``, ``resource_claim_status.py`` and ``resource_slice.py`` use this module.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from headgate.apimachinery.validation.pod.volume_sources import validate_csi_driver
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, duplicate, invalid, required, too_long, too_many
from headgate.kube.validation.values import validate_text

Object = dict[str, Any]

_MAX_POOL: Final = 253
_MAX_ID: Final = 32
_MAX_KEY: Final = 63 + 1 + _MAX_ID
_ELLIPSIS: Final = "..."


def size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def validate_pool_name(name: str, path: str) -> FieldErrors:
    if not name:
        return [required(path)]
    errors = [too_long(path, _MAX_POOL)] if size(name) > _MAX_POOL else []
    for part in name.split("/"):
        errors += validate_text(names.is_dns1123_subdomain, part, path)
    return errors


def validate_qualified_name(name: str, path: str) -> FieldErrors:
    """``id`` or ``domain/id``. More than one slash is accepted, as in Kubernetes."""
    parts = name.split("/")
    if len(parts) == 1:
        return _validate_id(name, path)
    if len(parts) > 2:
        return []
    domain, identifier = parts
    errors = validate_csi_driver(domain, path) if domain else [invalid(path, "", "the domain must not be empty")]
    return errors + (
        _validate_id(identifier, path) if identifier else [invalid(path, "", "the name must not be empty")]
    )


def validate_fully_qualified_name(name: str, path: str) -> FieldErrors:
    errors = validate_qualified_name(name, path)
    if "/" not in name:
        text = "a fully qualified name must be a domain and a name separated by a slash"
        errors = [*errors, invalid(path, name, text)]
    return errors


def _validate_id(identifier: str, path: str) -> FieldErrors:
    errors = [too_long(path, _MAX_ID)] if size(identifier) > _MAX_ID else []
    return errors + validate_text(names.is_c_identifier, identifier, path)


def validate_qualified_map(
    items: Mapping[str, Any] | None, path: str, check: Callable[[Any, str], FieldErrors]
) -> FieldErrors:
    """Attributes and capacities. Error paths show a long key without its middle."""
    errors: FieldErrors = []
    for key, item in (items or {}).items():
        field_path = f"{path}[{_shortened(key)}]"
        errors += validate_qualified_name(key, field_path) + check(item, field_path)
    return errors


def _shortened(key: str) -> str:
    if size(key) <= _MAX_KEY:
        return key
    left = _MAX_KEY - len(_ELLIPSIS)
    return key[: (left + 1) // 2] + _ELLIPSIS + key[len(key) - left // 2 :]


def validate_each(items: Sequence[Any], path: str, limit: int, check: Callable[[Any, str], FieldErrors]) -> FieldErrors:
    """Checks the items of a list, unless it is too long."""
    if len(items) > limit:
        return [too_many(path, len(items), limit)]
    return [error for i, item in enumerate(items) for error in check(item, f"{path}[{i}]")]


def each_once(
    items: Sequence[Any],
    path: str,
    limit: int,
    check: Callable[[Any, str], FieldErrors],
    key_of: Callable[[Any], Hashable],
) -> FieldErrors:
    """Like :func:`validate_each`, for a list with unique keys."""
    if len(items) > limit:
        return [too_many(path, len(items), limit)]
    found = validate_each(items, path, limit, check)
    seen: set[Hashable] = set()
    for i, item in enumerate(items):
        key = key_of(item)
        if key in seen:
            found.append(duplicate(f"{path}[{i}]", key))
        seen.add(key)
    return found


def name_of(item: Object) -> str:
    name: str = item.get("name", "")
    return name
