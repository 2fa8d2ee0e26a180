"""The requests and limits of a pod: containers, overhead and pod-level resources."""

from __future__ import annotations

from typing import Any

from headgate.kube.pods.requests import fill_requests, pod_limits, pod_requests, spec_during_resize


def container(
    name: str = "c", always: bool = False, limits: dict[str, str] | None = None, **requests: str
) -> dict[str, Any]:
    out: dict[str, Any] = {"name": name, "resources": {"requests": requests}}
    if limits:
        out["resources"]["limits"] = limits
    return {**out, "restartPolicy": "Always"} if always else out


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), "initContainers": list(init), **spec}}


def canonical(amounts: Any) -> dict[str, str]:
    return {name: amount.canonical for name, amount in amounts.items()}


def test_containers_add_up_and_a_plain_init_container_counts_by_its_peak() -> None:
    both = pod(
        container(cpu="1", memory="1Gi"), container("d", cpu="500m"), init=(container("i", cpu="2", memory="1Mi"),)
    )
    assert canonical(pod_requests(both)) == {"cpu": "2", "memory": "1Gi"}


def test_a_sidecar_counts_with_the_containers_and_with_the_init_containers_after_it() -> None:
    early = pod(container(cpu="1"), init=(container("s", True, cpu="1"), container("i", cpu="3")))
    late = pod(container(cpu="1"), init=(container("i", cpu="3"), container("s", True, cpu="1")))
    assert canonical(pod_requests(early)) == {"cpu": "4"}
    assert canonical(pod_requests(late)) == {"cpu": "3"}


def test_amounts_of_the_pod_itself_replace_the_sum_and_overhead_comes_on_top() -> None:
    level = {"requests": {"cpu": "3", "example.com/gpu": "9"}, "limits": {"memory": "4Gi"}}
    meta = pod(
        container(cpu="1", memory="1Gi", limits={"memory": "2Gi"}),
        resources=level,
        overhead={"cpu": "100m", "memory": "1Gi"},
    )
    assert canonical(pod_requests(meta)) == {"cpu": "3100m", "memory": "2Gi"}
    assert canonical(pod_limits(meta)) == {"memory": "5Gi"}


def test_overhead_adds_no_limit_if_there_is_none() -> None:
    assert canonical(pod_limits(pod(container(), overhead={"cpu": "1"}))) == {}
    assert canonical(pod_requests(pod(container(), overhead={"cpu": "1"}))) == {"cpu": "1"}


def resizing(reason: str | None, **status: Any) -> dict[str, Any]:
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    statuses = [{"name": "c", **status}]
    return {**pod(container(cpu="1")), "status": {"containerStatuses": statuses, "conditions": conditions}}


def test_a_shrinking_container_counts_with_its_allocated_amount() -> None:
    shrinking = resizing(None, resources={"requests": {"cpu": "2"}}, allocatedResources={"cpu": "3"})
    assert canonical(pod_requests(shrinking)) == {"cpu": "3"}
    assert canonical(pod_requests(shrinking, spec_only=True)) == {"cpu": "1"}


def test_a_growing_container_counts_with_its_request_unless_that_is_infeasible() -> None:
    growing = {"resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "500m"}}
    assert canonical(pod_requests(resizing("Deferred", **growing))) == {"cpu": "1"}
    assert canonical(pod_requests(resizing("Infeasible", **growing))) == {"cpu": "500m"}


def test_a_status_without_resources_changes_nothing_and_neither_does_a_plain_init_containers() -> None:
    assert canonical(pod_requests(resizing(None))) == {"cpu": "1"}
    started = pod(container(cpu="1"), init=(container("i", cpu="2"), container("s", True, cpu="1")))
    started["status"] = {
        "initContainerStatuses": [
            {"name": "i", "resources": {"requests": {"cpu": "9"}}},
            {"name": "s", "resources": {"requests": {"cpu": "4"}}},
        ]
    }
    assert canonical(pod_requests(started)) == {"cpu": "5"}


def test_limits_during_a_resize_are_the_larger_of_requested_and_current() -> None:
    shrinking = pod(container(limits={"cpu": "1"}))
    shrinking["status"] = {"containerStatuses": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}
    assert canonical(pod_limits(shrinking)) == {"cpu": "2"}


def test_a_limit_without_a_request_asks_for_as_much() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    assert fill_requests(resources)["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert resources["requests"] == {"cpu": "1"}
    assert fill_requests({"requests": {"cpu": "1"}}) == {"requests": {"cpu": "1"}}


def test_a_pod_without_resources_requests_nothing() -> None:
    assert pod_requests({}) == pod_limits({}) == {}
    assert pod_requests({"spec": {"containers": [{"name": "c"}]}}) == {}


def test_a_pod_whose_containers_have_what_they_ask_for_counts_with_its_own_spec() -> None:
    resources = {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}
    spec = {"containers": [{"name": "c", "resources": resources}, {"name": "d"}]}
    statuses = [
        {"name": "c", "resources": dict(resources), "allocatedResources": {"cpu": "1"}},
        {"name": "d", "resources": {}},
    ]
    assert spec_during_resize({"spec": spec, "status": {"containerStatuses": statuses}}, "requests") is spec
    larger = [{**statuses[0], "allocatedResources": {"cpu": "3"}}, statuses[1]]
    held = spec_during_resize({"spec": spec, "status": {"containerStatuses": larger}}, "requests")
    assert held["containers"] == [{"name": "c", "resources": {"requests": {"cpu": "3"}}}, {"name": "d"}]
