"""Random objects of kueue.x-k8s.io from the schemas of both versions; nearly everything that the schemas accept."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from headgate.quota.kinds.definitions import definitions

Object = dict[str, Any]

NAMES = st.sampled_from(["a", "b", "main", "example.com/c"])
ANYTHING = st.dictionaries(NAMES, st.integers(0, 3) | NAMES | st.none(), max_size=2)
SCHEMAS = {
    (each["spec"]["names"]["kind"], version["name"]): version["schema"]["openAPIV3Schema"]
    for each in definitions(with_older=True)
    for version in each["spec"]["versions"]
}
KINDS = sorted({kind for kind, _ in SCHEMAS})


def drawn(schema: Object) -> st.SearchStrategy[Any]:
    """A value that a structural schema accepts, in most cases; patterns are ignored."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(0, 9) | st.sampled_from(["1", "500m"])
    match schema.get("type"):
        case "integer":
            return st.integers(0, 20)
        case "boolean":
            return st.booleans()
        case "array":
            items = drawn(schema["items"])
            if schema.get("x-kubernetes-list-map-keys") == ["name"]:
                return st.lists(items, max_size=3, unique_by=lambda each: each["name"])
            return st.lists(items, max_size=2)
        case "object":
            return drawn_object(schema)
    return NAMES


def drawn_object(schema: Object) -> st.SearchStrategy[Object]:
    if "additionalProperties" in schema:
        return st.dictionaries(NAMES, drawn(schema["additionalProperties"]), max_size=2)
    parts = schema.get("properties")
    if parts is None:
        return ANYTHING
    needed = {*schema.get("required", ()), *({"name"} & parts.keys())}
    return st.fixed_dictionaries(
        {name: drawn(part) for name, part in parts.items() if name in needed},
        optional={name: drawn(part) for name, part in parts.items() if name not in needed},
    )


def objects(kind: str, version: str) -> st.SearchStrategy[Object]:
    schema = SCHEMAS[kind, version]
    parts = {k: v for k, v in schema["properties"].items() if k not in ("apiVersion", "kind", "metadata")}
    metadata = st.fixed_dictionaries(
        {"name": NAMES},
        optional={"annotations": st.dictionaries(NAMES, NAMES, min_size=1), "labels": st.dictionaries(NAMES, NAMES)},
    )
    said = {"apiVersion": st.just(f"kueue.x-k8s.io/{version}"), "kind": st.just(kind), "metadata": metadata}
    return st.fixed_dictionaries(said, optional={name: drawn(part) for name, part in parts.items()})
