"""Decodes and validates the type and metadata of embedded resources (``x-kubernetes-embedded-resource``).

:func:`coerce` decodes them like those of a built-in kind. :func:`check_embedded` validates them like those of stored
objects, except that a name is not required.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.apimachinery.codec.codec import convert, wire_form
from headgate.apimachinery.structural.schema import StructuralSchema
from headgate.kube import field_errors, names
from headgate.kube.field_errors import FieldErrors
from headgate.kube.schema import Schemas
from headgate.kube.validation.object_meta import validate_object_meta

META_TYPE: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

Object = dict[str, Any]


class ObjectMetaReader:
    """Reads ``metadata``; one per server, because the type is in the schema tables."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas: Final = schemas

    def read(self, value: Any) -> tuple[Object, list[str], str]:
        """Metadata as ``apimachinery/codec/decoder.py`` returns it, its unknown fields (without ``metadata.``), and the
        error text."""
        decoded = convert(self._schemas, META_TYPE, value)
        unknown = [text.removeprefix('unknown field "').removesuffix('"') for text in decoded.strict_errors]
        return decoded.obj, unknown, decoded.error or ""

    def encode(self, metadata: Object) -> Object:
        return wire_form(self._schemas, META_TYPE, metadata)


def coerce(
    value: Any, node: StructuralSchema | None, meta_reader: ObjectMetaReader, path: str = ""
) -> tuple[list[str], str]:
    """Decodes type and metadata of embedded resources in place; returns their unknown fields and the first error."""
    unknown: list[str] = []
    problem = _coerce(value, node, path, meta_reader, unknown)
    unknown.sort()
    return unknown, problem


def _coerce(
    value: Any, node: StructuralSchema | None, path: str, meta_reader: ObjectMetaReader, unknown: list[str]
) -> str:
    if node is None or not node.has_embedded:
        return ""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if problem := _coerce(item, node.items, f"{path}[{index}]", meta_reader, unknown):
                return problem
        return ""
    if not isinstance(value, dict):
        return ""
    if node.embedded and path and (problem := _coerce_type(value, path, meta_reader, unknown)):
        return problem
    for name, below in value.items():
        part, inner = node.properties.get(name), _child(path, name)
        if part is None:
            part, inner = node.additional, f"{path}[{name}]"
        if problem := _coerce(below, part, inner, meta_reader, unknown):
            return problem
    return ""


def _coerce_type(value: Object, path: str, meta_reader: ObjectMetaReader, unknown: list[str]) -> str:
    for name in ("apiVersion", "kind"):
        if name in value and not isinstance(value[name], str):
            return str(field_errors.invalid(f"{path}.{name}", value[name], "must be a string"))
    if "metadata" not in value:
        return ""
    read, dropped, problem = meta_reader.read(value["metadata"])
    if problem:
        return str(field_errors.invalid(f"{path}.metadata", value["metadata"], problem))
    unknown += [f"{path}.metadata.{each}" for each in dropped]
    value["metadata"] = meta_reader.encode(read)
    return ""


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def check_embedded(value: Any, node: StructuralSchema | None, path: str = "") -> FieldErrors:
    if node is None or not node.has_embedded:
        return []
    if isinstance(value, list):
        return [
            each for index, item in enumerate(value) for each in check_embedded(item, node.items, f"{path}[{index}]")
        ]
    if not isinstance(value, dict):
        return []
    problems = _check_resource(value, path) if node.embedded and path else []
    for name, below in value.items():
        part, inner = node.properties.get(name), _child(path, name)
        if part is None:
            part, inner = node.additional, f"{path}[{name}]"
        problems += check_embedded(below, part, inner)
    return problems


def _check_resource(value: Object, path: str) -> FieldErrors:
    problems = [field_errors.required(f"{path}.{name}") for name in ("apiVersion", "kind") if name not in value]
    for name, check in _TYPE_CHECKS.items():
        if name in value:
            text, inner = value[name], f"{path}.{name}"
            if not isinstance(text, str):
                problems.append(field_errors.invalid(inner, text, "must be a string"))
            elif not text:
                problems.append(field_errors.invalid(inner, text, "must not be empty"))
            elif message := check(text):
                problems.append(field_errors.invalid(inner, text, message))
    if isinstance(value.get("metadata"), dict):
        metadata = {"name": "fakename", **{key: item for key, item in value["metadata"].items() if item}}
        problems += validate_object_meta(
            metadata,
            namespaced=bool(metadata.get("namespace")),
            name_rule=names.name_is_path_segment,
            path=f"{path}.metadata",
            kube_finalizers=False,
        )
    return problems


def _check_api_version(text: str) -> str:
    return f"unexpected GroupVersion string: {text}" if text.count("/") > 1 else ""


def _check_kind(text: str) -> str:
    messages = names.is_dns1035_label(text.lower())
    return f"may have mixed case, but should otherwise match: {','.join(messages)}" if messages else ""


_TYPE_CHECKS: Final[dict[str, Callable[[str], str]]] = {"apiVersion": _check_api_version, "kind": _check_kind}
