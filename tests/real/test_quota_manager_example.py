"""The quota manager of examples/controllers on both servers, with the rights of its file, its sample, and a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.scheduler_process import delete_pod, send
from harness.server import Server
from real.example_controllers import (
    PODS,
    ExampleController,
    apply,
    delete_pods,
    documents,
    finish,
    gated_pod,
    gates,
    path_of,
    reasons,
    running,
)

pytestmark = pytest.mark.real

GATE, FOREIGN = "example.com/quota", "example.com/other"
MAPS = "/api/v1/namespaces/kube-system/configmaps"
LISTED = ("/api/v1/pods?limit=1", f"{MAPS}?fieldSelector=metadata.name=quota-limits")
LIMITS, *SAMPLE_PODS = documents("quota-manager-sample.yaml")


@pytest.fixture(scope="module", params=["embedded_server", "real_server"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def limits() -> str:
    text: str = LIMITS["data"]["default"]
    return text


@pytest.fixture
def controller(server: Server, tmp_path: Path, limits: str) -> Iterator[ExampleController]:
    """It is gone when a test ends, and so are its pods and limits."""
    apply(server, {**LIMITS, "data": {"default": limits}})
    yield from running(server, tmp_path, "quota-manager", LISTED)
    delete_pods(server)
    server.request("DELETE", path_of(LIMITS))


def limit(server: Server, text: str) -> None:
    send(server, "PATCH", path_of(LIMITS), {"data": {"default": text}}, "application/merge-patch+json")


def create(server: Server, *names: str, **more: Any) -> None:
    for name in names:
        send(server, "POST", PODS, gated_pod(name, GATE, **more))


def test_two_pods_of_the_sample_are_released_and_the_third_when_one_has_ended(
    server: Server, controller: ExampleController
) -> None:
    for pod in SAMPLE_PODS:
        send(server, "POST", PODS, pod)
    controller.until(lambda: not gates(server, "first") and not gates(server, "second"))
    controller.until(lambda: "pods=2, cpu=1500m" in reasons(server, "third").get("WaitingForQuota", ""))
    assert gates(server, "third") == [GATE]
    finish(server, "second")
    controller.until(lambda: not gates(server, "third"))
    assert controller.patches() == {"first": 1, "second": 1, "third": 1}


@pytest.mark.parametrize("limits", ["cpu=1"])
def test_cpu_counts_too_and_a_pod_that_can_never_fit_does_not_hold_back_the_others(
    server: Server, controller: ExampleController
) -> None:
    create(server, "huge", requests={"cpu": "2"})
    create(server, "half", "most", requests={"cpu": "600m"})
    send(server, "POST", PODS, gated_pod("small", FOREIGN, GATE, requests={"cpu": "100m"}))
    controller.until(lambda: not gates(server, "half"))
    controller.until(lambda: "requests cpu=2" in reasons(server, "huge").get("ExceedsQuota", ""))
    controller.until(lambda: "WaitingForQuota" in reasons(server, "small"))  # it would fit, but `most` is before it
    assert [gates(server, name) for name in ("huge", "most", "small")] == [[GATE], [GATE], [FOREIGN, GATE]]
    limit(server, "cpu=1300m")
    controller.until(lambda: not gates(server, "most") and gates(server, "small") == [FOREIGN])


@pytest.mark.parametrize("limits", ["pods=many"])
def test_without_a_valid_limit_pods_wait_and_get_an_event_that_says_why(
    server: Server, controller: ExampleController
) -> None:
    create(server, "waiting")
    controller.until(lambda: "pods=many is not a number" in reasons(server, "waiting").get("NoQuota", ""))
    send(server, "DELETE", path_of(LIMITS))
    controller.until(lambda: "does not exist" in reasons(server, "waiting").get("NoQuota", ""))
    assert gates(server, "waiting") == [GATE]
    apply(server, LIMITS)
    controller.until(lambda: not gates(server, "waiting"))


@pytest.mark.parametrize("limits", ["pods=1"])
def test_a_manager_that_is_killed_during_a_removal_releases_no_other_pod_in_its_place(
    server: Server, controller: ExampleController
) -> None:
    controller.lose_response("/pods/one")
    create(server, "one")
    controller.until(lambda: not gates(server, "one"))  # performed, and the manager does not know it
    create(server, "two", "three")
    controller.kill()
    controller.start()
    controller.until(lambda: "WaitingForQuota" in reasons(server, "three"))
    assert [gates(server, name) for name in ("two", "three")] == [[GATE], [GATE]]
    controller.kill()
    finish(server, "one")
    delete_pod(server, "two")  # the next one, and a new one of its name is the last
    create(server, "two")
    controller.start()
    controller.until(lambda: not gates(server, "three"))
    controller.until(lambda: "WaitingForQuota" in reasons(server, "two"))
    assert gates(server, "two") == [GATE]
    assert controller.patches() == {"one": 1, "three": 1}


@pytest.mark.parametrize("limits", ["pods=1"])
def test_a_response_that_is_lost_is_not_a_second_release(server: Server, controller: ExampleController) -> None:
    controller.proxy.lose("PATCH", "/pods/one")
    create(server, "one", "two")
    controller.until(lambda: "default/one: lifted" in controller.log())
    controller.until(lambda: "WaitingForQuota" in reasons(server, "two"))
    assert (gates(server, "one"), gates(server, "two")) == ([], [GATE])


@pytest.mark.parametrize("limits", ["pods=2"])
def test_the_limit_holds_while_responses_are_lost_and_watches_break(
    server: Server, controller: ExampleController
) -> None:
    controller.kill()
    controller.proxy.inject_faults(0.15, 0.5)
    controller.start()
    names = {f"pod-{number}" for number in range(8)}
    create(server, *sorted(names))
    finished: set[str] = set()
    faults = ("cut", "lost", "error", "error after the act")

    def every_fault_has_happened() -> bool:
        return all(controller.proxy.faults[kind] for kind in faults)

    def running() -> set[str]:
        pods = {each["metadata"]["name"]: each["spec"] for each in send(server, "GET", PODS)["items"]}
        return {name for name, spec in pods.items() if "schedulingGates" not in spec} - finished

    while finished != names:
        released: set[str] = controller.until(running)
        assert len(released) <= 2
        name = released.pop()
        finish(server, name)
        finished.add(name)
        if finished == names and not every_fault_has_happened() and len(names) < 100:
            create(server, f"pod-{len(names)}")
            names.add(f"pod-{len(names)}")
    assert every_fault_has_happened()
