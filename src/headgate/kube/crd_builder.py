"""Builders of structural schemas, printer columns and CustomResourceDefinitions, for the kinds that Headgate installs.

``apiserver/custom/`` serves CustomResourceDefinitions. The kinds of Headgate are in ``capacity/kinds/definitions.py``
and ``quota/kinds/``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Object = dict[str, Any]

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
HEADGATE: Final = "headgate"
_HELM: Final = "Helm"
DEFINITION: Final = "headgate.dev/definition"
"""The label of the definitions that Headgate installs."""
_LABELS: Final = {MANAGED_BY: HEADGATE, DEFINITION: "true"}

QUANTITY: Final[Object] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))?$",
}
STRING: Final[Object] = {"type": "string"}
BOOLEAN: Final[Object] = {"type": "boolean"}
INT32: Final[Object] = {"type": "integer", "format": "int32"}
INT64: Final[Object] = {"type": "integer", "format": "int64"}
NON_NEGATIVE_INT32: Final[Object] = {**INT32, "minimum": 0}
DATE_TIME: Final[Object] = {"type": "string", "format": "date-time"}


def described(schema: Object, description: str) -> Object:
    return {**schema, "description": description}


def object_schema(description: str = "", /, **properties: Object) -> Object:
    documentation = {"description": description} if description else {}
    return {"type": "object", **documentation, "properties": properties}


def with_required(schema: Object, *names: str) -> Object:
    """``schema`` with these fields required."""
    return {**schema, "required": list(names)}


def string_enum(*allowed: str, default: str | None = None) -> Object:
    """A string with a fixed set of values."""
    schema: Object = {"type": "string", "enum": list(allowed)}
    return schema if default is None else {**schema, "default": default}


def map_of(values: Object, description: str = "") -> Object:
    documentation = {"description": description} if description else {}
    return {"type": "object", **documentation, "additionalProperties": values}


def list_of(items: Object, *, max_items: int | None = None, min_items: int | None = None) -> Object:
    bounds = {name: bound for name, bound in (("maxItems", max_items), ("minItems", min_items)) if bound is not None}
    return {"type": "array", "items": items, **bounds}


def list_map(items: Object, *keys: str, max_items: int | None = None, min_items: int | None = None) -> Object:
    """A list that is merged by the keys of its items."""
    list_type = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return {**list_of(items, max_items=max_items, min_items=min_items), **list_type}


def list_atomic(items: Object, *, max_items: int | None = None, min_items: int | None = None) -> Object:
    """A list that is replaced as a whole."""
    return {**list_of(items, max_items=max_items, min_items=min_items), "x-kubernetes-list-type": "atomic"}


def list_set(items: Object, *, max_items: int | None = None) -> Object:
    """A list of unique items without an order."""
    return {**list_of(items, max_items=max_items), "x-kubernetes-list-type": "set"}


def resource_list(description: str = "") -> Object:
    return map_of(QUANTITY, description)


def printer_column(name: str, path: str, type_: str = "string", description: str = "", *, wide: bool = False) -> Object:
    documentation = {"description": description} if description else {}
    column = {"name": name, "type": type_, **documentation, "jsonPath": path}
    return {**column, "priority": 1} if wide else column


def resource_schema(description: str, /, **parts: Object) -> Object:
    """The schema of a kind."""
    return object_schema(description, apiVersion=STRING, kind=STRING, metadata={"type": "object"}, **parts)


def crd_version(name: str, schema: Object, *, stored: bool, served: bool = True, **extra: Any) -> Object:
    return {"name": name, "served": served, "storage": stored, "schema": {"openAPIV3Schema": schema}, **extra}


def is_installed_by_headgate(found: Mapping[str, Any]) -> bool:
    """Whether a definition that a server has was installed by Headgate, and not by Volcano, Kueue or another program.
    Helm replaces the label managed-by, so a second label says whose chart it was. Version 0.2.0 did not label Volcano's
    kinds, but is their only field manager."""
    metadata = found.get("metadata") or {}
    labels = metadata.get("labels") or {}
    manager = labels.get(MANAGED_BY)
    if manager is not None:
        return bool(manager == HEADGATE or (manager == _HELM and labels.get(DEFINITION) == "true"))
    managers = {each.get("manager") for each in metadata.get("managedFields") or () if not each.get("subresource")}
    return managers == {HEADGATE}


def unless_foreign(desired: Object, current: Object | None) -> Object | None:
    """The definition to install in place of ``current``; None if ``current`` belongs to another program."""
    return desired if current is None or is_installed_by_headgate(current) else None


def custom_resource_definition(
    group: str, kind: str, plural: str, short: Sequence[str], *, namespaced: bool, versions: list[Object]
) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": dict(_LABELS)},
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": list(short),
            },
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": versions,
        },
    }
