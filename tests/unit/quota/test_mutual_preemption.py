"""Two queues that reclaim quota from each other come to rest, also if both have borrowers of a high priority."""

from __future__ import annotations

from headgate.quota.effects import Admit, Evict
from quota_engine import Api

_PREEMPTION = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
_MOST_CYCLES = 20


def two_lenders() -> Api:
    api = Api()
    for name in ("research", "product"):
        api.queue(name, {"default": {"cpu": 8}}, local=name, cohortName="all", preemption=_PREEMPTION)
    return api


def submit_in_turn(api: Api, *workloads: tuple[str, str, int, int]) -> None:
    """Each workload: name, queue, CPUs, priority."""
    for name, queue, cpu, priority in workloads:
        api.now_s += 1
        api.submit(name, cpu=cpu, queue=queue, priority=priority)
        api.cycle()


def evictions_until_rest(api: Api) -> list[str]:
    """The evictions by cycles without another event. Evicted workloads release their quota at once."""
    evicted: list[str] = []
    for _ in range(_MOST_CYCLES):
        api.now_s += 1
        decided = [each for each in api.cycle() if isinstance(each, Admit | Evict)]
        if not decided:
            return evicted
        for effect in decided:
            if isinstance(effect, Evict):
                name = effect.key.removeprefix("ns/")
                evicted.append(name)
                api.gone(name)
    raise AssertionError(f"evictions do not end: {evicted}")


def test_queues_that_reclaim_from_each_other_come_to_rest() -> None:
    api = two_lenders()
    submit_in_turn(
        api,
        ("research-base", "research", 5, 100),
        ("research-small", "research", 1, 0),
        ("product-base", "product", 1, 100),
        ("product-least", "product", 1, 0),
        ("product-large", "product", 8, 100),
        ("research-large", "research", 8, 100),
        ("research-waiting", "research", 8, 0),
        ("product-waiting", "product", 8, 0),
        ("product-small", "product", 1, 0),
        ("product-medium", "product", 4, 0),
    )
    api.now_s += 1
    api.submit("reclaiming", cpu=2, queue="research")
    assert evictions_until_rest(api) == ["product-large"]
    assert {"reclaiming", "product-small", "product-medium"} <= set(api.admitted())


def a_workload_that_reclaimed(api: Api) -> None:
    submit_in_turn(
        api,
        ("own", "research", 6, 100),
        ("small", "product", 1, 100),
        ("borrower", "product", 9, 0),
        ("reclaiming", "research", 2, 0),
    )
    api.gone("borrower")
    api.cycle()
    assert api.admitted() == ["own", "reclaiming", "small"]


def test_a_borrower_does_not_evict_a_workload_of_its_queue_that_reclaimed_its_quota() -> None:
    api = two_lenders()
    a_workload_that_reclaimed(api)
    api.submit("large", cpu=8, queue="research", priority=100)
    assert evictions_until_rest(api) == []
    assert api.admitted() == ["own", "reclaiming", "small"]


def test_a_workload_within_the_quota_of_its_queue_evicts_one_that_reclaimed_its_quota() -> None:
    api = two_lenders()
    a_workload_that_reclaimed(api)
    submit_in_turn(api, ("rest", "product", 7, 100))
    api.submit("important", cpu=1, queue="research", priority=100)
    assert evictions_until_rest(api) == ["reclaiming"]
    assert api.admitted() == ["important", "own", "rest", "small"]
