"""Paths that are no resources: health, the version, the OpenAPI document."""

from __future__ import annotations

import pytest

from embedded import TOKEN, Embedded
from headgate.apiserver.request.messages import ServerRequest, ServerResponse

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
SENT_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
JSON = "application/json"


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", JSON),
        ("*/*", JSON),
        (JSON, JSON),
        (f"{JSON}, {PROTOBUF}", JSON),
        (f"{JSON}, */*", JSON),
        (f"{PROTOBUF};q=0.5, {JSON}", JSON),
        (PROTOBUF, SENT_PROTOBUF),
        (f"{PROTOBUF}, {JSON};q=0.5", SENT_PROTOBUF),
    ],
)
def test_the_openapi_document_is_json_for_a_client_that_accepts_it(accept: str, media_type: str) -> None:
    request = ServerRequest("GET", "/openapi/v2", "", {"authorization": f"Bearer {TOKEN}", "accept": accept})
    response = Embedded().send(request)
    assert isinstance(response, ServerResponse)
    assert (response.status, response.content_type) == (200, media_type)


@pytest.mark.parametrize("path", ["/version", "/healthz", "/api", "/apis", "/openapi/v2", "/absent"])
def test_an_invalid_timeout_is_refused_on_every_path(path: str) -> None:
    reply = Embedded().get(path, timeout="invalid")
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest")
    assert 'time: invalid duration "invalid"' in reply.body["message"]


@pytest.mark.parametrize("name", ["healthz", "livez", "readyz"])
def test_verbose_health_lists_its_checks(name: str) -> None:
    server = Embedded()
    server.api.health.add("storage", lambda: "")
    assert server.get(f"/{name}").body == b"ok"
    assert server.get(f"/{name}", verbose="").body == f"[+]ping ok\n[+]storage ok\n{name} check passed\n".encode()
