"""The description of a workload: summary, shortage, and next steps."""

from __future__ import annotations

from typing import Any

from headgate.cli.commands.explain_quota import description_lines, inspection_lines
from headgate.jobs.explanation import MissingWorkload, explain_missing_workload
from headgate.jobs.framework.management import UnknownAncestor
from headgate.jobs.kinds.batch_job import JOB
from headgate.kube.timestamps import format_time
from headgate.quota.explain.description import WorkloadDescription, describe_workload
from headgate.runtime.inspection.quota import QuotaInspection
from headgate.runtime.inspection.workloads import TerminatingWorkloadPod, WorkloadInspection, with_gated_jobs
from kueue_builders import START_S, Wire, a_condition, a_pod_set, a_workload, reserved
from quota_engine import Api

QUEUE = "kueue.x-k8s.io/queue-name"


def told(api: Api, wire: Wire, knows_places: bool = True) -> WorkloadDescription:
    return describe_workload(api.engine, wire, knows_places, START_S)


def test_a_description_has_the_shortage_the_holders_and_the_workloads_to_end() -> None:
    api = Api()
    api.queue()
    api.submit("holder", cpu=8)
    api.cycle()
    wire = a_workload("waits", cpu=5)
    api.submit("waits", cpu=5)
    found = told(api, wire)
    assert found.summary == "it waits for quota in ClusterQueue cq, first in line"
    (lack,) = found.lacks
    assert (lack.resource, lack.asked, lack.available, lack.most, lack.missing) == ("cpu", "5", "2", "10", "3")
    assert [(each.workload, each.amount, each.note) for each in lack.held_by] == [("ns/holder", "8", "")]
    assert found.enders == ("ns/holder",)
    grown = "the nominalQuota of ClusterQueue cq for cpu in flavor default has to grow from 10 to 13"
    assert found.next == (f"the end of ns/holder is enough; or {grown}",)
    assert [(each.flavor, each.verdict) for each in found.tried] == [
        ("default", "full, and no workload may be evicted for it")
    ]


def test_a_preemptor_is_described_with_its_victims() -> None:
    api = Api()
    api.queue(preemption={"withinClusterQueue": "LowerPriority"})
    api.submit("low", cpu=8)
    api.cycle()
    api.submit("high", cpu=5, priority=5)
    found = told(api, a_workload("high", cpu=5, priority=5))
    assert found.would_evict == ("ns/low",)
    assert found.next == ("it may preempt ns/low",)


def test_a_workload_behind_a_protected_one_is_described_with_what_would_help() -> None:
    api = Api()
    api.queue(annotations={"headgate.dev/dequeue-strategy": "backfill"})
    api.submit("holder", cpu=6, maximumExecutionTimeSeconds=100)
    api.cycle()
    api.submit("large", cpu=9, at_s=1)
    api.submit("small", cpu=2, at_s=2)
    before = api.engine.queue_manager.pending_reason("ns/small")
    found = told(api, api.objects["workload", "ns/small"])
    assert api.engine.queue_manager.pending_reason("ns/small") == before
    assert found.would_delay == "ns/large"
    assert found.next == (
        "1 before it in ClusterQueue cq are considered first",
        "workload ns/large, the first in line of ClusterQueue cq, has to get quota before it; or its job needs a "
        "maximum execution time that ends, with the grace period of its pods, before 2023-11-14T22:15:00Z; or the "
        "annotation headgate.dev/dequeue-strategy of ClusterQueue cq has to be removed",
    )
    as_of_now = (
        "  as of now: The workload could get quota; it would delay workload ns/large, the first in line of "
        "ClusterQueue cq, which is protected, cannot start before 2023-11-14T22:15:00Z, and leaves 0 cpu in flavor "
        "default"
    )
    assert as_of_now in list(description_lines(found, START_S))
    api.cycle()
    told_after = told(api, api.objects["workload", "ns/small"])
    assert told_after.said == ("FirstInLineProtected", found.found)
    assert told(api, api.objects["workload", "ns/large"]).would_delay == ""


def test_a_request_above_the_maximum_quota_is_described() -> None:
    api = Api()
    api.queue()
    api.submit("huge", cpu=99)
    found = told(api, a_workload("huge", cpu=99))
    assert found.lacks == ()
    assert found.next == (
        "it asks for more than its queue may ever have, so freed quota does not help: it has to ask for less, "
        "or the nominalQuota of ClusterQueue cq for cpu in flavor default has to grow from 10 to 99",
    )


def test_a_resource_that_no_flavor_covers_is_named_with_what_the_condition_says() -> None:
    api = Api()
    api.queue()
    api.submit("gpus", a_pod_set(requests={"cpu": 1, "nvidia.com/gpu": 1}))
    api.cycle()
    found = told(api, api.objects["workload", "ns/gpus"])
    assert found.next == (
        "no resource group of ClusterQueue cq covers nvidia.com/gpu: "
        "spec.resourceGroups has to cover it with quota, or the job must not ask for it",
    )
    text = "couldn't assign flavors to pod set main: resource nvidia.com/gpu unavailable in ClusterQueue"
    assert (found.said[1], found.found) == (text, text)
    assert any(f": {text}" in line for line in description_lines(found, START_S))
    assert any(", 0s old" in line for line in description_lines(found, START_S - 3600)), "clocks differ"
    unseen = api.change("gpus", lambda wire: wire["status"].update(conditions=[]))
    assert unseen is not None
    bare = told(api, api.objects["workload", "ns/gpus"])
    assert f"  as of now: {text}" in list(description_lines(bare, START_S))


def test_alternative_flavors_are_not_both_requested() -> None:
    api = Api()
    api.flavor("spot")
    api.queue("cq", {"default": {"cpu": 4}, "spot": {"cpu": 4}})
    for name in ("one", "two"):
        api.submit(name, cpu=3)
        api.cycle()
        api.now_s += 1
    api.submit("waits", cpu=3)
    found = told(api, a_workload("waits", cpu=3))
    assert [each.flavor for each in found.lacks] == ["default", "spot"]
    grown = "the nominalQuota of ClusterQueue cq for cpu in flavor default has to grow from 4 to 6"
    assert found.next == (f"the end of ns/one is enough; or {grown}",)


def test_no_remedy_is_described_that_a_larger_workload_would_take() -> None:
    """Of quota that is freed or added workload by workload, only small ones get some; at once, the large one does."""
    api = Api()
    api.queue("cq", {"default": {"cpu": 2}})
    for name in ("one", "two"):
        api.submit(name, cpu=1)
    api.cycle()
    for at_s, (name, cpu) in enumerate({"large": 2, "small": 1, "last": 1}.items(), 1):
        api.submit(name, cpu=cpu, at_s=at_s)
    found = told(api, a_workload("last", cpu=1, at_s=3))
    assert found.position_in_cluster_queue == 2
    assert not [step for step in found.next if "is enough" in step or "has to grow" in step]


def test_the_position_is_described_and_in_a_strict_queue_the_head() -> None:
    api = Api()
    api.queue(queueingStrategy="StrictFIFO")
    api.submit("holder", cpu=8)
    api.cycle()
    api.submit("first", cpu=9)
    api.submit("second", cpu=1, at_s=5)
    found = told(api, a_workload("second", cpu=1, at_s=5))
    assert (found.position, found.position_in_cluster_queue, found.behind) == (1, 1, "ns/first")
    assert found.next[0] == "ns/first, the first of a StrictFIFO queue, has to be admitted before it"


def test_a_missing_queue_is_named() -> None:
    api = Api()
    api.submit("early", cpu=1)
    found = told(api, a_workload("early"))
    assert found.summary == "it is in no queue: LocalQueue lq doesn't exist"
    assert found.next == ("LocalQueue ns/lq has to be created, or the job sent to another one",)


def test_gates_back_off_deactivation_checks_and_evictions_are_described() -> None:
    api = Api()
    api.queue()
    gates = {"kueue.x-k8s.io/admission-gated-by": "example.com/a, example.com/b"}
    gated = told(api, a_workload(annotations=gates))
    assert (gated.summary, gated.gates) == (
        "its admission is gated by example.com/a, example.com/b",
        ("example.com/a", "example.com/b"),
    )
    later = {"requeueState": {"count": 2, "requeueAt": "2099-01-01T00:00:00Z"}}
    put_off = told(api, a_workload(status=later))
    assert put_off.summary == "it waits until 2099-01-01T00:00:00Z before it may be queued again, after 2 evictions"
    assert told(api, a_workload(active=False)).summary == "it is deactivated: spec.active is false"
    by_label = told(api, a_workload(active=False, annotations={"headgate.dev/deactivated-by-label": "true"}))
    assert by_label.summary == "it is deactivated by the label kueue.x-k8s.io/deactivate"
    assert "headgate resume" in by_label.next[0]
    held = reserved(cpu=1)
    checks = [
        {"name": "licences", "state": "Pending", "message": "asked", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ]
    unchecked = {**held, "conditions": held["conditions"][:1], "admissionChecks": checks}
    checked = told(api, a_workload(status=unchecked))
    assert checked.state == "quotareserved"
    assert "licences (Pending)" in checked.summary
    assert [each.message for each in checked.checks] == ["asked"]
    evicted = {**held, "conditions": [*held["conditions"], a_condition("Evicted", reason="Preempted", message="room")]}
    going = told(api, a_workload(status=evicted))
    assert (going.state, going.summary) == (
        "evicted",
        "it was evicted (Preempted), and holds its quota until its pods have ended: room",
    )
    assert told(api, a_workload(status=held)).flavors == {"main": {"cpu": "default"}}


def test_an_active_workload_is_not_described_by_an_earlier_deactivation() -> None:
    api = Api()
    api.queue()
    listed = [
        a_condition("Evicted", reason="DeactivatedDueToDeactivateLabel", message="deactivated"),
        a_condition("QuotaReserved", is_true=False, reason="WaitingForQuota", message="insufficient quota"),
    ]
    assert told(api, a_workload(status={"conditions": listed})).said == ("WaitingForQuota", "insufficient quota")
    inactive = told(api, a_workload(active=False, status={"conditions": listed}))
    assert inactive.said == ("DeactivatedDueToDeactivateLabel", "deactivated")


def test_without_the_other_workloads_only_the_conditions_are_described() -> None:
    api = Api()
    api.queue()
    said = {"conditions": [a_condition("QuotaReserved", False, "WaitingForQuota", "3 more needed")]}
    found = told(api, a_workload(cpu=5, status=said), knows_places=False)
    assert found.summary == "it waits for quota: 3 more needed"
    assert (found.position_in_cluster_queue, found.lacks, found.next) == (None, (), ())


# -- jobs without a Workload ---------------------------------------------------------------------------------------


def a_job(queue: str = "lq", suspend: bool = True, gate: str = "", status: Wire | None = None) -> Wire:
    notes = {"kueue.x-k8s.io/scheduling-gated-by": gate} if gate else {}
    metadata = {"name": "train", "namespace": "ns", "uid": "u", "labels": {QUEUE: queue} if queue else {}}
    return {"metadata": {**metadata, "annotations": notes}, "spec": {"suspend": suspend}, "status": status or {}}


def absence(
    job: Wire, ancestor: Any = None, namespace: str = "ns", queues: tuple[str, ...] = ("ns/lq",)
) -> MissingWorkload:
    labels = {"kubernetes.io/metadata.name": namespace}
    return explain_missing_workload(JOB, job, labels, ancestor, dict.fromkeys(queues))


def test_a_gated_job_is_explained_by_its_gate() -> None:
    found = absence(a_job(gate="example.com/data"))
    assert (found.state, found.gate) == ("gated", "example.com/data")
    assert found.next == ("example.com/data has to take the annotation kueue.x-k8s.io/scheduling-gated-by off the job",)


def test_a_job_in_no_queue_is_explained_by_the_missing_label() -> None:
    found = absence(a_job(queue=""))
    assert (found.state, found.next) == ("unmanaged", (f"kubectl label jobs train {QUEUE}=NAME",))
    assert "nothing will start it" in found.summary
    assert "uses no quota" in absence(a_job(queue="", suspend=False)).summary


def test_a_job_that_an_uninstallation_released_is_explained_by_it() -> None:
    job = a_job(suspend=False)
    job["metadata"] |= {"uid": "u", "annotations": {"headgate.dev/released": "u"}}
    found = absence(job)
    assert found.state == "released"
    assert found.summary == "`headgate uninstall` released it, so it runs without quota and is not stopped"
    assert found.next == ("to queue it, suspend it: set spec.suspend to true",)
    waits = a_job()
    waits["metadata"] |= {"uid": "u", "annotations": {"headgate.dev/released": "u"}}
    assert absence(waits).state == "missing"


def test_why_a_job_runs_while_its_workload_waits_is_printed() -> None:
    inspection = WorkloadInspection("job", "ns", "a", note="it runs because of this")
    assert "  it runs because of this" in list(inspection_lines(inspection, START_S))


def test_a_job_in_an_unmanaged_namespace_is_explained() -> None:
    assert "are not managed" in absence(a_job(), namespace="kube-system").summary


def test_a_child_is_explained_by_its_ancestor() -> None:
    parent = {"kind": "Job", "metadata": {"name": "parent"}}
    assert absence(a_job(), parent).next == ("headgate explain job parent",)
    assert absence(a_job(), UnknownAncestor("OwnerNotFound", "Job ns/parent is not known")).state == "child"


def test_a_job_without_a_workload_is_explained_by_the_missing_controller() -> None:
    found = absence(a_job(suspend=False), queues=())
    assert "not suspended: the webhook that does so was not asked" in found.summary
    assert "headgate run --components quota,jobs" in found.next[0]
    assert found.next[1].startswith("LocalQueue ns/lq has to be created")


def test_a_finished_job_is_explained() -> None:
    ended = {"conditions": [{"type": "Complete", "status": "True", "message": "done"}]}
    assert absence(a_job(status=ended)).state == "finished"


def test_the_line_of_a_terminating_pod_says_when_its_grace_period_ended() -> None:
    ends = (format_time(START_S + 60), format_time(START_S - 720))
    pods = tuple(TerminatingWorkloadPod(name, "n", by) for name, by in zip(("soon", "stuck"), ends, strict=True))
    lines = list(inspection_lines(WorkloadInspection("job", "ns", "a", terminating_pods=pods), START_S))
    assert lines[1:] == [
        f"  pod soon on node n, by {ends[0]}",
        "  pod stuck on node n, its grace period ended 12m ago",
    ]


def test_a_gated_job_is_described_with_the_condition_of_its_local_queue() -> None:
    message = "2 jobs have no Workload because of a gate, the oldest since 2023-11-14T22:13:20Z (Job a, gate x.io/b)"
    quota = QuotaInspection(Api().engine, {}, "7", gated_jobs={"ns/lq": message})
    job = {"metadata": {"namespace": "ns", "name": "a", "labels": {QUEUE: "lq"}}}
    gated = MissingWorkload("gated", "it has no Workload because the gate x.io/b is set", gate="x.io/b")
    found = with_gated_jobs(gated, job, quota)
    assert found.facts == (f"LocalQueue ns/lq: {message}",)
    lines = list(inspection_lines(WorkloadInspection("job", "ns", "a", missing_workload=found), START_S))
    assert f"  LocalQueue ns/lq: {message}" in lines
    other = MissingWorkload("missing", "no Workload has been created for it")
    assert with_gated_jobs(other, job, quota) == other
