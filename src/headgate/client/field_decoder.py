"""Decoders that read some fields of an object and skip the rest.

A consumer of metadata should not pay for whole objects: other fields are skipped in the bytes and never become Python
objects. A field is named by its path (``metadata.finalizers``, ``spec.nodeName``) and includes everything inside it;
without fields the decoder returns the whole object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, TypedDict

import msgspec

from headgate.kube.serializer import wire_json

Object = dict[str, Any]
Decode = Callable[[bytes | msgspec.Raw], Object]

# What tells one object from another, and one state of it from the next.
IDENTITY: Final = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion")

# Types made at run time are no types to a checker.
_typed_dict: Final[Any] = TypedDict


def decoder(fields: Iterable[str] = ()) -> Decode:
    """Decodes the identity of an object and these fields; without any, all of it."""
    return _decoder(frozenset(fields))


@cache
def _decoder(fields: frozenset[str]) -> Decode:
    if not fields:
        return wire_json.WireDecoder(Object).decode
    tree: dict[str, Any] = {}
    for path in (*IDENTITY, *fields):
        if any(path.startswith(f"{other}.") for other in fields):
            continue  # all of the other field is read, and this one with it
        inside = tree
        *parents, leaf = path.split(".")
        for parent in parents:
            inside = inside.setdefault(parent, {})
        inside[leaf] = {}
    return wire_json.WireDecoder(_typed(tree)).decode


def _typed(tree: dict[str, Any]) -> Any:
    return _typed_dict(
        "_Picked", {name: _typed(inner) | None if inner else Any for name, inner in tree.items()}, total=False
    )
