"""A recorded cluster as the input of a simulation: what is read, what is assumed, and what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from headgate.capacity.names import OPT_IN, QUEUE_NAME
from headgate.cli.configuration.simulated import VariantInput, make_input
from headgate.cli.wiring.scheduler import installed_plugins
from headgate.kube.timestamps import format_time
from headgate.recording.changes import RecordedChange
from headgate.recording.history import Survey
from headgate.simulate.recorded_cluster import RecordedCluster, read_recorded_cluster, without_bought_nodes
from headgate.simulate.settings import AutoscalerSettings, MachineGroup, MachineType, Settings
from headgate.simulate.simulation import JournalEntry
from headgate.simulate.simulation_result import SimulationResult
from headgate.simulate.snapshot import SnapshotError
from headgate.simulate.variants import ObjectChange, Variant, snapshot_of
from simulated_clusters import KUEUE, any_flavor, kueue_queue, machines, names_of, simulated, volcano_queue
from unit.audit.virtual_history import RecordedCluster as VirtualHistory

Object = dict[str, Any]
T0 = 1_790_000_000.0
SERVED = ("headgate", "volcano")
RESOURCES = {
    "Node": "nodes",
    "Pod": "pods",
    "Namespace": "namespaces",
    "Queue": "queues.scheduling.volcano.sh",
    "PodGroup": "podgroups.scheduling.volcano.sh",
    "Workload": "workloads.kueue.x-k8s.io",
    "ClusterQueue": "clusterqueues.kueue.x-k8s.io",
    "LocalQueue": "localqueues.kueue.x-k8s.io",
    "ResourceFlavor": "resourceflavors.kueue.x-k8s.io",
}


def stamp_of(at: float) -> str:
    return format_time(T0 + at)


class History:
    """Builds changes of a recording. Times are seconds after the start."""

    def __init__(self, *initial: Object) -> None:
        self.changes: list[RecordedChange] = []
        for obj in initial:
            self.at(0.0, obj, observed=False)

    def at(self, at: float, obj: Object, *, deleted: bool = False, observed: bool = True) -> None:
        metadata = {"uid": f"uid-{obj['metadata']['name']}", **obj["metadata"]}
        if obj["kind"] not in ("Node", "Namespace", "Queue", "ClusterQueue", "ResourceFlavor"):
            metadata.setdefault("namespace", "default")
        metadata.setdefault("creationTimestamp", stamp_of(at))
        revision = len(self.changes) + 1
        recorded = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
        self.changes.append(
            RecordedChange(
                RESOURCES[obj["kind"]], {**recorded, "metadata": metadata}, T0 + at, revision, deleted, observed
            )
        )

    def read(self, end: float = 0.0, **more: Any) -> RecordedCluster:
        return read_recorded_cluster(self.changes, Survey(to_s=T0 + end), SERVED, **more)


def ready_machines(count: int, cpu: int = 4) -> list[Object]:
    ready = [{"type": "Ready", "status": "True"}]
    return [{**each, "status": {**each["status"], "conditions": ready}} for each in machines(count, cpu=cpu)]


def pod(name: str, node: str = "", queue: str = "q", cpu: int = 1, **more: Any) -> Object:
    container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
    annotations = {QUEUE_NAME: queue, **more.pop("annotations", {})} if queue else more.pop("annotations", {})
    status: Object = {"phase": more.pop("phase", "Running" if node else "Pending"), **more.pop("status", {})}
    metadata = {"name": name, "annotations": annotations, **more.pop("metadata", {})}
    spec: Object = {"schedulerName": "headgate" if queue else "default-scheduler", "containers": [container], **more}
    if node:
        spec["nodeName"] = node
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def replayed(
    recorded: RecordedCluster, settings: Settings | None = None, variant: Variant | None = None
) -> tuple[SimulationResult, list[JournalEntry]]:
    settings = settings or Settings()
    snapshot = recorded.snapshot if variant is None else snapshot_of(recorded.snapshot, variant)
    if settings.autoscaler is not None:
        snapshot = without_bought_nodes(snapshot)
    plugins = installed_plugins(lambda problem: None)
    made = make_input(settings, snapshot, recorded.queueing, plugins, Path(), None)
    assert isinstance(made, VariantInput), made
    return simulated(made.given, recorded.jobs)


def times_of(journal: list[JournalEntry], what: str) -> dict[str, float]:
    return {each.name: each.at for each in journal if each.what == what}


def test_a_pod_arrives_waits_and_runs_as_it_did() -> None:
    history = History(*ready_machines(1, cpu=1), volcano_queue("q", cpu=1))
    for name, created, bound, ended in (("one", 10.0, 11.0, 61.0), ("two", 20.0, 62.0, 92.0)):
        history.at(created, pod(name))
        history.at(bound, pod(name, "node-0", metadata={"creationTimestamp": stamp_of(created)}))
        history.at(ended, pod(name, "node-0", phase="Succeeded"))
    history.changes.sort(key=lambda each: each.at_s)
    recorded = history.read(end=100.0)
    assert [(each.name, each.submit, each.run, each.queue) for each in recorded.jobs] == [
        ("one", 10.0, 50.0, "q"),
        ("two", 20.0, 30.0, "q"),
    ]
    assert recorded.remarks == ()
    result, journal = replayed(recorded)
    assert times_of(journal, "bound") == {"one": 10.0, "two": 60.0}
    assert times_of(journal, "ended") == {"one": 60.0, "two": 90.0}
    assert result.jobs.ended == 2


def test_pods_that_run_at_the_start_hold_their_node_until_they_ended() -> None:
    running = pod("old", "node-0", cpu=3, status={"startTime": stamp_of(-100.0)})
    history = History(*ready_machines(1), volcano_queue("q"), running)
    history.at(5.0, pod("new", cpu=2))
    history.at(40.0, pod("old", "node-0", cpu=3, phase="Succeeded"))
    history.at(41.0, pod("new", "node-0", cpu=2))
    history.at(51.0, pod("new", "node-0", cpu=2, phase="Succeeded"))
    recorded = history.read()
    assert [each.name for each in recorded.jobs] == ["new"]
    result, journal = replayed(recorded)
    assert times_of(journal, "bound") == {"new": 40.0}
    assert result.jobs.submitted == result.jobs.ended == 1
    assert result.waiting.all.max == 35.0


def test_a_job_that_waits_at_the_start_keeps_its_place_and_its_waiting_time() -> None:
    history = History(
        *ready_machines(1, cpu=1),
        volcano_queue("q", cpu=1),
        pod("b-first", metadata={"creationTimestamp": stamp_of(-60.0)}),
        pod("a-second", metadata={"creationTimestamp": stamp_of(-30.0)}),
    )
    for number, name in enumerate(("b-first", "a-second")):
        history.at(1.0 + 10 * number, pod(name, "node-0"))
        history.at(11.0 + 10 * number, pod(name, "node-0", phase="Succeeded"))
    recorded = history.read()
    assert [(each.name, each.submit) for each in recorded.jobs] == [("b-first", -60.0), ("a-second", -30.0)]
    result, journal = replayed(recorded, Settings(gates=True))
    assert names_of(journal, "admitted") == ["b-first", "a-second"]
    assert result.waiting.all.max == 60.0


def test_what_the_recording_does_not_say_is_named() -> None:
    history = History(*ready_machines(4), volcano_queue("q"))
    history.at(1.0, pod("service", "node-0"))
    history.at(1.0, pod("ended", "node-1"))
    history.at(21.0, pod("ended", "node-1", phase="Succeeded"))
    history.at(30.0, pod("waits"))
    history.at(30.0, pod("held", schedulingGates=[{"name": "example.com/quota"}]))
    history.at(30.0, pod("cancelled"))
    history.at(31.0, pod("cancelled"), deleted=True)
    history.at(31.0, pod("lost", queue="missing"))
    history.at(32.0, pod("disk", "node-2", volumes=[{"persistentVolumeClaim": {"claimName": "c"}}]))
    history.at(33.0, pod("disk", "node-2"), deleted=True)
    recorded = history.read(end=100.0)
    assert {each.name: (each.run, each.endless) for each in recorded.jobs} == {
        "service": (99.0, True),
        "ended": (20.0, False),
        "waits": (10.5, False),
        "disk": (1.0, False),
    }
    for text in (
        "1 pods still ran at the end of the recording, so their run time is unknown: they run until the end:"
        " default/service",
        "1 jobs had not started at the end",
        "1 pods were behind a gate of another component until the end: left out: default/held",
        "1 pods were deleted before they ran: left out: default/cancelled",
        "1 pods are in the queue missing, which does not exist: left out: default/lost",
        "1 pods have volume claims, which are not simulated: default/disk",
    ):
        assert any(text in each for each in recorded.remarks), (text, recorded.remarks)
    result, _ = replayed(recorded)
    assert (result.jobs.submitted, result.jobs.ended) == (4, 3)


def test_a_preempted_pod_and_its_successor_are_one_job() -> None:
    target = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}
    owner = {"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "uid": "rs-1", "controller": True}]}
    history = History(*ready_machines(1), volcano_queue("q"))
    history.at(1.0, pod("low-a", "node-0", metadata=owner))
    stopped = {**owner, "deletionTimestamp": stamp_of(50.0)}
    history.at(20.0, pod("low-a", "node-0", metadata=stopped, status=target))
    history.at(21.0, pod("low-a", "node-0", metadata=stopped, status=target), deleted=True)
    history.at(22.0, pod("low-b", metadata=owner))
    history.at(30.0, pod("low-b", "node-0", metadata=owner))
    history.at(70.0, pod("low-b", "node-0", metadata=owner, phase="Succeeded"))
    recorded = history.read()
    assert [(each.name, each.submit, each.run, each.class_) for each in recorded.jobs] == [
        ("low-a", 1.0, 40.0, "ReplicaSet")
    ]


def test_nodes_and_queues_change_when_they_changed() -> None:
    history = History(*ready_machines(1, cpu=2), volcano_queue("q", cpu=1))
    for name in ("one", "two", "three"):
        history.at(1.0, pod(name, cpu=1))
    history.at(50.0, volcano_queue("q", cpu=2))
    (second,) = (each for each in ready_machines(2, cpu=2) if each["metadata"]["name"] == "node-1")
    history.at(80.0, volcano_queue("q", cpu=3))
    history.at(90.0, second)
    for name in ("one", "two", "three"):
        history.at(100.0, pod(name, "node-0"))
        history.at(300.0, pod(name, "node-0", phase="Succeeded"))
    history.at(310.0, second, deleted=True)
    result, journal = replayed(history.read(), Settings(gates=True))
    assert sorted(times_of(journal, "admitted").values()) == [1.0, 50.0, 80.0]
    assert sorted(times_of(journal, "bound").values()) == [1.0, 50.0, 90.0]
    assert result.machines.bought == 1
    assert result.machines.bought_and_never_used == 0


def test_a_node_that_was_removed_stays_until_its_last_simulated_pod_has_ended() -> None:
    history = History(*ready_machines(1), volcano_queue("q"))
    history.at(10.0, pod("late"))
    history.at(10.5, pod("late", "node-0"))
    history.at(60.5, pod("late", "node-0", phase="Succeeded"))
    history.at(61.0, ready_machines(1)[0], deleted=True)
    recorded = history.read()
    slower = [msgspec.structs.replace(each, run=100.0) for each in recorded.jobs]
    _, journal = replayed(msgspec.structs.replace(recorded, jobs=tuple(slower)))
    assert times_of(journal, "ended") == {"late": 110.0}
    assert times_of(journal, "machine-removed") == {"node-0": 110.0}


def test_pods_of_daemon_sets_come_and_go_with_their_node() -> None:
    owner = {"ownerReferences": [{"kind": "DaemonSet", "name": "ds", "uid": "ds-1", "controller": True}]}
    history = History(volcano_queue("q"))
    history.at(1.0, ready_machines(1, cpu=2)[0])
    history.at(2.0, pod("agent", "node-0", queue="", cpu=1, metadata=owner))
    history.at(3.0, pod("job", cpu=2))
    history.at(5.0, ready_machines(2, cpu=4)[1])
    history.at(6.0, pod("job", "node-1", cpu=2))
    history.at(16.0, pod("job", "node-1", cpu=2, phase="Succeeded"))
    history.at(20.0, ready_machines(1, cpu=2)[0], deleted=True)
    recorded = history.read(end=30.0)
    assert [each.name for each in recorded.jobs] == ["job"]
    _, journal = replayed(recorded)
    assert [(each.at, each.node) for each in journal if each.what == "bound"] == [(5.0, "node-1")]


def test_pods_of_other_schedulers_need_no_queue() -> None:
    history = History(*ready_machines(1), volcano_queue("q", cpu=1))
    history.at(1.0, pod("web", "node-0", queue="", cpu=3))
    history.at(61.0, pod("web", "node-0", queue="", cpu=3), deleted=True)
    history.at(2.0, pod("job", cpu=1))
    history.at(3.0, pod("job", "node-0", cpu=1))
    history.at(9.0, pod("job", "node-0", phase="Succeeded"))
    history.changes.sort(key=lambda each: each.at_s)
    recorded = history.read()
    assert [(each.name, each.queue) for each in recorded.jobs] == [("web", ""), ("job", "q")]
    result, journal = replayed(recorded, Settings(gates=True))
    assert times_of(journal, "bound") == {"web": 1.0, "job": 2.0}
    assert names_of(journal, "admitted") == ["job"]
    assert result.jobs.ended == 2


def test_members_of_a_gang_share_the_recorded_group() -> None:
    group = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 2, "queue": "q"}, "status": {}}
    named: Object = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    history = History(*ready_machines(1, cpu=4), volcano_queue("q", cpu=4))
    history.at(1.0, group)
    history.at(2.0, pod("driver", cpu=1, **named))
    history.at(9.0, pod("worker", cpu=3, **named))
    for name, cpu, run in (("driver", 1, 40.0), ("worker", 3, 30.0)):
        history.at(10.0, pod(name, "node-0", cpu=cpu, **named))
        history.at(10.0 + run, pod(name, "node-0", cpu=cpu, phase="Succeeded", **named))
    history.at(60.0, group, deleted=True)
    history.changes.sort(key=lambda each: each.at_s)
    for gates in (True, False):
        result, journal = replayed(history.read(), Settings(gates=gates))
        assert times_of(journal, "bound") == {"driver": 9.0, "worker": 9.0}
        assert result.jobs.ended == 2


def test_a_variant_changes_a_recorded_object_at_all_times() -> None:
    history = History(*ready_machines(1), volcano_queue("q", cpu=1))
    for name in ("one", "two"):
        history.at(1.0, pod(name))
    history.at(50.0, volcano_queue("q", cpu=2))
    for name in ("one", "two"):
        history.at(60.0, pod(name, "node-0"))
        history.at(160.0, pod(name, "node-0", phase="Succeeded"))
    patch = {"spec": {"capability": {"cpu": "1"}}}
    variant = Variant("narrow", patches=(ObjectChange("Queue", "q", patch),))
    recorded = history.read()
    _, wide = replayed(recorded, Settings(gates=True))
    _, narrow = replayed(recorded, Settings(gates=True), variant)
    assert sorted(times_of(wide, "bound").values()) == [1.0, 50.0]
    assert sorted(times_of(narrow, "bound").values()) == [1.0, 101.0]


@pytest.mark.parametrize("gates", [None, True, False])
def test_gates_are_as_recorded_or_switched_for_all_pods(gates: bool | None) -> None:
    history = History(*ready_machines(1), volcano_queue("q", cpu=4))
    for name, opt_in in (("opted", {OPT_IN: "true"}), ("plain", {})):
        history.at(1.0, pod(name, annotations=opt_in))
        history.at(2.0, pod(name, "node-0", annotations=opt_in))
        history.at(9.0, pod(name, "node-0", phase="Succeeded", annotations=opt_in))
    _, journal = replayed(history.read(), Settings(gates=gates))
    wanted = {None: ["opted"], True: ["opted", "plain"], False: []}[gates]
    assert sorted(names_of(journal, "admitted")) == wanted
    assert len(names_of(journal, "bound")) == 2


def test_workloads_of_kueue_are_jobs() -> None:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}

    def workload(name: str, count: int, *conditions: str, sets: int = 1) -> Object:
        pod_sets = [{"name": f"s{number}", "count": count, "template": template} for number in range(sets)]
        owner = {"kind": "Job", "name": f"job-{name}", "uid": f"job-uid-{name}", "controller": True}
        listed = [{"type": each, "status": "True"} for each in conditions]
        spec = {"queueName": "q", "podSets": pod_sets, "priority": 0}
        metadata = {"name": name, "ownerReferences": [owner]}
        return {"kind": "Workload", "metadata": metadata, "spec": spec, "status": {"conditions": listed}}

    history = History(*ready_machines(2), any_flavor(), *kueue_queue("q", cpu=2), workload("old", 1, "Admitted"))
    history.at(5.0, workload("new", 2))
    history.at(30.0, workload("old", 1, "Admitted", "Finished"))
    history.at(31.0, workload("new", 2, "Admitted"))
    history.at(40.0, workload("mixed", 1, sets=2))
    history.at(71.0, workload("new", 2, "Admitted", "Finished"))
    recorded = history.read()
    assert recorded.queueing == "kueue"
    assert [(each.name, each.pods, each.run, each.started) for each in recorded.jobs] == [
        ("old", 1, 30.0, True),
        ("new", 2, 40.0, False),
    ]
    assert any("1 Workloads have several pod sets" in each for each in recorded.remarks)
    result, journal = replayed(recorded)
    assert names_of(journal, "admitted") == ["old", "new"]
    assert result.jobs.submitted == result.jobs.ended == 1
    assert result.waiting.all.max == pytest.approx(25.0, abs=1.5)


def test_queues_of_an_older_version_of_kueue_are_converted() -> None:
    history = History(*ready_machines(1), any_flavor(), *kueue_queue("q", cpu=2, cohort="all"))
    (queue,) = (obj for _, obj in history.read().snapshot.objects if obj["kind"] == "ClusterQueue")
    assert (queue["apiVersion"], queue["spec"]["cohortName"]) == (KUEUE, "all")


def test_a_recording_with_both_kinds_of_queues_needs_a_choice() -> None:
    workload = {"kind": "Workload", "metadata": {"name": "w"}, "spec": {"queueName": "q", "podSets": []}, "status": {}}
    history = History(*ready_machines(1), volcano_queue("q"), pod("p"), workload)
    with pytest.raises(SnapshotError, match="say --queueing"):
        history.read()
    assert history.read(queueing="volcano").queueing == "volcano"


def test_the_machines_that_were_bought_for_a_full_queue_are_not_bought_with_gates() -> None:
    """volcano#4710, recorded without gates: an autoscaler model buys the same machines again, and one with gates."""
    cluster = VirtualHistory(autoscaler=True)
    cluster.queue("team", "1")
    for number in range(5):
        cluster.pod(f"worker-{number}", "team", gated=False, run_s=120)
    cluster.run(3000)
    recorded = read_recorded_cluster(cluster.observer.ordered(), Survey(), SERVED)
    group = MachineGroup("pool", (MachineType("one-cpu", {"cpu": "1", "memory": "4Gi"}),))
    autoscaler = AutoscalerSettings("cluster-autoscaler", (group,), boot_seconds=30.0)
    bought = {
        gates: replayed(recorded, Settings(gates=gates, autoscaler=autoscaler))[0].machines for gates in (False, True)
    }
    assert (bought[False].bought, bought[False].bought_and_never_used) == (5, 4)
    assert (bought[True].bought, bought[True].bought_and_never_used) == (1, 0)
