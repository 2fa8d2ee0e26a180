"""Installation of definitions: an object that may not be read does not count as missing."""

from __future__ import annotations

import msgspec
import pytest

from headgate.client.installer import DelayedRequest, InstallRefused, InstallResult, install
from headgate.http.transport import HTTPResponse

DEFINITION = {"metadata": {"name": "things.example.com"}, "spec": {}}


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "missing right: get customresourcedefinitions.apiextensions.k8s.io"), (503, "the server answered 503")],
)
def test_a_definition_that_may_not_be_read_is_not_written_over(status: int, words: str) -> None:
    steps = install(DEFINITION)
    assert next(steps).request.method == "GET"
    with pytest.raises(StopIteration) as done:
        steps.send(HTTPResponse(status, {}, msgspec.json.encode({"message": "said no"})))
    assert isinstance(done.value.value, InstallRefused)
    assert words in done.value.value.text


THINGS = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "things"},
        "versions": [{"name": "v1", "served": True}, {"name": "v0", "served": False}],
    },
}


def test_a_new_kind_is_installed_when_its_objects_can_be_listed() -> None:
    steps = install(THINGS)
    next(steps)
    steps.send(HTTPResponse(404, {}, b"{}"))
    established = {"metadata": {"generation": 1}, "status": {"conditions": [{"type": "Established", "status": "True"}]}}
    requests = steps.send(HTTPResponse(201, {}, msgspec.json.encode(established)))
    assert requests.request.path == "/apis/example.com/v1/things"
    for status in (404, 429, 503):
        assert steps.send(HTTPResponse(status, {}, b'{"message": "not yet"}')) == DelayedRequest(requests.request, 0.1)
    with pytest.raises(StopIteration) as done:
        steps.send(HTTPResponse(403, {}, b"{}"))
    assert done.value.value == InstallResult("things.example.com", "created")


def test_a_kind_that_is_never_served_is_named_with_the_answer() -> None:
    steps = install(THINGS)
    next(steps)
    steps.send(HTTPResponse(404, {}, b"{}"))
    established = {"metadata": {"generation": 1}, "status": {"conditions": [{"type": "Established", "status": "True"}]}}
    steps.send(HTTPResponse(201, {}, msgspec.json.encode(established)))
    busy = HTTPResponse(429, {}, b'{"message": "storage is (re)initializing"}')
    for _ in range(99):
        steps.send(busy)
    with pytest.raises(StopIteration) as done:
        steps.send(busy)
    assert done.value.value == InstallRefused(
        "CustomResourceDefinition things.example.com: /apis/example.com/v1/things: the server answered 429: "
        "storage is (re)initializing"
    )
