"""Words to write a structural schema, its columns and its definition with: for the kinds that Headgate brings itself.

Only writing; what a server does with a definition is ``apiserver/custom/``'s. The kinds are ``capacity/definitions.py``
and ``quota/kinds/``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Object = dict[str, Any]

QUANTITY: Final[Object] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))?$",
}
TEXT: Final[Object] = {"type": "string"}
TRUTH: Final[Object] = {"type": "boolean"}
INT32: Final[Object] = {"type": "integer", "format": "int32"}
INT64: Final[Object] = {"type": "integer", "format": "int64"}
COUNT: Final[Object] = {**INT32, "minimum": 0}
TIME: Final[Object] = {"type": "string", "format": "date-time"}


def said(schema: Object, description: str) -> Object:
    return {**schema, "description": description}


def fields(description: str = "", /, **properties: Object) -> Object:
    told = {"description": description} if description else {}
    return {"type": "object", **told, "properties": properties}


def needing(schema: Object, *names: str) -> Object:
    """``schema``, without these fields of which there is nothing."""
    return {**schema, "required": list(names)}


def words(*allowed: str, default: str | None = None) -> Object:
    """One of a few."""
    chosen: Object = {"type": "string", "enum": list(allowed)}
    return chosen if default is None else {**chosen, "default": default}


def mapping(values: Object, description: str = "") -> Object:
    told = {"description": description} if description else {}
    return {"type": "object", **told, "additionalProperties": values}


def listing(items: Object, *, most: int | None = None, least: int | None = None) -> Object:
    bounds = {name: bound for name, bound in (("maxItems", most), ("minItems", least)) if bound is not None}
    return {"type": "array", "items": items, **bounds}


def keyed(items: Object, *keys: str, most: int | None = None, least: int | None = None) -> Object:
    """A list whose items have names, and which is merged by them."""
    merged = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return {**listing(items, most=most, least=least), **merged}


def atomic(items: Object, *, most: int | None = None, least: int | None = None) -> Object:
    """A list that one writer owns whole."""
    return {**listing(items, most=most, least=least), "x-kubernetes-list-type": "atomic"}


def unique(items: Object, *, most: int | None = None) -> Object:
    """A list without an order that has nothing twice."""
    return {**listing(items, most=most), "x-kubernetes-list-type": "set"}


def resources(description: str = "") -> Object:
    return mapping(QUANTITY, description)


def column(name: str, path: str, type_: str = "string", description: str = "", *, wide: bool = False) -> Object:
    told = {"description": description} if description else {}
    made = {"name": name, "type": type_, **told, "jsonPath": path}
    return {**made, "priority": 1} if wide else made


def resource_schema(description: str, /, **parts: Object) -> Object:
    """Of a whole object."""
    return fields(description, apiVersion=TEXT, kind=TEXT, metadata={"type": "object"}, **parts)


def version(name: str, schema: Object, *, stored: bool, served: bool = True, **further: Any) -> Object:
    return {"name": name, "served": served, "storage": stored, "schema": {"openAPIV3Schema": schema}, **further}


def definition(
    group: str, kind: str, plural: str, short: Sequence[str], *, namespaced: bool, versions: list[Object]
) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
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
