"""`headgate run` beside the embedded and the real API server: it binds, says why not, respects others, stops."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters import a_node, a_pod
from harness.embedded_server import HEADGATE
from harness.kube_scheduler import kube_scheduler
from harness.processes import Process
from harness.real_server import REPOSITORY
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

pytestmark = pytest.mark.real

Object = dict[str, Any]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.fixture(scope="module", params=SERVER_KINDS)
def server(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running_server(request.param, tmp_path_factory.mktemp(f"run-{request.param}"), kube_binaries) as made:
        create_nodes(made, [a_node("node-a", cpu="4"), a_node("node-b", cpu="4")])
        yield made


def our_pod(name: str, requests: Object | None = None, **spec: Any) -> Object:
    return a_pod(name, requests, schedulerName="headgate", **spec)


def run(server: Server, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [str(HEADGATE), "run", "--kubeconfig", str(server.kubeconfig), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_it_binds_its_own_pods_reports_why_others_do_not_fit_and_stops_on_request(
    server: Server, tmp_path: Path
) -> None:
    for pod in (our_pod("small", {"cpu": "1"}), our_pod("huge", {"cpu": "64"}), a_pod("foreign", {"cpu": "1"})):
        create_pod(server, pod)
    create_pod(server, our_pod("gated", schedulingGates=[{"name": "example.com/a"}]))
    running = SchedulerProcess(server, tmp_path / "run.log")
    wait_for(lambda: is_bound(get_pod(server, "small")), running)
    huge = wait_for(lambda: scheduled_reason(get_pod(server, "huge")) and get_pod(server, "huge"), running)
    (condition,) = huge["status"]["conditions"]
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert condition["observedGeneration"] == 1
    assert scheduled_reason(get_pod(server, "gated")) == "SchedulingGated"
    patch_pod(server, "gated", {"spec": {"schedulingGates": None}})
    wait_for(lambda: is_bound(get_pod(server, "gated")), running)
    assert not is_bound(get_pod(server, "foreign"))
    assert [each["reason"] for each in wait_for(lambda: events_about(server, "small"), running)] == ["Scheduled"]
    assert [each["reason"] for each in wait_for(lambda: events_about(server, "huge"), running)] == ["FailedScheduling"]
    assert send(server, "GET", f"{LEASES}/headgate-scheduler")["spec"]["holderIdentity"]
    running.signal(signal.SIGINT)
    assert running.wait() == 0, running.tail()
    assert not send(server, "GET", f"{LEASES}/headgate-scheduler")["spec"].get("holderIdentity")
    for name in ("small", "huge", "foreign", "gated"):
        delete_pod(server, name)


def test_a_dry_run_says_what_it_would_do_and_does_nothing(server: Server, tmp_path: Path) -> None:
    created = create_pod(server, our_pod("would-be", {"cpu": "1"}))
    running = SchedulerProcess(server, tmp_path / "run.log", "--dry-run")
    wait_for(lambda: "would bind default/would-be to node-" in running.tail(), running)
    running.stop()
    assert get_pod(server, "would-be") == created
    delete_pod(server, "would-be")


def a_lease(name: str, holder: str, duration_s: int, renewed: str) -> Object:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": duration_s, "renewTime": renewed}
    return {"metadata": {"name": name}, "spec": spec}


@contextlib.contextmanager
def renewed_lease(server: Server, name: str, renewed: str) -> Iterator[None]:
    """A Lease whose holder is alive, and whose clock shows this time."""
    send(server, "POST", LEASES, a_lease(name, "other-scheduler", 15, renewed))
    ended = threading.Event()

    def renew() -> None:
        count = 0
        while not ended.wait(1.0):
            count += 1
            body = {"spec": {"renewTime": renewed.replace("00Z", f"{count % 100:02}Z")}}
            send(server, "PATCH", f"{LEASES}/{name}", body, "application/merge-patch+json")

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()
        send(server, "DELETE", f"{LEASES}/{name}")


@pytest.mark.parametrize("renewed", ["1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"])
def test_a_name_whose_owner_renews_its_lease_is_refused_whatever_its_clock_says(
    server: Server, tmp_path: Path, renewed: str
) -> None:
    with renewed_lease(server, "kube-scheduler", renewed):
        refused = run(server, "--scheduler-name", "default-scheduler")
        assert refused.returncode == 1
        assert "are scheduled by other-scheduler, which holds the Lease kube-system/kube-scheduler" in refused.stderr
        assert "--takeover" in refused.stderr
        assert "waits up to 15 s to see whether these Leases are renewed" in refused.stdout
        running = SchedulerProcess(server, tmp_path / "run.log", "--scheduler-name", "default-scheduler", "--takeover")
        create_pod(server, a_pod("anybody"))
        wait_for(lambda: is_bound(get_pod(server, "anybody")), running)
        running.stop()
        delete_pod(server, "anybody")


def test_a_lease_that_its_holder_does_not_renew_any_more_is_free_after_its_duration(
    server: Server, tmp_path: Path
) -> None:
    send(server, "POST", LEASES, a_lease("kube-scheduler", "gone", 2, "2999-01-01T00:00:00.000000Z"))
    running = SchedulerProcess(server, tmp_path / "run.log", "--scheduler-name", "default-scheduler")
    create_pod(server, a_pod("anybody"))
    wait_for(lambda: is_bound(get_pod(server, "anybody")), running)
    running.stop()
    assert "waits up to 2 s" in running.log.read_text()
    delete_pod(server, "anybody")
    send(server, "DELETE", f"{LEASES}/kube-scheduler")


def test_a_start_that_waits_for_the_lease_of_another_scheduler_ends_on_request(server: Server, tmp_path: Path) -> None:
    send(server, "POST", LEASES, a_lease("kube-scheduler", "gone", 60, "2999-01-01T00:00:00.000000Z"))
    command = [str(HEADGATE), "run", "--kubeconfig", str(server.kubeconfig), "--scheduler-name", "default-scheduler"]
    waiting = Process(command, tmp_path / "run.log")
    wait_for(lambda: "waits up to 60 s" in waiting.tail(), waiting)
    waiting.signal(signal.SIGTERM)
    assert waiting.wait() == 0, waiting.tail()
    assert waiting.tail().endswith("stopped")
    send(server, "DELETE", f"{LEASES}/kube-scheduler")


def test_a_process_that_elects_no_leader_does_not_start_beside_an_elected_one(server: Server, tmp_path: Path) -> None:
    first = SchedulerProcess(server, tmp_path / "first.log", "--components", "scheduler,controllers")
    wait_for(lambda: first.log.read_text().count("elected: holds") == 2, first)
    for component, lease in (("scheduler", "headgate-scheduler"), ("controllers", "kube-controller-manager")):
        holder = send(server, "GET", f"{LEASES}/{lease}")["spec"]["holderIdentity"]
        refused = run(server, "--components", component, "--no-leader-elect")
        assert refused.returncode == 1
        text = f"the work of the component {component} is done by {holder}, which holds the Lease kube-system/{lease};"
        assert text in refused.stderr
        assert "pass --leader-elect to wait until this process is elected, or pass --takeover" in refused.stderr
    dry = SchedulerProcess(server, tmp_path / "dry.log", "--dry-run", "--no-leader-elect")
    dry.stop()
    second = SchedulerProcess(server, tmp_path / "second.log", "--leader-elect")
    wait_for(lambda: "waits to be elected" in second.tail(), second)
    second.stop()
    taken = SchedulerProcess(server, tmp_path / "taken.log", "--no-leader-elect", "--takeover")
    taken.stop()
    first.stop()
    alone = SchedulerProcess(server, tmp_path / "alone.log", "--no-leader-elect")
    alone.stop()
    assert "waits" not in alone.log.read_text(), "a Lease that was released is free at once"


def test_a_real_kube_scheduler_that_is_the_leader_is_found(server: Server, kube_binaries: Path, tmp_path: Path) -> None:
    flags = ("--secure-port=0", "--leader-elect=true")
    command = kube_scheduler(kube_binaries, server.kubeconfig, tmp_path, *flags, leaderElection={"leaderElect": True})
    other = Process(command, tmp_path / "kube-scheduler.log")
    try:
        path = f"{LEASES}/kube-scheduler"
        wait_for(lambda: server.request("GET", path).status == 200, other)
        holder = wait_for(lambda: send(server, "GET", path)["spec"].get("holderIdentity"), other)
        refused = run(server, "--scheduler-name", "default-scheduler")
        assert refused.returncode == 1
        assert f"pods with schedulerName default-scheduler are scheduled by {holder}" in refused.stderr
    finally:
        other.stop()
    send(server, "DELETE", path)


def test_the_rights_that_the_example_grants_are_all_that_it_takes(server: Server, tmp_path: Path) -> None:
    def kubectl(*words: str) -> str:
        done = server.kubectl(words)
        assert done.exit == 0, done.stderr
        return done.stdout.strip()

    kubectl("apply", "-f", str(REPOSITORY / "examples" / "scheduler-rights.yaml"))
    account = yaml.safe_load(server.kubeconfig.read_text())
    account["users"][0]["user"] = {"token": kubectl("create", "token", "-n", "kube-system", "headgate-scheduler")}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(account))
    running = SchedulerProcess(server, tmp_path / "run.log", "--kubeconfig", str(kubeconfig))
    create_pod(server, our_pod("granted"))
    wait_for(lambda: is_bound(get_pod(server, "granted")) and events_about(server, "granted"), running)
    create_pod(server, our_pod("too-large", {"cpu": "64"}))
    wait_for(lambda: scheduled_reason(get_pod(server, "too-large")) == "Unschedulable", running)
    running.stop()
    assert "WARNING" not in running.log.read_text()
    delete_pod(server, "granted")
    delete_pod(server, "too-large")


def test_a_name_may_not_be_empty(server: Server) -> None:
    refused = run(server, "--scheduler-name", "")
    assert refused.returncode == 2
    assert "a name may not be empty" in refused.stderr


def test_an_unreachable_server_is_reported_in_one_line(tmp_path: Path, server: Server) -> None:
    lost = tmp_path / "kubeconfig"
    lost.write_text(server.kubeconfig.read_text().replace(server.address, "127.0.0.1:1"))
    command = [str(HEADGATE), "run", "--kubeconfig", str(lost)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("headgate run: ")
    assert done.stderr.count("\n") == 1
