"""Preemption targets: candidates by policy and position in the tree, their order, and no more than needed."""

from __future__ import annotations

from headgate.quota.api.resource_groups import Usage
from headgate.quota.cache.quota_ledger import QuotaClaim
from headgate.quota.flavors.assignment import AssignmentMode
from kueue_builders import START_S
from quota_ledger import Book

_WITHIN = {"withinClusterQueue": "LowerPriority"}
_RECLAIM = {"reclaimWithinCohort": "Any"}


def test_lower_priorities_are_preempted_first_and_of_equal_ones_the_latest() -> None:
    book = Book().queue("cq", preemption=_WITHIN)
    book.hold("higher", "cq", 4, priority=2, since_s=9).hold("old", "cq", 3, since_s=1).hold("new", "cq", 3, since_s=5)
    assert book.victims("cq", cpu=3, priority=5) == [("new", "InClusterQueue")]
    assert book.victims("cq", cpu=6, priority=5) == [("new", "InClusterQueue"), ("old", "InClusterQueue")]
    assert [key for key, _ in book.victims("cq", cpu=7, priority=5)] == ["new", "higher"]  # the old one was put back


def test_an_equal_priority_is_preempted_only_if_it_is_newer_and_the_policy_says_so() -> None:
    book = Book().queue("cq", preemption=_WITHIN).hold("newer", "cq", 10, at_s=START_S + 50)
    assert book.victims("cq", cpu=5) == []
    book.queue("cq", preemption={"withinClusterQueue": "LowerOrNewerEqualPriority"})
    assert book.victims("cq", cpu=5) == [("newer", "InClusterQueue")]
    assert book.victims("cq", cpu=5, at_s=100) == []


def test_no_unneeded_workload_is_preempted() -> None:
    book = Book().queue("cq", preemption=_WITHIN)
    book.hold("small", "cq", 1, priority=-3).hold("large", "cq", 9, priority=-1)
    assert book.victims("cq", cpu=9) == [("large", "InClusterQueue")]


def test_no_workload_is_preempted_if_that_is_not_enough() -> None:
    book = Book().queue("cq", preemption=_WITHIN).hold("low", "cq", 2, priority=-1).hold("high", "cq", 8, priority=9)
    found = book.nominate("cq", cpu=5)
    assert (found.assignment.mode, found.targets) == (AssignmentMode.PREEMPT, ())


def two_queues(**preemption: object) -> Book:
    book = Book().queue("lender", {"default": {"cpu": 10}}, cohortName="co", preemption=preemption)
    return book.queue("borrower", {"default": {"cpu": 5}}, cohortName="co")


def test_a_queue_reclaims_what_it_lent() -> None:
    book = two_queues(**_RECLAIM)
    book.hold("own", "borrower", 5, priority=1, since_s=1).hold("borrowed", "borrower", 10, priority=9, since_s=2)
    assert book.victims("lender", cpu=10) == [("borrowed", "InCohortReclamation")]


def test_a_borrowing_queue_loses_only_what_it_borrowed() -> None:
    book = two_queues(**_RECLAIM)
    for number in range(5):
        book.hold(f"w{number}", "borrower", 2, since_s=number)
    book.hold("mine", "lender", 5)
    assert book.victims("lender", cpu=5) == [
        ("w4", "InCohortReclamation"),
        ("w3", "InCohortReclamation"),
        ("w2", "InCohortReclamation"),
    ]
    assert book.victims("lender", cpu=6) == []


def test_without_reclaim_no_workload_of_the_cohort_is_preempted() -> None:
    assert two_queues().hold("borrowed", "borrower", 15).victims("lender", cpu=10) == []


def test_reclaim_of_lower_priorities_preempts_no_others() -> None:
    book = two_queues(reclaimWithinCohort="LowerPriority")
    book.hold("high", "borrower", 5, priority=5).hold("low", "borrower", 10, priority=-1)
    assert book.victims("lender", cpu=10) == [("low", "InCohortReclamation")]
    assert book.victims("lender", cpu=10, priority=-1) == []


def test_while_borrowing_only_workloads_below_the_threshold_are_preempted() -> None:
    policy = {
        "reclaimWithinCohort": "LowerPriority",
        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 3},
    }
    book = Book().queue("other", {"default": {"cpu": 4}}, cohortName="co")
    book.queue("mine", {"default": {"cpu": 4}}, cohortName="co", preemption=policy)
    book.queue("idle", {"default": {"cpu": 4}}, cohortName="co")
    book.hold("low", "other", 6, priority=3).hold("high", "other", 6, priority=4)
    assert book.victims("mine", cpu=6, priority=9) == [("low", "InCohortReclaimWhileBorrowing")]
    assert book.victims("mine", cpu=4, priority=9) == [("low", "InCohortReclamation")]
    assert book.victims("mine", cpu=6, priority=3) == []


def test_workloads_of_other_queues_are_preempted_before_those_of_the_own_queue() -> None:
    book = two_queues(**_RECLAIM, **_WITHIN)
    book.hold("own", "lender", 5, priority=-5).hold("borrowed", "borrower", 10)
    assert book.victims("lender", cpu=5) == [("borrowed", "InCohortReclamation")]


def test_quota_of_a_nearer_cohort_is_reclaimed_from_farther_queues() -> None:
    book = Book().cohort("top").cohort("left", "top").cohort("right", "top")
    book.queue("mine", {"default": {"cpu": 2}}, cohortName="left", preemption=_RECLAIM)
    book.queue("sister", {"default": {"cpu": 6}}, cohortName="left")
    book.queue("stranger", {"default": {"cpu": 0}}, cohortName="right")
    book.hold("far", "stranger", 8, priority=9)
    assert book.victims("mine", cpu=6) == [("far", "InCohortReclamation")]


def test_an_evicted_workload_is_not_preempted_again_nor_another_one_instead() -> None:
    book = (
        Book().queue("cq", preemption=_WITHIN).hold("going", "cq", 5, priority=-1).hold("other", "cq", 5, priority=-1)
    )
    book.evict("going")
    found = book.nominate("cq", cpu=5)
    assert (found.assignment.mode, found.targets) == (AssignmentMode.DEFERRED, ())


def test_quota_claimed_by_one_preemptor_is_not_available_to_the_next() -> None:
    book = (
        Book().queue("cq", preemption=_WITHIN).hold("going", "cq", 5, priority=-1).hold("other", "cq", 5, priority=-1)
    )
    book.evict("going")
    book.book.claim("first", QuotaClaim("cq", {("default", "cpu"): 5000}))
    assert book.victims("cq", cpu=5) == [("other", "InClusterQueue")]


def test_a_simulation_leaves_the_ledger_unchanged() -> None:
    book = two_queues(**_RECLAIM).hold("borrowed", "borrower", 15)
    before = usage(book, "lender"), usage(book, "borrower")
    book.victims("lender", cpu=10)
    book.victims("lender", cpu=11)
    assert (usage(book, "lender"), usage(book, "borrower")) == before


def usage(book: Book, queue: str) -> Usage:
    node = book.book.after_evictions.queue(queue)
    assert node is not None
    return dict(node.usage)
