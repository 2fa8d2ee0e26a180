"""The engine: which workloads are admitted in which order, the reasons of pending ones, and which events wake them."""

from __future__ import annotations

import pytest

from headgate.quota.effects import Admit, Effect, Evict
from kueue_builders import a_pod_set
from quota_engine import Api

_WITHIN = {"withinClusterQueue": "LowerPriority"}


def admits(effects: list[Effect]) -> list[str]:
    return [each.key.removeprefix("ns/") for each in effects if isinstance(each, Admit)]


def evicts(effects: list[Effect]) -> list[str]:
    return [each.key.removeprefix("ns/") for each in effects if isinstance(each, Evict)]


def test_a_workload_that_fits_is_admitted_and_another_reports_the_shortage() -> None:
    api = Api()
    api.queue()
    api.submit("a", cpu=6)
    api.submit("b", cpu=6)
    assert admits(api.cycle()) == ["a"]
    assert api.condition("b") == (
        "False",
        "WaitingForQuota",
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed",
    )
    api.finish("a")
    assert admits(api.cycle()) == ["b"]


def test_many_of_one_queue_are_admitted_in_one_cycle_by_priority_and_age() -> None:
    api = Api()
    api.queue()
    for number in range(12):
        api.submit(f"w{number:02}", cpu=1, priority=number % 2, at_s=number)
    assert admits(api.cycle()) == ["w01", "w03", "w05", "w07", "w09", "w11", "w00", "w02", "w04", "w06"]


def test_a_small_workload_passes_the_head_of_a_best_effort_queue_but_not_of_a_strict_one() -> None:
    for strategy, expected in (("BestEffortFIFO", ["small"]), ("StrictFIFO", [])):
        api = Api()
        api.queue(queueingStrategy=strategy)
        api.submit("holder", cpu=5)
        api.cycle()
        api.submit("large", cpu=6, at_s=1)
        api.submit("small", cpu=1, at_s=2)
        assert admits(api.cycle()) == expected
        api.finish("holder")
        assert "large" in admits(api.cycle())


def test_of_two_queues_the_one_that_does_not_borrow_comes_first() -> None:
    api = Api()
    for name in ("one", "two"):
        api.queue(name, {"default": {"cpu": 4}}, local=name, cohortName="co")
    api.submit("borrows", cpu=5, queue="one", priority=9)
    api.submit("does-not", cpu=4, queue="two")
    assert admits(api.cycle()) == ["does-not"]
    assert "1 more needed" in api.condition("borrows")[2]


def test_a_parked_workload_is_woken_only_by_what_could_help_it() -> None:
    api = Api()
    api.flavor("spot")
    api.queue("cq", {"default": {"cpu": 4}}, {"spot": {"memory": 4}})
    api.submit("cpu", cpu=3)
    api.submit("memory", a_pod_set(requests={"memory": 3}))
    api.cycle()
    api.submit("waits", cpu=3)
    api.cycle()
    assert not api.engine.queue_manager.is_ready("cq")
    api.finish("memory")
    assert not api.engine.queue_manager.is_ready("cq")
    api.finish("cpu")
    assert api.engine.queue_manager.is_ready("cq")
    assert admits(api.cycle()) == ["waits"]


def test_too_little_free_quota_wakes_no_workload_that_cannot_preempt() -> None:
    api = Api()
    api.queue()
    api.submit("large", cpu=7)
    api.submit("small", cpu=2)
    api.cycle()
    api.submit("waits", cpu=5)
    api.cycle()
    api.finish("small")
    assert not api.engine.queue_manager.is_ready("cq")
    api.finish("large")
    assert api.engine.queue_manager.is_ready("cq")


def test_a_limit_that_another_queue_of_the_cohort_ends_is_not_named_any_more() -> None:
    """The second workload of a shape is not tried while the first one waits."""
    api = Api()
    api.queue("cq", {"default": {"cpu": 1}}, cohortName="all")
    api.queue("lender", {"default": {"cpu": 1}}, cohortName="all", local="other")
    api.submit("holder", cpu=1, queue="other")
    api.cycle()
    api.submit("x", cpu=3, at_s=20)
    api.cycle()
    assert api.condition("x")[1] == "ExceedsMaxQuota"
    api.submit("y", cpu=3, at_s=10)
    api.cycle()
    api.queue("lender", {"default": {"cpu": 2}}, cohortName="all", local="")
    api.cycle()
    assert api.condition("y")[1] == "WaitingForQuota"
    assert api.condition("x") == api.condition("y")


def test_a_thousand_of_one_shape_cost_one_attempt() -> None:
    api = Api()
    api.queue()
    api.submit("holder", cpu=10)
    api.cycle()
    for number in range(1000):
        api.submit(f"w{number}", cpu=1, at_s=number)
    effects = api.cycle()
    assert len([each for each in effects if not isinstance(each, Admit)]) == 2  # one condition, one Event
    api.submit("another", cpu=1, at_s=2000)
    assert api.cycle() == []


def test_the_preemptor_waits_for_its_victims_and_gets_their_quota() -> None:
    api = Api()
    api.queue(preemption=_WITHIN)
    api.submit("low-a", cpu=5)
    api.submit("low-b", cpu=5)
    api.cycle()
    api.submit("high", cpu=8, priority=5)
    assert sorted(evicts(api.cycle())) == ["low-a", "low-b"]
    status, reason, message = api.condition("high")
    assert (status, reason) == ("False", "WaitingForPreemptedWorkloads")
    assert message.endswith("Pending the preemption of 2 workload(s)")
    assert api.condition("low-a", "Preempted")[1] == "InClusterQueue"
    assert "preemptor path: /cq; preemptee path: /cq" in api.condition("low-a", "Evicted")[2]

    api.submit("thief", cpu=2, priority=9)  # would fit what the first victim leaves
    api.gone("low-a")
    assert admits(api.cycle()) == []
    api.gone("low-b")
    assert admits(api.cycle()) == ["high", "thief"]


def test_freed_quota_is_not_taken_by_another_queue_of_the_cohort() -> None:
    api = Api()
    api.queue(
        "lender", {"default": {"cpu": 10}}, local="lender", cohortName="co", preemption={"reclaimWithinCohort": "Any"}
    )
    api.queue("borrower", {"default": {"cpu": 0}}, local="borrower", cohortName="co")
    api.submit("one", cpu=5, queue="borrower")
    api.submit("two", cpu=5, queue="borrower")
    api.cycle()
    api.submit("owner", cpu=10, queue="lender")
    assert sorted(evicts(api.cycle())) == ["one", "two"]
    api.submit("thief", cpu=5, queue="borrower", priority=9)
    api.gone("one")
    assert admits(api.cycle()) == []
    api.gone("two")
    assert admits(api.cycle()) == ["owner"]


def test_slow_victims_do_not_cause_more_evictions() -> None:
    api = Api()
    api.queue(preemption=_WITHIN)
    for name in ("a", "b"):
        api.submit(name, cpu=5)
    api.cycle()
    api.submit("high", cpu=5, priority=5)
    assert len(evicts(api.cycle())) == 1
    for _ in range(3):
        api.change("high", lambda wire: wire["metadata"].update(labels={"x": "y"}))
        assert evicts(api.pass_s(10)) == []


def test_two_preemptors_take_two_victims_at_once() -> None:
    api = Api()
    for name in ("one", "two"):
        api.queue(name, {"default": {"cpu": 5}}, local=name, cohortName="co", preemption={"reclaimWithinCohort": "Any"})
    api.queue("borrower", {"default": {"cpu": 0}}, local="borrower", cohortName="co")
    api.submit("a", cpu=5, queue="borrower")
    api.submit("b", cpu=5, queue="borrower")
    api.cycle()
    api.submit("first", cpu=5, queue="one")
    api.submit("second", cpu=5, queue="two")
    assert sorted(evicts(api.cycle())) == ["a", "b"]
    api.gone("a")
    api.gone("b")
    assert sorted(admits(api.cycle())) == ["first", "second"]


@pytest.mark.parametrize("is_shown", [True, False])
def test_a_preemptor_that_borrows_gets_the_quota_of_its_victim_before_the_victim_is_admitted_again(
    is_shown: bool,
) -> None:
    """The victim comes first in its StrictFIFO queue and does not borrow, so the queue reserves quota in each round.
    ``is_shown``: the watch has shown the condition that the engine wrote."""
    api = Api()
    api.queue("lender", {"default": {"cpu": 3}}, local="lender", cohortName="co", queueingStrategy="StrictFIFO")
    reclaims = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": {"policy": "LowerPriority"}}
    api.queue("borrower", {"default": {"cpu": 1}}, local="borrower", cohortName="co", preemption=reclaims)
    api.submit("other", cpu=1, queue="lender")
    api.cycle()
    api.now_s += 1
    api.submit("victim", cpu=3, queue="lender")
    assert admits(api.cycle()) == ["victim"]
    api.lag = not is_shown
    api.submit("preemptor", cpu=2, queue="borrower", priority=1)
    assert evicts(api.cycle()) == ["victim"]
    api.finish("other")
    assert admits(api.cycle()) == []
    api.gone("victim")
    assert admits(api.cycle()) == ["preemptor"]


def test_a_new_head_of_a_strict_queue_takes_over_the_claim_of_the_preemptor() -> None:
    api = Api()
    api.queue(preemption=_WITHIN, queueingStrategy="StrictFIFO")
    api.submit("low", cpu=10)
    api.cycle()
    api.submit("high", cpu=6, priority=5)
    assert evicts(api.cycle()) == ["low"]
    api.submit("higher", cpu=6, priority=9)
    api.cycle()
    api.gone("low")
    assert admits(api.cycle()) == ["higher"]


def test_a_deleted_preemptor_leaves_the_freed_quota_to_other_workloads() -> None:
    api = Api()
    api.queue(preemption=_WITHIN)
    api.submit("low", cpu=10)
    api.cycle()
    api.submit("high", cpu=10, priority=5)
    api.cycle()
    api.submit("other", cpu=10)
    api.gone("low")
    api.cycle()
    api.remove("workload", "ns/high")
    assert admits(api.cycle()) == ["low"]


def test_partial_admission_uses_the_available_quota() -> None:
    api = Api()
    api.queue()
    api.submit("holder", cpu=7)
    api.cycle()
    api.submit("part", a_pod_set(count=10, minCount=1, requests={"cpu": 1}))
    effects = api.cycle()
    assert [each.admission.pod_sets[0].count for each in effects if isinstance(each, Admit)] == [3]


def test_workloads_whose_pods_are_all_reclaimable_end_one_after_the_other() -> None:
    api = Api()
    api.queue()
    for name in ("a", "b"):
        api.submit(name, cpu=1)
    api.cycle()
    for name in ("a", "b"):
        api.change(name, lambda wire: wire["status"].update(reclaimablePods=[{"name": "main", "count": 1}]))
    for name in ("a", "b"):
        api.finish(name)
    api.submit("next", cpu=10)
    assert admits(api.cycle()) == ["next"]


def test_reclaimable_pods_release_their_quota_at_once() -> None:
    api = Api()
    api.queue()
    api.submit("job", a_pod_set(count=10, requests={"cpu": 1}))
    api.cycle()
    api.submit("next", cpu=4)
    assert admits(api.cycle()) == []
    api.change("job", lambda wire: wire["status"].update(reclaimablePods=[{"name": "main", "count": 4}]))
    assert admits(api.cycle()) == ["next"]


def test_a_late_watch_admits_no_workload_twice() -> None:
    api = Api()
    api.queue()
    api.submit("a", cpu=6)
    before = dict(api.objects["workload", "ns/a"])
    api.lag = True
    assert admits(api.cycle()) == ["a"]
    api.engine.workload_applied(before, api.now_s)
    api.submit("b", cpu=6)
    assert admits(api.cycle()) == []
    api.lag = False
    api.engine.workload_applied(api.objects["workload", "ns/a"], api.now_s)
    assert admits(api.cycle()) == []


def test_a_rejected_write_releases_its_quota() -> None:
    api = Api()
    api.queue()
    api.submit("a", cpu=6)
    effects = api.engine.run_cycle(api.now_s)
    api.engine.refused(effects[0], api.now_s)
    assert admits(api.engine.run_cycle(api.now_s)) == ["a"]


def test_a_victim_whose_eviction_was_rejected_is_evicted_again() -> None:
    api = Api()
    api.queue(preemption=_WITHIN)
    api.submit("low", cpu=10)
    api.cycle()
    api.submit("high", cpu=10, priority=1)
    (refused,) = (each for each in api.engine.run_cycle(api.now_s) if isinstance(each, Evict))
    holder = api.engine.ledger.get("ns/low")
    assert holder is not None
    assert holder.is_evicted
    api.engine.refused(refused, api.now_s)
    holder = api.engine.ledger.get("ns/low")
    assert holder is not None
    assert not holder.is_evicted
    assert evicts(api.cycle()) == ["low"]


def test_a_restarted_engine_makes_the_same_decisions() -> None:
    api = Api()
    api.queue(preemption=_WITHIN)
    api.submit("low", cpu=9)
    api.cycle()
    api.submit("high", cpu=9, priority=1)
    api.cycle()
    api.restart()
    assert [each for each in api.cycle() if isinstance(each, Admit | Evict)] == []
    api.gone("low")
    assert admits(api.cycle()) == ["high"]


def test_cohorts_in_a_cycle_stop_only_their_queues() -> None:
    api = Api()
    api.queue("good", local="good")
    api.queue("bad", local="bad", cohortName="x")
    api.cohort("x", "y")
    api.cohort("y", "x")
    assert api.engine.cache.activity["bad"].message == (
        "Can't admit new workloads: is below cohorts that lead in a circle: x,y."
    )
    api.submit("stays", cpu=1, queue="bad")
    api.submit("goes", cpu=1, queue="good")
    assert admits(api.cycle()) == ["goes"]
    assert api.condition("stays") == ("False", "Suspended", "ClusterQueue bad is inactive")
    api.cohort("y", "")
    assert admits(api.cycle()) == ["stays"]


def test_an_invalid_object_stops_no_other_one() -> None:
    api = Api()
    api.queue("good", local="good")
    api.queue("bad", {"default": {"cpu": -1}}, local="bad")
    api.submit("poisoned", a_pod_set(requests={"cpu": "much"}), queue="good")
    api.submit("fine", cpu=1, queue="good")
    api.submit("lost", cpu=1, queue="bad")
    assert admits(api.cycle()) == ["fine"]
    assert "is negative" in api.engine.cache.problems["ClusterQueue", "bad"]
    assert api.condition("poisoned")[1] == "Misconfigured"
    assert api.condition("lost") == ("False", "Misconfigured", "ClusterQueue bad doesn't exist")


def test_a_recreated_queue_counts_the_quota_that_is_still_held() -> None:
    api = Api()
    api.queue()
    api.submit("a", cpu=6)
    api.cycle()
    api.remove("cluster_queue", "cq")
    api.queue()
    api.submit("b", cpu=6)
    assert admits(api.cycle()) == []
