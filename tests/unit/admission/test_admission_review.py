"""The AdmissionReview: decoding the request, encoding the response."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, read_review, write_review

REQUEST: dict[str, Any] = {
    "uid": "u1",
    "operation": "UPDATE",
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "subResource": "status",
    "namespace": "t",
    "name": "p",
    "userInfo": {"username": "alice"},
    "object": {"a": 1},
    "oldObject": {"a": 2},
}


def review(**changes: Any) -> bytes:
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": REQUEST}
    return msgspec.json.encode({**body, **changes})


def answered(answer: AdmissionResponse) -> Any:
    written = msgspec.json.decode(write_review("u1", answer))
    assert (written["apiVersion"], written["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    return written["response"]


def test_a_review_is_read() -> None:
    expected = AdmissionRequest("UPDATE", "pods", "t", "p", "status", "alice", {"a": 1}, {"a": 2}, "u1")
    assert read_review(review()) == expected


def test_absent_fields_of_a_review_are_empty() -> None:
    assert read_review(review(request={"uid": "u1", "operation": "CREATE", "object": None})) == AdmissionRequest(
        "CREATE", "", uid="u1"
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not an AdmissionReview"),
        (b"null", "not an AdmissionReview"),
        (review(kind="Pod"), "not an AdmissionReview"),
        (review(apiVersion="admission.k8s.io/v1beta1"), "not an AdmissionReview"),
        (review(request=None), "request.uid"),
        (review(request={"uid": 7, "operation": "CREATE"}), "request.uid"),
        (review(request={"uid": "u", "operation": None}), "request.operation"),
    ],
)
def test_an_invalid_review_returns_a_reason_and_raises_nothing(body: bytes, problem: str) -> None:
    said = read_review(body)
    assert isinstance(said, str)
    assert problem in said


def test_an_allowed_write_gets_a_minimal_response() -> None:
    assert answered(ALLOWED) == {"uid": "u1", "allowed": True}


def test_a_patch_is_sent_with_its_type() -> None:
    patch = ({"op": "add", "path": "/x", "value": 1},)
    response = answered(AdmissionResponse(patch=patch, warnings=("careful",)))
    assert (response["allowed"], response["patchType"], response["warnings"]) == (True, "JSONPatch", ["careful"])
    assert msgspec.json.decode(base64.b64decode(response["patch"])) == list(patch)


@pytest.mark.parametrize(("code", "reason"), [(400, "BadRequest"), (403, "Forbidden")])
def test_a_rejection_has_a_message(code: Any, reason: str) -> None:
    response = answered(AdmissionResponse(refusal="because", code=code))
    status = {"status": "Failure", "message": "because", "reason": reason, "code": code}
    assert response == {"uid": "u1", "allowed": False, "status": status}
