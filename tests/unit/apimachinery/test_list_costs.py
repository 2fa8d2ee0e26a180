"""Work on one list takes time in proportion to its items.

`tests/costs` measures whole requests, where the linear work on each item hides a search that is cheap per item. A list
may have a hundred thousand items, so that such a search would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lru_caches
from cost_growth import TIMES, cpu_s, too_steep
from headgate.apimachinery.apply.compare import compare
from headgate.apimachinery.apply.merge import merge
from headgate.apimachinery.apply.merge_schema import MergeSchema, merge_schema_of
from headgate.apimachinery.apply.owned_fields import owned_fields
from headgate.apimachinery.apply.validate import schema_errors
from headgate.apimachinery.patch.strategic_lists import merge_lists, order_by_directive
from headgate.apimachinery.structural.list_types import check_lists
from headgate.apimachinery.structural.schema import as_resource
from headgate.kube.schema import Field, GroupVersionKind, Schemas, TypeDef
from headgate.kube.schema import Type as T

pytestmark = pytest.mark.measured

Object = dict[str, Any]
Run = Callable[[], object]

_SIZE = 2_000
_CACHES = lru_caches.of_headgate()
_SCHEMAS = Schemas(
    (
        TypeDef(
            "Thing",
            (
                Field("names", T("list", items=T("string")), list_type="set"),
                Field("items", T("list", items=T("struct", ref="Item")), list_type="map", list_keys=("name",)),
            ),
        ),
        TypeDef("Item", (Field("name", T("string")), Field("size", T("int64")))),
    ),
    {GroupVersionKind("", "v1", "Thing"): "Thing"},
)
_THING: MergeSchema = merge_schema_of(_SCHEMAS, "Thing")
_LISTS = as_resource(
    {
        "type": "object",
        "properties": {
            "names": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "items": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        },
    }
)


def _names(count: int) -> list[str]:
    return [f"name-{number}" for number in range(count)]


def _objects(count: int, size: int = 0) -> list[Object]:
    return [{"name": name, "size": size} for name in _names(count)]


def _thing(count: int, size: int = 0, step: int = 1) -> Object:
    return {"names": _names(count)[::step], "items": _objects(count, size)[::step]}


def _ordered(count: int) -> Run:
    objects, order = _objects(count), [{"name": name} for name in reversed(_names(count))]
    return lambda: order_by_directive(list(objects), order, objects, objects, "name")


_WORK: dict[str, Callable[[int], Run]] = {
    "apply in another order": lambda n: lambda: merge(_THING, _thing(n), _thing(n, 1, -1)),
    "apply of other items": lambda n: lambda: merge(_THING, _thing(n), {"names": [f"x{i}" for i in range(n)]}),
    "fields of an applied configuration": lambda n: lambda: owned_fields(_THING, _thing(n)),
    "comparison of two orders": lambda n: lambda: compare(_THING, _thing(n), _thing(n, 1, -1)),
    "items given twice in apply": lambda n: lambda: schema_errors(_THING, {"names": _names(n) * 2}),
    "items of a set and of a map": lambda n: lambda: check_lists(_thing(n), _LISTS),
    "items given twice": lambda n: lambda: check_lists({"names": _names(n) * 2, "items": _objects(n) * 2}, _LISTS),
    "strategic merge of objects": lambda n: (
        lambda: merge_lists(_objects(n), _objects(n)[::-1], "name", lambda old, new: {**old, **new}, False)
    ),
    "strategic merge of texts": lambda n: (
        lambda: merge_lists(_names(n), [f"x{i}" for i in range(n)], "", lambda old, new: new, False)
    ),
    "order of a strategic patch": _ordered,
}


@pytest.mark.parametrize("name", _WORK)
def test_eight_times_the_items_cost_about_eight_times_as_much(name: str) -> None:
    small, large = _WORK[name](_SIZE), _WORK[name](TIMES * _SIZE)

    def cost_s(run: Run) -> float:
        for cache in _CACHES:
            cache.cache_clear()
        return cpu_s(run)

    assert not too_steep(lambda: cost_s(small), lambda: cost_s(large))
