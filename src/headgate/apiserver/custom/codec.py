"""Decodes the custom objects of requests, and converts them to and from the stored version.

An object in a request is pruned by the schema of its version. Its metadata is decoded with the schema of ObjectMeta,
like that of a built-in kind. Unknown fields are reported in the order of kube-apiserver. An object is pruned by the
schema of the storage version before it is stored. When it is read, it gets the defaults of that schema, which may have
changed after the write, and is then pruned by the schema of the requested version.

The size of defaults is limited. A request is refused if defaults make its object larger than a stored object may be. A
stored object that would become too large is served without the defaults that were added to the schema after its write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.apimachinery.codec.codec import Decoded
from headgate.apimachinery.structural.defaulting import apply_defaults, apply_defaults_or_restore
from headgate.apimachinery.structural.embedded_resources import ObjectMetaReader, coerce
from headgate.apimachinery.structural.pruning import drop_nulls, prune
from headgate.apimachinery.structural.schema import StructuralSchema, as_resource
from headgate.apiserver.kinds import size_limits
from headgate.apiserver.kinds.scheme import ConvertObject
from headgate.kube.field_errors import quote
from headgate.kube.schema import GroupVersionKind, Schemas
from headgate.kube.serializer.json_decoder import INT64, with_go_numbers

Object = dict[str, Any]

_EMPTY_SCHEMA: Final = as_resource({})


class CustomObjectCodec:
    """``version_schemas``: the schemas of all versions of the kind, by ``apiVersion``. ``stored``: the ``apiVersion``
    of stored objects. ``convert``: converts an object to another ``apiVersion``."""

    def __init__(
        self,
        schemas: Schemas,
        gvk: GroupVersionKind,
        version_schemas: Mapping[str, StructuralSchema],
        stored: str,
        convert: ConvertObject,
    ) -> None:
        self._metadata: Final = ObjectMetaReader(schemas)
        self._gvk: Final = gvk
        self._version_schemas: Final = version_schemas
        self._schema: Final = version_schemas[gvk.api_version]
        self._stored: Final = stored
        self._convert: Final = convert

    def decode(self, value: Any) -> Decoded:
        """The object of a request body, with the list of its unknown fields. ``value`` is not changed."""
        if not isinstance(value, dict):
            return Decoded({}, error=f"expected an object, got {value!r}")
        try:
            obj: Object = _in_range(value)
        except OverflowError:
            return Decoded({}, error="json: cannot unmarshal a number beyond the range of float64")
        for name in ("kind", "apiVersion"):
            if name in obj and not isinstance(obj[name], str):
                problem = f".{name} accessor error: {obj[name]!r} is of the type {type(obj[name])}, expected string"
                return Decoded({}, error=problem)
        obj.setdefault("kind", self._gvk.kind)
        obj.setdefault("apiVersion", self._gvk.api_version)
        metadata, unknown, problem = self._metadata.read(obj.get("metadata"))
        if problem:
            return Decoded({}, error=problem)
        unknown = sorted(f"metadata.{each}" for each in unknown)
        if obj["kind"] == self._gvk.kind and obj["apiVersion"].rpartition("/")[0] == self._gvk.group:
            schema = self._version_schemas.get(obj["apiVersion"], _EMPTY_SCHEMA)
            unknown += prune(obj, schema)
            drop_nulls(obj, schema)
            embedded, problem = coerce(obj, schema, self._metadata)
            if problem:
                return Decoded({}, error=problem)
            unknown += embedded
        if obj.get("metadata") is not None:
            obj["metadata"] = metadata
        else:
            obj.pop("metadata", None)
        return Decoded(obj, [f"unknown field {quote(each)}" for each in unknown])

    def default(self, obj: Object) -> None:
        apply_defaults(obj, self._schema, size_limits.MAX_BYTES)

    def wire_form(self, obj: Object) -> Object:
        return {**obj, "metadata": self._metadata.encode(obj.get("metadata") or {})}

    def to_stored(self, obj: Object) -> Object:
        """``obj`` in the stored version; ``obj`` is not changed."""
        stored = self._convert_to(with_go_numbers(obj), self._stored)
        apply_defaults_or_restore(stored, self._version_schemas[self._stored], size_limits.MAX_BYTES)
        return stored

    def from_stored(self, stored: Object) -> Object:
        """A stored object in the version of this codec, by the present schema. ``stored`` may be changed."""
        schema = self._version_schemas.get(stored["apiVersion"], _EMPTY_SCHEMA)
        prune(stored, schema)
        drop_nulls(stored, schema)
        apply_defaults_or_restore(stored, schema, size_limits.MAX_BYTES)
        if stored["apiVersion"] == self._gvk.api_version:
            return stored
        return self._convert_to(stored, self._gvk.api_version)

    def _convert_to(self, obj: Object, api_version: str) -> Object:
        converted: Object = with_go_numbers(self._convert(obj, api_version))
        schema = self._version_schemas[api_version]
        prune(converted, schema)
        drop_nulls(converted, schema)
        return converted


def change_api_version(obj: Object, api_version: str) -> Object:
    """The conversion with strategy None: only ``apiVersion`` changes."""
    return {**obj, "apiVersion": api_version}


def _in_range(value: Any) -> Any:
    """A deep copy. An integer that does not fit in 64 bits becomes a float, as in Go. Floats without a fraction stay
    floats until the object is sent or stored: validation distinguishes them."""
    if isinstance(value, dict):
        return {name: inner if inner.__class__ is str else _in_range(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_in_range(item) for item in value]
    return float(value) if value.__class__ is int and value not in INT64 else value
