"""The explanation of a pending workload: position, shortage and holders."""

from __future__ import annotations

from headgate.quota.explain.explanation import explain_workload
from headgate.quota.explain.remedies import find_remedy
from kueue_builders import a_pod_set
from quota_engine import Api


def test_an_explanation_has_position_shortage_holders_and_workloads_to_end() -> None:
    api = Api()
    api.queue("cq", {"default": {"cpu": (6, None, None)}}, cohortName="co")
    api.queue("other", {"default": {"cpu": 4}}, local="other", cohortName="co")
    api.submit("large", cpu=5)
    api.submit("small", cpu=3, queue="other")
    api.cycle()
    api.now_s += 10
    api.submit("newest", cpu=1)
    api.cycle()
    api.submit("first", cpu=3)
    api.submit("second", cpu=3, at_s=99)
    api.cycle()
    found = explain_workload(api.engine, "ns/second", api.now_s)
    assert (found.state, found.queue, found.position) == ("Pending", "cq", 1)
    assert found.reason is not None
    assert found.reason.reason == "WaitingForQuota"
    (shortage,) = found.shortages
    assert (shortage.flavor, shortage.resource, shortage.asked) == ("default", "cpu", 3000)
    assert (shortage.available, shortage.most) == (1000, 10000)
    assert [(each.key, each.amount) for each in shortage.held_by] == [
        ("ns/large", 5000),
        ("ns/small", 3000),
        ("ns/newest", 1000),
    ]
    assert find_remedy(api.engine, "ns/second", api.now_s).workloads_to_end == ("ns/newest", "ns/large")
    assert [(name, each.flavor) for name, each in found.attempts] == [("main", "default")]


def test_behind_the_head_of_a_strict_queue_the_explanation_names_the_head() -> None:
    api = Api()
    api.queue(queueingStrategy="StrictFIFO")
    api.submit("holder", cpu=8)
    api.cycle()
    api.submit("first", cpu=9)
    api.submit("second", cpu=1, at_s=5)
    api.cycle()
    found = explain_workload(api.engine, "ns/second", api.now_s)
    assert (found.behind, found.position) == ("ns/first", 1)
    assert found.reason is not None
    assert "7 more needed" in found.reason.message


def test_an_explanation_changes_no_state() -> None:
    api = Api()
    api.queue(preemption={"withinClusterQueue": "LowerPriority"})
    api.submit("low", cpu=10)
    api.cycle()
    api.submit("high", cpu=5, priority=1)
    api.cycle()
    assert explain_workload(api.engine, "ns/low", api.now_s).state == "Evicted"
    before = dict(api.engine.ledger.claims())
    assert explain_workload(api.engine, "ns/high", api.now_s).would_evict == ()
    assert dict(api.engine.ledger.claims()) == before
    api.gone("low")
    api.cycle()
    assert explain_workload(api.engine, "ns/high", api.now_s).state == "QuotaReserved"


def test_the_explanation_says_why_a_flavor_with_free_quota_is_not_for_the_workload() -> None:
    """It waits for quota of another flavor, which an evicted workload still holds."""
    api = Api()
    for name in ("one", "two"):
        api.flavor(name, labels={"flavor": name})
    quotas = {"one": {"cpu": 4}, "two": {"cpu": 4}}
    api.queue("cq", quotas, annotations={"headgate.dev/dequeue-strategy": "backfill"})
    api.submit("holder", a_pod_set(requests={"cpu": 1}, nodeSelector={"flavor": "one"}))
    api.submit("evicted", a_pod_set(requests={"cpu": 4}, nodeSelector={"flavor": "two"}))
    api.cycle()
    api.submit("large", a_pod_set(requests={"cpu": 4}, nodeSelector={"flavor": "one"}), at_s=1)
    api.change("evicted", lambda wire: wire["spec"].update(active=False))
    api.submit("any", a_pod_set(requests={"cpu": 2}), at_s=2)
    api.cycle()
    found = explain_workload(api.engine, "ns/any", api.now_s)
    assert found.delay is None
    assert [(each.flavor, each.reasons) for _, each in found.attempts] == [
        (
            "one",
            ("quota in flavor one would delay workload ns/large, the first in line of ClusterQueue cq",),
        ),
        ("two", ("insufficient unused quota for cpu in flavor two, 2 more needed",)),
    ]
    assert [(each.flavor, [held.key for held in each.held_by]) for each in found.shortages] == [("two", ["ns/evicted"])]


def test_a_workload_in_no_queue_gets_the_reason() -> None:
    api = Api()
    api.submit("early", cpu=1)
    api.submit("bad", a_pod_set(requests={"cpu": "x"}))
    found = explain_workload(api.engine, "ns/early", api.now_s)
    assert found.state == "Inadmissible"
    assert found.reason is not None
    assert found.reason.message == "LocalQueue lq doesn't exist"
    assert explain_workload(api.engine, "ns/bad", api.now_s).state == "SetAside"
    assert explain_workload(api.engine, "ns/nobody", api.now_s).state == "NotFound"
