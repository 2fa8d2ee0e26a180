"""One trace of 200 jobs in a simulation, and with `headgate run` beside the embedded and the real API server: the same
numbers of admissions, bindings, preemptions and machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepped_traces
from harness.control_plane import Nodes
from harness.queues import QUEUES, install_crds
from harness.scheduler_process import SchedulerProcess, send
from harness.server import Server
from harness.server_kinds import running_server
from harness.stepped_cluster import RunningAutoscaler, SteppedCluster
from headgate.simulate.settings import make_autoscaler
from simulated_clusters import simulated, simulation_input

pytestmark = pytest.mark.real

PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path) -> Iterator[Server]:
    with running_server("real", tmp_path / "server", kube_binaries) as running:
        install_crds(running)
        for each in stepped_traces.priority_classes():
            send(running, "POST", PRIORITY_CLASSES, each)
        for queue in stepped_traces.queues():
            send(running, "POST", QUEUES, queue)
        yield running


def test_a_simulation_counts_what_happens_beside_a_real_api_server(server: Server, tmp_path: Path) -> None:
    settings, jobs = stepped_traces.settings(), stepped_traces.jobs()
    result, journal = simulated(
        simulation_input([*stepped_traces.queues(), *stepped_traces.priority_classes()], settings), jobs
    )
    stepped_traces.check_spacing(journal)
    model = make_autoscaler(settings)
    assert model is not None
    nodes = Nodes(server, 0, {})
    autoscaler = RunningAutoscaler(server, model)
    scheduler = SchedulerProcess(server, tmp_path / "run.log", "--no-leader-elect")
    try:
        cluster = SteppedCluster(server, autoscaler, jobs, gated=True)
        cluster.run(journal)
        cluster.decisions.finish()
    finally:
        scheduler.stop()
        autoscaler.stop()
        nodes.stop()
    made = Counter(what for what, _ in cluster.decisions.made)
    assert made == {
        "admitted": result.pods.admissions,
        "bound": result.pods.bound,
        "preempted": result.pods.preempted,
    }
    assert len(autoscaler.added) == result.machines.bought
