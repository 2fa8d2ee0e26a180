"""Fast quota release (KEP-6143) on the embedded server and on a real one: quota is free while its pods still end.

Nobody ends a pod here but the story, so who is admitted beside a pod that terminates was given quota that one held.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.either import MAKES
from queued import GROUP_NAME, TOTAL
from real.kueue_cluster import GRACE_S, KueueCluster

pytestmark = pytest.mark.real

PREEMPTS = {"preemption": {"withinClusterQueue": "LowerPriority"}}
OFF = "PodIntegrationFastQuotaRelease=false"
ON = "PodIntegrationFastQuotaRelease=true"
MANY = 10


@pytest.fixture(scope="module", params=MAKES)
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
    cluster.until(lambda: cluster.is_admitted("deleted-next"))
    assert cluster.is_ending("deleted-first")


def test_a_preemptor_is_admitted_while_its_victim_terminates(cluster: KueueCluster) -> None:
    cluster.queue("preempted", 1, **PREEMPTS)
    cluster.pod("victim", "preempted")
    cluster.run("victim")
    cluster.pod("urgent", "preempted", "high")
    cluster.until(lambda: cluster.is_admitted("urgent"))
    assert cluster.is_ending("victim")


def test_many_preemptors_with_a_victim_each_do_not_wait_for_one_another(cluster: KueueCluster) -> None:
    cluster.queue("many", MANY, **PREEMPTS)
    victims = [f"many-victim-{number}" for number in range(MANY)]
    urgent = [f"many-urgent-{number}" for number in range(MANY)]
    for name in victims:
        cluster.pod(name, "many")
    cluster.run(*victims)
    for name in urgent:
        cluster.pod(name, "many", "high")
    cluster.until(lambda: all(map(cluster.is_admitted, urgent)))
    assert all(map(cluster.is_ending, victims))


def test_a_group_holds_its_quota_until_the_last_of_it_terminates(cluster: KueueCluster) -> None:
    cluster.queue("grouped", 2, **PREEMPTS)
    for name in ("pair-1", "pair-2"):
        cluster.pod(name, "grouped", labels={GROUP_NAME: "pair"}, annotations={TOTAL: "2"})
    cluster.run("pair-1", "pair-2")
    cluster.pod("grouped-urgent", "grouped", "high")
    cluster.until(lambda: cluster.is_admitted("grouped-urgent"))
    assert all(map(cluster.is_ending, ("pair-1", "pair-2")))
    (workload,) = cluster.workloads("pair-1")
    assert "admission" not in workload["status"]


def test_with_the_gate_off_a_preemptor_waits_until_its_victim_has_ended_or_is_overdue(cluster: KueueCluster) -> None:
    """The last story here: nobody switches it on again."""
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
