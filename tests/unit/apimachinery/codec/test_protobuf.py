"""Hand-written protobuf bodies: merged messages, skipped fields, and the errors of invalid bytes."""

from __future__ import annotations

import pytest

from embedded import Embedded
from harness.protobuf import MAGIC, PROTOBUF, envelope, message, number, octets, protobuf, varint
from headgate import schemas
from headgate.apimachinery.codec.codec import TypeMeta
from headgate.apimachinery.protobuf import Envelope, MessageDecoder, open_envelope
from headgate.kube.schema import Schemas
from unit.apiserver.custom.definitions import DEFINITIONS, WIDGETS, a_definition

CORE = "io.k8s.api.core.v1."


@pytest.fixture(scope="module")
def messages(tables: Schemas) -> MessageDecoder:
    return MessageDecoder.load(tables, schemas.read_numbers())


def test_a_repeated_message_is_merged(messages: MessageDecoder) -> None:
    data = octets(1, octets(1, "a")) + octets(1, octets(3, "n"))
    assert messages.decode(CORE + "Pod", data) == {"metadata": {"name": "a", "namespace": "n"}}


def test_an_embedded_struct_is_a_message_and_no_field(messages: MessageDecoder) -> None:
    data = octets(1, "v") + octets(2, octets(1, octets(1, "/tmp")))
    assert messages.decode(CORE + "Volume", data) == {"name": "v", "hostPath": {"path": "/tmp"}}


def test_numbers_in_a_list_may_be_packed(messages: MessageDecoder) -> None:
    data = number(4, 1) + octets(4, varint(2) + varint(300))
    assert messages.decode(CORE + "PodSecurityContext", data) == {"supplementalGroups": [1, 2, 300]}


def test_an_entry_of_a_map_may_lack_its_value(messages: MessageDecoder) -> None:
    assert messages.decode(CORE + "ConfigMap", octets(2, octets(1, "a"))) == {"data": {"a": ""}}
    limits = octets(1, octets(1, "cpu"))
    assert messages.decode(CORE + "ResourceRequirements", limits) == {"limits": {"cpu": "0"}}


def test_a_list_in_a_map_is_wrapped_in_a_message(messages: MessageDecoder) -> None:
    data = octets(4, octets(1, "scopes") + octets(2, octets(1, "a") + octets(1, "b")))
    name = "io.k8s.api.authentication.v1.UserInfo"
    assert messages.decode(name, data) == {"extra": {"scopes": ["a", "b"]}}


def test_a_time_has_whole_seconds_and_a_micro_time_has_micros(messages: MessageDecoder) -> None:
    instant = number(1, 1_700_000_000) + number(2, 123_456_789)
    assert messages.decode(CORE + "Event", octets(6, instant) + octets(10, instant)) == {
        "firstTimestamp": "2023-11-14T22:13:20Z",
        "eventTime": "2023-11-14T22:13:20.123456Z",
    }


def test_a_schema_may_be_replaced_by_a_list_or_boolean(messages: MessageDecoder) -> None:
    schema = {
        "type": "object",
        "maximum": 1.5,
        "minimum": 0,
        "default": {"a": [1, None]},
        "enum": [1, "x", None],
        "items": [{"type": "string"}],
        "not": {"items": {"nullable": True}},
        "additionalProperties": False,
        "additionalItems": {"$ref": "r"},
        "dependencies": {"a": ["b", "c"], "d": {"type": "string"}},
        "properties": {"p": {"additionalProperties": True, "x-kubernetes-int-or-string": True}},
    }
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    assert messages.decode(name, message(name, schema)) == schema


def test_a_schema_that_nests_too_deeply_is_refused(messages: MessageDecoder) -> None:
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    inverted = either = b""
    for _ in range(5000):
        inverted, either = octets(28, inverted), octets(30, octets(2, either))
    assert messages.decode(name, inverted) == "proto: exceeded max depth"
    assert messages.decode(name, either) == "proto: exceeded max depth"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x0a", "unexpected EOF"),
        (b"\x0a\x05ab", "unexpected EOF"),
        (b"\xff" * 11, "proto: integer overflow"),
        (varint(2) + b"\x00", "proto: Pod: illegal tag 0 (wire type 2)"),
        (varint(1 << 3 | 4), "proto: Pod: wiretype end group for non-group"),
        (varint(9 << 3 | 6), "proto: illegal wireType 6"),
        (varint(9 << 3 | 3), "unexpected EOF"),
        (varint(9 << 3 | 2) + varint(-1), "proto: negative length found during unmarshaling"),
        (varint(1 << 3 | 2) + varint(-1), "proto: negative length found during unmarshaling"),
        (number(1, 7), "proto: wrong wireType = 0 for field ObjectMeta"),
        (octets(1, octets(7, "x")), "proto: wrong wireType = 2 for field Generation"),
        (octets(1, octets(8, octets(1, "x"))), "proto: wrong wireType = 2 for field Seconds"),
    ],
)
def test_invalid_bytes_give_the_error_of_kube_apiserver(messages: MessageDecoder, data: bytes, text: str) -> None:
    assert messages.decode(CORE + "Pod", data) == text


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("io.k8s.api.apps.v1.ControllerRevision", octets(2, octets(1, "odd")), "invalid character 'o'"),
        (CORE + "ServicePort", octets(4, number(1, 7)), "impossible IntOrString.Type"),
        (CORE + "Event", octets(6, number(1, 1 << 40)), "no time in JSON is 1099511627776 seconds from 1970"),
        (CORE + "Event", octets(10, number(1, -(1 << 63))), "no time in JSON"),
    ],
)
def test_values_that_json_cannot_represent_are_rejected(
    messages: MessageDecoder, name: str, data: bytes, text: str
) -> None:
    """kube-apiserver stores these and then cannot print them."""
    reports = messages.decode(name, data)
    assert isinstance(reports, str)
    assert reports.startswith(text)


def test_an_envelope_contains_kind_and_object() -> None:
    assert open_envelope(envelope("apps/v1", "Deployment", b"x")) == Envelope(
        TypeMeta("apps", "v1", "Deployment"), b"x"
    )
    assert open_envelope(MAGIC) == "empty body"
    assert open_envelope(b"") == "empty data"
    expected = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    assert open_envelope(b"{}") == expected


def test_a_body_in_protobuf_is_stored_as_if_it_were_json() -> None:
    server = Embedded()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}}
    path = "/api/v1/namespaces/t/configmaps"
    reply = server.call("POST", path, protobuf(body), content_type=PROTOBUF)
    assert (reply.status, reply.body["data"]) == (201, {"a": "1"})
    cut = server.call("POST", path, protobuf(body)[:9], content_type=PROTOBUF)
    assert cut.status == 400
    assert "must be of type ConfigMap): unexpected EOF (6b38730" in cut.body["message"]
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}}
    assert server.call("DELETE", f"{path}/x", protobuf(options), content_type=PROTOBUF).status == 409


def test_definitions_support_protobuf_and_custom_resources_do_not() -> None:
    server = Embedded()
    assert server.call("POST", DEFINITIONS, protobuf(a_definition()), content_type=PROTOBUF).status == 201
    widget = envelope("example.com/v1", "Widget", octets(1, octets(1, "w")))
    refused = server.call("POST", WIDGETS, widget, content_type=PROTOBUF)
    assert refused.status == 415
    assert "protobuf" not in refused.body["message"].partition("accepted media types include:")[2]
