"""One trace of 200 jobs in a simulation and on `headgate up`: the same admissions, bindings and preemptions, in the
same order, and the same machines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import stepped_traces
from harness.embedded_server import EmbeddedServer
from harness.scheduler_process import send
from harness.stepped_cluster import RunningAutoscaler, SteppedCluster, units_in_order
from headgate.simulate.settings import make_autoscaler
from simulated_clusters import simulated, simulation_input

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
COMPONENTS = ("--components", "apiserver,nodes,controllers,scheduler", "--nodes", "0")


def test_a_simulation_decides_as_headgate_up_does(tmp_path: Path) -> None:
    settings, jobs = stepped_traces.settings(), stepped_traces.jobs()
    given = simulation_input([*stepped_traces.queues(), *stepped_traces.priority_classes()], settings)
    result, journal = simulated(given, jobs)
    stepped_traces.check_spacing(journal)
    assert result.jobs.ended == len(jobs)
    counts = Counter(each.what for each in journal)
    assert (counts["preempted"], result.machines.bought) > (10, 5)

    server = EmbeddedServer(tmp_path, flags=COMPONENTS)
    try:
        for each in stepped_traces.priority_classes():
            send(server, "POST", PRIORITY_CLASSES, each)
        for queue in stepped_traces.queues():
            send(server, "POST", QUEUES, queue)
        model = make_autoscaler(settings)
        assert model is not None
        autoscaler = RunningAutoscaler(server, model)
        try:
            cluster = SteppedCluster(server, autoscaler, jobs, gated=False)
            cluster.run(journal)
            cluster.decisions.finish()
        finally:
            autoscaler.stop()
    finally:
        server.disconnect()
        server.stop()

    job_of = {each.name: each.job for each in journal if each.job}
    real = units_in_order(cluster.decisions.made, job_of.__getitem__)
    assert real == units_in_order(stepped_traces.decided(journal), job_of.__getitem__)
