"""An admission that is not written yet is withdrawn, not evicted, when its quota is reclaimed."""

from __future__ import annotations

from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.api.workload import Workload, read_workload
from headgate.quota.cycle.admission_cycle import UnwrittenAdmissions
from headgate.quota.effects import Admit, Effect, Evict, SetCondition
from headgate.quota.queues.queue_manager import PendingWorkload
from kueue_builders import a_workload
from quota_engine import Api
from quota_load import BACKLOG, EngineDecider, run

_RECLAIMS = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}


def lender_and_borrower(quota: int) -> Api:
    api = Api()
    for name, nominal in (("lender", quota), ("borrower", 0)):
        api.queue(name, {"default": {"cpu": nominal}}, local=name, cohortName="co", preemption=_RECLAIMS)
    return api


def admits(effects: list[Effect]) -> list[str]:
    return [each.key.removeprefix("ns/") for each in effects if isinstance(each, Admit)]


def evicts(effects: list[Effect]) -> list[str]:
    return [each.key.removeprefix("ns/") for each in effects if isinstance(each, Evict)]


def test_a_workload_that_borrows_in_one_round_and_loses_it_in_the_next_is_not_evicted() -> None:
    api = lender_and_borrower(10)
    api.submit("holder", cpu=10, queue="lender")
    api.cycle()
    api.submit("borrowing", cpu=5, queue="borrower", at_s=1)
    api.submit("first", cpu=5, queue="lender", at_s=2)
    api.submit("second", cpu=5, queue="lender", at_s=3)
    api.finish("holder")
    effects = api.cycle()
    assert (admits(effects), evicts(effects)) == (["first", "second"], [])
    assert api.condition("borrowing")[:2] == ("False", "WaitingForQuota")
    assert not [each for each in api.events if "preempt" in each.message.lower()]


def test_a_withdrawn_workload_keeps_its_position_and_is_admitted_when_quota_is_free() -> None:
    api = lender_and_borrower(10)
    api.submit("holder", cpu=10, queue="lender")
    api.cycle()
    for number in range(2):
        api.submit(f"borrowing{number}", cpu=5, queue="borrower", at_s=1 + number)
        api.submit(f"own{number}", cpu=5, queue="lender", at_s=5 + number)
    api.finish("holder")
    api.cycle()
    assert api.admitted() == ["own0", "own1"]
    api.finish("own0")
    assert admits(api.cycle()) == ["borrowing0"]


def test_a_written_admission_is_evicted() -> None:
    api = lender_and_borrower(10)
    api.submit("borrowing", cpu=5, queue="borrower")
    api.submit("first", cpu=5, queue="lender", at_s=1)
    assert admits(api.cycle()) == ["first", "borrowing"]
    api.submit("second", cpu=5, queue="lender", at_s=2)
    effects = api.cycle()
    assert (admits(effects), evicts(effects)) == ([], ["borrowing"])


def test_a_preemptor_that_only_withdraws_waits_for_evicted_workloads() -> None:
    api = lender_and_borrower(11)
    api.submit("going", cpu=5, queue="borrower")
    api.cycle()
    api.change("going", lambda wire: wire["spec"].update(active=False))
    api.submit("borrowing", cpu=5, queue="borrower", at_s=1)
    api.submit("small", cpu=1, queue="lender", priority=1, at_s=2)
    api.submit("large", cpu=10, queue="lender", at_s=3)
    effects = api.cycle()
    assert (admits(effects), evicts(effects)) == (["small"], [])
    status, reason, message = api.condition("large")
    assert (status, reason) == ("False", "WaitingForPreemptedWorkloads")
    assert message.endswith("Pending the release of quota by evicted workload(s)")
    api.gone("going")
    assert admits(api.cycle()) == ["large"]


def test_the_load_of_kueues_benchmark_evicts_no_workload_in_the_cycle_of_its_admission() -> None:
    found = run(BACKLOG, EngineDecider(), 60)
    assert not [tick for tick in found.ticks if found.admitted[tick] & found.evicted[tick]]
    assert found.evictions == 92


def a_waiter(name: str, queue: str) -> PendingWorkload:
    workload = read_workload(a_workload(name))
    assert isinstance(workload, Workload)
    return PendingWorkload(workload, queue, 0.0, workload.shape)


def a_holder(waiter: PendingWorkload) -> QuotaHolder:
    return QuotaHolder(waiter.key, waiter.workload.uid, waiter.queue, {}, 0, 0.0, 0.0)


def test_only_the_last_admissions_of_a_queue_are_withdrawn() -> None:
    unwritten, waiters = UnwrittenAdmissions(), [a_waiter(f"w{number}", "cq") for number in range(3)]
    for at, waiter in enumerate(waiters):
        unwritten.add(waiter, at)
    first, second, third = map(a_holder, waiters)
    assert unwritten.withdrawable([first, second]) == frozenset()
    assert unwritten.withdrawable([first, third]) == {third.key}
    assert unwritten.withdrawable([second, third]) == {second.key, third.key}
    elsewhere = a_holder(a_waiter("elsewhere", "other"))
    assert unwritten.withdrawable([elsewhere, third]) == {third.key}


def test_a_workload_is_withdrawn_once_in_a_cycle() -> None:
    unwritten, waiter = UnwrittenAdmissions(), a_waiter("w", "cq")
    unwritten.add(waiter, 3)
    assert unwritten.withdraw(waiter.key, "cq") == (waiter, 3)
    unwritten.add(waiter, 7)
    assert unwritten.withdrawable([a_holder(waiter)]) == frozenset()


def waiting_then_admitted() -> tuple[Api, SetCondition]:
    """``first`` is admitted, and nothing of it is written yet: neither the admission nor the condition of before."""
    api = Api()
    api.queue("cq", {"default": {"cpu": 5}})
    api.submit("holder", cpu=5)
    api.cycle()
    api.submit("first", cpu=5, at_s=1)
    decided = api.engine.run_cycle(api.now_s)
    (condition,) = (each for each in decided if isinstance(each, SetCondition) and each.key == "ns/first")
    api.finish("holder")
    assert admits(api.engine.run_cycle(api.now_s)) == ["first"]
    api.submit("second", cpu=5, at_s=2)
    return api, condition


def test_the_write_of_an_earlier_condition_does_not_confirm_an_admission() -> None:
    api, condition = waiting_then_admitted()
    api.revision += 1
    api.engine.written(condition, api.revision)
    api.change("first", lambda wire: wire["metadata"].setdefault("labels", {}).update(a="b"))
    assert admits(api.engine.run_cycle(api.now_s)) == [], "the quota belongs to the admission that is written next"


def test_the_rejection_of_an_earlier_condition_does_not_undo_an_admission() -> None:
    api, condition = waiting_then_admitted()
    api.engine.refused(condition, api.now_s)
    assert admits(api.engine.run_cycle(api.now_s)) == []
