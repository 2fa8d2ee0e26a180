"""What is said about a ClusterQueue or LocalQueue: whether it admits, who holds and borrows its quota, who is first."""

from __future__ import annotations

from typing import Any

from headgate.quota.explain.queue_explanation import (
    QuotaQueueExplanation,
    explain_cluster_queue,
    explain_local_queue,
)
from quota_engine import Api

Wire = dict[str, Any]


def workloads(api: Api) -> dict[str, Wire]:
    return {name: wire for (kind, name), wire in api.objects.items() if kind == "workload"}


def of_cluster_queue(api: Api, name: str = "cq") -> QuotaQueueExplanation:
    found = explain_cluster_queue(api.engine, name, workloads(api), api.now_s)
    assert found is not None
    return found


def of_local_queue(api: Api, key: str = "ns/lq") -> QuotaQueueExplanation:
    found = explain_local_queue(api.engine, key, workloads(api), api.now_s)
    assert found is not None
    return found


def a_full_queue() -> Api:
    api = Api()
    api.queue("cq", {"default": {"cpu": 3}})
    api.local("other", "cq")
    for name, cpu, queue in (("big", 2, "lq"), ("small", 1, "other"), ("next", 2, "lq"), ("later", 1, "other")):
        api.submit(name, cpu=cpu, queue=queue)
        api.now_s += 1
        api.cycle()
    return api


def test_a_full_queue_names_its_holders_and_what_helps_the_first() -> None:
    found = of_cluster_queue(a_full_queue())
    assert found.summary == "it has no free quota for cpu in default; 2 Workloads wait"
    assert [(each.workload, each.amounts) for each in found.holders] == [
        ("ns/big", {"cpu in default": "2"}),
        ("ns/small", {"cpu in default": "1"}),
    ]
    assert found.first is not None
    assert found.first.name == "next"
    assert found.pending_reasons == {"InLine": 2}
    (step,) = found.next
    assert step.startswith("for workload ns/next: the end of ")


def test_a_local_queue_shows_its_own_workloads() -> None:
    found = of_local_queue(a_full_queue(), "ns/other")
    assert found.summary.startswith("it admits Workloads; 1 Workload waits; ClusterQueue cq: it has no free quota")
    assert [each.workload for each in found.holders] == ["ns/small"]
    assert found.first is not None
    assert (found.first.name, found.first.position_in_cluster_queue) == ("later", 1)


def test_the_queue_that_borrows_is_named() -> None:
    api = Api()
    api.queue("cq", {"default": {"cpu": 1}}, cohortName="co")
    api.queue("owner", {"default": {"cpu": 3}}, local="lo", cohortName="co")
    api.submit("borrows", cpu=4)
    api.cycle()
    found = of_cluster_queue(api, "owner")
    assert [(each.cluster_queue, each.resource, each.borrowed) for each in found.borrowers] == [("cq", "cpu", "3")]
    assert found.full == ("cpu in default",)


def test_queues_that_admit_nothing_say_what_to_do() -> None:
    api = Api()
    api.queue("cq", stopPolicy="Hold")
    api.submit("waits")
    found = of_cluster_queue(api)
    assert not found.admits
    assert "kubectl patch clusterqueue cq" in found.next[0]
    assert of_local_queue(api).next == found.next
    api.local("lost", "nowhere")
    lost = of_local_queue(api, "ns/lost")
    assert lost.summary == "it admits no Workloads (ClusterQueueDoesNotExist); 0 Workloads wait"
    assert lost.next == ("ClusterQueue nowhere has to be created, or the LocalQueue has to name another one",)
    api.local("held", "cq", stopPolicy="Hold")
    assert "kubectl -n ns patch localqueue held" in of_local_queue(api, "ns/held").next[0]


def test_workloads_that_are_not_in_line_are_counted_by_reason() -> None:
    api = Api()
    api.queue("cq")
    api.submit("gated", annotations={"kueue.x-k8s.io/admission-gated-by": "example.com/review"})
    api.submit("off", active=False)
    assert of_cluster_queue(api).pending_reasons == {"Deactivated": 1, "Gated": 1}
    assert of_cluster_queue(api).first is None


def test_a_queue_that_does_not_exist_is_not_explained() -> None:
    api = Api()
    assert explain_cluster_queue(api.engine, "cq", {}, 0.0) is None
    assert explain_local_queue(api.engine, "ns/lq", {}, 0.0) is None
