"""The checks of a server before a scheduler starts."""

from __future__ import annotations

import pytest

from headgate.http.transport import HTTPResponse
from headgate.runtime.preflight import (
    PreflightSteps,
    check_kueue_kinds,
    check_scheduling_gates,
    find_other_quota_manager,
    find_other_scheduler,
)

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
    assert "does not know spec.schedulingGates" in problem


def test_who_may_not_read_the_schema_goes_on_if_it_is_let_in_at_all() -> None:
    refused = HTTPResponse(403, {}, b'{"message":"no"}')
    assert answered(check_scheduling_gates(), {"/version": version("27"), SCHEMA: refused})[1] == ""
    assert (
        "the server denies access: no" in answered(check_scheduling_gates(), {"/version": refused, SCHEMA: refused})[1]
    )


def test_a_name_is_free_if_its_lease_is_not_there_and_not_if_we_may_not_look() -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
    names = ["default-scheduler", "mine"]
    assert answered(find_other_scheduler(names, 0.0), {lease: HTTPResponse(404, {}, b"{}")}) == ([lease], "")
    _, problem = answered(find_other_scheduler(names, 0.0), {lease: HTTPResponse(403, {}, b'{"message":"no"}')})
    assert "cannot be seen whether another scheduler has the name default-scheduler" in problem
    assert "answered 403: no" in problem
    assert "--takeover" in problem


def test_quota_is_not_given_beside_a_kueue_that_is_at_work() -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kueue-system/leases/c1f6bfd2.kueue.x-k8s.io"
    held = b'{"spec":{"holderIdentity":"kueue-1","leaseDurationSeconds":15,"renewTime":"2023-11-14T22:13:20.000000Z"}}'
    renewed_s = 1_700_000_000.0
    assert answered(find_other_quota_manager(renewed_s), {lease: HTTPResponse(404, {}, b"{}")}) == ([lease], "")
    _, problem = answered(find_other_quota_manager(renewed_s + 5), {lease: HTTPResponse(200, {}, held)})
    assert "quota is given to workloads by kueue-1, which holds the Lease kueue-system/" in problem
    assert "--takeover" in problem
    assert answered(find_other_quota_manager(renewed_s + 3600), {lease: HTTPResponse(200, {}, held)})[1] == ""


def test_who_starts_quota_without_its_kinds_is_told_how_to_bring_them() -> None:
    kinds = "/apis/kueue.x-k8s.io/v1beta2"
    assert "headgate install-crds" in answered(check_kueue_kinds(), {kinds: HTTPResponse(404, {}, b"{}")})[1]
    assert answered(check_kueue_kinds(), {kinds: HTTPResponse(200, {}, b"{}")})[1] == ""
