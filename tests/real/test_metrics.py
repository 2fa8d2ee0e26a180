"""Metrics and health of a running scheduler, on both servers, and beside the real kube-scheduler's own page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric

from clusters import a_node, a_pod
from harness.kube_scheduler import kube_scheduler
from harness.metrics_page import families, get, page_of, value
from harness.processes import Process, free_ports
from harness.scheduler_process import (
    SchedulerProcess,
    create_nodes,
    create_pod,
    delete_pod,
    events_about,
    get_pod,
    is_bound,
    patch_pod,
    scheduled_reason,
    send,
    wait_for,
)
from harness.server import Server
from harness.server_kinds import SERVER_KINDS, running_server
from harness.users import ALICE, BOB

pytestmark = pytest.mark.real

GATE = "example.com/dependency-ready"


@pytest.fixture(scope="module", params=SERVER_KINDS)
def server(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running_server(request.param, tmp_path_factory.mktemp(f"metrics-{request.param}"), kube_binaries) as made:
        create_nodes(made, [a_node("node-a", cpu="4"), a_node("node-b", cpu="4")])
        yield made


@pytest.fixture
def scheduler(server: Server, tmp_path: Path) -> Iterator[SchedulerProcess]:
    running = SchedulerProcess(server, tmp_path / "run.log", "--no-leader-elect", "--metrics-listen", "127.0.0.1:0")
    yield running
    running.stop()


def test_events_about_gated_pods_can_be_switched_off(server: Server, tmp_path: Path) -> None:
    flags = ("--no-leader-elect", "--gated-pod-events", "0", "--metrics-listen", "127.0.0.1:0")
    running = SchedulerProcess(server, tmp_path / "run.log", *flags)
    try:
        create_pod(server, a_pod("silent", schedulerName="headgate", schedulingGates=[{"name": GATE}]))
        withheld = "headgate_gated_pod_events_withheld_total"
        wait_for(lambda: value(families(page_of(running)), withheld) == 1, running)
        assert [each["reason"] for each in events_about(server, "silent") if each["reason"] == "SchedulingGated"] == []
    finally:
        delete_pod(server, "silent")
        running.stop()


def test_secure_metrics_are_for_users_that_the_api_server_allows(server: Server, tmp_path: Path) -> None:
    flags = ("--no-leader-elect", "--metrics-listen", "127.0.0.1:0", "--metrics-secure")
    running = SchedulerProcess(server, tmp_path / "run.log", *flags)
    roles = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    send(server, "POST", f"{roles}/clusterroles", {"metadata": {"name": "metrics-reader"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "metrics-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    send(server, "POST", f"{roles}/clusterrolebindings", binding)
    try:
        url = page_of(running)
        assert url.startswith("https://")
        assert get(f"{url}/livez") == (200, "ok")
        assert get(f"{url}/metrics")[0] == 401
        assert get(f"{url}/metrics", "no-such-token")[0] == 401
        assert get(f"{url}/metrics", BOB) == (403, 'Forbidden: user "bob" may not get path "/metrics"\n')

        def is_allowed() -> bool:  # the authorizer sees a new binding a moment later; a refusal counts for 30 seconds
            return get(f"{url}/metrics", ALICE)[0] == 200

        wait_for(is_allowed, running, limit_s=60)
        assert "scheduler_pending_pods" in get(f"{url}/metrics", ALICE)[1]
    finally:
        running.stop()
        for kind in ("clusterrolebindings", "clusterroles"):
            send(server, "DELETE", f"{roles}/{kind}/metrics-reader")


def make_work(server: Server, who: str) -> list[str]:
    """One pod that is bound, one that fits nowhere, one that is gated."""
    names = [f"{who}-{each}" for each in ("small", "huge", "gated")]
    for name, more in zip(names, ({"cpu": "1"}, {"cpu": "64"}, {"cpu": "1"}), strict=True):
        gates = {"schedulingGates": [{"name": GATE}]} if name.endswith("gated") else {}
        create_pod(server, a_pod(name, more, schedulerName=who, **gates))
    return names


def test_the_metrics_page_counts_what_happened_to_pods(server: Server, scheduler: SchedulerProcess) -> None:
    names = make_work(server, "headgate")
    small, huge, gated = names
    wait_for(lambda: is_bound(get_pod(server, small)), scheduler)
    wait_for(lambda: scheduled_reason(get_pod(server, huge)) == "Unschedulable", scheduler)
    url = page_of(scheduler)
    assert get(f"{url}/livez") == get(f"{url}/healthz") == get(f"{url}/readyz") == (200, "ok")
    found = families(url)
    profile = {"profile": "headgate"}
    assert value(found, "scheduler_schedule_attempts_total", result="scheduled", **profile) == 1
    assert value(found, "scheduler_schedule_attempts_total", result="unschedulable", **profile) == 1
    assert value(found, "scheduler_pending_pods", queue="gated") == 1
    assert value(found, "scheduler_pending_pods", queue="unschedulable") == 1
    assert value(found, "scheduler_unschedulable_pods", plugin="SchedulingGates", **profile) == 1
    assert value(found, "scheduler_unschedulable_pods", plugin="NodeResourcesFit", **profile) == 1
    assert value(found, "scheduler_pod_scheduling_attempts_count") == 1
    assert value(found, "scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 1
    assert value(found, "scheduler_cache_size", type="nodes") == 2
    assert value(found, "scheduler_cache_size", type="pods") == 1
    assert value(found, "headgate_gated_pods", gate=GATE) == 1
    assert value(found, "headgate_gate_wait_seconds_count", gate=GATE) == 0
    points = "scheduler_framework_extension_point_duration_seconds_count"
    for point in ("PreEnqueue", "Filter", "Bind"):
        assert value(found, points, extension_point=point, **profile) > 0

    patch_pod(server, gated, {"spec": {"schedulingGates": None}})
    wait_for(lambda: is_bound(get_pod(server, gated)), scheduler)
    lifted = wait_for(
        lambda: (page := families(url)) and value(page, "scheduler_pod_scheduling_attempts_count") == 2 and page
    )
    assert value(lifted, "headgate_gated_pods", gate=GATE) == 0
    assert value(lifted, "headgate_oldest_gated_seconds", gate=GATE) == 0
    assert value(lifted, "headgate_gate_wait_seconds_count", gate=GATE) == 1
    for name in names:
        delete_pod(server, name)
    wait_for(lambda: value(families(url), "scheduler_pending_pods") == 0, scheduler)
    assert value(families(url), "scheduler_unschedulable_pods") == 0, "who is deleted takes its counts along"


@pytest.mark.parametrize("server", ["real"], indirect=True)
def test_names_kinds_labels_and_buckets_are_kube_schedulers(
    server: Server, scheduler: SchedulerProcess, kube_binaries: Path, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    flags = [f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={tmp_path / 'certificates'}"]
    flags += ["--authorization-always-allow-paths=/metrics", "--authentication-skip-lookup=true"]
    profiles = [{"schedulerName": "stock"}]
    command = kube_scheduler(kube_binaries, server.kubeconfig, tmp_path, *flags, profiles=profiles)
    theirs = Process(command, tmp_path / "kube-scheduler.log")
    try:
        names = [*make_work(server, "stock"), *make_work(server, "headgate")]
        wait_for(lambda: all(is_bound(get_pod(server, name)) for name in names if "small" in name), theirs)
        wait_for(
            lambda: all(scheduled_reason(get_pod(server, name)) == "Unschedulable" for name in names if "huge" in name),
            theirs,
        )
        real, ours = families(f"https://127.0.0.1:{port}"), families(page_of(scheduler))
    finally:
        theirs.stop()
    for name in names:
        delete_pod(server, name)
    same = [name for name in ours if name.startswith("scheduler_")]
    assert len(same) > 12
    for name in same:
        if name not in real:
            continue
        assert ours[name].type == real[name].type, name
        assert _labels(ours[name]) == _labels(real[name]), name
        missing = _bounds(real[name]) - _bounds(ours[name])
        assert not missing, f"{name} lacks buckets {sorted(missing)}"
    # A family without a sample is not on a page, and kube-scheduler times one plugin in ten by chance.
    assert set(same) - set(real) <= {"scheduler_inflight_events", "scheduler_plugin_execution_duration_seconds"}


def _labels(family: Metric) -> set[str]:
    return {label for each in family.samples for label in each.labels}


def _bounds(family: Metric) -> set[float]:
    return {float(each.labels["le"]) for each in family.samples if "le" in each.labels}
