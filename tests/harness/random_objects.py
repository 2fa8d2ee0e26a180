"""Random objects from the schema tables, for tests that must hold for every type."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from headgate import schemas
from headgate.kube.schema import Schemas, Type

TABLES = Schemas.load(schemas.read())
KINDS = sorted(set(TABLES.kinds.values()))

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", "é", '"\\', "x y"]),
    "bool": st.booleans(),
    "int32": st.sampled_from([0, 1, -1, 2**31 - 1]),
    "int64": st.sampled_from([0, 7, -(2**63)]),
    "float": st.sampled_from([0, 1.5, -2, 1e300]),
    "bytes": st.sampled_from(["", "aGk=", "AAAA"]),
    "quantity": st.sampled_from(["0", "100m", "1Gi", "1.5", 1, 0.5, "1e3"]),
    "time": st.sampled_from(["2020-01-01T00:00:00Z", "2020-06-30T23:59:59.9+05:30", "0001-01-01T00:00:00Z"]),
    "microtime": st.sampled_from(["2020-01-01T00:00:00.000000Z", "2020-06-30T23:59:59.123456-08:00"]),
    "intorstring": st.sampled_from([0, 80, "http", "", "50%"]),
    "raw": st.sampled_from([{}, {"a": [1, {"b": None}]}, [], 5, "x", True]),
}


def values(type: Type, depth: int) -> st.SearchStrategy[Any]:
    if type.kind == "struct":
        return structs(type.ref, depth)
    if type.kind == "either" and type.items is not None:
        simpler = values(type.items, depth).filter(lambda value: value != [])  # no list is no value
        return structs(type.ref, depth - 1) | simpler
    if type.items is not None:
        items = st.none() | values(type.items, depth - 1)
        if type.kind == "list":
            return st.lists(items, max_size=2)
        return st.dictionaries(st.sampled_from(["a", "b/c", ""]), items, max_size=2)
    return SCALARS[type.kind]


@st.composite
def structs(draw: st.DrawFn, name: str, depth: int = 5) -> dict[str, Any]:
    fields = TABLES.types[name].fields
    if depth <= 0 or not fields:
        return {}
    chosen = draw(st.lists(st.sampled_from(fields), max_size=4, unique_by=lambda each: each.name))
    return {each.name: draw(st.none() | values(each.type, depth - 1)) for each in chosen}


@st.composite
def objects(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    name = draw(st.sampled_from(KINDS))
    return name, draw(structs(name))
