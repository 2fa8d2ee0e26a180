"""Whether another program does the same work, found without a comparison of clocks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.runtime.lease_owners import (
    WorkLease,
    check_owners,
    find_live_owner,
    gate_controller_lease,
    headgate_lease,
    kueue_lease,
    queue_owner_leases,
    scheduler_leases,
)

(KUBE_SCHEDULER,) = scheduler_leases(["default-scheduler"])
(VOLCANO,) = scheduler_leases(["volcano"])
PAST, FUTURE = "1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"
MISSING = HTTPResponse(404, {}, b"{}")
Answer = Callable[[float], HTTPResponse]


def lease(revision: int = 1, renewed: str = PAST, holder: str = "other", duration: Any = 15) -> HTTPResponse:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": duration, "renewTime": renewed}
    return HTTPResponse(200, {}, json.dumps({"metadata": {"resourceVersion": str(revision)}, "spec": spec}).encode())


def renewing(every_s: float, until_s: float = float("inf"), renewed: str = PAST) -> Answer:
    return lambda now_s: lease(1 + int(min(now_s, until_s) / every_s), renewed)


def checked(answers: dict[WorkLease, Answer]) -> tuple[str, float, list[str]]:
    """The problem, after how many seconds it was found, and the lines that were printed. Reads take no time."""
    steps = find_live_owner(list(answers))
    by_path = {
        f"/apis/coordination.k8s.io/v1/namespaces/{each.namespace}/leases/{each.name}": answer
        for each, answer in answers.items()
    }
    now_s, lines = 0.0, []
    try:
        read = next(steps)
        while True:
            now_s += read.wait_s
            if read.progress:
                lines.append(read.progress)
            read = steps.send(by_path[read.request.path](now_s))
    except StopIteration as end:
        return end.value, now_s, lines


@pytest.mark.parametrize("renewed", [PAST, FUTURE, "", "soon"])
def test_a_holder_that_renews_its_lease_is_found_in_two_seconds_whatever_its_clock_says(renewed: str) -> None:
    problem, after_s, lines = checked({KUBE_SCHEDULER: renewing(2.0, renewed=renewed)})
    assert problem == (
        "pods with schedulerName default-scheduler are scheduled by other, which holds the Lease "
        "kube-system/kube-scheduler; stop it, leave the name out, or pass --takeover"
    )
    assert after_s == 2.0
    assert lines == [
        "waits up to 15 s to see whether these Leases are renewed: kube-system/kube-scheduler (held by other)"
    ]


@pytest.mark.parametrize("renewed", [PAST, FUTURE, "", "soon"])
def test_a_lease_that_does_not_change_for_its_own_duration_is_free_whatever_its_time_says(renewed: str) -> None:
    assert checked({KUBE_SCHEDULER: lambda _: lease(1, renewed)})[:2] == ("", 15.0)


def test_a_holder_that_is_late_by_less_than_the_duration_of_its_lease_is_alive() -> None:
    assert "scheduled by other" in checked({KUBE_SCHEDULER: renewing(14.9)})[0]


@pytest.mark.parametrize("answer", [MISSING, lease(holder="")])
def test_a_lease_that_is_missing_or_has_no_holder_is_free_at_once(answer: HTTPResponse) -> None:
    assert checked({KUBE_SCHEDULER: lambda _: answer}) == ("", 0.0, [])


@pytest.mark.parametrize("released", [MISSING, lease(2, holder="")])
def test_a_lease_that_is_released_or_deleted_meanwhile_is_free_then(released: HTTPResponse) -> None:
    assert checked({KUBE_SCHEDULER: lambda now_s: released if now_s >= 1.0 else lease()})[:2] == ("", 1.0)


@pytest.mark.parametrize("duration", [None, 0, -1, "15"])
def test_a_lease_without_a_duration_is_observed_for_the_default_of_kubernetes(duration: Any) -> None:
    assert checked({KUBE_SCHEDULER: lambda _: lease(duration=duration)})[:2] == ("", 15.0)


def test_the_holder_of_a_lease_with_a_long_duration_counts_as_alive() -> None:
    problem, after_s, _ = checked({KUBE_SCHEDULER: lambda _: lease(duration=3600)})
    assert "holds the Lease kube-system/kube-scheduler for 3600 s after each renewal; stop it" in problem
    assert after_s == 0.0


def test_all_leases_are_observed_at_the_same_time() -> None:
    stopped: Answer = lambda _: lease(duration=10)  # noqa: E731
    free: Answer = lambda _: MISSING  # noqa: E731
    assert checked({KUBE_SCHEDULER: stopped, VOLCANO: lambda _: lease(), kueue_lease(): free})[:2] == ("", 15.0)
    problem, after_s, lines = checked({KUBE_SCHEDULER: stopped, VOLCANO: renewing(12.0), kueue_lease(): free})
    assert "pods with schedulerName volcano are scheduled by other" in problem
    assert after_s == 12.0
    assert len(lines) == 1


def test_only_the_names_of_other_schedulers_have_leases() -> None:
    found = scheduler_leases(["headgate", "volcano", "mine", "default-scheduler"])
    assert [each.key for each in found] == [("volcano-system", "volcano"), ("kube-system", "kube-scheduler")]
    assert find_nothing([])


def find_nothing(leases: Sequence[WorkLease]) -> bool:
    return checked({each: lambda _: MISSING for each in leases}) == ("", 0.0, [])


@pytest.mark.parametrize("failing_from_s", [0.0, 1.0])
def test_a_lease_that_may_not_be_read_is_a_problem(failing_from_s: float) -> None:
    refused = HTTPResponse(403, {}, b'{"message":"no"}')
    problem, _, _ = checked({KUBE_SCHEDULER: lambda now_s: refused if now_s >= failing_from_s else lease()})
    assert problem == (
        "it is unknown whether another scheduler has the name default-scheduler: the read of the Lease "
        "kube-system/kube-scheduler returned 403: no; grant access to it, leave the name out, or pass --takeover"
    )


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_read_that_fails_for_a_moment_is_repeated(code: int) -> None:
    failing = HTTPResponse(code, {}, b'{"message":"busy"}')
    assert checked({KUBE_SCHEDULER: lambda now_s: failing if now_s < 3.0 else MISSING})[:2] == ("", 3.0)
    problem, after_s, _ = checked({KUBE_SCHEDULER: lambda _: failing})
    assert f"returned {code}: busy" in problem
    assert after_s == 5.0


def test_quota_is_not_given_beside_kueue() -> None:
    problem, _, _ = checked({kueue_lease(): renewing(2.0)})
    assert problem == (
        "quota is given to workloads by other, which holds the Lease kueue-system/c1f6bfd2.kueue.x-k8s.io; "
        "stop it, leave quota out of --components, or pass --takeover"
    )


def test_a_headgate_that_elects_no_leader_does_not_start_beside_an_elected_one() -> None:
    problem, _, _ = checked({headgate_lease("quota", "kube-system", "headgate-quota"): renewing(2.0)})
    assert problem == (
        "the work of the component quota is done by other, which holds the Lease kube-system/headgate-quota; "
        "stop it, pass --leader-elect to wait until this process is elected, or pass --takeover"
    )


def test_the_check_prints_its_progress_and_returns_the_problem() -> None:
    answers = [lease(1), lease(1), lease(2)]
    lines: list[str] = []

    async def handle(request: HTTPRequest) -> HTTPResponse:
        return answers.pop(0)

    async def main() -> str:
        return await check_owners(InProcessTransport(handle), [KUBE_SCHEDULER], lines.append)

    assert "scheduled by other" in asyncio.run(main())
    assert len(lines) == 1


def test_gates_are_not_removed_beside_a_volcano_that_may_remove_them_too() -> None:
    volcano, scheduler = queue_owner_leases(is_scheduler=False)
    problem, _, _ = checked({volcano: renewing(2.0), scheduler: lambda _: MISSING})
    assert "SchedulingGatesQueueAdmission" in problem
    assert (
        "which holds the Lease volcano-system/volcano; stop it, switch that feature off, or pass --takeover" in problem
    )
    assert not checked({volcano: lambda _: lease(), scheduler: lambda _: MISSING})[0]


def test_gates_are_not_removed_beside_a_scheduler_with_queues() -> None:
    volcano, scheduler = queue_owner_leases(is_scheduler=False)
    problem, _, _ = checked({volcano: lambda _: MISSING, scheduler: renewing(2.0)})
    assert "capacity of queues may be given to pods by other, which holds the Lease kube-system/headgate-sch" in problem
    assert queue_owner_leases(is_scheduler=True) == [volcano]


def test_a_scheduler_with_queues_does_not_start_beside_a_gate_controller() -> None:
    gates = gate_controller_lease()
    problem, _, _ = checked({gates: renewing(2.0)})
    assert "by the component gates of other, which holds the Lease kube-system/headgate-gates" in problem
    assert not checked({gates: lambda _: lease()})[0]
    assert not checked({gates: lambda _: HTTPResponse(403, {}, b"{}")})[0]
