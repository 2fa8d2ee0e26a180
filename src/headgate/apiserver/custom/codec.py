"""Decoding, storing and reading of custom objects.

An object in a request is pruned by the schema of its version, and its metadata is decoded by type, like that of a
built-in kind; unknown fields are reported in the order of kube-apiserver. A stored object is pruned by the schema of
its storage version. An object that is read is defaulted by that schema, which may have changed since, and then pruned
by the schema of the requested version. Defaults are bounded: a request is refused if its defaults make the object
longer than a stored object may be, and an object that is read is served without the defaults of a later schema if there
are too many.
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
from headgate.kube.serializer.json_decoder import integer_if_whole

Object = dict[str, Any]

_EMPTY_SCHEMA: Final = as_resource({})
_INT64: Final = range(-(2**63), 2**63)


class CustomObjectCodec:
    """``roots``: the schemas of all versions of the kind, by ``apiVersion``; ``convert`` changes the version."""

    def __init__(
        self,
        schemas: Schemas,
        gvk: GroupVersionKind,
        roots: Mapping[str, StructuralSchema],
        stored: str,
        convert: ConvertObject,
    ) -> None:
        self._metadata: Final = ObjectMetaReader(schemas)
        self._gvk: Final = gvk
        self._roots: Final = roots
        self._root: Final = roots[gvk.api_version]
        self._stored: Final = stored
        self._convert: Final = convert

    def decode(self, value: Any) -> Decoded:
        """``value`` is not changed; the result shares nothing with it."""
        if not isinstance(value, dict):
            return Decoded({}, error=f"expected an object, got {value!r}")
        try:
            obj: Object = _normalized(value)
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
            root = self._roots.get(obj["apiVersion"], _EMPTY_SCHEMA)
            unknown += prune(obj, root)
            drop_nulls(obj, root)
            embedded, problem = coerce(obj, root, self._metadata)
            if problem:
                return Decoded({}, error=problem)
            unknown += embedded
        if obj.get("metadata") is not None:
            obj["metadata"] = metadata
        else:
            obj.pop("metadata", None)
        return Decoded(obj, [f"unknown field {quote(each)}" for each in unknown])

    def default(self, obj: Object) -> None:
        apply_defaults(obj, self._root, size_limits.MAX_BYTES)

    def emit(self, obj: Object) -> Object:
        return {**obj, "metadata": self._metadata.encode(obj.get("metadata") or {})}

    def to_stored(self, obj: Object) -> Object:
        """``obj`` in the stored version; ``obj`` is not changed."""
        stored = self._convert_to(_normalized(obj), self._stored)
        apply_defaults_or_restore(stored, self._roots[self._stored], size_limits.MAX_BYTES)
        return stored

    def from_stored(self, stored: Object) -> Object:
        """A stored object in the version of this codec, by the present schema. ``stored`` may be changed."""
        root = self._roots.get(stored["apiVersion"], _EMPTY_SCHEMA)
        prune(stored, root)
        drop_nulls(stored, root)
        apply_defaults_or_restore(stored, root, size_limits.MAX_BYTES)
        if stored["apiVersion"] == self._gvk.api_version:
            return stored
        return self._convert_to(stored, self._gvk.api_version)

    def _convert_to(self, obj: Object, api_version: str) -> Object:
        converted: Object = _normalized(self._convert(obj, api_version))
        root = self._roots[api_version]
        prune(converted, root)
        drop_nulls(converted, root)
        return converted


def change_api_version(obj: Object, api_version: str) -> Object:
    """The conversion with strategy None: only ``apiVersion`` changes."""
    return {**obj, "apiVersion": api_version}


def _normalized(value: Any) -> Any:
    """A copy with numbers as in Go: 64-bit integers, and whole floats as integers."""
    if isinstance(value, dict):  # a fast path for texts, which are the most frequent values
        return {name: inner if inner.__class__ is str else _normalized(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_normalized(item) for item in value]
    if value.__class__ is int and value not in _INT64:
        return integer_if_whole(float(value))
    return integer_if_whole(value) if isinstance(value, float) else value
