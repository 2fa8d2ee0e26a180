"""Requests that take long run in a thread, one at a time, and the event loop goes on."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import garbage_collector
from embedded import TOKEN, Embedded, a_pod
from harness.webhook_server import WebhookServer
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.request.messages import (
    LONG_BYTES,
    CallWebhooks,
    Commit,
    ServerRequest,
    ServerResponse,
    WebhookAnswer,
)
from headgate.apiserver.work_estimator import MANY_BYTES, MANY_OBJECTS, continues_in_thread, execution_place
from headgate.kube.serializer.json_decoder import MAX_JSON_VALUES, MAX_UNCOUNTED_BYTES, TOO_MANY_JSON_VALUES
from headgate.store import Revision
from headgate.store.io.committer import Committer
from headgate.store.io.store_lock import StoreLock
from large_bodies import PREPARED, bodies
from sized_requests import DEFINITIONS, FOOS, IN_T, a_definition, an_object, foo

pytestmark = pytest.mark.measured

MAPS = "/api/v1/namespaces/t/configmaps"
PODS = "/api/v1/namespaces/t/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
BOUND_S = 0.1
"""The longest that one request may keep the event loop."""


def request(method: str, path: str, body: Any = None, how: str = "application/json", accept: str = "") -> ServerRequest:
    path, _, query = path.partition("?")
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": how, "accept": accept, "user-agent": "t/1"}
    return ServerRequest(method, path, query, headers, b"" if body is None else msgspec.json.encode(body))


def with_headers(
    given: ServerRequest, more: dict[str, str], repeated: dict[str, tuple[str, ...]] | None = None
) -> ServerRequest:
    return msgspec.structs.replace(given, headers={**given.headers, **more}, repeated=repeated or {})


def large(name: str, keys: int = 8_000) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {f"k{number}": "v" for number in range(keys)}}


@asynccontextmanager
async def served() -> AsyncIterator[APIServer]:
    api = Embedded().api
    endpoint = APIServer(api)
    committer = Committer(api.store, None, publish=endpoint.publish)
    endpoint.attach(committer)
    yield endpoint
    await endpoint.close()
    await committer.close()


async def send(endpoint: APIServer, *given: Any, **more: Any) -> ServerResponse:
    answer = await endpoint.answer(request(*given, **more))
    assert isinstance(answer, ServerResponse)
    return answer


def play(scenario: Callable[[APIServer], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(60), served() as endpoint:
            await scenario(endpoint)

    with garbage_collector.without_earlier_objects():
        asyncio.run(run())


def test_small_reads_are_answered_while_a_large_write_is_worked_on() -> None:
    async def scenario(endpoint: APIServer) -> None:
        await send(endpoint, "POST", MAPS, {"metadata": {"name": "small"}})
        writing = asyncio.create_task(send(endpoint, "POST", MAPS, large("a", 30_000)))
        reads = 0
        while not writing.done():
            await asyncio.sleep(0)
            assert (await send(endpoint, "GET", f"{MAPS}/small")).status == 200
            reads += 1
        assert (await writing).status == 201
        assert reads >= 20

    play(scenario)


def test_of_two_large_creates_of_one_name_one_is_refused() -> None:
    async def scenario(endpoint: APIServer) -> None:
        answers = await asyncio.gather(*(send(endpoint, "POST", MAPS, large("a")) for _ in range(3)))
        assert sorted(each.status for each in answers) == [201, 409, 409]

    play(scenario)


def test_no_change_is_lost_when_large_and_small_writes_meet() -> None:
    async def scenario(endpoint: APIServer) -> None:
        await send(endpoint, "POST", MAPS, large("a"))
        await send(endpoint, "POST", MAPS, {"metadata": {"name": "b"}, "data": {}})

        async def change(name: str, key: str) -> ServerResponse:
            return await send(endpoint, "PATCH", f"{MAPS}/{name}", {"data": {key: "x"}}, "application/merge-patch+json")

        names = [f"n{number}" for number in range(10)]
        answers = await asyncio.gather(*(change(place, key) for key in names for place in ("a", "b")))
        assert {each.status for each in answers} == {200}
        for place in ("a", "b"):
            data = json.loads((await send(endpoint, "GET", f"{MAPS}/{place}")).body)["data"]
            assert all(data[key] == "x" for key in names)

    play(scenario)


def test_a_small_write_does_not_wait_for_all_large_ones() -> None:
    async def scenario(endpoint: APIServer) -> None:
        order: list[str] = []

        async def create(name: str, body: dict[str, Any]) -> None:
            assert (await send(endpoint, "POST", MAPS, body)).status == 201
            order.append(name)

        writes = [asyncio.create_task(create(f"large-{number}", large(f"l{number}"))) for number in range(4)]
        await asyncio.sleep(0)
        writes.append(asyncio.create_task(create("small", {"metadata": {"name": "s"}})))
        await asyncio.gather(*writes)
        assert order.index("small") <= 1

    play(scenario)


def test_a_dry_run_of_a_large_write_leaves_nothing() -> None:
    async def scenario(endpoint: APIServer) -> None:
        assert (await send(endpoint, "POST", f"{MAPS}?dryRun=All", large("a"))).status == 201
        assert (await send(endpoint, "GET", f"{MAPS}/a")).status == 404

    play(scenario)


def test_a_large_write_of_a_disconnected_client_delays_no_other_request() -> None:
    async def scenario(endpoint: APIServer) -> None:
        gone = asyncio.create_task(send(endpoint, "POST", MAPS, large("a")))
        await asyncio.sleep(0.001)
        gone.cancel()
        assert (await send(endpoint, "POST", MAPS, {"metadata": {"name": "b"}})).status == 201
        assert (await send(endpoint, "POST", MAPS, large("c"))).status == 201

    play(scenario)


def test_many_objects_are_shown_as_a_table_while_others_are_served() -> None:
    async def scenario(endpoint: APIServer) -> None:
        for number in range(MANY_OBJECTS + 1):
            await send(endpoint, "POST", PODS, a_pod(f"p{number}"))
        listing = asyncio.create_task(send(endpoint, "GET", PODS, accept=TABLE))
        reads = 0
        while not listing.done():
            await asyncio.sleep(0)
            assert (await send(endpoint, "GET", f"{PODS}/p1")).status == 200
            reads += 1
        assert len(json.loads((await listing).body)["rows"]) == MANY_OBJECTS + 1
        assert reads >= 5

    play(scenario)


class _Turns:
    """CPU time that the thread of the event loop used in one turn, at the most; other threads do not count."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            self.longest_s = max(self.longest_s, time.thread_time() - began)


async def longest_turn_s(endpoint: APIServer, given: ServerRequest) -> float:
    turns = _Turns()
    watching = asyncio.create_task(turns.watch())
    await asyncio.sleep(0)
    answer = await endpoint.answer(given)
    assert isinstance(answer, ServerResponse)
    assert answer.status < 500 or b"request is too large" in answer.body, answer.body
    for _ in range(3):
        await send(endpoint, "GET", f"{MAPS}/small")
        await asyncio.sleep(0)
    watching.cancel()
    return turns.longest_s


_LARGE = bodies(1024 * 1024)


@pytest.mark.parametrize("kind", _LARGE)
def test_no_large_body_keeps_the_event_loop(kind: str) -> None:
    async def scenario(endpoint: APIServer) -> None:
        for path, body in PREPARED:
            assert (await send(endpoint, "POST", path, body)).status == 201
        given = _LARGE[kind]
        raw, path = msgspec.Raw(given.body.replace(b"{}", b"fresh")), given.path.replace("{}", "fresh")
        longest = await longest_turn_s(endpoint, request(given.method, path, raw, given.content_type))
        assert longest < BOUND_S

    play(scenario)


def test_no_large_answer_keeps_the_event_loop() -> None:
    async def scenario(endpoint: APIServer) -> None:
        for number in range(2_000):
            await send(endpoint, "POST", PODS, a_pod(f"p{number}"))
        for path, accept in (
            (PODS, ""),
            (PODS, TABLE),
            (PODS, "application/yaml"),
            (PODS, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
            (f"{PODS}?labelSelector=a!=b", ""),
            ("/openapi/v2", ""),
            ("/openapi/v3/api/v1", ""),
            ("/apis", "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"),
        ):
            assert await longest_turn_s(endpoint, request("GET", path, accept=accept)) < BOUND_S, (path, accept)

    play(scenario)


def _tree(levels: int) -> dict[str, Any]:
    """Two equal branches at each level."""
    tree: dict[str, Any] = {"a": "x"}
    for _ in range(levels):
        tree = {"a": json.loads(json.dumps(tree)), "b": json.loads(json.dumps(tree))}
    return tree


def _columns(count: int, path: str) -> list[dict[str, str]]:
    return [{"name": f"c{number}", "type": "string", "jsonPath": path} for number in range(count)]


_OPEN = an_object(spec={"type": "object", "x-kubernetes-preserve-unknown-fields": True})
_TABLES = {
    "chains of recursive descent": (_columns(2_000, ".spec" + "..a" * 50), foo(_tree(10))),
    "one long text in many columns": (_columns(2_000, ".spec.s"), foo({"s": "x" * 500_000})),
    "filters of a long list": (_columns(300, '.spec.l[?(@.a=="x")].a'), foo({"l": [{"a": "y"}] * 20_000})),
}


@pytest.mark.parametrize("name", _TABLES)
def test_no_table_of_custom_objects_keeps_the_event_loop_or_takes_long(name: str) -> None:
    columns, obj = _TABLES[name]

    async def scenario(endpoint: APIServer) -> None:
        definition = a_definition(_OPEN, additionalPrinterColumns=columns)
        assert (await send(endpoint, "POST", DEFINITIONS, definition)).status == 201
        assert (await send(endpoint, "POST", FOOS, obj)).status == 201
        for path in (FOOS, f"{FOOS}/a"):
            began = time.process_time()
            assert await longest_turn_s(endpoint, request("GET", path, accept=TABLE)) < BOUND_S
            assert time.process_time() - began < 1.0

    play(scenario)


_LONG_TARGETS = {
    "a time limit of many parts": "/version?timeout=" + "1s" * 400_000,
    "slashes that are escaped": "/" + "%2f" * 300_000,
    "requirements of a label selector": f"{MAPS}?labelSelector=" + ",".join(f"a{i}!=b" for i in range(60_000)),
}


@pytest.mark.parametrize("name", _LONG_TARGETS)
def test_no_long_target_keeps_the_event_loop(name: str) -> None:
    async def scenario(endpoint: APIServer) -> None:
        assert await longest_turn_s(endpoint, request("GET", _LONG_TARGETS[name])) < BOUND_S

    play(scenario)


def test_what_a_long_target_asks_for_is_not_worked_out_to_count_requests_in_flight() -> None:
    long = request("GET", _LONG_TARGETS["slashes that are escaped"])
    assert long.is_read
    assert not request("POST", f"/{'a' * LONG_BYTES}").is_read
    assert "info" not in vars(long)
    assert request("GET", MAPS).is_read
    assert not request("DELETE", MAPS).is_read


def test_yaml_of_many_nodes_is_read_up_to_a_bound() -> None:
    async def scenario(endpoint: APIServer) -> None:
        for keys, status in ((50_000, 201), (125_000, 400)):
            text = "metadata: {name: a}\ndata:\n" + "".join(f"  k{number}: v\n" for number in range(keys))
            given = msgspec.structs.replace(request("POST", MAPS, how="application/yaml"), body=text.encode())
            answer = await endpoint.answer(given)
            assert isinstance(answer, ServerResponse)
            assert answer.status == status, answer.body[:200]

    play(scenario)


def test_options_requests_are_answered_without_authentication() -> None:
    async def scenario(endpoint: APIServer) -> None:
        answer = await endpoint.answer(ServerRequest("OPTIONS", "*"))
        assert isinstance(answer, ServerResponse)
        assert (answer.status, answer.body, answer.content_type) == (200, b"", "")
        assert (await send(endpoint, "GET", "*")).status == 404

    play(scenario)


_LONG = {"x": "y" * LONG_BYTES}


@pytest.mark.parametrize(
    ("given", "place"),
    [
        (request("GET", f"{MAPS}/a"), "loop"),
        (request("GET", MAPS), "loop"),
        (request("GET", "/openapi/v2"), "thread"),
        (request("POST", MAPS, {}), "turn"),
        (request("POST", MAPS, _LONG), "thread"),
        (request("PUT", f"{MAPS}/small", {}), "turn"),
        (request("PATCH", f"{MAPS}/stored", {}), "thread"),
        (request("DELETE", f"{MAPS}/stored"), "thread"),
        (request("DELETE", MAPS), "turn"),
        (request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {}), "turn"),
        (request("POST", "/nowhere", _LONG), "thread"),
        (request("GET", f"/{'a' * LONG_BYTES}"), "thread"),
        (request("GET", f"/version?timeout={'1' * LONG_BYTES}"), "thread"),
        (request("GET", MAPS, accept="text/plain," * (LONG_BYTES // 11)), "thread"),
        (with_headers(request("GET", MAPS), {f"impersonate-extra-{n}": "" for n in range(2_000)}), "thread"),
        (with_headers(request("POST", MAPS, {}), {"accept": "a"}, {"accept": ("a",) * LONG_BYTES}), "thread"),
        (with_headers(request("GET", MAPS), {"accept": "*/*"}, {"accept": ("*/*",) * 10}), "loop"),
        (request("GET", f"{MAPS}/stored"), "loop"),
        (request("GET", f"{MAPS}/stored", accept="application/yaml"), "thread"),
        (request("GET", f"{MAPS}/small", accept="application/yaml"), "loop"),
        (request("GET", MAPS, accept=TABLE), "loop"),
        (request("GET", f"{IN_T}/secrets", accept=TABLE), "thread"),
        (request("GET", FOOS, accept=TABLE), "thread"),
        (request("GET", f"{FOOS}/a", accept=TABLE), "thread"),
        (request("GET", FOOS), "loop"),
    ],
)
def test_what_is_large_is_known_before_it_is_looked_at(given: ServerRequest, place: str) -> None:
    server = Embedded()
    server.post(MAPS, {"metadata": {"name": "small"}})
    server.post(MAPS, {"metadata": {"name": "stored"}, "data": _LONG})
    for number in range(MANY_BYTES // LONG_BYTES):
        server.post(f"{IN_T}/secrets", {"metadata": {"name": f"s{number}"}, "stringData": _LONG})
    server.post(DEFINITIONS, a_definition(_OPEN, additionalPrinterColumns=_columns(100, ".spec..a")))
    server.post(FOOS, foo({}))
    assert execution_place(server.api, given) == place


@pytest.mark.parametrize(("bytes_each", "is_long"), [(LONG_BYTES // 2, False), (LONG_BYTES // 2 + 1, True)])
def test_the_responses_of_webhooks_decide_where_a_request_continues(bytes_each: int, is_long: bool) -> None:
    answers = [WebhookAnswer(200, b" " * bytes_each)] * 2
    assert continues_in_thread(CallWebhooks(()), answers) is is_long
    assert not continues_in_thread(Commit(Revision(1)), None)


def test_a_long_answer_of_a_webhook_keeps_the_event_loop_no_longer_than_a_long_body(tmp_path: Path) -> None:
    patch = msgspec.json.encode([{"op": "add", "path": "/data", "value": {f"k{n}": "v" for n in range(60_000)}}])
    response = {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}

    def answer(review: Any) -> Any:
        return {**review, "response": {"uid": review["request"]["uid"], **response}}

    async def scenario(endpoint: APIServer) -> None:
        hook = {
            "name": "a.b.c",
            "clientConfig": {"url": hooks.url("/grow"), "caBundle": base64.b64encode(hooks.ca).decode()},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [
                {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
            ],
        }
        where_to = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        assert (await send(endpoint, "POST", MAPS, {"metadata": {"name": "small"}})).status == 201
        assert (await send(endpoint, "POST", where_to, {"metadata": {"name": "h"}, "webhooks": [hook]})).status == 201
        assert await longest_turn_s(endpoint, request("POST", MAPS, {"metadata": {"name": "grown"}})) < BOUND_S
        assert len(json.loads((await send(endpoint, "GET", f"{MAPS}/grown")).body)["data"]) == 60_000

    with WebhookServer(tmp_path) as hooks:
        hooks.hooks["/grow"] = answer
        play(scenario)


@pytest.mark.parametrize("how", ["application/json", "application/yaml"])
def test_a_long_body_of_too_many_values_is_too_large(how: str) -> None:
    body = msgspec.json.encode(
        {"metadata": {"name": "a"}, "data": {f"key-{n}": "" for n in range(MAX_JSON_VALUES // 2)}}
    )
    body = body.ljust(MAX_UNCOUNTED_BYTES + 1)
    server = Embedded()
    answer = server.send(ServerRequest("POST", MAPS, "", request("POST", MAPS, how=how).headers, body))
    assert isinstance(answer, ServerResponse)
    told = json.loads(answer.body)
    assert (answer.status, told["reason"]) == (413, "RequestEntityTooLarge")
    assert told["message"] == f"Request entity too large: {TOO_MANY_JSON_VALUES}"


@pytest.mark.parametrize(
    "how",
    [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ],
)
def test_a_long_patch_of_too_many_values_is_too_large(how: str) -> None:
    server = Embedded()
    server.post(MAPS, {"metadata": {"name": "a"}})
    body = b'{"data":[' + b",".join([b'""'] * MAX_JSON_VALUES) + b"]}" + b" " * MAX_UNCOUNTED_BYTES
    given = msgspec.structs.replace(request("PATCH", f"{MAPS}/a?fieldManager=m", how=how), body=body)
    answer = server.send(given)
    assert isinstance(answer, ServerResponse)
    assert (answer.status, json.loads(answer.body)["reason"]) == (413, "RequestEntityTooLarge")


def test_what_changes_the_store_waits_while_a_thread_uses_it() -> None:
    async def scenario() -> None:
        exclusion = StoreLock()
        done: list[str] = []
        exclusion.run_when_free(lambda: done.append("at once"))
        await exclusion.acquire()
        exclusion.run_when_free(lambda: done.append("first"))
        exclusion.run_when_free(lambda: done.append("second"))
        assert done == ["at once"]
        exclusion.release()
        assert done == ["at once", "first", "second"]

    asyncio.run(scenario())


def test_short_work_comes_before_long_work_and_a_cancelled_turn_is_passed_on() -> None:
    async def scenario() -> None:
        exclusion = StoreLock()
        order: list[str] = []

        async def long(name: str) -> None:
            await exclusion.acquire()
            order.append(name)
            await asyncio.sleep(0)
            exclusion.release()

        async def short(name: str) -> None:
            await exclusion.wait_until_free()
            order.append(name)

        await exclusion.acquire()
        tasks = [asyncio.create_task(long(f"long {number}")) for number in range(3)]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(short(f"short {number}")) for number in range(2)]
        await asyncio.sleep(0)
        exclusion.release()
        tasks[0].cancel()
        tasks[3].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == ["short 1", "long 1", "long 2"]
        assert not exclusion.held

    asyncio.run(scenario())
