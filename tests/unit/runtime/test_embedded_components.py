"""`headgate run` does not start a component that the `headgate up` which serves the API runs itself."""

from __future__ import annotations

import pytest

from headgate.http.transport import HTTPResponse
from headgate.runtime.embedded_components import GATE_POLICIES, check_embedded_components, check_name

REAL = "[+]ping ok\n[+]etcd ok\n[+]poststarthook/start-kube-apiserver-admission-initializer ok\nreadyz check passed\n"


def checked(page: str, *components: str, names: tuple[str, ...] = ("headgate",), has_queues: bool = True) -> str:
    steps = check_embedded_components(components, names, has_queues=has_queues)
    request = next(steps)
    assert (request.path, request.query) == ("/readyz", "verbose")
    try:
        steps.send(HTTPResponse(200, {}, page.encode()))
    except StopIteration as done:
        return str(done.value)
    raise AssertionError("it reads only once")


def page_of(*checks: str) -> str:
    return "".join(f"[+]{each} ok\n" for each in ("ping", "components", *checks)) + "readyz check passed\n"


@pytest.mark.parametrize("component", ["quota", "jobs", "controllers", GATE_POLICIES])
def test_a_component_of_the_embedded_cluster_is_not_started_again(component: str) -> None:
    found = checked(page_of(check_name(component)), "quota", "jobs", "controllers", GATE_POLICIES)
    assert found == (
        f"the headgate up that serves this API does the work of {component} itself; start it with --components that "
        "leaves this work to other processes, or pass --takeover"
    )


def test_all_components_that_run_twice_are_named() -> None:
    found = checked(page_of(check_name("quota"), check_name("jobs")), "quota", "jobs")
    assert "the work of jobs and quota itself" in found


def test_a_scheduler_starts_with_a_name_of_its_own_if_it_does_not_use_queues() -> None:
    page = page_of(check_name("scheduler", "headgate"), check_name("scheduler", "volcano"))
    assert "does the work of scheduler itself" in checked(page, "scheduler", names=("volcano",), has_queues=False)
    assert "does the work of scheduler itself" in checked(page, "scheduler", names=("mine",), has_queues=True)
    assert checked(page, "scheduler", names=("mine",), has_queues=False) == ""


def test_the_gate_controller_does_not_start_beside_a_scheduler() -> None:
    found = checked(page_of(check_name("scheduler", "headgate")), "gates", has_queues=False)
    assert "does the work of gates itself; its scheduler gives capacity of queues to pods; " in found


@pytest.mark.parametrize("page", [REAL, page_of(), "forbidden", "[+]component-nodes ok\n", "[-]component-quota failed"])
def test_other_servers_and_other_components_do_not_matter(page: str) -> None:
    assert checked(page, "scheduler", "gates", "controllers", "quota", "jobs") == ""
