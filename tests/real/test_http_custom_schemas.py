"""What the schema of a custom kind makes of its objects, on both servers: defaults, pruning, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from harness.request_cases import (
    Case,
    Step,
    case,
    cases_of,
    get,
    post,
)
from harness.server_pair import ServerPair
from real.custom_kinds import GROUP, THINGS, thing

pytestmark = pytest.mark.real

A = f"{THINGS}/a"


def raw(name: str, spec: str) -> str:
    """A body to the letter: what Python's encoder would not write."""
    return f'{{"apiVersion":"{GROUP}/v1","kind":"Thing","metadata":{{"name":"{name}"}},"spec":{spec}}}'


def tried(*specs: dict[str, Any]) -> list[Step]:
    return [post(THINGS, thing(f"n{number}", **spec)).in_any_order() for number, spec in enumerate(specs)]


SCHEMA = [
    case(
        "lengths and words",
        *tried(
            {"text": "a"},
            {"text": "abcdef"},
            {"text": "äöü€𝄞"},
            {"word": "pink"},
            {"word": 5},
            {"odd": 2},
            {"odd": "1"},
            {"odd": 3},
            {"text": None},
            {"text": 5},
            {"text": True},
            {"text": ["a"]},
            {"text": {"a": "b"}},
        ),
    ),
    case(
        "patterns", *tried({"code": "ab-12"}, {"code": "AB-12"}, {"code": ""}, {"code": "ab-12\n"}, {"code": "x-12345"})
    ),
    case(
        "formats",
        *tried(
            {"date": "2024-02-29"},
            {"date": "2023-02-29"},
            {"date": "2024-2-9"},
            {"date": 5},
            {"date": True},
            {"date": ["2024-02-29"]},
            {"moment": "2024-02-29T12:00:00Z"},
            {"moment": "2024-02-29T12:00:00.123+01:00"},
            {"moment": "2024-02-29 12:00:00Z"},
            {"moment": "2024-02-29T25:00:00Z"},
            {"address": "10.0.0.1"},
            {"address": "10.0.0.256"},
            {"address": "010.0.0.1"},
            {"address": "::1"},
            {"address6": "::1"},
            {"address6": "10.0.0.1"},
            {"net": "10.0.0.0/8"},
            {"net": "10.0.0.0"},
            {"host": "a.example.com"},
            {"host": "-a.example.com"},
            {"host": "a_b"},
            {"mail": "a@example.com"},
            {"mail": "A <a@example.com>"},
            {"mail": "a@"},
            {"mail": "nobody"},
            {"link": "https://example.com/a?b=c"},
            {"link": "example.com"},
            {"link": "/path"},
            {"link": "mailto:a@example.com"},
            {"id": "00000000-0000-4000-8000-000000000001"},
            {"id": "none"},
            {"bytes": "YWJj"},
            {"bytes": "YWJ"},
            {"span": "1h30m"},
            {"span": "3 days"},
            {"span": "soon"},
            {"mac": "00:00:5e:00:53:01"},
            {"mac": "00:00:5e"},
            {"unknown": "anything"},
        ),
    ),
    case(
        "bounds of numbers",
        *tried(
            {"count": 1},
            {"count": 11},
            {"count": 2},
            {"count": 2.5},
            {"count": 3.0},
            {"count": "3"},
            {"strict": 2},
            {"strict": 10},
            {"strict": 3},
            {"tens": 15},
            {"tens": 20},
            {"small": 3000000000},
            {"ratio": 0.4},
            {"ratio": 1.6},
            {"ratio": 1},
            {"ratio": 2},
            {"ratio": 1.25},
            {"tenth": 0.3},
            {"tenth": 0.35},
            {"flag": "true"},
            {"flag": 1},
            {"flag": False},
        ),
    ),
    case(
        "numbers keep their value",
        post(
            THINGS,
            raw(
                "a",
                '{"any":{"a":1.0,"b":1e3,"c":1.50,"d":9223372036854775807,"e":9223372036854775808,"f":1e-7,"g":-0.0,'
                '"h":1e21,"i":123456789.125}}',
            ),
        ),
        get(A),
    ),
    case(
        "integers or strings",
        *tried({"port": 1}, {"port": "one"}, {"port": 1.5}, {"port": True}, {"port": None}, {"port": {}}, {"port": []}),
    ),
    case(
        "null where it may stand", *tried({"maybe": None}, {"maybe": "a"}, {"nullDefault": None}, {"nullDefault": "x"})
    ),
    case(
        "null where it may not stand",
        *tried(
            {"replicas": None},
            {"flag": None},
            {"tags": None},
            {"tags": [None]},
            {"labels": {"a": None}},
            {"nested": None},
            {"nested": {"a": None, "d": None}},
            {"defaulted": [None, {"x": None, "y": None}]},
            {"any": None},
            {"free": {"known": None, "b": None}},
        ),
    ),
    case(
        "objects with too many and too few fields",
        *tried(
            {"some": {}},
            {"some": {"a": "1"}},
            {"some": {"a": "1", "b": "2", "c": "3"}},
            {"some": {"a": 1}},
            {"counts": {"a": -1, "b": 2}},
            {"counts": {"a": "x"}},
            {"needs": {}},
            {"needs": {"a": "1"}},
            {"needs": {"a": "1", "b": "2"}},
        ),
    ),
    case(
        "lists, sets and maps",
        *tried(
            {"tags": []},
            {"tags": ["a", "b", "c", "d"]},
            {"tags": ["a", 1]},
            {"tags": "a"},
            {"set": ["a", "b", "a", "a"]},
            {"set": ["a", "b"]},
            {"keyed": [{"name": "a"}, {"name": "a", "port": 80}]},
            {"keyed": [{"name": "a"}, {"name": "a", "port": 81}]},
            {"keyed": [{"port": 1}]},
            {"keyed": ["a"]},
            {"single": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
        ),
    ),
    case(
        "equal numbers of two types",
        *tried(
            {"numbers": [2, 2.0]},
            {"numbers": [2.0, 2, 3.0]},
            {"numbers": [2, 2.0, 2.0]},
            {"numbers": [2.0, 2.0]},
            {"numbers": [2.5, 2, 2.5]},
            {"numbers": [2, 1e0, 1]},
            {"numbers": [2, 2.0, "a"]},
            {"keyed": [{"name": "a", "port": 80}, {"name": "a", "port": 80.0}]},
            {"keyed": [{"name": "a"}, {"name": "a", "port": 80.0}]},
            {"keyed": [{"name": "a", "port": 81.0}, {"name": "a", "port": 81.0}]},
            {"single": [{"name": 1}, {"name": 1.0}]},
            {"tags": ["a", 1.0]},
            {"count": 3.0},
            {"small": 3.0},
            {"replicas": 3.0},
        ),
    ),
    case(
        "one of several schemas",
        *tried(
            {"either": {}},
            {"either": {"a": "1"}},
            {"either": {"a": "1", "b": "2"}},
            {"either": {"c": 1}},
            {"anyway": 200},
            {"anyway": 50},
            {"anyway": 51},
            {"anyway": 4},
            {"anyway": 5},
            {"all": 6},
            {"all": 4},
            {"all": 8},
            {"never": "forbidden"},
            {"never": "fine"},
        ),
    ),
    case(
        "defaults",
        *tried(
            {},
            {"nested": {}},
            {"nested": {"a": {}}},
            {"nested": {"a": {"b": {}}}},
            {"nested": {"d": "own"}},
            {"defaulted": [{}, {"x": 1}, {"y": "z"}]},
        ),
        get(THINGS),
    ),
    case(
        "unknown fields are dropped",
        *tried(
            {"unheard": 1, "nested": {"a": {"z": 1}, "e": [1]}},
            {"defaulted": [{"q": 1}, {"y": "a", "w": {}}]},
            {"free": {"x": {"y": 1}, "known": {"a": "b", "z": 1}}},
            {"any": {"x": {"y": 1}, "z": [1, {"q": None}]}},
            {"whole": {"a": "1", "c": "2"}},
        ),
        post(THINGS, {**thing("top"), "data": {"a": 1}, "other": "x"}),
    ),
    case(
        "unknown fields, strictly",
        post(f"{THINGS}?fieldValidation=Strict", thing("a", unheard=1, nested={"z": 1})),
        post(f"{THINGS}?fieldValidation=Strict", {**thing("a"), "data": 1}),
        post(f"{THINGS}?fieldValidation=Ignore", thing("a", unheard=1)),
        post(f"{THINGS}?fieldValidation=Warn", thing("b", unheard=1)),
        post(f"{THINGS}?fieldValidation=Strict", {**thing("a"), "metadata": {"name": "c", "odd": 1}}),
        post(THINGS, {**thing("a"), "metadata": {"name": "d", "odd": 1, "more": {}}}),
        post(
            f"{THINGS}?fieldValidation=Strict",
            raw("e", '{"flag":true,"flag":false}'),
        ),
        post(
            THINGS,
            raw("f", '{"flag":true,"flag":false}'),
        ),
    ),
    case(
        "embedded resources",
        *tried(
            {"resource": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "odd": 1}, "spec": {"a": 1}}},
            {"resource": {}},
            {"resource": {"apiVersion": "v1"}},
            {"resource": {"apiVersion": "", "kind": "pod_bad"}},
            {"resource": {"apiVersion": "a/b/c", "kind": "X", "metadata": {"labels": {"a b": "c"}}}},
            {"resource": {"apiVersion": 1, "kind": "X"}},
            {"resource": {"apiVersion": "v1", "kind": "X", "metadata": {"labels": 1}}},
            {"resource": {"apiVersion": "v1", "kind": "X", "metadata": {"creationTimestamp": None}}},
        ),
    ),
]
CASES = cases_of(SCHEMA)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_schemas_of_custom_kinds_are_applied_the_same(prepared: ServerPair, case: Case) -> None:
    prepared.compare(case)
