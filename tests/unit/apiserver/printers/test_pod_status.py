"""The columns STATUS, READY and RESTARTS of pods."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.printers import table

MIDNIGHT = 1767225600.0  # 2026-01-01T00:00:00Z
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def a_pod(phase: str = "Running", containers: int = 1, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": f"c{index}", "image": "i"} for index in range(containers)]},
        "status": {"phase": phase, **status},
    }


def container(state: dict[str, Any], *, ready: bool = False, restarts: int = 0, last: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"name": "c0", "state": state, "ready": ready, "restartCount": restarts}
    return status | {"lastState": {"terminated": {"finishedAt": last}}} if last else status


def terminated(code: int, reason: str = "", signal: int = 0) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "signal": signal}}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def row_of(pod: dict[str, Any], now: float = MIDNIGHT) -> dict[str, Any]:
    kind = BUILTIN.by_resource("", "v1", "pods")
    assert kind is not None
    row: dict[str, Any] = table(kind, [pod], now, include_object="None", list_meta={})["rows"][0]
    return row


def status_of(pod: dict[str, Any]) -> str:
    return str(row_of(pod)["cells"][2])


def test_a_gated_pod_is_scheduling_gated() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    assert status_of(a_pod("Pending", conditions=[gated])) == "SchedulingGated"


def test_the_condition_counts_and_not_the_gates_in_the_spec() -> None:
    pod = a_pod("Pending")
    pod["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
    assert status_of(pod) == "Pending"


def test_a_gated_pod_that_is_being_deleted_is_terminating() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    pod = a_pod("Pending", conditions=[gated])
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert status_of(pod) == "Terminating"


def test_a_reason_of_the_pod_goes_before_its_phase() -> None:
    assert status_of(a_pod("Failed", reason="Evicted")) == "Evicted"


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (waiting("ImagePullBackOff"), "ImagePullBackOff"),
        (terminated(1, "Error"), "Error"),
        (terminated(137, signal=9), "Signal:9"),
        (terminated(5), "ExitCode:5"),
        (RUNNING, "Running"),
    ],
)
def test_the_state_of_a_container_goes_before_the_phase(state: dict[str, Any], status: str) -> None:
    assert status_of(a_pod(containerStatuses=[container(state)])) == status


def test_a_pod_with_one_container_done_and_one_running_runs() -> None:
    statuses = [container(terminated(0, "Completed")), container(RUNNING, ready=True)]
    ready = [{"type": "Ready", "status": "True"}]
    pod = a_pod(containers=2, containerStatuses=statuses, conditions=ready)
    assert row_of(pod)["cells"][1:3] == ["1/2", "Running"]
    assert status_of(a_pod(containers=2, containerStatuses=statuses)) == "NotReady"


def test_a_failed_container_goes_before_completed_ones() -> None:
    statuses = [container(terminated(0, "Completed")), container(terminated(2, "OOMKilled"))]
    assert status_of(a_pod(containers=2, containerStatuses=statuses)) == "OOMKilled"


def test_restarts_say_when_the_last_one_was() -> None:
    statuses = [
        container(RUNNING, ready=True, restarts=2, last="2025-12-31T23:00:00Z"),
        container(RUNNING, ready=True, restarts=1, last="2025-12-31T23:55:00Z"),
    ]
    assert row_of(a_pod(containers=2, containerStatuses=statuses))["cells"][3] == "3 (5m ago)"


def test_restarts_without_a_time_are_a_plain_number() -> None:
    assert row_of(a_pod(containerStatuses=[container(RUNNING, restarts=4)]))["cells"][3] == "4"


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ([container(waiting("PodInitializing"))], "Init:0/2"),
        ([container(terminated(0)), container(waiting(""))], "Init:1/2"),
        ([container(terminated(0)), container(waiting("ErrImagePull"))], "Init:ErrImagePull"),
        ([container(terminated(1, "Error"))], "Init:Error"),
        ([container(terminated(1, signal=6))], "Init:Signal:6"),
        ([container(terminated(7))], "Init:ExitCode:7"),
    ],
)
def test_an_init_container_holds_up_the_pod(statuses: list[Any], status: str) -> None:
    pod = a_pod("Pending", initContainerStatuses=statuses)
    pod["spec"]["initContainers"] = [{"name": "i0"}, {"name": "i1"}]
    assert status_of(pod) == status


def test_sidecars_count_as_containers_and_keep_their_restarts() -> None:
    sidecar = container(RUNNING, ready=True, restarts=3, last="2025-12-31T23:59:00Z") | {"name": "s", "started": True}
    done = container(terminated(0, "Completed"), restarts=9) | {"name": "i"}
    pod = a_pod(initContainerStatuses=[done, sidecar], containerStatuses=[container(RUNNING, ready=True, restarts=1)])
    pod["spec"]["initContainers"] = [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]
    assert row_of(pod)["cells"][1:4] == ["2/2", "Running", "4 (60s ago)"]


def test_a_deleted_pod_whose_node_is_gone_is_unknown() -> None:
    pod = a_pod(reason="NodeLost")
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert status_of(pod) == "Unknown"


def test_a_finished_pod_stays_finished_while_it_is_deleted() -> None:
    pod = a_pod("Succeeded")
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert status_of(pod) == "Succeeded"


@pytest.mark.parametrize(
    ("phase", "message"),
    [("Succeeded", "The pod has completed successfully."), ("Failed", "The pod failed.")],
)
def test_the_row_of_a_finished_pod_is_marked(phase: str, message: str) -> None:
    assert row_of(a_pod(phase))["conditions"] == [
        {"type": "Completed", "status": "True", "reason": phase, "message": message}
    ]
    assert "conditions" not in row_of(a_pod("Running"))


def test_wide_cells_show_where_the_pod_is_or_may_go() -> None:
    pod = a_pod(nominatedNodeName="n2", podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}])
    pod["spec"]["nodeName"] = "n1"
    assert row_of(pod)["cells"][5:] == ["10.0.0.1", "n1", "n2", "<none>"]
    assert row_of(a_pod())["cells"][5:] == ["<none>", "<none>", "<none>", "<none>"]


def test_readiness_gates_count_those_that_are_passed() -> None:
    pod = a_pod(conditions=[{"type": "example.com/a", "status": "True"}, {"type": "example.com/b", "status": "False"}])
    pod["spec"]["readinessGates"] = [{"conditionType": f"example.com/{each}"} for each in "abc"]
    assert row_of(pod)["cells"][8] == "1/3"


def test_an_age_follows_the_clock() -> None:
    assert row_of(a_pod(), MIDNIGHT + 42)["cells"][4] == "42s"
    assert row_of(a_pod(), MIDNIGHT + 3 * 86400)["cells"][4] == "3d"
    assert row_of(a_pod() | {"metadata": {"name": "p"}})["cells"][4] == "<unknown>"
