"""The evaluation of a path visits a limited number of nodes, whatever the path repeats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.apimachinery.jsonpath import MAX_VISITS, JsonPath, VisitBudget, parse_path


def _path(text: str) -> JsonPath:
    found = parse_path(text)
    assert isinstance(found, JsonPath)
    return found


def _tree(levels: int) -> dict[str, Any]:
    tree: dict[str, Any] = {"a": "leaf", "b": ["x"]}
    for _ in range(levels):
        tree = {"a": json.loads(json.dumps(tree)), "b": json.loads(json.dumps(tree))}
    return tree


@pytest.mark.parametrize("times", [1, 2, 5, 8])
def test_each_further_descent_visits_every_part_once(times: int) -> None:
    visits = VisitBudget()
    found = _path(".spec" + "..a" * times).first({"spec": _tree(8)}, visits)
    assert found
    assert MAX_VISITS - visits.remaining < times * 4_000


def test_a_chain_of_descents_finds_the_first_value_in_document_order() -> None:
    obj = {"a": {"b": {"a": {"a": 1}}, "a": 2}, "c": {"a": 3}}
    assert _path("..a").first(obj) == ({"b": {"a": {"a": 1}}, "a": 2},)
    assert _path("..a..a").first(obj) == (2,)
    assert _path("..a..a..a").first(obj) == (1,)


@pytest.mark.parametrize(
    "text",
    [
        ".l" + "[*,*]" * 40,
        ".l[" + ",".join(["*"] * 20_000) + "]",
        ".l[?(@.a==1)]" + "[?(@..a)]",
        ".m" + ".*" * 3,
        ".big..a",
    ],
)
def test_a_path_that_needs_too_many_visits_stops_and_finds_nothing(text: str) -> None:
    big = [{"a": 0, "b": [1]} for _ in range(MAX_VISITS)]
    obj = {
        "l": [[1]] * 20,
        "m": {f"k{i}": {f"k{j}": {"a": 1, "b": 2} for j in range(200)} for i in range(200)},
        "big": big,
    }
    visits = VisitBudget(10 * MAX_VISITS)
    assert _path(text).first(obj, visits) == ()
    assert 10 * MAX_VISITS - visits.remaining <= MAX_VISITS


def test_paths_with_a_shared_budget_find_nothing_when_it_is_used_up() -> None:
    visits = VisitBudget(10)
    path = _path(".a.b")
    found = [path.first({"a": {"b": 1}}, visits) for _ in range(4)]
    assert found == [(1,), (1,), (), ()]
