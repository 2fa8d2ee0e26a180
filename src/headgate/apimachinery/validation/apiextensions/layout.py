"""A CustomResourceDefinition in kube-apiserver's internal form: fields that all versions share are at the top.

Error paths follow that form: a schema is under ``spec.validation`` if all versions have the same one.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

Object = dict[str, Any]

_SHARED: Final = ("subresources", "schema", "additionalPrinterColumns", "selectableFields")


class VersionLayout(msgspec.Struct, frozen=True):
    """A version, or the top of the internal form. A field that is in the other of the two is None."""

    path: str
    name: str
    schema_path: str
    schema: Object | None
    subresources: Object | None
    columns: list[Object]
    selectable: list[Object]


class DefinitionLayout(msgspec.Struct, frozen=True):
    top: VersionLayout
    versions: tuple[VersionLayout, ...]

    @property
    def schemas(self) -> list[Object]:
        """Every schema, each once."""
        found = [part.schema for part in (self.top, *self.versions)]
        return [
            each["openAPIV3Schema"] for each in found if each is not None and each.get("openAPIV3Schema") is not None
        ]


def definition_layout(spec: Object) -> DefinitionLayout:
    versions: list[Object] = spec.get("versions") or []
    shared = {name for name in _SHARED if versions and all(_is_same(each, versions[0], name) for each in versions)}
    first = versions[0] if versions else {}
    top = _part("spec", "", "spec.validation", first, shared)
    rest = set(_SHARED) - shared
    parts = []
    for index, each in enumerate(versions):
        path = f"spec.versions[{index}]"
        parts.append(_part(path, each.get("name") or "", f"{path}.schema", each, rest))
    return DefinitionLayout(top, tuple(parts))


def _is_same(one: Object, other: Object, name: str) -> bool:
    return (one.get(name) or None) == (other.get(name) or None) and (one.get(name) is None) == (other.get(name) is None)


def _part(path: str, name: str, schema_path: str, version: Object, own: set[str]) -> VersionLayout:
    return VersionLayout(
        path,
        name,
        schema_path,
        version.get("schema") if "schema" in own else None,
        version.get("subresources") if "subresources" in own else None,
        (version.get("additionalPrinterColumns") or []) if "additionalPrinterColumns" in own else [],
        (version.get("selectableFields") or []) if "selectableFields" in own else [],
    )
