"""With known, fixed run times an estimate is exact: it is the start that a simulation of the same units shows.

A drawn set of jobs is simulated; at a drawn moment the state is replayed. Nothing arrives later, so the replay must
give the start that the simulation goes on to show. Both kinds of queues.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from estimate_states import SETTINGS
from headgate.capacity.names import POD_GROUPS, PREEMPTABLE, QUEUES
from headgate.cli.wiring.estimates import EstimateEngines, make_quota_controller
from headgate.estimates.arrivals import NO_ARRIVALS
from headgate.estimates.estimator import StartEstimate
from headgate.estimates.present_state import Past, pod_state, workload_state
from headgate.estimates.starts import estimate_pods, estimate_workloads
from headgate.estimates.workload_replay import SERVED, workload_key
from headgate.kube.api_resources import NAMESPACES, NODES, PODS
from headgate.quota.kinds.names import WORKLOADS
from headgate.simulate.job_objects import Queueing
from headgate.simulate.simulation import JournalEntry, Simulation
from headgate.simulate.trace import TraceJob
from simulated_clusters import any_flavor, kueue_queue, machines, simulation_input, volcano_queue

NOTHING_PAST = Past((), NO_ARRIVALS)
drawn_jobs = st.lists(
    st.tuples(st.integers(5, 90), st.integers(1, 3), st.sampled_from(["a", "b"]), st.sampled_from([0, 0, 5])),
    min_size=3,
    max_size=12,
)


def traced(drawn: list[tuple[int, int, str, int]]) -> list[TraceJob]:
    """All are submitted at the start: later arrivals would not be known to an estimate. Their run time is declared."""
    return [
        TraceJob(
            submit=float(number),
            run=float(run_s),
            queue=queue,
            requests={"cpu": str(cpu)},
            name=f"job-{number}",
            priority=priority,
            # A preempted pod that its owner has not created again yet is not known to an estimate.
            annotations={"headgate.dev/run-for": f"{run_s}s", PREEMPTABLE: "false"},
        )
        for number, (run_s, cpu, queue, priority) in enumerate(drawn)
    ]


def asked(simulation: Simulation, names: list[str], *, is_kueue: bool) -> dict[str, StartEstimate]:
    state = simulation.state
    if is_kueue:
        objects: dict[Any, Any] = {resource: list(state.objects(resource).values()) for resource, _ in SERVED}
        for each in objects[WORKLOADS]:  # the annotations of a Job are not those of its pods
            job = next(iter(each["metadata"]["ownerReferences"]))["name"]
            run_s = RUN_S[job]
            for pod_set in each["spec"]["podSets"]:
                pod_set["template"].setdefault("metadata", {})["annotations"] = {"headgate.dev/run-for": f"{run_s}s"}
        keys = {
            workload_key(each): each["metadata"]["ownerReferences"][0]["name"]
            for each in objects[WORKLOADS]
            if each["metadata"]["ownerReferences"][0]["name"] in names
        }
        present = workload_state(objects, simulation.now_s, NOTHING_PAST)
        found = estimate_workloads(make_quota_controller, present, list(keys), SETTINGS)
        return {keys[key]: estimate for key, estimate in found.items()}
    objects = {
        resource: list(state.objects(resource).values()) for resource in (NODES, NAMESPACES, QUEUES, POD_GROUPS, PODS)
    }
    uids = {
        simulation.pods[each["metadata"]["uid"]].record.job.name: frozenset((each["metadata"]["uid"],))
        for each in objects[PODS]
        if not each["spec"].get("nodeName")
    }
    targets = {name: uids[name] for name in names}
    engines = EstimateEngines(("headgate",))
    return estimate_pods(engines.scheduler, pod_state(objects, simulation.now_s, NOTHING_PAST), targets, SETTINGS)


RUN_S: dict[str, int] = {}


@pytest.mark.parametrize("queueing", ["volcano", "kueue"])
@given(drawn=drawn_jobs)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_with_fixed_run_times_the_estimate_is_the_start(
    queueing: Queueing, drawn: list[tuple[int, int, str, int]]
) -> None:
    jobs = traced(drawn)
    RUN_S.clear()
    RUN_S.update({each.name: int(each.run) for each in jobs})
    queues = (
        [volcano_queue("a", cpu=3), volcano_queue("b", cpu=4)]
        if queueing == "volcano"
        else [any_flavor(), *kueue_queue("a", 3), *kueue_queue("b", 4)]
    )
    # A queue of the machines would depend on where pods are placed.
    given_input = simulation_input([*machines(2, cpu=16), *queues], queueing=queueing)
    starts: dict[str, float] = {}
    what = "admitted" if queueing == "kueue" else "bound"

    def journal(entry: JournalEntry) -> None:
        if entry.what == what:
            starts.setdefault(entry.job, entry.at)

    simulation = Simulation(given_input, journal)
    estimates: dict[str, tuple[float, float]] = {}
    begin_s = simulation.now_s

    def on_progress(simulation: Simulation) -> bool:
        if simulation.submitted_jobs == len(jobs) and not estimates:
            waiting = [each.name for each in jobs if each.name not in starts]
            for name, each in asked(simulation, waiting, is_kueue=queueing == "kueue").items() if waiting else ():
                assert each.earliest_s is not None, each
                assert each.latest_s is not None, each
                estimates[name] = each.earliest_s - begin_s, each.latest_s - begin_s
        return True

    simulation.run(jobs, on_progress)
    for name, (low_s, high_s) in estimates.items():
        # Running units are known to have started at a whole second.
        assert low_s == pytest.approx(starts[name], abs=0.5), name
        assert high_s == pytest.approx(starts[name], abs=0.5), name
