"""ClusterQueues and LocalQueues as a list: quota per flavor, usage, borrowing and pending Workloads."""

from __future__ import annotations

from headgate.quota.explain.queue_list import (
    ListedClusterQueue,
    cluster_queue_rows,
    local_queue_row,
    stray_local_queues,
)
from quota_engine import Api


def rows(api: Api) -> dict[str, ListedClusterQueue]:
    return {each.name: each for each in cluster_queue_rows(api.engine)}


def in_a_cohort() -> Api:
    api = Api()
    api.queue("cq", {"default": {"cpu": (2, 3, None)}}, cohortName="co")
    api.queue("lender", {"default": {"cpu": (4, None, 1)}}, local="", cohortName="co")
    return api


def test_a_queue_shows_what_it_borrows_from_its_cohort() -> None:
    api = in_a_cohort()
    api.submit("first", cpu=2)
    api.submit("second", cpu=1)
    api.submit("third", cpu=9)
    api.cycle()
    row = rows(api)["cq"]
    (cpu,) = row.flavors
    assert (row.state, row.cohort, row.strategy) == ("Active", "co", "BestEffortFIFO")
    assert (row.pending, row.reserving, row.admitted) == (1, 2, 2)
    assert (cpu.flavor, cpu.resource, cpu.nominal, cpu.used, cpu.reserved, cpu.borrowed) == (
        *("default", "cpu", "2", "3", "3", "1"),
    )
    assert (cpu.available, cpu.borrowing_limit, cpu.lending_limit) == ("0", "3", "")
    (local,) = row.local_queues
    assert (local.namespace, local.name, local.state, local.pending) == ("ns", "lq", "Active", 1)
    assert [(each.flavor, each.reserved) for each in local.usage] == [("default", "3")]
    assert rows(api)["lender"].flavors[0].lending_limit == "1"


def test_a_queue_without_a_cohort_borrows_nothing() -> None:
    api = Api()
    api.queue("cq", {"default": {"cpu": 2}})
    api.submit("first", cpu=2)
    api.cycle()
    api.queue("cq", {"default": {"cpu": 1}})
    (cpu,) = rows(api)["cq"].flavors
    assert (cpu.nominal, cpu.reserved, cpu.borrowed, cpu.available) == ("1", "2", "0", "-1")


def test_queues_that_admit_nothing_say_why() -> None:
    api = Api()
    api.queue("cq", {"absent": {"cpu": 2}})
    api.local("lost", "nowhere")
    api.local("stopped", "cq", stopPolicy="Hold")
    row = rows(api)["cq"]
    assert row.state == "FlavorNotFound"
    assert "absent" in row.message
    assert {each.name: each.state for each in row.local_queues} == {
        "lq": "ClusterQueueIsInactive",
        "stopped": "Stopped",
    }
    (stray,) = stray_local_queues(api.engine)
    assert (stray.name, stray.state, stray.cluster_queue) == ("lost", "ClusterQueueDoesNotExist", "nowhere")
    assert local_queue_row(api.engine, "ns/lost") == stray
    assert local_queue_row(api.engine, "ns/absent") is None


def test_an_invalid_queue_is_listed_with_its_problem() -> None:
    api = Api()
    api.queue("cq", {"default": {"cpu": (1, 5, None)}})
    row = rows(api)["cq"]
    assert row.state == "Invalid"
    assert "no cohort" in row.message


def test_gated_workloads_of_a_queue_are_pending() -> None:
    api = Api()
    api.queue("cq")
    api.submit("held", annotations={"kueue.x-k8s.io/admission-gated-by": "example.com/review"})
    api.cycle()
    assert rows(api)["cq"].pending == 1
