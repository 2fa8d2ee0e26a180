"""volcano#4710: a queue with capacity for one of five pods, no nodes, and an autoscaler."""

from __future__ import annotations

import pytest

from headgate.audit.auditor import AuditResult, audit
from unit.audit.virtual_history import RecordedCluster


def run_with(*, gated: bool) -> AuditResult:
    cluster = RecordedCluster(autoscaler=True)
    cluster.queue("team", "1")
    for number in range(5):
        cluster.pod(f"worker-{number}", "team", gated=gated)
    cluster.run(600)
    return audit(cluster.observer.ordered(), until_s=cluster.cluster.now_s)


def test_without_gates_the_bill_shows_four_machines_for_pods_that_the_queue_would_not_admit() -> None:
    result = run_with(gated=False)
    wasted = result.bill.wasted
    assert len(result.bill.machines) == 5
    assert len(wasted) == 4
    assert all(set(each.bought_for) == {f"default/worker-{number}" for number in range(1, 5)} for each in wasted)
    assert result.bill.unused == ()
    assert sum(each.cost for each in wasted) == pytest.approx(
        sum(each.hours for each in wasted) * (0.031611 + 4 * 0.004237)
    )
    assert result.findings == ()


def test_with_gates_no_machine_is_wasted() -> None:
    result = run_with(gated=True)
    assert len(result.bill.machines) == 1
    assert result.bill.wasted == result.bill.unused == ()
    assert result.findings == ()


def test_promises_that_wait_for_a_machine_are_on_the_bill_until_it_runs() -> None:
    result = run_with(gated=True)
    (held,) = result.bill.quota
    assert (held.queue, held.state) == ("team", "unplaced")
    assert 0 < held.hours < 0.1
    assert held.amounts == {"cpu": pytest.approx(held.hours)}
    assert held.cost == pytest.approx(held.hours * 0.031611)


def test_a_history_of_headgates_own_engines_is_clean() -> None:
    cluster = RecordedCluster(nodes=2, autoscaler=True)
    cluster.queue("team", "3")
    cluster.queue("part", "2", parent="team")
    for wave in range(3):
        for number in range(4):
            queue = "part" if number % 2 else "team"
            cluster.pod(f"pod-{wave}-{number}", queue, gated=True, run_s=60 * (number + 1))
        cluster.run(90)
        cluster.delete_pod(f"pod-{wave}-3")
    cluster.run(1200)
    changes = cluster.observer.ordered()
    result = audit(changes, until_s=cluster.cluster.now_s)
    assert sum(each.resource == "pods" for each in changes) > 40
    assert result.findings == ()
    assert result.unreadable == ()
