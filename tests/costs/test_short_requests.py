"""A short request keeps the event loop no longer than a long one, however much other objects add to it.

The schema of its kind adds defaults and checks, the LimitRanges of its namespace and its RuntimeClass add fields, an
operation of a JSON patch repeats what is stored.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from costs.test_long_requests import BOUND_S, MAPS, longest_turn_s, play, send
from embedded import Embedded
from headgate.apimachinery.structural.patterns import MAX_STEPS, compile_pattern
from headgate.apimachinery.structural.validation import compile_schema
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.request.messages import LONG_BYTES, ServerRequest, ServerResponse
from headgate.apiserver.watch.watcher import MAX_REQUIREMENTS, WatchCursor
from sized_requests import (
    DEFINITIONS,
    FOOS,
    IN_T,
    JSON_PATCH,
    PODS,
    RBAC,
    YAML,
    Object,
    Sized,
    a_definition,
    a_pod,
    accepting,
    an_object,
    create,
    custom,
    foo,
    named,
    texts,
)
from sized_requests import send as a_request

pytestmark = pytest.mark.measured

_MANY = 24_000
_RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_DEFAULTED = texts(_MANY, default="x")


def _limit_range(name: str, field: str, count: int) -> ServerRequest:
    limit = {"type": "Container", field: {f"x.io/r{i}": "1" for i in range(count)}}
    return a_request("POST", f"{IN_T}/limitranges", {"metadata": {"name": name}, "spec": {"limits": [limit]}})


def _with_limits(field: str) -> Sized:
    return [_limit_range("a", field, _MANY)], create(PODS, a_pod())[1]


def _with_runtime(**fields: Any) -> Sized:
    runtime = {**named(), "handler": "h", **fields}
    return [a_request("POST", _RUNTIMES, runtime)], create(PODS, a_pod(runtimeClassName="a"))[1]


def _items(schema: Object, item: Any, count: int) -> Sized:
    return custom(an_object(items={"type": "array", "items": schema}), {"items": [item] * count})


def _in_yaml() -> Sized:
    schema = {"type": "array", "items": texts(200, default="x")}
    body = b"apiVersion: x.io/v1\nkind: Foo\nmetadata: {name: a}\nspec:\n  items:\n" + b"  - a: b\n" * 300
    setup, _ = custom(an_object(items=schema), {})
    return setup, a_request("POST", FOOS, body, YAML)


def _copies(operation: str) -> Sized:
    setup, first = custom(_OPEN, {"v": {f"k{i}": {"a": i} for i in range(450)}})
    patch = [{"op": "OP", "from": "/spec/v", "path": f"/spec/w{i}"} for i in range(140)]
    body = json.dumps(patch).replace("OP", operation).encode()
    return [*setup, first], a_request("PATCH", f"{FOOS}/a", body, JSON_PATCH)


def _letters(count: int) -> str:
    return "".join(random.Random(count).choices("ab", k=count))


def _patterns(count: int) -> Object:
    """A definition whose patterns are in no cache."""
    patterns = [{"pattern": f"[^a]{{990}}b{count}-{number}"} for number in range(count)]
    return a_definition(an_object(spec=an_object(s={"type": "string", "allOf": patterns})))


def _rules_of_a_user() -> Sized:
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["a"], "resources": [f"r{i}"], "verbs": ["get"]} for i in range(20_000)]
    rules.append({"apiGroups": ["authorization.k8s.io"], "resources": ["*"], "verbs": ["create"]})
    setup = []
    for name in "ab":
        role = {"metadata": {"name": name}, "rules": rules}
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": "u", "apiGroup": group}],
        }
        setup += [
            a_request("POST", f"{RBAC}/clusterroles", role),
            a_request("POST", f"{RBAC}/clusterrolebindings", binding),
        ]
    review = a_request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "t"}})
    return setup, accepting(review, "application/json", **{"impersonate-user": "u"})


def _with_quotas() -> Sized:
    hard = {"pods": "9", **{f"count/r{i}.x.io": "9" for i in range(20_000)}}
    bodies = [{"metadata": {"name": f"q{i}"}, "spec": {"hard": hard}} for i in range(3)]
    return [a_request("POST", f"{IN_T}/resourcequotas", body) for body in bodies], create(PODS, a_pod())[1]


_AMPLIFIED: dict[str, Callable[[], Sized]] = {
    "defaults of containers": lambda: _with_limits("default"),
    "default requests of containers": lambda: _with_limits("defaultRequest"),
    "minima of containers": lambda: _with_limits("min"),
    "limits of many LimitRanges": lambda: (
        [_limit_range(f"a{i}", "max", 500) for i in range(100)],
        create(PODS, a_pod())[1],
    ),
    "tolerations of a RuntimeClass": lambda: _with_runtime(
        scheduling={"tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in range(_MANY)]}
    ),
    "overhead of a RuntimeClass": lambda: _with_runtime(
        overhead={"podFixed": {f"x.io/r{i}": "1" for i in range(_MANY)}}
    ),
    "defaults of a schema": lambda: custom(_DEFAULTED, {}),
    "defaults of a default": lambda: custom(
        an_object(list={"type": "array", "default": [{} for _ in range(800)], "items": texts(100, default="x")}), {}
    ),
    "defaults of items": lambda: _items(texts(500, default="x"), {}, 160),
    "defaults of values of a map": lambda: custom(
        {"type": "object", "additionalProperties": texts(500, default="x")}, {f"k{i}": {} for i in range(160)}
    ),
    "defaults of YAML": _in_yaml,
    "alternatives by items": lambda: _items({"type": "string", "allOf": [{"minLength": 1}] * 2_000}, "xxxx", 300),
    "alternatives above items": lambda: custom(
        {
            **an_object(items={"type": "array", "items": {"type": "string"}}),
            "allOf": [{"properties": {"items": {"items": {"minLength": 1}}}}] * 2_000,
        },
        {"items": ["xxxx"] * 300},
    ),
    "required fields of alternatives by items": lambda: _items(
        {**texts(20), "anyOf": [{"required": [f"p{i}" for i in range(20)]}] * 300}, {}, 100
    ),
    "numbers of an enum by items": lambda: _items({"type": "integer", "enum": list(range(9_000))}, 8_999, 300),
    "a pattern by a text": lambda: custom(
        an_object(**{name: {"type": "string", "pattern": "^[ab]*a[ab]{900}c"} for name in "tuvw"}),
        {"t": _letters(6_000), "u": _letters(6_001), "v": _letters(6_002), "w": _letters(6_003)},
    ),
    "patterns of a definition": lambda: ([], a_request("POST", DEFINITIONS, _patterns(100), dryRun="All")),
    "rules of a user": _rules_of_a_user,
    "limits of ResourceQuotas": _with_quotas,
    "copies of a JSON patch": lambda: _copies("copy"),
    "copies of a JSON patch whose operation is escaped": lambda: _copies(r"\u0063opy"),
}


@pytest.mark.parametrize("name", _AMPLIFIED)
def test_no_short_request_keeps_the_event_loop(name: str) -> None:
    setup, request = _AMPLIFIED[name]()
    assert len(request.body) < LONG_BYTES

    async def scenario(endpoint: APIServer) -> None:
        assert (await send(endpoint, "POST", MAPS, {"metadata": {"name": "small"}})).status == 201
        for each in setup:
            answer = await endpoint.answer(each)
            assert getattr(answer, "status", 0) < 300, answer
        assert await longest_turn_s(endpoint, request) < BOUND_S

    play(scenario)


def test_objects_that_get_the_defaults_of_a_later_schema_keep_the_event_loop_no_longer() -> None:
    async def scenario(endpoint: APIServer) -> None:
        assert (await send(endpoint, "POST", MAPS, {"metadata": {"name": "small"}})).status == 201
        assert (await send(endpoint, "POST", DEFINITIONS, a_definition(an_object(spec=an_object())))).status == 201
        for number in range(20):
            body = {**foo({}), "metadata": {"name": f"a{number}"}}
            assert (await send(endpoint, "POST", FOOS, body)).status == 201
        schema = a_definition(an_object(spec=_DEFAULTED))["spec"]["versions"]
        patch = {"spec": {"versions": schema}}
        changed = await send(endpoint, "PATCH", f"{DEFINITIONS}/foos.x.io", patch, "application/merge-patch+json")
        assert changed.status == 200
        for path in (f"{FOOS}/a1", FOOS):
            assert await longest_turn_s(endpoint, a_request("GET", path)) < BOUND_S
            answer = await send(endpoint, "GET", path)
            assert len(answer.body) > _MANY

    play(scenario)


_PRODUCTS: dict[str, tuple[Object, Any]] = {
    "anyOf": ({"type": "integer", "anyOf": [{"minimum": 1_000_000 - i} for i in range(20_000)]}, 1),
    "oneOf": ({"type": "integer", "oneOf": [{"minimum": 1_000_000 - i} for i in range(20_000)]}, 1),
    "not": ({"type": "integer", "allOf": [{"not": {"enum": list(range(2, 50))}}] * 20_000}, 1),
    "objects of an enum": ({**_OPEN, "enum": [{"a": i} for i in range(40_000)]}, {"a": 39_999}),
    "patterns": (
        {"type": "string", "allOf": [{"pattern": f"1[01]{{90}}[2-9a-z][01]*1[01]{{90}}x{i}"} for i in range(900)]},
        "01101" * 500,
    ),
}


@pytest.mark.parametrize("name", _PRODUCTS)
def test_the_checks_of_all_values_by_all_alternatives_are_limited(name: str) -> None:
    schema, value = _PRODUCTS[name]
    validate = compile_schema({"type": "array", "items": schema})
    began = time.thread_time()
    (problem,) = validate([value] * 1_000, None, None, "spec")
    assert time.thread_time() - began < 10.0  # without the limit it takes minutes
    assert str(problem).startswith("spec: Forbidden: its values have to pass more than 1000000 checks of the schema")


def test_a_long_list_of_names_passes_its_pattern() -> None:
    name = {
        "type": "string",
        "maxLength": 253,
        "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    }
    validate = compile_schema({"type": "array", "items": {"anyOf": [{"type": "integer"}, name]}})
    assert validate([f"a-name-{number}.example" for number in range(50_000)], None, None, "") == []


def test_the_patterns_of_a_definition_are_limited_together() -> None:
    server = Embedded()
    answer = server.send(a_request("POST", DEFINITIONS, _patterns(210)))
    assert isinstance(answer, ServerResponse)
    assert answer.status == 422
    assert b"its patterns are too large together" in answer.body


def test_the_selectors_of_a_watch_are_limited() -> None:
    server = Embedded()
    for count, status in ((MAX_REQUIREMENTS, None), (MAX_REQUIREMENTS + 1, 400)):
        selector = ",".join(f"k{number}!=v" for number in range(count))
        answer = server.send(a_request("GET", MAPS, watch="1", labelSelector=selector))
        assert getattr(answer, "status", None) == status


@pytest.mark.parametrize("view", ["PartialObjectMetadata", "Table"])
def test_a_long_object_is_decoded_once_for_all_watches(view: str) -> None:
    server = Embedded()
    watch = accepting(a_request("GET", MAPS, watch="1"), f"application/json;as={view};v=v1;g=meta.k8s.io")
    cursors = [server.send(watch) for _ in range(100)]
    server.send(a_request("POST", MAPS, {"metadata": {"name": "a"}, "data": {f"k{n}": "x" for n in range(50_000)}}))
    costs_s, events = [], set()
    for cursor in cursors:
        assert isinstance(cursor, WatchCursor)
        began = time.thread_time()
        events.add(cursor.take(1_000_000))
        costs_s.append(time.thread_time() - began)
    assert len(events) == 1
    assert b'"name":"a"' in events.pop()
    assert sum(costs_s[1:]) < 20 * costs_s[0]  # each of the 99 would cost as much as the first


@pytest.mark.parametrize("text", ["ab", "aé"])
def test_a_text_is_not_matched_if_that_could_take_long(text: str) -> None:
    pattern = compile_pattern("^[^x]*a[^x]{900}x")
    assert not isinstance(pattern, str)
    longest = MAX_STEPS // pattern.states // len(text.encode())
    assert not _problems(text * longest).count("too long for its pattern")
    assert "is too long for its pattern: at most" in _problems(text * (longest + 1))


def _problems(text: str) -> str:
    validate = compile_schema({"type": "string", "pattern": "^[^x]*a[^x]{900}x"})
    return "; ".join(str(each) for each in validate(text, None, None, ""))
