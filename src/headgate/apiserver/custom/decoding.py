"""Custom objects as they come in, and as they come back from the store.

A request's object is pruned by the schema of its version and its metadata is read by type, as a built-in kind's
decoder would; the unknown fields are told in the order of the real server. A stored object is treated the same way
once more, and defaulted, because the schema may have changed since.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube.codec import Decoded
from headgate.kube.errors import quote
from headgate.kube.schema import GroupVersionKind, Schemas
from headgate.kube.structural.defaulting import copy, fill
from headgate.kube.structural.embedded import Metadata, coerce
from headgate.kube.structural.node import Node
from headgate.kube.structural.pruning import drop_nulls, prune

Object = dict[str, Any]


class Decoder:
    def __init__(self, schemas: Schemas, gvk: GroupVersionKind, root: Node) -> None:
        self._metadata: Final = Metadata(schemas)
        self._gvk: Final = gvk
        self._root: Final = root

    def decode(self, value: Any) -> Decoded:
        """The caller keeps ``value``; what is given back shares nothing with it."""
        if not isinstance(value, dict):
            return Decoded({}, error=f"expected an object, got {value!r}")
        obj: Object = copy(value)
        for name in ("kind", "apiVersion"):
            if name in obj and not isinstance(obj[name], str):
                problem = f".{name} accessor error: {obj[name]!r} is of the type {type(obj[name])}, expected string"
                return Decoded({}, error=problem)
        obj.setdefault("kind", self._gvk.kind)
        obj.setdefault("apiVersion", self._gvk.api_version)
        metadata, unknown, problem = self._metadata.read(obj.get("metadata"))
        if problem:
            return Decoded({}, error=problem)
        unknown = [f"metadata.{each}" for each in unknown]
        if obj["kind"] == self._gvk.kind:
            unknown += prune(obj, self._root)
            drop_nulls(obj, self._root)
            embedded, problem = coerce(obj, self._root, self._metadata)
            if problem:
                return Decoded({}, error=problem)
            unknown += embedded
        if obj.get("metadata") is not None:
            obj["metadata"] = metadata
        else:
            obj.pop("metadata", None)
        return Decoded(obj, [f"unknown field {quote(each)}" for each in unknown])

    def emit(self, obj: Object) -> Object:
        return {**obj, "metadata": self._metadata.show(obj.get("metadata") or {})}

    def revive(self, stored: Object) -> Object:
        """A stored object, which the caller owns, in the version and by the schema of today."""
        stored["apiVersion"] = self._gvk.api_version
        prune(stored, self._root)
        drop_nulls(stored, self._root)
        fill(stored, self._root)
        return stored
