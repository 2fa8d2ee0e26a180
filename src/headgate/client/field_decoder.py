"""Decoders that read some fields of an object and skip the rest.

A controller that needs only metadata should not decode whole objects: other fields are skipped in the bytes and never
become Python objects. A field is named by its path (``metadata.finalizers``, ``spec.nodeName``) and includes everything
inside it; without fields the decoder returns the whole object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, TypedDict

import msgspec

from headgate.kube.serializer import wire_json

Object = dict[str, Any]
Decode = Callable[[bytes | msgspec.Raw], Object]

# The fields that identify an object and its state.
IDENTITY: Final = ("metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion")

# mypy does not accept a TypedDict that is made at run time.
_typed_dict: Final[Any] = TypedDict


def decoder(fields: Iterable[str] = ()) -> Decode:
    """A decoder of the identity and these fields; without fields, of the whole object."""
    return _decoder(frozenset(fields))


@cache
def _decoder(fields: frozenset[str]) -> Decode:
    if not fields:
        return wire_json.WireDecoder(Object).decode
    tree: dict[str, Any] = {}
    for path in (*IDENTITY, *fields):
        if any(path.startswith(f"{other}.") for other in fields):
            continue  # the other field includes this one
        branch = tree
        *parents, leaf = path.split(".")
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[leaf] = {}
    return wire_json.WireDecoder(_typed(tree)).decode


def _typed(tree: dict[str, Any]) -> Any:
    return _typed_dict(
        "_Picked", {name: _typed(inner) | None if inner else Any for name, inner in tree.items()}, total=False
    )
