"""ConversionReviews, valid and invalid."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.quota.kinds.conversion_review import review_response

REVIEW = "apiextensions.k8s.io/v1"
QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "ClusterQueue",
    "metadata": {"name": "a", "uid": "1"},
    "spec": {"cohort": "all"},
}


def asked(**request: Any) -> dict[str, Any]:
    body = {"apiVersion": REVIEW, "kind": "ConversionReview", "request": {"uid": "u", **request}}
    said = review_response(json.dumps(body).encode())
    assert isinstance(said, bytes), said
    found: dict[str, Any] = json.loads(said)
    assert (found["apiVersion"], found["kind"], found["response"]["uid"]) == (REVIEW, "ConversionReview", "u")
    response: dict[str, Any] = found["response"]
    return response


def test_every_object_of_a_list_is_converted_in_its_place() -> None:
    response = asked(desiredAPIVersion="kueue.x-k8s.io/v1beta2", objects=[QUEUE, {**QUEUE, "spec": {}}])
    assert response["result"] == {"status": "Success"}
    assert [each["spec"] for each in response["convertedObjects"]] == [{"cohortName": "all"}, {}]
    assert {each["apiVersion"] for each in response["convertedObjects"]} == {"kueue.x-k8s.io/v1beta2"}


@pytest.mark.parametrize("version", ["kueue.x-k8s.io/v1alpha1", "v1", None, 5])
def test_an_unknown_version_is_rejected_by_name(version: Any) -> None:
    response = asked(desiredAPIVersion=version, objects=[QUEUE])
    assert response["result"]["status"] == "Failure"
    assert "request.desiredAPIVersion" in response["result"]["message"]


@pytest.mark.parametrize("objects", [None, {}, [5]])
def test_objects_that_are_not_a_list_are_rejected(objects: Any) -> None:
    response = asked(desiredAPIVersion="kueue.x-k8s.io/v1beta2", objects=objects)
    assert "request.objects" in response["result"]["message"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}', b"[" * 100_000],
)
def test_an_invalid_body_gets_a_reason(body: bytes) -> None:
    assert isinstance(review_response(body), str)
