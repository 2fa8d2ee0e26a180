"""Versions that a webhook converts, on both servers: one webhook answers both."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.request_cases import (
    TABLE,
    Case,
    Edited,
    apply,
    case,
    cases_of,
    delete,
    events,
    get,
    open_watch,
    patch,
    post,
    put,
)
from harness.server import Server
from harness.server_pair import ServerPair
from harness.webhook_server import Raw, WebhookServer
from real.custom_kinds import DEFINITIONS, GROUP, INTEGER, STRING, definition, of, served, version

pytestmark = pytest.mark.real

PLACE = f"/apis/{GROUP}/{{version}}/namespaces/{{ns}}/boxes"
V1, V2 = PLACE.replace("{version}", "v1"), PLACE.replace("{version}", "v2")
SPOILED: dict[str, Any] = {
    "failure": {"result": {"status": "Failure", "message": "I would rather not"}},
    "silence": {"result": {}},
    "nothing": {"convertedObjects": []},
    "uid": {"uid": "other"},
}
DEEP = 200_000
MISSHAPEN = {
    "a deep answer": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"kind":"K","apiVersion":"V","response":{"uid":"U","result":{"status":"Success"},'
    b'"convertedObjects":' + b"[" * DEEP + b"]" * DEEP + b"}}",
    "a result that is a list": b'{"kind":"K","apiVersion":"V","response":{"uid":"U","result":["Success"]}}',
    "a message that is a list": b'{"kind":"K","apiVersion":"V","response":{"uid":"U","result":{"message":["a"]}}}',
    "a number of objects": b'{"kind":"K","apiVersion":"V","response":{"uid":"U","result":{"status":"Success"},'
    b'"convertedObjects":1}}',
    "an object of objects": b'{"kind":"K","apiVersion":"V","response":{"uid":"U","result":{"status":"Success"},'
    b'"convertedObjects":{"a":{}}}}',
    "a response that is a list": b'{"kind":"K","apiVersion":"V","response":[]}',
    "a kind that is a number": b'{"kind":1,"apiVersion":"V","response":{}}',
    "broken text": b'{"kind":"K","apiVersion":"V","response":{"uid":"U","result":{"status":"Failure",'
    b'"message":"\xff"}}}',
}
"""Bytes that a webhook may answer with, by the note that asks for them; K, V and U stand for what is expected."""


def boxes(hook: WebhookServer) -> Any:
    client = {"url": hook.url("/convert"), "caBundle": base64.b64encode(hook.ca).decode()}
    return definition(
        "boxes",
        "Box",
        version("v1", of(spec=of(size=INTEGER, note=STRING)), subresources={"status": {}}),
        version(
            "v2",
            of(spec=of(inner=of(size=INTEGER, color={**STRING, "default": "red"}), note=STRING)),
            storage=False,
            additionalPrinterColumns=[{"name": "Size", "type": "integer", "jsonPath": ".spec.inner.size"}],
        ),
        conversion={"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}},
    )


def convert(review: Any) -> Any:
    """What a note of an object says is done to it; all else is converted."""
    request = review["request"]
    notes: set[str] = {(each.get("spec") or {}).get("note") or "" for each in request["objects"]}
    made = [converted(each, request["desiredAPIVersion"]) for each in request["objects"]]
    response = {"uid": request["uid"], "convertedObjects": made, "result": {"status": "Success"}}
    if "bytes" in notes:
        return Raw(b"this is not JSON")
    for note in notes & MISSHAPEN.keys():
        expected = {b'"K"': review["kind"], b'"V"': review["apiVersion"], b'"U"': request["uid"]}
        body = MISSHAPEN[note]
        for sign, text in expected.items():
            body = body.replace(sign, json.dumps(text).encode())
        return Raw(body)
    if "code" in notes:
        return Raw(b"out of order", 503, {"Content-Type": "text/plain"})
    for note in notes & SPOILED.keys():
        response |= SPOILED[note]
    for note in notes & {"name", "kind", "version", "labels", "annotations"}:
        _spoil_object(made[0], note)
    return {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}


def _spoil_object(obj: Any, note: str) -> None:
    match note:
        case "name":
            obj["metadata"] = {**obj["metadata"], "name": "other"}
        case "kind":
            obj["kind"] = "Other"
        case "version":
            obj["apiVersion"] = f"{GROUP}/v9"
        case "labels":
            obj["metadata"] = {**obj["metadata"], "labels": {"not valid": "x"}}
        case _:
            obj["metadata"] = {**obj["metadata"], "annotations": {"converted": "yes"}, "finalizers": ["a/b"]}


def converted(obj: Any, wanted: str) -> Any:
    spec = dict(obj.get("spec") or {})
    if wanted.endswith("/v2") and "size" in spec:
        spec["inner"] = {"size": spec.pop("size")}
    if wanted.endswith("/v1") and "inner" in spec:
        spec["size"] = (spec.pop("inner") or {}).get("size", 0)
    return {**obj, "apiVersion": wanted, "spec": spec}


@pytest.fixture(scope="module")
def prepared(servers: ServerPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerPair]:
    with WebhookServer(tmp_path_factory.mktemp("hooks")) as hook:
        hook.hooks["/convert"] = convert
        wanted = boxes(hook)

        def define(server: Server) -> None:
            body = json.dumps(wanted).encode()
            answer = server.request("POST", DEFINITIONS, {"Content-Type": "application/json"}, body)
            assert answer.status in (201, 409), answer.body
            served(server, wanted)

        servers.on_each(define)
        yield servers
        servers.on_each(lambda server: server.request("DELETE", f"{DEFINITIONS}/boxes.{GROUP}"))


def box(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Box", "metadata": {"name": name}, "spec": spec}


def box2(name: str = "a", size: Any = 1, **spec: Any) -> dict[str, Any]:
    return {**box(name, inner={"size": size}, **spec), "apiVersion": f"{GROUP}/v2"}


CASES = cases_of(
    [
        case(
            "a converted object",
            post(V1, box(size=3)).named("a"),
            get(f"{V2}/a").named("b"),
            put(f"{V2}/a", Edited("b", {"spec": {"inner": {"size": 4}}})),
            get(f"{V1}/a"),
            patch(f"{V2}/a", {"spec": {"inner": {"size": 5, "color": "blue"}}}),
            patch(f"{V2}/a", [{"op": "replace", "path": "/spec/inner/size", "value": 6}], "json"),
            get(f"{V1}/a"),
            get(V2),
            get(V2, TABLE),
            delete(f"{V2}/a"),
        ),
        case(
            "created in the version that is not stored",
            post(V2, box2(size=7)),
            get(f"{V1}/a"),
            post(f"{V2}?dryRun=All", box2("b")),
            post(V2, box2("c", size="x")),
            post(V2, box2("a")),
        ),
        case(
            "applied in two versions",
            apply(f"{V1}/a", box(size=1), "one"),
            apply(f"{V2}/a", box2(size=2), "two"),
            apply(f"{V2}/a", box2(size=2), "two", force=True),
            apply(f"{V1}/a", box(size=2), "one"),
            apply(f"{V1}/a", box(note="mine"), "one"),
            get(f"{V1}/a"),
        ),
        case(
            "applied by one manager in two versions",
            apply(f"{V2}/a", box2(size=1), "one"),
            apply(f"{V1}/a", box(size=2), "one"),
            apply(f"{V2}/a", box2(size=3), "one"),
            apply(f"{V1}/a", box(note="mine"), "one"),
            get(f"{V1}/a"),
        ),
        case(
            "a status beside a conversion",
            post(V1, box(size=1)),
            patch(f"{V1}/a/status", {"status": {"x": 1}}),
            get(f"{V2}/a"),
        ),
        case(
            "watched in the version that is not stored",
            post(V1, box(size=1)).named("z"),
            open_watch("w", f"{V2}?resourceVersion=${{z:/metadata/resourceVersion}}"),
            patch(f"{V1}/a", {"spec": {"size": 2}}),
            patch(f"{V2}/a", {"spec": {"inner": {"size": 3}}}),
            events("w", 2),
        ),
        *(
            case(
                f"a webhook that spoils {note}",
                post(V1, box(size=1, note=note)),
                get(f"{V2}/a"),
                get(f"{V1}/a"),
                post(V2, box2("b", note=note)),
            )
            for note in ("failure", "silence", "nothing", "uid", "bytes", "code", "name", "kind", "version", "labels")
        ),
        *(
            case(
                f"a webhook that answers with {note}",
                post(V1, box(size=1, note=note)),
                get(f"{V2}/a"),
                get(V2),
                get(f"{V1}/a"),
                post(V2, box2("b", note=note)),
            )
            for note in MISSHAPEN
        ),
        case(
            "a webhook may annotate",
            post(V1, box(size=1, note="annotations")),
            get(f"{V2}/a"),
            post(V2, box2("b", note="annotations")),
            get(f"{V1}/b"),
        ),
    ]
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_converted_objects_are_answered_the_same(prepared: ServerPair, case: Case) -> None:
    prepared.compare(case)
