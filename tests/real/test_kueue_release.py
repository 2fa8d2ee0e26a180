"""Fast quota release (KEP-6143) on the embedded server and on a real one: quota is free while its pods still terminate.

Only the scenario ends pods, so a workload that is admitted while a pod terminates has the quota of that pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.server_kinds import SERVER_KINDS
from queued_objects import GROUP_NAME, TOTAL
from real.kueue_cluster import GRACE_S, KueueCluster

pytestmark = pytest.mark.real

PREEMPTS = {"preemption": {"withinClusterQueue": "LowerPriority"}}
OFF = "PodIntegrationFastQuotaRelease=false"
ON = "PodIntegrationFastQuotaRelease=true"
MANY = 10


@pytest.fixture(scope="module", params=SERVER_KINDS)
def cluster(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KueueCluster]:
    made = KueueCluster(request.param, tmp_path_factory.mktemp(request.param), kube_binaries, ON)
    yield made
    made.stop()


def test_the_quota_of_a_pod_that_its_user_deletes_is_free_while_it_terminates(cluster: KueueCluster) -> None:
    cluster.queue("deleted", 1)
    cluster.pod("deleted-first", "deleted")
    cluster.run("deleted-first")
    cluster.pod("deleted-next", "deleted")
    cluster.until(lambda: cluster.workloads("deleted-next"))
    assert not cluster.is_admitted("deleted-next")
    cluster.delete("deleted-first")
    cluster.until(lambda: cluster.has_quota("deleted-next"))
    assert cluster.is_ending("deleted-first")
    assert not cluster.is_admitted("deleted-next"), "no node has capacity for it"
    cluster.report("deleted-first", "Failed")
    cluster.until(lambda: cluster.is_admitted("deleted-next"))


def test_a_preemptor_is_admitted_while_its_victim_terminates(cluster: KueueCluster) -> None:
    cluster.queue("preempted", 1, **PREEMPTS)
    cluster.pod("victim", "preempted")
    cluster.run("victim")
    cluster.pod("urgent", "preempted", "high")
    cluster.until(lambda: cluster.has_quota("urgent"))
    assert cluster.is_ending("victim")
    assert cluster.grace_s("victim") == GRACE_S, "it has the time that it asked for"
    reason, message = cluster.until(lambda: cluster.condition("urgent", "WaitingForTerminatingPods"))
    assert reason == "QuotaReleasedEarly"
    assert "1 terminating pod(s)" in message
    assert ", such as default/victim (waited for until " in message
    assert not cluster.is_admitted("urgent")
    cluster.report("victim", "Failed")
    cluster.until(lambda: cluster.is_admitted("urgent"))
    cluster.until(lambda: cluster.condition("urgent", "WaitingForTerminatingPods") is None)


def test_a_preemptor_starts_beside_a_victim_that_is_overdue(cluster: KueueCluster) -> None:
    cluster.queue("overdue", 1, **PREEMPTS)
    cluster.pod("overdue-victim", "overdue", grace_s=10)
    cluster.run("overdue-victim")
    cluster.pod("overdue-urgent", "overdue", "high")
    cluster.until(lambda: cluster.has_quota("overdue-urgent"))
    assert not cluster.is_admitted("overdue-urgent")
    cluster.until(lambda: cluster.is_admitted("overdue-urgent"))
    assert cluster.is_ending("overdue-victim"), "nobody ended it"


def test_many_preemptors_with_a_victim_each_do_not_wait_for_one_another(cluster: KueueCluster) -> None:
    cluster.queue("many", MANY, **PREEMPTS)
    victims = [f"many-victim-{number}" for number in range(MANY)]
    urgent = [f"many-urgent-{number}" for number in range(MANY)]
    for name in victims:
        cluster.pod(name, "many")
    cluster.run(*victims)
    for name in urgent:
        cluster.pod(name, "many", "high")
    cluster.until(lambda: all(map(cluster.has_quota, urgent)))
    assert all(map(cluster.is_ending, victims))
    assert not any(map(cluster.is_admitted, urgent))
    for name in victims[:3]:
        cluster.report(name, "Failed")
    cluster.until(lambda: sum(map(cluster.is_admitted, urgent)) == 3)


def test_a_group_holds_its_quota_until_the_last_of_it_terminates(cluster: KueueCluster) -> None:
    cluster.queue("grouped", 2, **PREEMPTS)
    for name in ("pair-1", "pair-2"):
        cluster.pod(name, "grouped", labels={GROUP_NAME: "pair"}, annotations={TOTAL: "2"})
    cluster.run("pair-1", "pair-2")
    cluster.pod("grouped-urgent", "grouped", "high")
    cluster.until(lambda: cluster.has_quota("grouped-urgent"))
    assert all(map(cluster.is_ending, ("pair-1", "pair-2")))
    (workload,) = cluster.workloads("pair-1")
    assert "admission" not in workload["status"]


def test_a_group_of_which_one_pod_still_runs_holds_its_quota(cluster: KueueCluster) -> None:
    cluster.queue("mixed", 2)
    for name in ("mixed-1", "mixed-2"):
        cluster.pod(name, "mixed", labels={GROUP_NAME: "mixed"}, annotations={TOTAL: "2"})
    cluster.run("mixed-1", "mixed-2")
    cluster.pod("mixed-next", "mixed")
    cluster.delete("mixed-1")
    cluster.queue("mixed-witness", 1)
    cluster.pod("mixed-witness", "mixed-witness")
    cluster.until(lambda: cluster.is_admitted("mixed-witness"))
    assert not cluster.has_quota("mixed-next"), "one of the two still runs"
    cluster.delete("mixed-2")
    cluster.until(lambda: cluster.has_quota("mixed-next"))
    assert all(map(cluster.is_ending, ("mixed-1", "mixed-2")))


def test_a_queue_reclaims_its_nominal_quota_while_pods_of_the_borrower_terminate(cluster: KueueCluster) -> None:
    cluster.queue("migrated", 1, cohortName="migration")
    cluster.queue("migrates", 1, cohortName="migration", preemption={"reclaimWithinCohort": "Any"})
    borrowers = ("migrated-1", "migrated-2")
    for name in borrowers:
        cluster.pod(name, "migrated")
    cluster.run(*borrowers)
    cluster.pod("migrates", "migrates")
    cluster.until(lambda: cluster.has_quota("migrates"))
    assert sum(map(cluster.is_ending, borrowers)) == 1, "only as many as the nominal quota needs"


def test_a_victim_is_admitted_again_with_replacement_pods_while_the_old_pods_terminate(cluster: KueueCluster) -> None:
    cluster.queue("back", 2, **PREEMPTS)
    members: dict[str, Any] = {"labels": {GROUP_NAME: "back"}, "annotations": {TOTAL: "2"}}
    for name in ("back-1", "back-2"):
        cluster.pod(name, "back", **members)
    cluster.run("back-1", "back-2")
    cluster.pod("back-urgent", "back", "high")
    cluster.until(lambda: cluster.has_quota("back-urgent"))
    cluster.delete("back-urgent")
    cluster.pod("back-3", "back", **members)
    cluster.until(lambda: len(cluster.workloads("back-3")) == 1)
    assert not cluster.is_admitted("back-3"), "one of two"
    cluster.pod("back-4", "back", **members)
    cluster.until(lambda: cluster.has_quota("back-3"))
    assert all(map(cluster.is_ending, ("back-1", "back-2")))
    cluster.report("back-1", "Failed")
    assert not any(map(cluster.is_admitted, ("back-3", "back-4"))), "both start, or none"
    cluster.report("back-2", "Failed")
    cluster.run("back-3", "back-4")
    for name in ("back-3", "back-4"):
        cluster.report(name, "Succeeded")
    cluster.until(lambda: cluster.condition("back-3", "Finished") == ("Succeeded", "Pods succeeded: 2/2."))
    cluster.until(lambda: not any(cluster.finalizers(f"back-{number}") for number in (1, 2, 3, 4)))


def test_the_youngest_excess_pod_is_deleted_and_a_deleted_workload_terminates_its_pods(cluster: KueueCluster) -> None:
    cluster.queue("crowd", 2)
    members: dict[str, Any] = {"labels": {GROUP_NAME: "crowd"}, "annotations": {TOTAL: "2"}}
    for name in ("crowd-1", "crowd-2"):
        cluster.pod(name, "crowd", **members)
    cluster.run("crowd-1", "crowd-2")
    cluster.pod("crowd-3", "crowd", **members)
    cluster.until(lambda: not cluster.is_there("crowd-3"))
    cluster.delete_workload("crowd")
    cluster.until(lambda: all(map(cluster.is_ending, ("crowd-1", "crowd-2"))))
    cluster.until(lambda: not cluster.finalizers("crowd-1") and not cluster.finalizers("crowd-2"))
    cluster.until(lambda: not cluster.workloads("crowd-1"))


def test_with_the_gate_off_a_preemptor_waits_until_its_victim_has_ended_or_is_overdue(cluster: KueueCluster) -> None:
    """The last scenario of this module, because the feature gate stays off."""
    cluster.switch(OFF)
    for story, grace_s in (("slow", GRACE_S), ("stuck", 5)):
        cluster.queue(story, 1, **PREEMPTS)
        cluster.pod(f"{story}-victim", story, grace_s=grace_s)
        cluster.run(f"{story}-victim")
        cluster.pod(f"{story}-urgent", story, "high")
    cluster.until(lambda: cluster.is_ending("slow-victim"))
    cluster.until(lambda: cluster.is_admitted("stuck-urgent"))
    assert cluster.is_ending("stuck-victim"), "nobody ended it: it is overdue"
    assert not cluster.is_admitted("slow-urgent"), "its victim was told to end before the other one was"
    cluster.report("slow-victim", "Failed")
    cluster.until(lambda: cluster.is_admitted("slow-urgent"))
