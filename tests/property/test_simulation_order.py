"""The order in which a simulation admits and binds pods is that of the scheduler beside the fake API server.

The harness of ``test_queue_gate.py`` delivers every event and answers every request; the simulation does the same with
its own state, clock and event heap. Both get the same drawn trace.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.admission.settings import AdmissionSettings
from headgate.capacity.conf import DEFAULTS
from headgate.controllers.framework.reconcile import Controller
from headgate.scheduling.gates.queue_admission import QueueAdmissionSettings
from headgate.scheduling.scheduler import Scheduler
from headgate.simulate.settings import Settings
from headgate.simulate.simulation import JournalEntry, Simulation, SimulationInput
from headgate.simulate.snapshot import read_snapshot
from headgate.simulate.trace import TraceJob
from property.fake_api import MOST_PODS, SIZES, ZONES
from property.fake_api_with_queues import LIMITS, TREE
from property.simulated_queues import QueueSimulation
from property.simulated_scheduler import Ledger
from simulated_clusters import volcano_queue
from unit.scheduling.world import configured

SCHEDULER = "default-scheduler"

traces = st.lists(
    st.tuples(
        st.integers(1, 20),  # seconds after the job before
        st.integers(1, 60),  # run time
        st.integers(1, 3),  # CPUs
        st.sampled_from(["a1", "a2", "b"]),
    ),
    min_size=3,
    max_size=14,
)


class HarnessEngines:
    """The scheduler of the harness, with the clock of the simulation."""

    def scheduler(self, now_s: Callable[[], float], report: Callable[[str], None]) -> Scheduler:
        read, makers = configured([Ledger()])
        profiles = tuple(msgspec.structs.replace(each, queues=DEFAULTS) for each in read.profiles)
        read = msgspec.structs.replace(read, profiles=profiles)
        return Scheduler(read, makers, queueing=QueueAdmissionSettings(True, now_s))

    def controllers(self, random_suffix: Callable[[], str]) -> Iterable[Controller]:
        return ()


def jobs_of(drawn: Iterable[tuple[int, int, int, str]]) -> list[TraceJob]:
    jobs, at = [], 0.0
    for number, (gap, run, cpu, queue) in enumerate(drawn):
        at += gap
        # Ends are never at the moment of another event: the order of events of one moment is the simulation's own.
        run_s = run + (number + 1) / 1000
        jobs.append(TraceJob(submit=at, run=run_s, queue=queue, requests={"cpu": str(cpu)}, name=f"p{number:02}"))
    return jobs


def in_simulation(jobs: list[TraceJob]) -> tuple[list[str], list[tuple[str, str]]]:
    nodes = [
        {
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": ZONES[name]}},
            "status": {"capacity": {"cpu": str(cpu), "memory": "8Gi", "pods": str(MOST_PODS)}},
        }
        for name, cpu in SIZES.items()
    ]
    queues = [volcano_queue(name, parent=TREE[name], capability={"cpu": str(LIMITS[name])}) for name in TREE]
    order = ["a", "b", "a1", "a2"]
    queues.sort(key=lambda each: order.index(each["metadata"]["name"]))
    settings = AdmissionSettings(frozenset({SCHEDULER}), gates_all_pods=True)
    snapshot = read_snapshot([*nodes, *queues])
    journal: list[JournalEntry] = []
    Simulation(
        SimulationInput(snapshot, Settings(), settings, HarnessEngines(), SCHEDULER, "volcano"), journal.append
    ).run(jobs)
    admitted = [each.name for each in journal if each.what == "admitted"]
    return admitted, [(each.name, each.node) for each in journal if each.what == "bound"]


def in_harness(jobs: list[TraceJob]) -> tuple[list[str], list[tuple[str, str]]]:
    harness = QueueSimulation()
    start_s = harness.now_s
    for node in SIZES:
        harness.api.put_node(node)
    for resource in ("queues", "groups", "nodes"):
        harness.list_again(resource)
    events = [(start_s + job.submit, number, job, True) for number, job in enumerate(jobs)]
    heapq.heapify(events)
    seen = 0
    last_s = start_s + sum(job.submit + job.run for job in jobs) + 1000
    while events:
        at_s, number, job, arrives = heapq.heappop(events)
        harness.settle_until(at_s)
        seen = push_ends(harness, events, jobs, seen)
        if events and events[0][0] < at_s:  # a pod that was bound in the meantime ends before
            heapq.heappush(events, (at_s, number, job, arrives))
            continue
        harness.now_s = max(harness.now_s, at_s)
        if arrives:
            harness.api.create_gated(job.name, int(job.requests["cpu"]), job.queue, "", "gated")
        else:
            harness.api.finish_pod(job.name)
        harness._quiet()
        seen = push_ends(harness, events, jobs, seen)
        if not events:
            harness.settle_until(last_s)
            seen = push_ends(harness, events, jobs, seen)
    names = {uid: uid.rpartition("-")[0] for uid in harness.api.bound}
    return (
        [uid.rpartition("-")[0] for uid in harness.api.lifted],
        [(names[uid], node) for uid, node in harness.api.bound.items()],
    )


def push_ends(
    harness: QueueSimulation, events: list[tuple[float, int, TraceJob, bool]], jobs: list[TraceJob], seen: int
) -> int:
    """Adds the ends of the pods that were bound since the last call."""
    by_name = {job.name: (number, job) for number, job in enumerate(jobs)}
    bound = list(harness.api.bound)
    for uid in bound[seen:]:
        number, job = by_name[uid.rpartition("-")[0]]
        heapq.heappush(events, (harness.now_s + job.run, number, job, False))
    return len(bound)


@settings(max_examples=15, deadline=None)  # each example runs a whole trace twice
@given(drawn=traces)
def test_a_simulation_admits_and_binds_in_the_order_of_the_engines(drawn: list[tuple[int, int, int, str]]) -> None:
    jobs = jobs_of(drawn)
    assert in_simulation(jobs) == in_harness(jobs)


def test_a_full_queue_and_full_nodes() -> None:
    jobs = jobs_of(
        [(1, 50, 2, "a1"), (1, 10, 2, "a2"), (1, 30, 2, "b"), (1, 20, 1, "a1"), (1, 5, 3, "a2"), (1, 9, 2, "b")]
    )
    admitted, bound = in_simulation(jobs)
    assert len(admitted) == len(bound) == len(jobs)
    assert (admitted, bound) == in_harness(jobs)
