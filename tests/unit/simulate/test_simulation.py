"""Small traces through the engines: order, gangs, preemption, autoscalers, Kueue's queues, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from headgate.simulate.settings import AutoscalerSettings, MachineGroup, MachineType, Settings
from headgate.simulate.simulation import Simulation, SimulationStopped
from headgate.simulate.snapshot import SnapshotError
from headgate.simulate.trace import TraceError
from simulated_clusters import (
    any_flavor,
    kueue_queue,
    machines,
    names_of,
    simulated,
    simulation_input,
    traced,
    volcano_queue,
)

ONE_CPU = MachineType("one-cpu", {"cpu": "1", "memory": "4Gi"}, price=0.05)


def autoscaled(model: str, *, gates: bool) -> Settings:
    settings = {"gates": gates, "autoscaler": {"model": model, "bootSeconds": 60, "groups": [
        {"name": "pool", "machineTypes": [msgspec.to_builtins(ONE_CPU)]}]}}  # fmt: skip
    return msgspec.convert(settings, Settings)


def test_jobs_wait_for_their_queue_and_run_in_order() -> None:
    given = simulation_input([*machines(2), volcano_queue("q", cpu=2)])
    result, journal = simulated(given, [traced(f"job-{number}", float(number), 100.0) for number in range(4)])
    assert names_of(journal, "admitted") == ["job-0", "job-1", "job-2", "job-3"]
    assert [each.at for each in journal if each.what == "bound"] == [0.0, 1.0, 100.0, 101.0]
    assert (result.jobs.submitted, result.jobs.ended, result.waiting.all.max) == (4, 4, 98.0)
    assert result.duration_seconds == 201.0


@pytest.mark.parametrize("model", ["cluster-autoscaler", "karpenter"])
def test_machines_for_pods_whose_queue_is_full_are_bought_only_without_gates(model: str) -> None:
    """volcano#4710: six pods, a queue for two of them, and an autoscaler."""
    jobs = [traced("driver", 0.0, 600.0), *(traced(f"executor-{number}", 1.0, 600.0) for number in range(5))]
    bought = {}
    for gates in (False, True):
        result, _ = simulated(simulation_input([volcano_queue("q", cpu=2)], autoscaled(model, gates=gates)), jobs)
        assert result.jobs.ended == 6
        bought[gates] = result.machines.bought, result.machines.bought_and_never_used
    assert bought[True][1] == 0
    assert bought[False][1] >= 4
    assert bought[False][0] >= 6


def test_a_gang_starts_as_a_whole() -> None:
    given = simulation_input([*machines(2, cpu=2), volcano_queue("q")])
    jobs = [traced("small", 0.0, 50.0), traced("gang", 1.0, 10.0, pods=4, min_pods=4), traced("late", 2.0, 5.0)]
    result, journal = simulated(given, jobs)
    gang = [each.at for each in journal if each.what == "bound" and each.job == "gang"]
    assert gang == [50.0] * 4
    assert result.jobs.ended == 3


def test_a_preempted_pod_is_created_again_and_loses_what_it_ran() -> None:
    given = simulation_input([*machines(1, cpu=1), volcano_queue("q")], Settings(stop_seconds=2.0))
    jobs = [traced("low", 0.0, 100.0), traced("high", 10.0, 20.0, priority=10)]
    result, journal = simulated(given, jobs)
    assert names_of(journal, "preempted") == ["low"]
    assert [(each.at, each.name) for each in journal if each.what == "bound"] == [
        (0.0, "low"),
        (12.0, "high"),
        (32.0, "low-r1"),
    ]
    assert result.pods.lost_run_hours == pytest.approx(10 / 3600, rel=1e-3)
    assert result.completion.all.max == 132.0


def test_jobs_in_kueues_queues_are_admitted_in_order() -> None:
    given = simulation_input([*machines(2), any_flavor(), *kueue_queue("q", cpu=2)], queueing="kueue")
    result, journal = simulated(given, [traced(f"job-{number}", float(number), 100.0) for number in range(4)])
    assert names_of(journal, "admitted") == ["job-0", "job-1", "job-2", "job-3"]
    assert result.jobs.ended == 4
    assert result.waiting.all.max == pytest.approx(98.0, abs=1.0)


def test_a_workload_of_kueue_is_evicted_for_one_of_higher_priority_and_runs_later() -> None:
    preemption = {"withinClusterQueue": "LowerPriority"}
    objects = [*machines(2), any_flavor(), *kueue_queue("q", cpu=2, preemption=preemption)]
    jobs = [traced("low", 0.0, 1000.0, cpu=2), traced("high", 100.0, 50.0, cpu=2, priority=5)]
    result, journal = simulated(simulation_input(objects, queueing="kueue"), jobs)
    assert names_of(journal, "admitted") == ["low", "high", "low"]
    assert result.pods.evicted == 1
    assert result.pods.lost_run_hours == pytest.approx(100 / 3600, rel=0.01)
    assert result.jobs.ended == 2


def test_nothing_is_left_after_the_last_job() -> None:
    for queueing, queues in (
        ("volcano", [volcano_queue("q", cpu=2)]),
        ("kueue", [any_flavor(), *kueue_queue("q", cpu=2)]),
    ):
        given = simulation_input([*machines(2), *queues], queueing=queueing)  # type: ignore[arg-type]
        simulation = Simulation(given)
        simulation.run([traced(f"job-{number}", number * 3.0, 10.0, pods=2, min_pods=2) for number in range(5)])
        assert simulation.ended_jobs == 5
        assert simulation.live_objects() == 0


def test_a_job_that_never_fits_does_not_keep_the_simulation_running() -> None:
    given = simulation_input([*machines(1, cpu=2), volcano_queue("q")])
    result, _ = simulated(given, [traced("huge", 0.0, 10.0, cpu=64), traced("small", 1.0, 10.0)])
    assert (result.jobs.submitted, result.jobs.ended) == (2, 1)


def test_a_simulation_ends_at_the_given_time() -> None:
    given = simulation_input([*machines(1), volcano_queue("q")], end_s=60.0)
    result, _ = simulated(given, [traced("long", 0.0, 1000.0), traced("never", 100.0, 1.0)])
    assert result.jobs.ended == 0
    assert result.duration_seconds == 60.0
    assert result.machines.node_hours == pytest.approx(60 / 3600, rel=1e-4)


def test_the_caller_stops_a_simulation() -> None:
    simulation = Simulation(simulation_input([*machines(1), volcano_queue("q")]))
    with pytest.raises(SimulationStopped):
        simulation.run([traced("job", 0.0, 10.0)], lambda running: False)


def test_pods_of_the_snapshot_hold_their_node() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "static", "namespace": "kube-system"},
        "spec": {"nodeName": "node-0", "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
        "status": {"phase": "Running"},
    }
    given = simulation_input([*machines(1), volcano_queue("q"), pod])
    result, journal = simulated(given, [traced("one", 0.0, 10.0), traced("two", 1.0, 10.0)])
    assert [each.at for each in journal if each.what == "bound"] == [0.0, 10.0]
    assert result.use["cpu"].utilisation == 1.0


def test_a_pod_of_the_snapshot_ends_when_it_says_and_is_created_again_if_it_is_preempted() -> None:
    annotations = {"headgate.dev/run-for": "100s", "scheduling.volcano.sh/queue-name": "q"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "static", "namespace": "default", "annotations": annotations},
        "spec": {
            "schedulerName": "headgate",
            "nodeName": "node-0",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}],
        },
    }
    given = simulation_input([*machines(1), volcano_queue("q"), pod], Settings(stop_seconds=0.0))
    _, journal = simulated(given, [traced("one", 0.0, 10.0, cpu=2)])
    assert [each.at for each in journal if each.what == "bound"] == [100.0]
    jobs = [traced("high", 10.0, 20.0, cpu=2, priority=10), traced("last", 200.0, 1.0)]
    result, journal = simulated(given, jobs)
    assert names_of(journal, "preempted") == ["static"]
    assert [(each.at, each.name) for each in journal if each.what == "bound"] == [
        (10.0, "high"),
        (30.0, "static-r1"),
        (200.0, "last"),
    ]
    assert [each.at for each in journal if each.what == "ended" and each.name == "static-r1"] == [130.0]
    assert result.jobs.ended == 2


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (traced("job", 0.0, 1.0, queue="other"), "its Queue 'other' is not in the snapshot"),
        (traced("job", 0.0, 1.0, priority_class="gold"), "PriorityClass 'gold' is not in the snapshot"),
    ],
)
def test_a_job_that_names_an_unknown_object_is_refused(job, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TraceError, match=text):
        simulated(simulation_input([*machines(1), volcano_queue("q")]), [job])


def test_an_invalid_queue_is_refused() -> None:
    queue = volcano_queue("child", parent="missing", capability={"cpu": "-1"})
    with pytest.raises(SnapshotError, match="Queue child is refused"):
        simulated(simulation_input([*machines(1), queue]), [])


def test_an_autoscaler_group_buys_at_most_its_maximum() -> None:
    group = MachineGroup("pool", (ONE_CPU,), max_size=2)
    settings = Settings(autoscaler=AutoscalerSettings("cluster-autoscaler", (group,)))
    jobs = [traced(f"job-{number}", 0.0, 300.0) for number in range(5)]
    result, _ = simulated(simulation_input([volcano_queue("q")], settings), jobs)
    assert result.machines.bought == 2
    assert result.jobs.ended == 5
