"""One trace in a simulation and on `headgate up`, with run times of seconds: the same admissions in the same order.

The moments of two admissions are at least a second apart, so that the order does not depend on the speed of the
machine.
"""

from __future__ import annotations

from itertools import groupby, islice
from pathlib import Path

from harness.embedded_server import EmbeddedServer
from harness.scheduler_process import send, wait_for
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import OPT_IN, QUEUE_NAME, STAMP
from headgate.simulate.trace import TraceJob
from simulated_clusters import machines, simulated, simulation_input, traced, volcano_queue

PODS = "/api/v1/namespaces/default/pods"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
LIMITS = {"a": 3, "b": 2}
FIRST = [traced("f0", 0.0, 3.0, 2, "a"), traced("f1", 0.0, 6.5, 1, "a"), traced("g0", 0.0, 4.0, 2, "b")]
"""They fill both queues."""
LATER = [
    traced("p0", 0.3, 3.0, 2, "a"),
    traced("p1", 0.3, 2.0, 1, "a"),
    traced("p2", 0.3, 3.0, 1, "a"),
    traced("q0", 0.3, 5.0, 1, "b"),
    traced("q1", 0.3, 1.0, 2, "b"),
    traced("q2", 0.3, 3.4, 1, "b"),
]


def test_a_simulation_admits_as_headgate_up_does(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path, flags=("--components", "apiserver,nodes,controllers,scheduler", "--nodes", "2"))
    try:
        for name, cpu in LIMITS.items():
            send(server, "POST", QUEUES, volcano_queue(name, cpu=cpu))
        for job in FIRST:
            create(server, job)
        wait_for(lambda: len(admissions(server)) == len(FIRST))
        for job in LATER:
            create(server, job)
        wait_for(lambda: len(admissions(server)) == len(FIRST + LATER))
        real = admissions(server)
    finally:
        server.disconnect()
        server.stop()
    in_order = iter(sorted(real, key=lambda name: real[name]))
    expected = simulated_order()
    assert expected == [{"f0", "f1", "g0"}, {"p0"}, {"q0", "q2"}, {"p1", "p2"}, {"q1"}]
    assert [set(islice(in_order, len(group))) for group in expected] == expected


def simulated_order() -> list[set[str]]:
    """The names by the time of their admission, those of one moment together."""
    objects = [*machines(2, cpu=32), *(volcano_queue(name, cpu=cpu) for name, cpu in LIMITS.items())]
    result, journal = simulated(simulation_input(objects), [*FIRST, *LATER])
    assert result.jobs.ended == len(FIRST + LATER)
    admitted = [each for each in journal if each.what == "admitted"]
    return [{each.name for each in group} for _, group in groupby(admitted, key=lambda each: each.at)]


def create(server: EmbeddedServer, job: TraceJob) -> None:
    container = {"name": "main", "image": "simulated", "resources": {"requests": dict(job.requests)}}
    annotations = {QUEUE_NAME: job.queue, OPT_IN: "true", "headgate.dev/run-for": f"{job.run:g}s"}
    spec = {"schedulerName": "headgate", "restartPolicy": "Never", "containers": [container]}
    metadata = {"name": job.name, "annotations": annotations}
    send(server, "POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def admissions(server: EmbeddedServer) -> dict[str, str]:
    """When each pod was admitted, by name."""
    found: dict[str, str] = {}
    for pod in send(server, "GET", PODS)["items"]:
        metadata = pod["metadata"]
        stamp = read_stamp(metadata["annotations"].get(STAMP), metadata["uid"])
        if stamp is not None:
            found[metadata["name"]] = stamp.at
    return found
