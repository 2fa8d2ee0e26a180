"""Protection of the first in line of ClusterQueues: which workloads may pass it, and which wait behind it.

One file, longer than a module should be: each test is one rule of ADR 0043, and the tests do not depend on each other.
"""

from __future__ import annotations

from typing import Any

import pytest

from headgate.quota.effects import Admit, Effect, Evict
from kueue_builders import START_S, a_pod_set
from quota_engine import Api

_BACKFILL = {"headgate.dev/dequeue-strategy": "backfill"}
_PROTECTED = "FirstInLineProtected"


def admits(effects: list[Effect]) -> list[str]:
    return [each.key.removeprefix("ns/") for each in effects if isinstance(each, Admit)]


def evicts(effects: list[Effect]) -> list[str]:
    return [each.key.removeprefix("ns/") for each in effects if isinstance(each, Evict)]


def pods(cpu: int, count: int = 1, grace_s: int = 0, **more: Any) -> dict[str, Any]:
    return a_pod_set(count=count, requests={"cpu": cpu}, terminationGracePeriodSeconds=grace_s, **more)


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_workload_that_would_delay_the_first_in_line_waits_and_says_why(strategy: str) -> None:
    api = Api()
    api.queue(annotations=_BACKFILL, queueingStrategy=strategy)
    api.submit("holder", cpu=6)
    api.cycle()
    api.submit("large", cpu=8, at_s=1)
    api.submit("small", cpu=3, at_s=2)
    assert admits(api.cycle()) == []
    assert api.condition("small") == (
        "False",
        _PROTECTED,
        "The workload could get quota; it would delay workload ns/large, the first in line of ClusterQueue cq, "
        "which is protected, may start at any time, and leaves 0 cpu in flavor default",
    )
    api.finish("holder")
    assert admits(api.cycle()) == ["large"]
    api.finish("large")
    assert admits(api.cycle()) == ["small"]


def test_without_the_annotation_small_workloads_pass_the_first() -> None:
    api = Api()
    api.queue()
    api.submit("holder", cpu=6)
    api.cycle()
    api.submit("large", cpu=8, at_s=1)
    api.submit("small", cpu=3, at_s=2)
    assert admits(api.cycle()) == ["small"]


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_workload_of_another_flavor_passes(strategy: str) -> None:
    api = Api()
    for name in ("h100", "a100"):
        api.flavor(name, labels={"gpu": name})
    api.queue("cq", {"h100": {"cpu": 4}, "a100": {"cpu": 4}}, annotations=_BACKFILL, queueingStrategy=strategy)
    api.submit("holder", pods(1, nodeSelector={"gpu": "h100"}))
    api.cycle()
    api.submit("large", pods(4, nodeSelector={"gpu": "h100"}), at_s=1)
    api.submit("same", pods(1, nodeSelector={"gpu": "h100"}), at_s=2)
    api.submit("other", pods(1, nodeSelector={"gpu": "a100"}), at_s=3)
    api.submit("any", pods(1), at_s=4)
    assert sorted(admits(api.cycle())) == ["any", "other"]
    assert api.condition("same")[1] == _PROTECTED


def test_a_workload_passes_on_what_the_first_leaves() -> None:
    api = Api()
    api.queue("cq", {"default": {"cpu": 10, "memory": 10}}, annotations=_BACKFILL)
    api.submit("holder", a_pod_set(requests={"cpu": 1, "memory": 8}))
    api.cycle()
    api.submit("large", a_pod_set(requests={"cpu": 5, "memory": 4}), at_s=1)
    api.submit("memory", a_pod_set(requests={"memory": 1}), at_s=2)
    api.submit("too-much", a_pod_set(requests={"cpu": 5}), at_s=3)
    api.submit("cpu", a_pod_set(requests={"cpu": 4}), at_s=4)
    assert admits(api.cycle()) == ["cpu"]
    assert api.condition("too-much")[2].endswith("may start at any time, and leaves 4 cpu in flavor default")


def test_a_workload_that_has_ended_before_the_first_can_start_passes() -> None:
    api = Api()
    api.queue(annotations=_BACKFILL)
    api.submit("holder", pods(6), maximumExecutionTimeSeconds=100)
    api.cycle()
    api.submit("large", pods(9), at_s=1)
    api.submit("long", pods(2), at_s=2, maximumExecutionTimeSeconds=101)
    api.submit("stops-slowly", pods(2, grace_s=10), at_s=3, maximumExecutionTimeSeconds=95)
    api.submit("short", pods(2), at_s=4, maximumExecutionTimeSeconds=100)
    assert admits(api.cycle()) == ["short"]
    assert "cannot start before 2023-11-14T22:15:00Z" in api.condition("long")[2]
    assert api.condition("stops-slowly")[1] == _PROTECTED


def test_two_workloads_that_differ_only_in_their_limits_are_tried_separately() -> None:
    api = Api()
    api.queue(annotations=_BACKFILL)
    api.submit("holder", pods(6), maximumExecutionTimeSeconds=100)
    api.cycle()
    api.submit("large", pods(9), at_s=1)
    api.submit("without", pods(2), at_s=2)
    api.submit("with", pods(2), at_s=3, maximumExecutionTimeSeconds=10)
    assert admits(api.cycle()) == ["with"]


def test_what_workloads_with_a_limit_release_by_then_is_spare() -> None:
    """The holder of 7 has surely ended when the first can start, so 4 are left then beside the first."""
    api = Api()
    api.queue(annotations=_BACKFILL)
    api.submit("long", pods(1), maximumExecutionTimeSeconds=200)
    api.submit("holder", pods(7), maximumExecutionTimeSeconds=100)
    api.cycle()
    api.submit("first", pods(5), at_s=1)
    api.submit("two", pods(2), at_s=2)
    assert admits(api.cycle()) == ["two"]
    api.finish("holder")
    assert admits(api.cycle()) == ["first"]


def test_a_limit_does_not_count_before_admission_checks_are_ready() -> None:
    api = Api()
    api.engine.check_applied("check", True, api.now_s)
    api.queue(annotations=_BACKFILL, admissionChecksStrategy={"admissionChecks": [{"name": "check", "onFlavors": []}]})
    api.submit("holder", pods(6), maximumExecutionTimeSeconds=100)
    api.cycle()
    assert api.admitted() == ["holder"]
    assert api.condition("holder", "Admitted")[0] != "True"
    api.submit("large", pods(8), at_s=1)
    api.submit("short", pods(2), at_s=2, maximumExecutionTimeSeconds=10)
    assert admits(api.cycle()) == []
    assert "may start at any time" in api.condition("short")[2]


def test_a_workload_that_can_never_fit_does_not_close_the_queue() -> None:
    api = Api()
    api.flavor("default", labels={"gpu": "a100"})
    api.queue(annotations=_BACKFILL, queueingStrategy="StrictFIFO")
    api.submit("holder", cpu=6)
    api.cycle()
    api.submit("never", cpu=11, at_s=1)
    api.submit("unmatched", pods(1, nodeSelector={"gpu": "h100"}), at_s=1)
    api.submit("small", cpu=3, at_s=2)
    assert "small" in admits(api.cycle())
    api.submit("large", cpu=8, at_s=3)
    api.submit("tiny", cpu=1, at_s=4)
    assert admits(api.cycle()) == []
    assert "ns/large" in api.condition("tiny")[2]


def test_a_workload_that_fits_only_with_larger_quota_is_protected_when_the_quota_grows() -> None:
    api = Api()
    api.queue(annotations=_BACKFILL)
    api.submit("holder", cpu=6)
    api.cycle()
    api.submit("never", cpu=12, at_s=1)
    api.submit("tiny", cpu=1, at_s=2)
    assert admits(api.cycle()) == ["tiny"]
    api.queue("cq", {"default": {"cpu": 13}}, annotations=_BACKFILL)
    api.submit("small", cpu=3, at_s=2)
    assert admits(api.cycle()) == []
    assert "ns/never" in api.condition("small")[2]


@pytest.mark.parametrize("change", ["delete", "deactivate", "unprotect", "stop"])
def test_workloads_behind_the_first_go_on_when_it_is_no_longer_protected(change: str) -> None:
    api = Api()
    api.queue("cq", {"default": {"cpu": 10}}, annotations=_BACKFILL, cohortName="co")
    api.queue("other", {"default": {"cpu": 0}}, local="other", cohortName="co")
    api.submit("holder", cpu=6)
    api.cycle()
    api.submit("large", cpu=8, at_s=1)
    api.submit("small", cpu=2, at_s=2)
    api.submit("elsewhere", cpu=2, at_s=3, queue="other")
    assert admits(api.cycle()) == []
    assert api.condition("small")[1] == api.condition("elsewhere")[1] == _PROTECTED
    match change:
        case "delete":
            api.remove("workload", "ns/large")
        case "deactivate":
            api.change("large", lambda wire: wire["spec"].update(active=False))
        case "unprotect":
            api.queue("cq", {"default": {"cpu": 10}}, cohortName="co")
        case "stop":
            api.queue("cq", {"default": {"cpu": 10}}, annotations=_BACKFILL, cohortName="co", stopPolicy="Hold")
    expected = ["elsewhere"] if change == "stop" else ["elsewhere", "small"]
    assert sorted(admits(api.cycle())) == expected


def a_cohort_of(api: Api, **nominal: int) -> None:
    """Queues in one cohort; ``first`` protects its first in line."""
    for name, cpu in nominal.items():
        annotations = _BACKFILL if name.startswith("first") else None
        api.queue(name, {"default": {"cpu": cpu}}, local=name, cohortName="co", annotations=annotations)


def test_another_queue_does_not_borrow_what_the_first_waits_for() -> None:
    api = Api()
    a_cohort_of(api, first=6, other=4)
    api.submit("holder", cpu=4, queue="first")
    api.cycle()
    api.submit("large", cpu=6, at_s=1, queue="first")
    api.submit("holder-2", cpu=4, queue="other")
    api.cycle()
    api.submit("borrows", cpu=2, at_s=2, queue="other")
    assert admits(api.cycle()) == []
    assert "ns/large, the first in line of ClusterQueue first" in api.condition("borrows")[2]
    api.finish("holder")
    assert admits(api.cycle()) == ["large"]


def test_another_queue_gets_its_own_quota_though_the_first_would_borrow_it() -> None:
    api = Api()
    a_cohort_of(api, first=2, other=8)
    api.submit("holder", cpu=6, queue="other")
    api.cycle()
    api.submit("large", cpu=8, at_s=1, queue="first")
    api.submit("entitled", cpu=2, at_s=2, queue="other")
    api.submit("borrows", cpu=1, at_s=3, queue="other")
    assert admits(api.cycle()) == ["entitled"]
    assert api.condition("borrows")[1] == _PROTECTED


def test_a_workload_of_higher_priority_in_another_queue_comes_before_the_first() -> None:
    api = Api()
    a_cohort_of(api, first=6, other=0)
    api.submit("holder", cpu=4, queue="first")
    api.cycle()
    api.submit("large", cpu=6, at_s=1, queue="first")
    api.submit("important", cpu=2, at_s=2, queue="other", priority=1)
    assert admits(api.cycle()) == ["important"]


def test_of_two_protected_workloads_of_a_cohort_the_earlier_one_comes_first() -> None:
    """Each of them needs the whole cohort. The later one fits first, and waits for the earlier one."""
    api = Api()
    a_cohort_of(api, first_a=5, first_b=5)
    api.submit("holder", cpu=2, queue="first_a")
    api.cycle()
    api.submit("a", cpu=10, at_s=1, queue="first_a")
    api.submit("b", cpu=8, at_s=2, queue="first_b")
    assert admits(api.cycle()) == []
    assert api.condition("b")[1] == _PROTECTED
    api.finish("holder")
    assert admits(api.cycle()) == ["a"]
    api.finish("a")
    assert admits(api.cycle()) == ["b"]


def test_a_workload_leaves_room_for_all_protected_workloads_together() -> None:
    """Memory is missing for both, so both wait. Of 10 cpu, 4 are left beside one of them, and 2 beside both."""
    api = Api()
    for name in ("first-a", "first-b", "other"):
        listed = {"default": {"cpu": 10 if name == "other" else 0, "memory": 4 if name == "other" else 0}}
        api.queue(name, listed, local=name, cohortName="co", annotations=None if name == "other" else _BACKFILL)
    api.submit("holder", a_pod_set(requests={"memory": 4}), queue="other")
    api.cycle()
    api.submit("a", a_pod_set(requests={"cpu": 4, "memory": 2}), at_s=1, queue="first-a")
    api.submit("b", a_pod_set(requests={"cpu": 4, "memory": 2}), at_s=2, queue="first-b")
    api.submit("three", a_pod_set(requests={"cpu": 3}), at_s=3, queue="first-b")
    api.submit("two", a_pod_set(requests={"cpu": 2}), at_s=4, queue="first-b")
    assert admits(api.cycle()) == ["two"]
    assert api.condition("three")[1] == _PROTECTED


def test_a_queue_that_lends_nothing_is_not_concerned() -> None:
    api = Api()
    api.queue("first", {"default": {"cpu": 4}}, local="first", cohortName="co", annotations=_BACKFILL)
    api.queue("closed", {"default": {"cpu": (4, None, 0)}}, local="closed", cohortName="co")
    api.submit("holder", cpu=2, queue="first")
    api.submit("own", cpu=2, queue="closed")
    api.cycle()
    api.submit("large", cpu=4, at_s=1, queue="first")
    api.submit("more", cpu=2, at_s=2, queue="closed")
    assert admits(api.cycle()) == ["more"]


@pytest.mark.parametrize("is_shown", [True, False])
def test_a_preemptor_gets_what_was_freed_for_it_though_the_first_comes_before_it(is_shown: bool) -> None:
    """The first was gated while the preemptor evicted. ``is_shown``: the API shows the condition of the preemptor, and
    another process has taken over."""
    api = Api()
    preemption = {"withinClusterQueue": "LowerPriority"}
    api.queue(annotations=_BACKFILL, preemption=preemption)
    api.submit("victim", cpu=8, priority=-1)
    api.cycle()
    api.submit("first", cpu=6, at_s=1, annotations={"kueue.x-k8s.io/admission-gated-by": "example.com/gate"})
    api.submit("preemptor", cpu=8, at_s=2)
    api.lag = not is_shown
    assert evicts(api.cycle()) == ["victim"]
    api.lag = False
    api.gone("victim")
    api.change("first", lambda wire: wire["metadata"].update(annotations={}))
    if is_shown:
        api.restart()
    assert admits(api.cycle()) == ["preemptor"]
    api.finish("preemptor")
    assert admits(api.cycle())[0] == "first"


def test_what_a_preemptor_waits_for_is_not_kept_twice() -> None:
    """The first in line has evicted a workload; its claim protects it. Beside the claim there is quota for another."""
    api = Api()
    a_cohort_of(api, lender=4, other=0)
    api.queue(
        "first",
        {"default": {"cpu": 10}},
        local="first",
        cohortName="co",
        annotations=_BACKFILL,
        preemption={"withinClusterQueue": "LowerPriority"},
    )
    api.submit("low", cpu=9, queue="first", priority=-1)
    api.cycle()
    api.submit("large", cpu=9, at_s=1, queue="first")
    assert evicts(api.cycle()) == ["low"]
    api.submit("borrows", cpu=4, at_s=2, queue="other")
    assert admits(api.cycle()) == ["borrows"]


def test_other_flavors_are_free_again_when_the_first_evicts_in_one() -> None:
    """The first could get both flavors. When it can reclaim in flavor ``one``, it leaves flavor ``two`` to others."""
    api = Api()
    for name in ("one", "two"):
        api.flavor(name, labels={"flavor": name})
    quotas = {"one": {"cpu": 6}, "two": {"cpu": 6}}
    api.queue("cq", quotas, cohortName="co", annotations=_BACKFILL, preemption={"reclaimWithinCohort": "Any"})
    api.queue("other", {"one": {"cpu": 0}, "two": {"cpu": 0}}, local="other", cohortName="co")
    api.submit("own", pods(4, nodeSelector={"flavor": "one"}))
    api.submit("borrower", pods(2, nodeSelector={"flavor": "one"}), queue="other")
    api.submit("own-two", pods(1, nodeSelector={"flavor": "two"}))
    api.cycle()
    api.submit("large", pods(6), at_s=1)
    api.submit("waits", pods(2, nodeSelector={"flavor": "two"}), at_s=2, queue="other")
    assert admits(api.cycle()) == []
    assert api.condition("waits")[1] == _PROTECTED
    api.finish("own")
    effects = api.cycle()
    assert (evicts(effects), admits(effects)) == (["borrower"], ["waits"])


def test_a_later_workload_preempts_if_it_then_leaves_enough_for_the_first() -> None:
    """The first lacks memory, which no one may take from a workload of higher priority, and needs 4 of 10 cpu."""
    api = Api()
    preemption = {"withinClusterQueue": "LowerPriority"}
    api.queue("cq", {"default": {"cpu": 10, "memory": 4}}, annotations=_BACKFILL, preemption=preemption)
    api.submit("memory", a_pod_set(requests={"memory": 4}), priority=9)
    api.submit("low", cpu=6, priority=-5)
    api.cycle()
    api.submit("large", a_pod_set(requests={"cpu": 4, "memory": 4}), priority=5, at_s=1)
    api.submit("too-large", cpu=7, priority=2, at_s=2)
    api.submit("later", cpu=6, priority=1, at_s=3)
    assert evicts(api.cycle()) == ["low"]
    assert api.condition("too-large")[1] == _PROTECTED
    assert api.condition("later")[1] == "WaitingForPreemptedWorkloads"


def test_a_later_workload_does_not_preempt_if_that_delays_the_first() -> None:
    """The first cannot preempt what other queues hold of their own quota, and the later one could preempt its like."""
    api = Api()
    preemption = {
        "withinClusterQueue": "LowerPriority",
        "reclaimWithinCohort": "LowerPriority",
        "borrowWithinCohort": {"policy": "LowerPriority"},
    }
    api.queue("first", {"default": {"cpu": 4}}, local="first", cohortName="co", annotations=_BACKFILL)
    api.queue("other", {"default": {"cpu": 6}}, local="other", cohortName="co", preemption=preemption)
    api.submit("low", cpu=8, queue="other", priority=-5)
    api.cycle()
    api.submit("large", cpu=10, queue="first", at_s=1)
    api.submit("later", cpu=8, queue="other", priority=-1, at_s=2)
    assert evicts(api.cycle()) == []
    assert api.condition("later")[1] == _PROTECTED
    api.finish("low")
    assert admits(api.cycle()) == ["large"]


def test_a_run_time_limit_does_not_count_if_the_first_may_preempt_the_workload() -> None:
    """``own`` may end at any time. Then the first reclaims what is borrowed, before the limit of the borrower."""
    for reclaim, expected in (("Never", ["short"]), ("Any", [])):
        api = Api()
        api.queue(
            "first",
            {"default": {"cpu": 10}},
            local="first",
            cohortName="co",
            annotations=_BACKFILL,
            preemption={"reclaimWithinCohort": reclaim},
        )
        api.queue("other", {"default": {"cpu": 0}}, local="other", cohortName="co")
        api.submit("own", pods(4), queue="first")
        api.submit("borrower", pods(4), queue="other", maximumExecutionTimeSeconds=1000)
        api.cycle()
        api.submit("large", pods(10), queue="first", at_s=1)
        api.submit("short", pods(2), queue="first", at_s=2, maximumExecutionTimeSeconds=900)
        assert admits(api.cycle()) == expected, reclaim


def test_a_limit_that_is_over_counts_no_longer() -> None:
    """The workload should have ended. It may end at any time from now on."""
    api = Api()
    api.queue(annotations=_BACKFILL)
    api.submit("holder", pods(6), maximumExecutionTimeSeconds=100)
    api.cycle()
    api.submit("large", pods(8), at_s=1)
    api.submit("long", pods(3), at_s=2, maximumExecutionTimeSeconds=200)
    assert admits(api.cycle()) == []
    api.lag = True
    api.pass_s(101)
    api.lag = False
    api.submit("short", pods(1), at_s=3, maximumExecutionTimeSeconds=1)
    api.cycle()
    assert api.condition("short")[1] == _PROTECTED
    assert "may start at any time" in api.condition("short")[2]


def test_a_wrong_value_makes_the_queue_invalid_with_a_reason() -> None:
    api = Api()
    api.queue()
    api.queue(annotations={"headgate.dev/dequeue-strategy": "fifo"})
    activity = api.engine.cache.activity["cq"]
    assert (activity.is_active, activity.reason) == (False, "Invalid")
    assert activity.message == (
        "Can't admit new workloads: metadata.annotations[headgate.dev/dequeue-strategy]: must be backfill; "
        "spec.queueingStrategy sets the other strategies of a ClusterQueue."
    )
    api.queue(annotations=_BACKFILL)
    assert api.engine.cache.activity["cq"].is_active


def test_a_restarted_engine_protects_the_same_workload() -> None:
    api = Api()
    api.queue(annotations=_BACKFILL)
    api.submit("holder", pods(6), maximumExecutionTimeSeconds=100)
    api.cycle()
    api.submit("large", pods(9), at_s=1)
    api.submit("long", pods(2), at_s=2)
    api.submit("short", pods(2), at_s=3, maximumExecutionTimeSeconds=100)
    api.restart()
    assert admits(api.cycle()) == ["short"]
    assert api.now_s == START_S


def test_a_workload_takes_another_flavor_if_its_best_one_would_delay_the_first() -> None:
    """It prefers the second flavor, in which it does not borrow. The first in line waits for that one."""
    api = Api()
    for name in ("one", "two"):
        api.flavor(name, labels={"flavor": name})
    api.queue("lender", {"one": {"cpu": 4}, "two": {"cpu": 0}}, local="lender", cohortName="co")
    api.queue(
        "cq",
        {"one": {"cpu": 0}, "two": {"cpu": 4}},
        cohortName="co",
        annotations=_BACKFILL,
        flavorFungibility={"whenCanBorrow": "TryNextFlavor"},
    )
    api.submit("holder", pods(1, nodeSelector={"flavor": "two"}))
    api.cycle()
    api.submit("large", pods(4, nodeSelector={"flavor": "two"}), at_s=1)
    api.submit("any", pods(2), at_s=2)
    (admission,) = [each for each in api.cycle() if isinstance(each, Admit)]
    assert (admission.key, admission.admission.pod_sets[0].flavors) == ("ns/any", {"cpu": "one"})


def a_queue_with_two_flavors() -> Api:
    """The first in line, ``large``, waits for flavor ``one``. A workload that may be evicted holds flavor ``two``."""
    api = Api()
    for name in ("one", "two"):
        api.flavor(name, labels={"flavor": name})
    quotas = {"one": {"cpu": 4}, "two": {"cpu": 4}}
    api.queue("cq", quotas, annotations=_BACKFILL, preemption={"withinClusterQueue": "LowerPriority"})
    api.submit("low", pods(4, nodeSelector={"flavor": "two"}), priority=-2)
    api.submit("holder", pods(1, nodeSelector={"flavor": "one"}), priority=9)
    assert sorted(admits(api.cycle())) == ["holder", "low"]
    api.submit("large", pods(4, nodeSelector={"flavor": "one"}), priority=3, at_s=1)
    assert admits(api.cycle()) == []
    return api


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_preemptor_does_not_take_another_flavor_that_the_first_waits_for(is_restarted: bool) -> None:
    api = a_queue_with_two_flavors()
    api.submit("any", pods(2), at_s=2)
    assert evicts(api.cycle()) == ["low"]
    assert api.condition("any") == (
        "False",
        "WaitingForPreemptedWorkloads",
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor two, 2 more needed, "
        "quota in flavor one would delay workload ns/large, the first in line of ClusterQueue cq. Pending "
        "the preemption of 1 workload(s)",
    )
    if is_restarted:
        api.restart()
        assert admits(api.cycle()) == []
    api.gone("low")
    (admission,) = [each for each in api.cycle() if isinstance(each, Admit)]
    assert (admission.key, admission.admission.pod_sets[0].flavors) == ("ns/any", {"cpu": "two"})


def test_a_workload_that_waits_for_an_evicted_one_in_another_flavor_is_tried_again_when_the_first_has_gone() -> None:
    api = a_queue_with_two_flavors()
    api.change("low", lambda wire: wire["spec"].update(active=False))
    api.submit("any", pods(2), at_s=2)
    assert admits(api.cycle()) == []
    assert api.condition("any")[1] == "WaitingForQuota"
    api.remove("workload", "ns/large")
    (admission,) = [each for each in api.cycle() if isinstance(each, Admit)]
    assert (admission.key, admission.admission.pod_sets[0].flavors) == ("ns/any", {"cpu": "one"})


def test_a_reservation_of_the_first_in_a_round_is_not_counted_twice() -> None:
    """In the round that tries the first in line, it also reserves its quota as in Kueue."""
    api = Api()
    a_cohort_of(api, lender=4, other=0)
    api.queue("first", {"default": {"cpu": (6, 0, None)}}, local="first", cohortName="co", annotations=_BACKFILL)
    api.submit("holder", cpu=2, queue="first")
    api.cycle()
    api.submit("large", cpu=6, at_s=1, queue="first")
    api.submit("borrows", cpu=2, at_s=2, queue="other")
    assert admits(api.cycle()) == ["borrows"]


def test_a_first_in_line_that_lacks_only_quota_of_its_own_queue_does_not_hold_back_the_cohort() -> None:
    """It may not borrow, and its own queue is in use. Others may borrow as long as they leave what it will use."""
    api = Api()
    a_cohort_of(api, lender=4, other=0)
    api.queue("first", {"default": {"cpu": (6, 0, None)}}, local="first", cohortName="co", annotations=_BACKFILL)
    api.submit("holder", cpu=2, queue="first")
    api.submit("large", cpu=6, at_s=1, queue="first")
    api.cycle()
    api.submit("too-much", cpu=3, at_s=2, queue="other")
    api.submit("enough", cpu=2, at_s=3, queue="other")
    assert admits(api.cycle()) == ["enough"]
    assert api.condition("too-much")[2].endswith("leaves 2 cpu in flavor default")
    api.finish("holder")
    assert admits(api.cycle()) == ["large"]


def test_workloads_behind_the_first_are_tried_again_when_it_can_only_start_later() -> None:
    """An entitled workload of another queue starts, and runs for a longer time than the one that waits."""
    api = Api()
    a_cohort_of(api, first=2, other=6)
    api.submit("old", pods(3), queue="other")
    api.cycle()
    api.submit("large", pods(8), at_s=1, queue="first")
    api.submit("short", pods(1), at_s=2, queue="first", maximumExecutionTimeSeconds=10)
    assert admits(api.cycle()) == []
    api.submit("entitled", pods(3), at_s=3, queue="other", maximumExecutionTimeSeconds=100)
    assert admits(api.cycle()) == ["entitled", "short"]


def test_the_head_of_a_strict_queue_without_protection_waits_for_the_first_of_another_queue() -> None:
    api = Api()
    a_cohort_of(api, first=6)
    api.queue("strict", {"default": {"cpu": 0}}, local="strict", cohortName="co", queueingStrategy="StrictFIFO")
    api.submit("holder", cpu=4, queue="first")
    api.cycle()
    api.submit("large", cpu=6, at_s=1, queue="first")
    api.submit("head", cpu=2, at_s=2, queue="strict")
    api.submit("next", cpu=1, at_s=3, queue="strict")
    assert admits(api.cycle()) == []
    assert api.condition("head")[1] == _PROTECTED
    api.remove("workload", "ns/large")
    assert admits(api.cycle()) == ["head"]


def test_a_first_in_line_that_can_start_with_fewer_pods_needs_all_of_them_to_be_left() -> None:
    """It starts with 4 pods as soon as it can. Without the limit of the holder that may be now."""
    api = Api()
    api.queue(annotations=_BACKFILL)
    api.submit("holder", pods(8), maximumExecutionTimeSeconds=100)
    api.cycle()
    api.submit("partial", pods(1, count=20, minCount=4), at_s=1)
    api.submit("short", pods(1), at_s=2, maximumExecutionTimeSeconds=100)
    api.submit("long", pods(1), at_s=3, maximumExecutionTimeSeconds=101)
    assert admits(api.cycle()) == ["short"]
    assert api.condition("long")[1] == _PROTECTED
    api.finish("holder")
    (admission,) = [each for each in api.cycle() if isinstance(each, Admit)]
    assert (admission.key, admission.admission.pod_sets[0].count) == ("ns/partial", 9)


def test_pod_sets_together_are_protected_in_each_flavor() -> None:
    """The two pod sets of the first in line never fit in one flavor together, and each could get both flavors."""
    api = Api()
    for name in ("one", "two"):
        api.flavor(name, labels={"flavor": name})
    api.queue("cq", {"one": {"cpu": 6}, "two": {"cpu": 6}}, annotations=_BACKFILL)
    api.submit("holder", pods(1, nodeSelector={"flavor": "one"}))
    api.cycle()
    api.submit("pair", {**pods(6), "name": "left"}, {**pods(6), "name": "right"}, at_s=1)
    api.submit("small", pods(1), at_s=2)
    assert admits(api.cycle()) == []
    assert api.condition("small")[1] == _PROTECTED
    api.finish("holder")
    assert admits(api.cycle()) == ["pair"]


def test_the_first_in_line_reclaims_when_another_queue_begins_to_borrow() -> None:
    """A workload of higher priority borrows before the first in line; when that is finished, the first reclaims."""
    api = Api()
    api.queue(
        "first",
        {"default": {"cpu": 6}},
        local="first",
        cohortName="co",
        annotations=_BACKFILL,
        queueingStrategy="StrictFIFO",
        preemption={"reclaimWithinCohort": "Any"},
    )
    api.queue("other", {"default": {"cpu": 0}}, local="other", cohortName="co")
    api.submit("own", cpu=4, queue="first")
    api.cycle()
    api.submit("large", cpu=6, at_s=1, queue="first")
    api.submit("urgent", cpu=2, at_s=2, queue="other", priority=3)
    assert admits(api.cycle()) == ["urgent"]
    api.finish("own")
    assert evicts(api.cycle()) == ["urgent"]
    api.gone("urgent")
    assert admits(api.cycle()) == ["large"]


def test_a_workload_in_back_off_is_not_in_the_line() -> None:
    api = Api()
    api.queue(annotations=_BACKFILL)
    api.submit("holder", cpu=6)
    api.cycle()
    requeue_at = {"requeueState": {"count": 1, "requeueAt": "2023-11-14T22:14:20Z"}}
    api.submit("large", cpu=8, at_s=1, status=requeue_at)
    api.submit("small", cpu=1, at_s=2)
    assert admits(api.cycle()) == ["small"]
    api.submit("tiny", cpu=1, at_s=3)
    assert "tiny" not in admits(api.pass_s(60))
    assert api.condition("tiny")[1] == _PROTECTED


def test_a_cohort_below_another_one_keeps_the_quota_of_its_own_subtree() -> None:
    """The first in line may borrow from the root. Queues below ``sub`` use the quota of ``sub`` before it."""
    api = Api()
    api.cohort("root", "", {"default": {"cpu": 0}})
    api.cohort("sub", "root", {"default": {"cpu": 4}})
    api.queue("first", {"default": {"cpu": 4}}, local="first", cohortName="root", annotations=_BACKFILL)
    api.queue("below", {"default": {"cpu": 0}}, local="below", cohortName="sub")
    api.submit("holder", cpu=2, queue="first")
    api.cycle()
    api.submit("large", cpu=8, at_s=1, queue="first")
    api.submit("in-sub", cpu=4, at_s=2, queue="below")
    api.submit("beyond-sub", cpu=1, at_s=3, queue="below")
    assert admits(api.cycle()) == ["in-sub"]
    assert api.condition("beyond-sub")[1] == _PROTECTED


def test_the_state_before_and_after_a_switch_is_the_same_as_without_protection() -> None:
    """What a queue has decided while it was protecting does not depend on the annotation afterwards."""
    api = Api()
    api.queue(annotations=_BACKFILL)
    api.submit("holder", pods(6), maximumExecutionTimeSeconds=100)
    api.cycle()
    api.submit("large", pods(10), at_s=1)
    api.submit("a", pods(1), at_s=2)
    api.submit("b", pods(1), at_s=3, maximumExecutionTimeSeconds=500)
    assert admits(api.cycle()) == []
    assert len({each.shape for each in api.engine.queue_manager.pending("cq")}) == 3
    api.queue()
    assert len({each.shape for each in api.engine.queue_manager.pending("cq")}) == 2
    assert admits(api.cycle()) == ["a", "b"]


def test_a_workload_behind_the_first_is_tried_again_when_more_is_left() -> None:
    """The first waits for memory. When cpu is released, there is enough for both."""
    api = Api()
    api.queue("cq", {"default": {"cpu": 10, "memory": 4}}, annotations=_BACKFILL)
    api.submit("memory", a_pod_set(requests={"memory": 4}))
    api.submit("cpu", cpu=3)
    api.cycle()
    api.submit("large", a_pod_set(requests={"cpu": 5, "memory": 4}), at_s=1)
    api.submit("waits", cpu=3, at_s=2)
    assert admits(api.cycle()) == []
    assert api.condition("waits")[1] == _PROTECTED
    api.finish("cpu")
    assert admits(api.cycle()) == ["waits"]


def test_a_limit_counts_only_if_the_workload_starts_at_once() -> None:
    """In the queue ``checked`` an admission check comes before the start, in the queue ``other`` none does."""
    api = Api()
    api.engine.check_applied("check", True, api.now_s)
    a_cohort_of(api, first=8, other=0)
    checks = {"admissionChecks": [{"name": "check"}]}
    api.queue("checked", {"default": {"cpu": 0}}, local="checked", cohortName="co", admissionChecksStrategy=checks)
    api.submit("holder", pods(6), queue="first", maximumExecutionTimeSeconds=100)
    api.cycle()
    api.submit("large", pods(8), at_s=1, queue="first")
    api.submit("checked", pods(1), at_s=2, queue="checked", maximumExecutionTimeSeconds=10)
    api.submit("unchecked", pods(1), at_s=3, queue="other", maximumExecutionTimeSeconds=10)
    assert admits(api.cycle()) == ["unchecked"]
    assert api.condition("checked")[1] == _PROTECTED


def test_a_limit_does_not_count_for_a_workload_that_waits_for_terminating_pods() -> None:
    api = Api()
    api.queue(annotations=_BACKFILL)
    api.submit("ended", pods(3))
    api.submit("holder", pods(6), maximumExecutionTimeSeconds=100)
    api.cycle()
    pod = api.pod("terminating", "ended", 3)
    api.show(pod)
    api.terminate(pod)
    api.change("ended", lambda wire: wire["spec"].update(active=False))
    api.cycle()
    api.gone("ended")
    api.submit("large", pods(10), at_s=1)
    api.submit("beside", pods(1), at_s=2, maximumExecutionTimeSeconds=10)
    api.submit("after", pods(3), at_s=3, maximumExecutionTimeSeconds=10)
    assert admits(api.cycle()) == ["beside"]
    assert api.condition("after")[1] == _PROTECTED


def test_workloads_that_have_passed_and_end_in_time_are_spare_again() -> None:
    """At the earliest start of the first in line, ``holder`` and ``short`` have ended, so 3 are left beside it."""
    api = Api()
    api.queue(annotations=_BACKFILL)
    api.submit("holder", pods(6), maximumExecutionTimeSeconds=100)
    api.cycle()
    api.submit("large", pods(7), at_s=1)
    api.submit("short", pods(2), at_s=2, maximumExecutionTimeSeconds=50)
    api.lag = True  # the admission is decided, and not written yet
    assert admits(api.cycle()) == ["short"]
    api.submit("long", pods(2), at_s=3)
    assert admits(api.cycle()) == ["long"]


def test_quota_that_the_queue_of_the_first_does_not_lend_need_not_be_left_by_others() -> None:
    """The first needs 6: 2 that its queue keeps for itself and has free, and 4 of the cohort, which has 6."""
    api = Api()
    a_cohort_of(api, lender=4, other=0)
    api.queue("first", {"default": {"cpu": (6, 0, 2)}}, local="first", cohortName="co", annotations=_BACKFILL)
    api.submit("holder", cpu=2, queue="first")
    api.cycle()
    api.submit("large", cpu=6, at_s=1, queue="first")
    api.submit("too-much", cpu=3, at_s=2, queue="other")
    api.submit("enough", cpu=2, at_s=3, queue="other")
    assert admits(api.cycle()) == ["enough"]
    assert api.condition("too-much")[1] == _PROTECTED


def test_what_a_preemptor_of_another_queue_waits_for_is_not_spare() -> None:
    """The preemptor waits for 6 cpu: 3 of its victim, and 3 that are free."""
    api = Api()
    preemption = {"withinClusterQueue": "LowerPriority"}
    for name, quotas, more in (
        ("first", {"cpu": 2, "memory": 2}, {"annotations": _BACKFILL}),
        ("preempts", {"cpu": 6, "memory": 0}, {"preemption": preemption}),
        ("other", {"cpu": 2, "memory": 0}, {}),
    ):
        api.queue(name, {"default": quotas}, local=name, cohortName="co", **more)
    api.submit("memory", a_pod_set(requests={"memory": 2}), queue="first")
    api.submit("low", cpu=3, queue="preempts", priority=-1)
    api.submit("kept", cpu=2, queue="other")
    api.cycle()
    api.submit("preemptor", cpu=6, queue="preempts", priority=5)
    assert evicts(api.cycle()) == ["low"]
    api.submit("large", a_pod_set(requests={"cpu": 1, "memory": 2}), at_s=1, queue="first")
    api.submit("two", cpu=2, at_s=2, queue="other")
    api.submit("one", cpu=1, at_s=3, queue="other")
    assert admits(api.cycle()) == ["one"]
    assert api.condition("two")[1] == _PROTECTED


def test_what_evicted_workloads_still_hold_is_not_spare() -> None:
    api = Api()
    api.queue("cq", {"default": {"cpu": 10, "memory": 4}}, annotations=_BACKFILL)
    api.submit("memory", a_pod_set(requests={"memory": 4}))
    api.submit("evicted", cpu=5)
    api.cycle()
    api.change("evicted", lambda wire: wire["spec"].update(active=False))
    api.submit("large", a_pod_set(requests={"cpu": 4, "memory": 4}), at_s=1)
    api.submit("two", cpu=2, at_s=2)
    api.submit("one", cpu=1, at_s=3)
    assert admits(api.cycle()) == ["one"]
    assert api.condition("two")[1] == _PROTECTED


def test_a_queue_whose_own_evicted_workload_still_ends_waits_for_that_and_not_for_the_first() -> None:
    """With the quota that its evicted workload releases, the other queue does not borrow."""
    api = Api()
    a_cohort_of(api, first=4, other=4)
    api.submit("holder", cpu=3, queue="first")
    api.submit("evicted", cpu=4, queue="other")
    api.cycle()
    api.change("evicted", lambda wire: wire["spec"].update(active=False))
    api.submit("large", cpu=8, at_s=1, queue="first")
    api.submit("entitled", cpu=4, at_s=2, queue="other")
    api.cycle()
    assert api.condition("entitled")[1] == "WaitingForQuota"
    api.gone("evicted")
    assert admits(api.cycle()) == ["entitled"]


def test_a_victim_with_a_limit_is_not_subtracted_twice() -> None:
    """``low`` ends before the first in line can start, and the later workload would evict it at once."""
    api = Api()
    preemption = {"withinClusterQueue": "LowerPriority"}
    api.queue(annotations=_BACKFILL, preemption=preemption)
    api.submit("high", pods(4), priority=9, maximumExecutionTimeSeconds=100)
    api.submit("low", pods(5), priority=-5, maximumExecutionTimeSeconds=50)
    api.cycle()
    api.submit("large", pods(7), priority=5, at_s=1)
    api.submit("later", pods(5), priority=1, at_s=2)
    assert evicts(api.cycle()) == []
    assert api.condition("later")[1] == _PROTECTED
