"""Pod Security: invalid labels are refused, and a warning names what is not evaluated."""

from __future__ import annotations

import pytest

from embedded import Embedded

PREFIX = "pod-security.kubernetes.io"


def test_a_level_that_would_be_enforced_is_answered_with_what_is_not_done() -> None:
    response = Embedded().post(
        "/api/v1/namespaces", {"metadata": {"name": "n", "labels": {f"{PREFIX}/enforce": "baseline"}}}
    )
    assert response.status == 201
    assert len(response.warnings) == 1
    assert "pod security is not evaluated by the embedded API server" in response.warnings[0]


@pytest.mark.parametrize("mode", ["enforce", "audit", "warn"])
def test_an_update_is_warned_of_only_when_it_asks_for_more(mode: str) -> None:
    server = Embedded()
    change = {"metadata": {"labels": {f"{PREFIX}/{mode}": "restricted"}}}
    assert len(server.patch("/api/v1/namespaces/t", change).warnings) == 1
    assert server.patch("/api/v1/namespaces/t", {"metadata": {"labels": {"a": "b"}}}).warnings == []
    assert (
        server.patch("/api/v1/namespaces/t", {"metadata": {"labels": {f"{PREFIX}/{mode}": "privileged"}}}).warnings
        == []
    )


def test_a_level_that_does_not_exist_is_refused_by_name() -> None:
    response = Embedded().post("/api/v1/namespaces", {"metadata": {"name": "n", "labels": {f"{PREFIX}/warn": "odd"}}})
    assert response.status == 422
    assert response.body["message"] == (
        f'Namespace "n" is invalid: metadata.labels[{PREFIX}/warn]: Invalid value: "odd": '
        "must be one of privileged, baseline, restricted"
    )


@pytest.mark.parametrize(
    ("version", "code"), [("latest", 201), ("v1.0", 201), ("v1.35", 201), ("v1.01", 422), ("v2.0", 422)]
)
def test_a_version_is_latest_or_a_minor_one(version: str, code: int) -> None:
    body = {"metadata": {"name": "n", "labels": {f"{PREFIX}/enforce-version": version}}}
    assert Embedded().post("/api/v1/namespaces", body).status == code
