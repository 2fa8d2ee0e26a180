"""The size limit of stored objects: measured after defaults, webhooks and managed fields."""

from __future__ import annotations

import asyncio
import base64
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from embedded import TOKEN, Embedded
from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.request.messages import ServerRequest, ServerResponse, WebhookAnswer, WebhookCall
from headgate.store import Item, Revision, Store
from headgate.store.io.committer import Committer
from headgate.store.io.journal import Journal
from unit.apiserver.custom.definitions import DEFINITIONS, WIDGETS, a_definition, a_version, a_widget, serving

MAPS = "/api/v1/namespaces/t/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
HOOK = "https://hook.example/"
LIMIT = 1536 * 1024
TOO_LARGE = "etcdserver: request is too large"
MOST_MEMORY = 120 * 1024 * 1024
ANYTHING = {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
LONG = "d" * 10_000


def growing(default: Any = LONG) -> dict[str, Any]:
    part = {"type": "object", "properties": {"a": {"type": "string", "default": default}}}
    return {"spec": {"type": "object", "properties": {"l": {"type": "array", "items": part}}}}


@pytest.fixture
def server() -> Embedded:
    return serving(a_version("v1", ANYTHING))


@pytest.fixture
def bounded_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()


def text_of(reply: Any) -> tuple[int, str, str]:
    return reply.status, reply.body.get("reason", ""), reply.body.get("message", "")


def test_an_object_that_is_too_large_is_refused_as_by_a_server_with_etcd(server: Embedded) -> None:
    assert server.post(WIDGETS, a_widget("fits", spec={"x": "y" * (LIMIT - 1000)})).status == 201
    refused = server.post(WIDGETS, a_widget("a", spec={"x": "y" * LIMIT}))
    assert text_of(refused) == (500, "", TOO_LARGE)
    assert refused.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": TOO_LARGE,
        "code": 500,
    }
    code, _, message = text_of(server.post(WIDGETS, a_widget("a", spec={"x": "y" * 2_500_000})))
    assert code == 500
    assert message.startswith("rpc error: code = ResourceExhausted desc = trying to send message larger than max (2500")
    assert message.endswith(" vs. 2097152)")
    assert server.get(f"{WIDGETS}/a").status == 404


@pytest.mark.parametrize("how", ["put", "merge", "json", "apply"])
def test_no_change_makes_an_object_too_large(server: Embedded, how: str) -> None:
    before = server.post(WIDGETS, a_widget(spec={"x": "y"})).body
    long = "y" * (LIMIT + 100)
    match how:
        case "put":
            reply = server.put(f"{WIDGETS}/a", {**before, "spec": {"x": long}})
        case "apply":
            reply = server.apply(f"{WIDGETS}/a", a_widget(spec={"x": long}), "m", force=True)
        case "json":
            reply = server.patch(f"{WIDGETS}/a", [{"op": "add", "path": "/spec/x", "value": long}], how)
        case _:
            reply = server.patch(f"{WIDGETS}/a", {"spec": {"x": long}}, how)
    assert text_of(reply) == (500, "", TOO_LARGE)
    assert server.get(f"{WIDGETS}/a").body == before
    assert server.delete(f"{WIDGETS}/a").status == 200


def test_a_rehearsal_is_not_stored_and_may_be_larger(server: Embedded) -> None:
    assert server.post(WIDGETS, a_widget(spec={"x": "y" * 2_000_000}), dryRun="All").status == 201


def test_an_object_that_is_too_large_only_by_its_owners_is_stored_without_them(server: Embedded) -> None:
    many = {f"key-{at:020}": "" for at in range(LIMIT // 40)}
    created = server.post(WIDGETS, a_widget(spec=many))
    assert created.status == 201
    assert "managedFields" not in created.body["metadata"]
    assert server.get(f"{WIDGETS}/a").body == created.body
    applied = server.apply(f"{WIDGETS}/b", a_widget("b", spec=many), "m")
    assert text_of(applied)[2].startswith("rpc error: code = ResourceExhausted")


def test_built_in_kinds_are_measured_without_the_escapes_of_json(server: Embedded) -> None:
    assert server.post(MAPS, {"metadata": {"name": "a"}, "data": {"x": "\n" * 1_000_000}}).status == 201
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["n" * 1000] * 1600}
    assert text_of(server.post(ROLES, {"metadata": {"name": "a"}, "rules": [rule]})) == (500, "", TOO_LARGE)


@pytest.mark.usefixtures("bounded_memory")
@pytest.mark.parametrize("dry_run", [{}, {"dryRun": "All"}])
def test_defaults_do_not_turn_a_short_request_into_a_long_object(dry_run: dict[str, str]) -> None:
    server = serving(a_version("v1", growing()))
    short = a_widget(spec={"l": [{}] * 30_000})
    assert text_of(server.post(WIDGETS, short, **dry_run)) == (500, "", TOO_LARGE)
    assert text_of(server.apply(f"{WIDGETS}/a", short, "m", **dry_run)) == (500, "", TOO_LARGE)
    assert server.post(WIDGETS, a_widget(spec={"l": [{}] * 100})).status == 201
    assert text_of(server.patch(f"{WIDGETS}/a", {"spec": short["spec"]}, **dry_run)) == (500, "", TOO_LARGE)
    assert len(server.get(f"{WIDGETS}/a").body["spec"]["l"]) == 100


@pytest.mark.usefixtures("bounded_memory")
def test_names_of_fields_and_defaults_inside_defaults_count() -> None:
    long_name = {"type": "object", "properties": {"n" * 10_000: {"type": "boolean", "default": True}}}
    inner = {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": LONG}}}
    nested = {"type": "object", "properties": {"inner": inner}}
    for part in (long_name, nested, {"type": "string", "default": LONG}):
        schema = {"spec": {"type": "object", "properties": {"l": {"type": "array", "items": part}}}}
        server = serving(a_version("v1", schema))
        item: dict[str, Any] | None = None if part.get("default") else {}
        assert text_of(server.post(WIDGETS, a_widget(spec={"l": [item] * 20_000}))) == (500, "", TOO_LARGE)


@pytest.mark.usefixtures("bounded_memory")
def test_an_object_is_served_without_defaults_that_came_later_and_are_too_many() -> None:
    server = serving(a_version("v1", growing("")))
    stored = server.post(WIDGETS, a_widget(spec={"l": [{"a": "x"}, *[{"a": None}] * 200]}))
    assert stored.status == 201
    server.patch(f"{WIDGETS}/a", {"spec": {"l": [{"a": "x"}] * 3}})
    definition = server.get(f"{DEFINITIONS}/widgets.example.com").body
    other = {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string", "default": LONG}}}}
    versions = [a_version("v1", {"spec": {"type": "object", "properties": {"l": other}}})]
    changed = server.put(
        f"{DEFINITIONS}/widgets.example.com", {**definition, "spec": {**definition["spec"], "versions": versions}}
    )
    assert changed.status == 200, changed.body
    assert [len(each["b"]) for each in server.get(f"{WIDGETS}/a").body["spec"]["l"]] == [10_000] * 3
    many = serving(a_version("v1", growing("")))
    many.post(WIDGETS, a_widget(spec={"l": [{}] * 3_000}))
    definition = many.get(f"{DEFINITIONS}/widgets.example.com").body
    many.put(f"{DEFINITIONS}/widgets.example.com", {**definition, "spec": {**definition["spec"], "versions": versions}})
    assert many.get(f"{WIDGETS}/a").body["spec"]["l"] == [{}] * 3_000
    assert len(many.get(WIDGETS).body["items"]) == 1
    assert many.delete(f"{WIDGETS}/a").status == 200


@pytest.mark.usefixtures("bounded_memory")
def test_copies_of_a_text_by_a_patch_count(server: Embedded) -> None:
    server.post(WIDGETS, a_widget(spec={"x": "y" * 1_000_000}))
    copies = [{"op": "copy", "from": "/spec/x", "path": f"/spec/x{at}"} for at in range(2_000)]
    assert server.patch(f"{WIDGETS}/a", copies, "json").status == 422


@pytest.mark.usefixtures("bounded_memory")
def test_aliases_of_a_long_text_count(server: Embedded) -> None:
    body = b'{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {x: &a "' + b"y" * 1_000_000
    body = b"# \n" + body + b'", l: [' + b"*a," * 10_000 + b"]}}"
    reply = server.call("POST", WIDGETS, body, content_type="application/yaml")
    assert reply.status == 400
    assert "excessive aliasing" in reply.body["message"]


def test_what_a_webhook_adds_counts(server: Embedded) -> None:
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["widgets"]}]
    hook = {"name": "hook.example.com", "clientConfig": {"url": HOOK}, "rules": rules, "sideEffects": "None"}
    hook["admissionReviewVersions"] = ["v1"]
    place = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    assert server.post(place, {"metadata": {"name": "c"}, "webhooks": [hook]}).status == 201
    patch = msgspec.json.encode([{"op": "add", "path": "/spec/more", "value": "y" * 1_000_000}])

    def answer(call: WebhookCall) -> WebhookAnswer:
        uid = msgspec.json.decode(call.body)["request"]["uid"]
        said = {"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
        body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": said}
        return WebhookAnswer(200, msgspec.json.encode(body), "application/json")

    server.webhooks[HOOK] = answer
    assert text_of(server.post(WIDGETS, a_widget(spec={"x": "y" * 1_000_000}))) == (500, "", TOO_LARGE)
    assert server.post(WIDGETS, a_widget(spec={"x": "y"})).status == 201


def test_the_store_stages_nothing_that_could_fail_a_commit_for_others() -> None:
    store = Store()
    item = Item("widgets", "t", "a", "u", Revision(1), {}, {}, b"x" * (17 * 1024 * 1024))
    with pytest.raises(ValueError, match="the log accepts at most"):
        store.stage(item)
    assert store.pending() == ()
    assert store.next_revision() == 1


def test_a_write_that_is_too_large_fails_no_other_of_the_same_commit(tmp_path: Path) -> None:
    sent = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}

    async def run() -> list[int]:
        journal = Journal.open(tmp_path / "data")
        api = Embedded(store=journal.load(), namespace="").api
        endpoint = APIServer(api)
        committer = Committer(api.store, journal, publish=endpoint.publish)
        endpoint.attach(committer)

        async def write(path: str, body: Any) -> int:
            response = await endpoint.answer(ServerRequest("POST", path, "", sent, msgspec.json.encode(body)))
            assert isinstance(response, ServerResponse)
            return response.status

        await write("/api/v1/namespaces", {"metadata": {"name": "t"}})
        await write(DEFINITIONS, a_definition(a_version("v1", growing())))
        large = a_widget("large", spec={"l": [{}] * 50_000})
        writes = [write(MAPS, {"metadata": {"name": f"m{at}"}}) for at in range(20)]
        writes.insert(10, write(WIDGETS, large))
        rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["n" * 1000] * 2500}
        writes.insert(5, write(ROLES, {"metadata": {"name": "r"}, "rules": [rule]}))
        codes = await asyncio.gather(*writes)
        await endpoint.close()
        await committer.close()
        return codes

    codes = asyncio.run(run())
    assert sorted(codes) == [201] * 20 + [500] * 2
