"""A parsed structural schema: a tree of nodes, one for each object, field, list and item.

The nodes have what pruning, defaulting and field ownership need. The validation of values compiles the schema again
(``validation.py``). A schema that is not structural is parsed, too: this module reports no errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Final

import msgspec


class _Absent:
    """Marks a missing default, because null could be a default."""

    def __repr__(self) -> str:
        return "NOTHING"


ABSENT: Final = _Absent()
META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


class StructuralSchema:
    """``additional``: the schema of additional properties, if any; ``allows_additional``: they are allowed."""

    __slots__ = (
        "additional",
        "allows_additional",
        "default",
        "default_bytes",
        "embedded",
        "has_defaults",
        "has_embedded",
        "has_lists",
        "items",
        "list_keys",
        "list_type",
        "map_type",
        "nullable",
        "preserve",
        "properties",
        "type",
    )

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.properties: dict[str, StructuralSchema] = {
            name: StructuralSchema(below) for name, below in (schema.get("properties") or {}).items()
        }
        additional = schema.get("additionalProperties")
        self.additional: StructuralSchema | None = (
            StructuralSchema(additional) if isinstance(additional, dict) else None
        )
        self.allows_additional = additional is not None
        items = schema.get("items")
        self.items: StructuralSchema | None = StructuralSchema(items) if isinstance(items, dict) else None
        self.type: str = schema.get("type") or ""
        self.preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.nullable = bool(schema.get("nullable"))
        self.list_type: str = schema.get("x-kubernetes-list-type") or ""
        self.list_keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self.map_type: str = schema.get("x-kubernetes-map-type") or ""
        self.default: Any = ABSENT if schema.get("default") is None else schema["default"]
        self.default_bytes: int = 0 if self.default is ABSENT else len(msgspec.json.encode(self.default))
        below = [*self.properties.values(), *(each for each in (self.additional, self.items) if each is not None)]
        # Whether the node or a node below it has these; other branches of the tree are not visited.
        self.has_defaults: bool = any(each.default is not ABSENT or each.has_defaults for each in below)
        self.has_embedded: bool = self.embedded or any(each.has_embedded for each in below)
        self.has_lists: bool = self.list_type in ("set", "map") or any(each.has_lists for each in below)

    def as_resource(self) -> StructuralSchema:
        """The same node as an embedded resource."""
        node = copy(self)
        node.embedded = node.has_embedded = True
        return node

    def field(self, name: str) -> StructuralSchema | None:
        """The node of a property or additional property."""
        found = self.properties.get(name)
        return self.additional if found is None else found


def as_resource(schema: Mapping[str, Any]) -> StructuralSchema:
    """The root of a kind's schema: always an object with type and metadata."""
    return StructuralSchema(schema).as_resource()
