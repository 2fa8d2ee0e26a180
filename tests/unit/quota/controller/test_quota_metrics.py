"""Quota metrics under Kueue's names: decisions are counted once, gauges show the state of the server."""

from __future__ import annotations

from typing import Any

from embedded import Embedded
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.definitions import definitions
from headgate.quota.metrics.metric_families import FAMILIES
from headgate.quota.metrics.quota_metrics import QuotaMetrics
from kueue_builders import Wire, a_cluster_queue, a_cohort, a_condition, a_flavor, a_local_queue, a_workload
from unit.controllers.world import World

API = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{API}/namespaces/ns/workloads"
CQ = 'cluster_queue="cq"'
LQ = 'name="lq",namespace="ns"'


class Stage:
    """A world with one queue below a cohort, and what is measured in it."""

    def __init__(self, cpu: int = 2, **spec: Any) -> None:
        server = Embedded(namespace="ns")
        for each in definitions(with_older=False):
            answer = server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", each)
            assert answer.status == 201, answer.body
        self.metrics = QuotaMetrics(lambda: self.world.server.epoch_s, "1.2")
        self.world = World(lambda: QuotaController(QuotaSettings(), self.metrics), server=server)
        self.put("resourceflavors", "ResourceFlavor", a_flavor())
        self.put("cohorts", "Cohort", a_cohort("co", "root"))
        queue = a_cluster_queue("cq", {"default": {"cpu": (cpu, 1, None)}}, cohortName="co", **spec)
        self.put("clusterqueues", "ClusterQueue", queue)
        self.put("localqueues", "LocalQueue", a_local_queue())
        self.world.advance(1)

    def put(self, plural: str, kind: str, obj: Wire) -> None:
        metadata = {key: value for key, value in obj["metadata"].items() if key in ("name", "namespace")}
        where = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": obj["spec"]}
        answer = self.world.server.post(f"{API}{where}/{plural}", body)
        assert answer.status == 201, answer.body

    def add(self, name: str, **more: Any) -> None:
        self.put("workloads", "Workload", a_workload(name, **more))
        self.world.advance(1)

    def say(self, name: str, *said: Wire, **status: Any) -> None:
        """Somebody else writes conditions of a workload."""
        known = self.world.server.get(f"{WORKLOADS}/{name}").body["status"]["conditions"]
        kinds = {each["type"] for each in said}
        told = [*(each for each in known if each["type"] not in kinds), *said]
        answer = self.world.server.patch(f"{WORKLOADS}/{name}/status", {"status": {"conditions": told, **status}})
        assert answer.status == 200, answer.body
        self.world.advance(1)

    def read(self) -> dict[str, float]:
        lines = self.metrics.page().decode().splitlines()
        return {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines if each[0] != "#")}


def test_admissions_are_counted_per_queue_and_cohort_and_their_waits_measured() -> None:
    stage = Stage()
    stage.add("a")
    stage.add("b")
    stage.add("c", cpu=9)
    read = stage.read()
    for name in ("quota_reserved_workloads_total", "admitted_workloads_total"):
        assert read[f'kueue_{name}{{{CQ},priority_class=""}}'] == 2
        assert read[f'kueue_local_queue_{name}{{{LQ},priority_class=""}}'] == 2
    assert read['kueue_cohort_subtree_admitted_workloads_total{cohort="root",priority_class=""}'] == 2
    for name in ("quota_reserved_wait_time_seconds", "admission_wait_time_seconds"):
        assert read[f'kueue_{name}_count{{{CQ},priority_class=""}}'] == 2
    assert read['kueue_admission_attempts_total{result="success"}'] == 2
    assert read['kueue_admission_attempts_total{result="inadmissible"}'] >= 1
    assert read['kueue_build_info{git_version="1.2",compiler="cpython"}'] == 1


def test_gauges_have_pending_workloads_usage_and_quota() -> None:
    stage = Stage()
    stage.add("holds", cpu=2)
    stage.add("waits", cpu=1)
    stage.add("too-large", cpu=99)
    read = stage.read()
    assert read[f'kueue_pending_workloads{{{CQ},status="active"}}'] == 0
    assert read[f'kueue_pending_workloads{{{CQ},status="inadmissible"}}'] == 2
    assert read[f'kueue_local_queue_pending_workloads{{{LQ},status="inadmissible"}}'] == 2
    assert read[f"kueue_admitted_active_workloads{{{CQ}}}"] == 1
    assert read[f"kueue_local_queue_reserving_active_workloads{{{LQ}}}"] == 1
    assert read[f'kueue_cluster_queue_status{{{CQ},status="active"}}'] == 1
    assert read[f'kueue_local_queue_status{{{LQ},active="True"}}'] == 1
    assert read[f'kueue_cluster_queue_info{{{CQ},parent_cohort="co",root_cohort="root"}}'] == 1
    where = f'cohort="co",{CQ},flavor="default",resource="cpu"'
    assert read[f"kueue_cluster_queue_nominal_quota{{{where}}}"] == 2
    assert read[f"kueue_cluster_queue_borrowing_limit{{{where}}}"] == 1
    assert read[f"kueue_cluster_queue_lending_limit{{{where}}}"] == float("inf")
    assert read[f"kueue_cluster_queue_resource_usage{{{where}}}"] == 2
    cohort = 'cohort="root",flavor="default",resource="cpu"'
    assert read[f"kueue_cohort_subtree_quota{{{cohort}}}"] == 2
    assert read[f"kueue_cohort_subtree_resource_reservations{{{cohort}}}"] == 2
    why = 'reason="NoReservation",underlying_cause="{}"'
    assert read[f"kueue_unadmitted_workloads{{{CQ},{why.format('WaitingForQuota')}}}"] == 1
    assert read[f"kueue_local_queue_unadmitted_workloads{{{LQ},{CQ},{why.format('ExceedsMaxQuota')}}}"] == 1


def test_pending_workloads_are_counted_per_local_queue() -> None:
    stage = Stage()
    stage.put("localqueues", "LocalQueue", a_local_queue("other"))
    stage.add("holds", cpu=2)
    stage.add("waits", cpu=1)
    stage.add("waits-too", cpu=1, queue="other")
    stage.add("and-so-on", cpu=1, queue="other")
    read = stage.read()
    name = 'kueue_local_queue_pending_workloads{{name="{}",namespace="ns",status="inadmissible"}}'
    assert (read[name.format("lq")], read[name.format("other")]) == (1, 2)


def test_an_eviction_is_counted_with_its_reason_and_its_latency() -> None:
    stage = Stage(cpu=1, preemption={"withinClusterQueue": "LowerPriority"})
    stage.add("low")
    stage.add("high", priority=5)
    stage.world.advance(30)
    read = stage.read()
    why = 'reason="Preempted",underlying_cause="",priority_class=""'
    assert read[f"kueue_evicted_workloads_total{{{CQ},{why}}}"] == 1
    assert read[f"kueue_evicted_workloads_once_total{{{CQ},{why}}}"] == 1
    assert read['kueue_preempted_workloads_total{preempting_cluster_queue="cq",reason="InClusterQueue"}'] == 1
    latency, of = "kueue_workload_eviction_latency_seconds", f'{{{CQ},reason="Preempted"}}'
    assert f"{latency}_count{of}" not in read
    stage.say("low", a_condition("QuotaReserved", False, "PendingEvaluation"), admission=None)
    read = stage.read()
    assert read[f"{latency}_count{of}"] == 1
    assert 30 <= read[f"{latency}_sum{of}"] <= 33
    assert read[f'kueue_admitted_workloads_total{{{CQ},priority_class=""}}'] == 2


def test_ready_pods_and_ends_are_counted_once_when_they_are_seen() -> None:
    stage = Stage()
    stage.add("w")
    ready = {**a_condition("PodsReady", reason="Started"), "lastTransitionTime": _now(stage)}
    stage.say("w", ready)
    stage.say("w", {**ready, "message": "again"})
    read = stage.read()
    assert read[f'kueue_ready_wait_time_seconds_count{{{CQ},priority_class=""}}'] == 1
    assert read[f'kueue_local_queue_admitted_until_ready_wait_time_seconds_count{{{LQ},priority_class=""}}'] == 1
    stage.say("w", a_condition("Finished", reason="Succeeded"))
    stage.say("w", a_condition("Finished", reason="Succeeded", message="again"))
    read = stage.read()
    assert read[f'kueue_finished_workloads_total{{{CQ},priority_class=""}}'] == 1
    assert read[f"kueue_finished_workloads{{{CQ}}}"] == 1
    stage.world.server.delete(f"{WORKLOADS}/w")
    stage.world.advance(1)
    assert f"kueue_finished_workloads{{{CQ}}}" not in stage.read()


def _now(stage: Stage) -> str:
    found = stage.world.server.get(f"{WORKLOADS}/w").body["status"]["conditions"]
    return str(next(each["lastTransitionTime"] for each in found if each["type"] == "Admitted"))


def test_a_new_engine_keeps_the_counts_and_counts_nothing_twice() -> None:
    stage = Stage()
    stage.add("w")
    before = stage.read()
    stage.world.crash()
    stage.world.advance(1)
    after = stage.read()
    name = f'kueue_admitted_workloads_total{{{CQ},priority_class=""}}'
    assert after[name] == before[name] == 1
    assert after[f"kueue_admitted_active_workloads{{{CQ}}}"] == 1
    stage.metrics.detach()
    assert f"kueue_admitted_active_workloads{{{CQ}}}" not in stage.read()
    assert stage.read()[name] == 1


def test_the_samples_of_a_deleted_queue_are_removed() -> None:
    stage = Stage()
    stage.add("w")
    stage.world.server.delete(f"{WORKLOADS}/w")
    stage.world.server.delete(f"{API}/namespaces/ns/localqueues/lq")
    stage.world.server.delete(f"{API}/clusterqueues/cq")
    stage.world.advance(1)
    assert [name for name in stage.read() if CQ in name or LQ in name] == []


def test_every_sample_belongs_to_a_family_and_families_are_listed_once() -> None:
    stage = Stage()
    stage.add("w")
    page = stage.metrics.page().decode().splitlines()
    told = [line.split()[2] for line in page if line.startswith("# TYPE")]
    assert len(told) == len(set(told))
    assert set(told) <= set(FAMILIES)
