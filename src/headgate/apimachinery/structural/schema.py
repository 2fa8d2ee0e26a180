"""One node of a structural schema, parsed once: its type and how the server treats it.

Only what pruning, defaulting and ownership need is here; value validation compiles the schema itself
(``validation.py``). A schema that is not structural gives a node all the same: nothing here reports errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Final

import msgspec


class _Nothing:
    """There is no default, where null could be one."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()
META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


class StructuralSchema:
    """``additional``: the schema of fields without a name, if they have one; ``open``: such fields are allowed."""

    __slots__ = (
        "additional",
        "default",
        "default_bytes",
        "defaults",
        "embedded",
        "has_embedded",
        "has_lists",
        "items",
        "list_keys",
        "list_type",
        "map_type",
        "nullable",
        "open",
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
        self.open = additional is not None
        items = schema.get("items")
        self.items: StructuralSchema | None = StructuralSchema(items) if isinstance(items, dict) else None
        self.type: str = schema.get("type") or ""
        self.preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        self.nullable = bool(schema.get("nullable"))
        self.list_type: str = schema.get("x-kubernetes-list-type") or ""
        self.list_keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self.map_type: str = schema.get("x-kubernetes-map-type") or ""
        self.default: Any = NOTHING if schema.get("default") is None else schema["default"]
        self.default_bytes: int = 0 if self.default is NOTHING else len(msgspec.json.encode(self.default))
        below = [*self.properties.values(), *(each for each in (self.additional, self.items) if each is not None)]
        # Whole branches where there is nothing to do are not walked.
        self.defaults: bool = any(each.default is not NOTHING or each.defaults for each in below)
        self.has_embedded: bool = self.embedded or any(each.has_embedded for each in below)
        self.has_lists: bool = self.list_type in ("set", "map") or any(each.has_lists for each in below)

    def as_resource(self) -> StructuralSchema:
        """The same place, taken for a resource."""
        node = copy(self)
        node.embedded = node.has_embedded = True
        return node

    def field(self, name: str) -> StructuralSchema | None:
        """The node of a field of an object, named or not."""
        found = self.properties.get(name)
        return self.additional if found is None else found


def as_resource(schema: Mapping[str, Any]) -> StructuralSchema:
    """The root of a kind's schema: an object with a type and metadata, whatever the schema says."""
    return StructuralSchema(schema).as_resource()
