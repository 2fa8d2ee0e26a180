"""Versions that a webhook converts: ``v1`` has a ``size``, which ``v2`` keeps in ``box.size``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from embedded import Embedded, events
from headgate.apiserver.request.messages import WebhookAnswer, WebhookCall
from unit.apiserver.custom.definitions import DEFINITIONS, WIDGETS, a_definition, a_version, a_widget

URL = "https://convert.example/"
SIZE = {"type": "integer"}
V1 = a_version("v1", {"spec": {"type": "object", "properties": {"size": SIZE}}})
BOX = {"type": "object", "properties": {"size": SIZE, "color": {"type": "string", "default": "red"}}}
V2 = a_version("v2", {"spec": {"type": "object", "properties": {"box": BOX}}}, storage=False)
CONVERSION = {
    "strategy": "Webhook",
    "webhook": {"clientConfig": {"url": URL}, "conversionReviewVersions": ["v1"]},
}
WIDGETS_V2 = WIDGETS.replace("/v1/", "/v2/")


def converted(obj: dict[str, Any], version: str) -> dict[str, Any]:
    spec = obj.get("spec") or {}
    box = spec.get("box", spec)
    size = {"size": box["size"]} if "size" in box else {}
    told = {"box": size} if version.endswith("v2") and size else size
    return {**obj, "apiVersion": version, "spec": told}


class Converter:
    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.spoil: Callable[[dict[str, Any]], Any] = lambda response: response

    def __call__(self, call: WebhookCall) -> WebhookAnswer:
        review = json.loads(call.body)
        request = review["request"]
        self.asked.append([obj["metadata"]["name"] for obj in request["objects"]])
        made = [converted(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
        response = {"uid": request["uid"], "convertedObjects": made, "result": {"status": "Success"}}
        body = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": self.spoil(response)}
        return WebhookAnswer(200, json.dumps(body).encode(), "application/json")


@pytest.fixture
def converter() -> Converter:
    return Converter()


@pytest.fixture
def server(converter: Converter) -> Embedded:
    server = Embedded()
    server.webhooks[URL] = converter
    created = server.post(DEFINITIONS, a_definition(V1, V2, conversion=CONVERSION))
    assert created.status == 201, created.body
    return server


def test_an_object_is_read_in_the_version_that_is_asked_for(server: Embedded, converter: Converter) -> None:
    server.post(WIDGETS, a_widget(spec={"size": 3}))
    assert converter.asked == []
    assert server.get(f"{WIDGETS_V2}/a").body["spec"] == {"box": {"size": 3}}
    assert server.get(f"{WIDGETS_V2}/a").body["apiVersion"] == "example.com/v2"
    assert server.get(f"{WIDGETS}/a").body["spec"] == {"size": 3}


def test_an_object_is_stored_in_the_version_that_is_stored(server: Embedded) -> None:
    created = server.post(WIDGETS_V2, a_widget(version="v2", spec={"box": {"size": 3}}))
    assert (created.status, created.body["spec"]) == (201, {"box": {"size": 3}})
    assert server.get(f"{WIDGETS}/a").body["spec"] == {"size": 3}
    changed = server.patch(f"{WIDGETS_V2}/a", {"spec": {"box": {"size": 5}}})
    assert (changed.status, changed.body["spec"]) == (200, {"box": {"size": 5}})
    assert server.get(f"{WIDGETS}/a").body["metadata"]["generation"] == 2
    assert server.delete(f"{WIDGETS_V2}/a").status == 200
    assert server.get(f"{WIDGETS}/a").status == 404


def test_a_list_is_converted_in_one_call(server: Embedded, converter: Converter) -> None:
    for name in "abc":
        server.post(WIDGETS, a_widget(name, spec={"size": 1}))
    listed = server.get(WIDGETS_V2).body
    assert [item["spec"] for item in listed["items"]] == [{"box": {"size": 1}}] * 3
    assert converter.asked == [["a", "b", "c"]]


def test_a_watch_gives_its_events_in_its_version(server: Embedded) -> None:
    server.post(WIDGETS, a_widget("a", spec={"size": 1}))
    watch = server.watch(WIDGETS_V2)
    server.post(WIDGETS, a_widget("b", spec={"size": 2}))
    server.patch(f"{WIDGETS}/b", {"spec": {"size": 3}})
    seen = [(kind, obj["metadata"]["name"], obj["spec"]["box"]["size"]) for kind, obj in events(watch)]
    assert seen == [("ADDED", "a", 1), ("ADDED", "b", 3)]
    server.patch(f"{WIDGETS}/b", {"spec": {"size": 4}})
    assert [(kind, obj["spec"]) for kind, obj in events(watch)] == [("MODIFIED", {"box": {"size": 4}})]


def test_apply_keeps_the_owners_of_both_versions(server: Embedded) -> None:
    server.apply(f"{WIDGETS}/a", a_widget(spec={"size": 1}), "one")
    refused = server.apply(f"{WIDGETS_V2}/a", a_widget(version="v2", spec={"box": {"size": 2}}), "two")
    assert refused.status == 409, refused.body
    forced = server.apply(f"{WIDGETS_V2}/a", a_widget(version="v2", spec={"box": {"size": 2}}), "two", force=True)
    assert forced.status == 200, forced.body
    assert server.get(f"{WIDGETS}/a").body["spec"] == {"size": 2}


def test_one_manager_applies_through_both_versions(server: Embedded) -> None:
    for version, spec in (
        ("v1", {"size": 1}),
        ("v2", {"box": {"size": 2}}),
        ("v1", {"size": 3}),
        ("v2", {"box": {"size": 3}}),
    ):
        applied = server.apply(
            f"{WIDGETS.replace('/v1/', f'/{version}/')}/a", a_widget(version=version, spec=spec), "one"
        )
        assert applied.status in (200, 201), applied.body
        assert (applied.body["apiVersion"], applied.body["spec"]) == (f"example.com/{version}", spec)
        (owner,) = applied.body["metadata"]["managedFields"]
        assert owner["apiVersion"] == f"example.com/{version}"
    released = server.apply(f"{WIDGETS}/a", a_widget(spec={}), "one")
    assert "size" not in released.body["spec"], "the field was applied in the other version, and is not any more"


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda response: {**response, "result": {"status": "Failure", "message": "no"}}, "failed: no"),
        (lambda response: {**response, "result": {}}, "failed: response.result.status was '', not 'Success'"),
        (lambda response: {**response, "convertedObjects": []}, "returned 0 objects, expected 1"),
        (lambda response: None, "failed: no response provided"),
        (
            lambda response: {**response, "convertedObjects": [{**response["convertedObjects"][0], "kind": "Odd"}]},
            "returned invalid object at index 0: invalid kind (expected Widget, received Odd)",
        ),
    ],
)
def test_a_webhook_that_does_not_convert_is_reported(
    server: Embedded, converter: Converter, spoil: Callable[[dict[str, Any]], Any], complaint: str
) -> None:
    server.post(WIDGETS, a_widget(spec={"size": 3}))
    converter.spoil = spoil
    refused = server.get(f"{WIDGETS_V2}/a")
    assert refused.status == 500
    assert refused.body["message"] == f"conversion webhook for example.com/v1, Kind=Widget {complaint}"
    assert server.get(f"{WIDGETS}/a").status == 200


def test_nothing_is_stored_when_the_webhook_is_not_there(server: Embedded) -> None:
    del server.webhooks[URL]
    refused = server.post(WIDGETS_V2, a_widget(version="v2", spec={"box": {"size": 3}}))
    assert refused.status == 500
    assert "connection refused" in refused.body["message"]
    assert server.get(WIDGETS).body["items"] == []
