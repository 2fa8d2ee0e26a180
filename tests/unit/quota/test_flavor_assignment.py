"""Flavor assignment: the assigned flavor, why others do not fit, and the messages."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.quota.cycle.nomination import Nomination
from headgate.quota.flavors.assignment import AssignmentMode
from kueue_builders import a_pod_set
from quota_ledger import Book


def flavors(nomination: Nomination) -> list[dict[str, str]]:
    return [{name: each.flavor for name, each in one.flavors.items()} for one in nomination.assignment.pod_sets]


def test_a_workload_that_fits_gets_the_first_flavor() -> None:
    found = Book().queue("cq", {"spot": {"cpu": 4}, "fixed": {"cpu": 9}}).nominate("cq", cpu=4)
    assert found.assignment.mode == AssignmentMode.FIT
    assert flavors(found) == [{"cpu": "spot"}]
    assert found.assignment.usage == {("spot", "cpu"): 4000}
    assert found.assignment.message == ""


def test_the_next_flavor_is_taken_when_the_first_is_full() -> None:
    book = Book().queue("cq", {"spot": {"cpu": 4}, "fixed": {"cpu": 9}}).hold("a", "cq", 1, "spot")
    assert flavors(book.nominate("cq", cpu=4)) == [{"cpu": "fixed"}]


def test_a_request_above_the_maximum_is_reported_with_numbers() -> None:
    found = Book().queue("cq", {"spot": {"cpu": 4}}).nominate("cq", cpu="4500m")
    assert found.assignment.mode == AssignmentMode.NO_FIT
    assert found.assignment.pending_reason == "ExceedsMaxQuota"
    assert found.assignment.message == (
        "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor spot, previously considered "
        "podsets requests (0) + current podset request (4500m) > maximum capacity (4)"
    )
    assert found.assignment.short_of == frozenset()


def test_a_shortage_is_reported_with_numbers() -> None:
    found = Book().queue("cq", {"spot": {"cpu": 4}}).hold("a", "cq", 3, "spot").nominate("cq", cpu=2)
    assert (found.assignment.mode, found.targets) == (AssignmentMode.PREEMPT, ())
    assert found.assignment.message.endswith("insufficient unused quota for cpu in flavor spot, 1 more needed")
    assert found.assignment.short_of == {("spot", "cpu")}


def test_a_resource_that_the_queue_does_not_have_is_named() -> None:
    found = Book().queue("cq").nominate("cq", a_pod_set(requests={"cpu": 1, "example.com/gpu": 1}))
    assert "resource example.com/gpu unavailable in ClusterQueue" in found.assignment.message
    assert found.assignment.pending_reason == "NoMatchingFlavor"


def test_a_zero_request_for_an_uncovered_resource_is_accepted() -> None:
    found = Book().queue("cq").nominate("cq", a_pod_set(requests={"cpu": 1, "example.com/gpu": 0}))
    assert found.assignment.mode == AssignmentMode.FIT


def test_pods_are_counted_where_the_queue_counts_them() -> None:
    book = Book().queue("cq", {"default": {"cpu": 10}}, {"fixed": {"pods": 3}})
    assert book.nominate("cq", a_pod_set(count=3)).assignment.usage[("fixed", "pods")] == 3
    assert book.nominate("cq", a_pod_set(count=4)).assignment.mode == AssignmentMode.NO_FIT


def test_pod_sets_of_one_workload_count_for_each_other() -> None:
    book = Book().queue("cq", {"spot": {"cpu": 4}, "fixed": {"cpu": 4}})
    found = book.nominate("cq", a_pod_set("one", requests={"cpu": 3}), a_pod_set("two", requests={"cpu": 3}))
    assert flavors(found) == [{"cpu": "spot"}, {"cpu": "fixed"}]
    found = book.nominate("cq", *(a_pod_set(name, requests={"cpu": 3}) for name in ("one", "two", "three")))
    assert "previously considered podsets requests (3) + current podset request (3)" in found.assignment.message


def test_all_resources_of_a_group_come_from_one_flavor() -> None:
    book = Book().queue("cq", {"spot": {"cpu": 9, "memory": 1}, "fixed": {"cpu": 9, "memory": 9}})
    found = book.nominate("cq", a_pod_set(requests={"cpu": 1, "memory": 2}))
    assert flavors(found) == [{"cpu": "fixed", "memory": "fixed"}]


def test_a_flavor_that_does_not_match_the_pods_is_skipped() -> None:
    book = Book()
    book.flavor("spot", labels={"zone": "a"})
    book.queue("cq", {"spot": {"cpu": 4}, "fixed": {"cpu": 4}})
    assert flavors(book.nominate("cq", a_pod_set(nodeSelector={"zone": "b"}))) == [{"cpu": "fixed"}]
    book.queue("cq", {"spot": {"cpu": 4}})
    found = book.nominate("cq", a_pod_set(nodeSelector={"zone": "b"})).assignment
    assert (found.pending_reason, found.message) == (
        "NoMatchingFlavor",
        "couldn't assign flavors to pod set main: flavor spot doesn't match node affinity",
    )


def test_a_flavor_that_does_not_exist_is_named() -> None:
    found = Book().queue("cq", {"gone": {"cpu": 4}}).nominate("cq", cpu=1)
    assert "flavor gone not found" in found.assignment.message


@pytest.mark.parametrize(("when_can_borrow", "expected"), [("MayStopSearch", "spot"), ("TryNextFlavor", "fixed")])
def test_when_can_borrow_decides_whether_the_search_stops(when_can_borrow: str, expected: str) -> None:
    book = Book().queue("lender", {"spot": {"cpu": 9}, "fixed": {"cpu": 9}}, cohortName="co")
    book.queue(
        "cq",
        {"spot": {"cpu": 1}, "fixed": {"cpu": 4}},
        cohortName="co",
        flavorFungibility={"whenCanBorrow": when_can_borrow},
    )
    found = book.nominate("cq", cpu=3)
    assert (found.assignment.mode, flavors(found)) == (AssignmentMode.FIT, [{"cpu": expected}])
    assert found.assignment.borrow == (1 if expected == "spot" else 0)


def a_queue_that_may_preempt(**fungibility: str) -> Book:
    """In spot it would have to preempt, in fixed to borrow."""
    book = Book().queue("lender", {"spot": {"cpu": 0}, "fixed": {"cpu": 9}}, cohortName="co")
    book.queue(
        "cq",
        {"spot": {"cpu": 4}, "fixed": {"cpu": 1}},
        cohortName="co",
        preemption={"withinClusterQueue": "LowerPriority"},
        flavorFungibility=fungibility,
    )
    return book.hold("low", "cq", 4, "spot", priority=-1)


@pytest.mark.parametrize(
    ("fungibility", "expected"),
    [
        ({}, ("fixed", AssignmentMode.FIT)),
        ({"whenCanPreempt": "MayStopSearch"}, ("spot", AssignmentMode.PREEMPT)),
        ({"whenCanBorrow": "TryNextFlavor"}, ("fixed", AssignmentMode.FIT)),
        ({"whenCanBorrow": "TryNextFlavor", "preference": "PreemptionOverBorrowing"}, ("spot", AssignmentMode.PREEMPT)),
    ],
)
def test_the_queue_decides_between_preemption_and_borrowing(fungibility: dict[str, str], expected: Any) -> None:
    found = a_queue_that_may_preempt(**fungibility).nominate("cq", cpu=3)
    assert (flavors(found)[0]["cpu"], found.assignment.mode) == expected


def test_a_flavor_without_candidates_loses_whatever_is_preferred() -> None:
    book = a_queue_that_may_preempt(whenCanBorrow="TryNextFlavor", preference="PreemptionOverBorrowing")
    found = book.nominate("cq", cpu=3, priority=-1)
    assert (flavors(found)[0]["cpu"], found.assignment.mode) == ("fixed", AssignmentMode.FIT)


def test_a_search_continues_where_the_last_one_stopped() -> None:
    book = a_queue_that_may_preempt(whenCanPreempt="MayStopSearch")
    first = book.nominate("cq", cpu=3).assignment
    assert first.has_flavors_left
    again = book.nominate("cq", cpu=3, tried=first.tried)
    assert flavors(again) == [{"cpu": "fixed"}]
    assert not again.assignment.has_flavors_left


def test_quota_that_is_about_to_be_free_is_waited_for() -> None:
    book = Book().queue("cq").hold("going", "cq", 9).hold("staying", "cq", 1)
    book.evict("going")
    found = book.nominate("cq", cpu=5)
    assert (found.assignment.mode, found.targets) == (AssignmentMode.DEFERRED, ())


def test_a_workload_is_admitted_in_part_with_as_many_pods_as_fit() -> None:
    book = Book().queue("cq").hold("a", "cq", 3)
    found = book.nominate("cq", a_pod_set(count=10, minCount=2, requests={"cpu": 1})).assignment
    assert (found.mode, found.pod_sets[0].count, found.usage) == (AssignmentMode.FIT, 7, {("default", "cpu"): 7000})
    found = book.nominate("cq", a_pod_set(count=10, minCount=8, requests={"cpu": 1})).assignment
    assert (found.mode, found.pod_sets[0].count) == (AssignmentMode.PREEMPT, 10)


def test_reclaimable_pods_need_no_quota() -> None:
    status = {"reclaimablePods": [{"name": "main", "count": 3}]}
    found = Book().queue("cq").nominate("cq", a_pod_set(count=5, requests={"cpu": 4}), status=status).assignment
    assert found.usage == {("default", "cpu"): 8000}


def test_of_alternative_flavors_the_mildest_reason_is_reported() -> None:
    book = Book()
    book.flavor("spot", labels={"zone": "a"})
    book.queue("cq", {"spot": {"cpu": 4}, "fixed": {"cpu": 1}})
    found = book.nominate("cq", a_pod_set(requests={"cpu": 2}, nodeSelector={"zone": "b"})).assignment
    assert found.pending_reason == "ExceedsMaxQuota"
