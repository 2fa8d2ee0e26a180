"""Audit events of writes."""

from __future__ import annotations

import msgspec
import pytest

from embedded import TOKEN, Embedded
from headgate.apiserver.request.messages import AuditLevel

MAPS = "/api/v1/namespaces/t/configmaps"
SECRETS = "/api/v1/namespaces/t/secrets"
SECRET = "c2VjcmV0LXZhbHVl"


class Recorded(Embedded):
    """A server whose first event is still to come."""

    def __init__(self, level: AuditLevel) -> None:
        super().__init__(audit_level=level)
        self.audited.clear()


def test_a_write_is_recorded_with_its_user_object_and_outcome() -> None:
    server = Recorded("Metadata")
    response = server.post(MAPS, {"metadata": {"generateName": "m-"}}, fieldManager="f")
    name = response.body["metadata"]["name"]
    assert server.audited == [
        {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": dict(response.headers)["Audit-Id"],
            "stage": "ResponseComplete",
            "requestURI": f"{MAPS}?fieldManager=f",
            "verb": "create",
            "user": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
            "userAgent": "test/1",
            "objectRef": {
                "resource": "configmaps",
                "namespace": "t",
                "name": name,
                "uid": response.body["metadata"]["uid"],
                "apiVersion": "v1",
                "resourceVersion": response.body["metadata"]["resourceVersion"],
            },
            "responseStatus": {"metadata": {}, "code": 201},
            "requestReceivedTimestamp": "2023-11-14T22:13:20.000000Z",
            "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
        }
    ]


def test_reads_are_not_recorded() -> None:
    server = Recorded("RequestResponse")
    server.get(MAPS)
    server.get("/version")
    server.watch(MAPS)
    assert server.audited == []


def test_without_a_level_nothing_is_recorded() -> None:
    server = Embedded()
    server.post(MAPS, {"metadata": {"name": "m"}})
    assert server.audited == []


@pytest.mark.parametrize(("level", "fields"), [("Request", 1), ("RequestResponse", 2)])
def test_bodies_are_recorded_as_the_level_says(level: AuditLevel, fields: int) -> None:
    server = Recorded(level)
    server.post(MAPS, {"metadata": {"name": "m"}, "data": {"k": "v"}})
    server.patch(f"{MAPS}/m", [{"op": "remove", "path": "/data"}], "json")
    created, patched = server.audited
    assert created["requestObject"] == {"metadata": {"name": "m"}, "data": {"k": "v"}}
    assert patched["requestObject"] == [{"op": "remove", "path": "/data"}]
    assert sum(field in created for field in ("requestObject", "responseObject")) == fields
    if fields == 2:
        assert created["responseObject"]["data"] == {"k": "v"}


def test_yaml_is_recorded_as_a_value() -> None:
    server = Recorded("Request")
    server.call("POST", MAPS, b"metadata:\n  name: from-yaml\n", content_type="application/yaml")
    assert server.audited[0]["requestObject"] == {"metadata": {"name": "from-yaml"}}


def test_a_body_that_cannot_be_read_is_left_out() -> None:
    server = Recorded("RequestResponse")
    assert server.call("POST", MAPS, b'{"metadata": \xff').status == 400
    assert "requestObject" not in server.audited[0]
    assert server.audited[0]["responseStatus"]["code"] == 400


def test_a_secret_sent_to_the_wrong_place_is_not_recorded() -> None:
    server = Recorded("RequestResponse")
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": SECRET}}
    assert server.post(MAPS, body).status == 400
    assert SECRET not in str(server.audited)


def test_secrets_and_tokens_are_never_recorded() -> None:
    server = Recorded("RequestResponse")
    server.post(SECRETS, {"metadata": {"name": "s"}, "data": {"k": SECRET}})
    server.put(f"{SECRETS}/s", {"metadata": {"name": "s"}, "data": {"k": SECRET}})
    server.patch(f"{SECRETS}/s", {"data": {"k": SECRET}})
    server.delete(f"{SECRETS}/s")
    server.delete(SECRETS)
    server.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": SECRET}})
    server.post("/api/v1/namespaces/t/serviceaccounts", {"metadata": {"name": "robot"}})
    server.audited.pop()
    server.post("/api/v1/namespaces/t/serviceaccounts/robot/token", {"spec": {"audiences": [SECRET]}})
    assert len(server.audited) == 7
    for event in server.audited:
        assert event["level"] == "Metadata"
        assert SECRET not in msgspec.json.encode(event).decode()
    assert TOKEN not in msgspec.json.encode(server.audited[0]).decode().split()


def test_a_refusal_is_recorded_with_its_reason() -> None:
    server = Recorded("Metadata")
    server.call("DELETE", f"{MAPS}/m", impersonate_user="alice", impersonate_group="g")
    event = server.audited[0]
    assert event["verb"] == "delete"
    assert event["user"]["username"] == "admin"
    assert event["impersonatedUser"] == {"username": "alice", "groups": ["g", "system:authenticated"]}
    assert event["responseStatus"]["reason"] == "Forbidden"
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"


def test_an_unauthenticated_request_is_recorded_without_a_user_name() -> None:
    server = Recorded("RequestResponse")
    server.call("POST", MAPS, {"metadata": {"name": "m"}}, authorization="Bearer guess")
    event = server.audited[0]
    assert event["user"] == {}
    assert event["responseStatus"]["code"] == 401
    assert "annotations" not in event
    assert "guess" not in msgspec.json.encode(event).decode()


def test_a_client_may_name_the_event() -> None:
    server = Recorded("Metadata")
    response = server.call("POST", MAPS, {"metadata": {"name": "m"}}, audit_id="my-own")
    assert dict(response.headers)["Audit-Id"] == server.audited[0]["auditID"] == "my-own"
