"""The checks of a server before a scheduler starts."""

from __future__ import annotations

import pytest

from headgate.http.transport import HTTPResponse
from headgate.runtime.preflight import PreflightSteps, check_kueue_kinds, check_scheduling_gates

SCHEMA = "/openapi/v3/api/v1"


def answered(asking: PreflightSteps, answers: dict[str, HTTPResponse]) -> tuple[list[str], str]:
    """The paths that were asked for, and what was found wrong."""
    asked: list[str] = []
    response: HTTPResponse | None = None
    while True:
        try:
            request = next(asking) if response is None else asking.send(response)
        except StopIteration as end:
            return asked, end.value
        asked.append(request.path)
        response = answers[request.path]


def version(minor: str) -> HTTPResponse:
    return HTTPResponse(200, {}, f'{{"major":"1","minor":"{minor}"}}'.encode())


@pytest.mark.parametrize("minor", ["30", "35", "31+"])
def test_a_version_that_cannot_do_without_gates_is_not_asked_for_its_schema(minor: str) -> None:
    assert answered(check_scheduling_gates(), {"/version": version(minor)}) == (["/version"], "")


@pytest.mark.parametrize(
    "old", [version("27"), HTTPResponse(200, {}, b"{}"), HTTPResponse(200, {}, b"soon"), HTTPResponse(404, {}, b"")]
)
def test_the_schema_of_any_other_server_says_whether_it_knows_gates(old: HTTPResponse) -> None:
    knows = HTTPResponse(200, {}, b'{"schedulingGates":{}}')
    assert answered(check_scheduling_gates(), {"/version": old, SCHEMA: knows}) == (["/version", SCHEMA], "")
    _, problem = answered(check_scheduling_gates(), {"/version": old, SCHEMA: HTTPResponse(200, {}, b"{}")})
    assert "does not support spec.schedulingGates" in problem


def test_without_the_right_to_read_the_schema_the_check_passes_if_the_version_can_be_read() -> None:
    refused = HTTPResponse(403, {}, b'{"message":"no"}')
    assert answered(check_scheduling_gates(), {"/version": version("27"), SCHEMA: refused})[1] == ""
    assert (
        "the server denies access: no" in answered(check_scheduling_gates(), {"/version": refused, SCHEMA: refused})[1]
    )


def test_quota_without_its_kinds_prints_how_to_install_them() -> None:
    kinds = "/apis/kueue.x-k8s.io/v1beta2"
    assert "headgate install-crds" in answered(check_kueue_kinds(), {kinds: HTTPResponse(404, {}, b"{}")})[1]
    assert answered(check_kueue_kinds(), {kinds: HTTPResponse(200, {}, b"{}")})[1] == ""
