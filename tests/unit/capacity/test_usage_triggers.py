"""Which queues to look at again after changes of usage."""

from __future__ import annotations

from headgate.capacity.cache.ledger import Ledger, LedgerColumn
from headgate.capacity.cache.usage_triggers import UsageTriggers


def test_a_queue_is_due_when_the_sum_of_all_changes_exceeds_its_amount() -> None:
    triggers = UsageTriggers()
    triggers.watch("a", {("p", "cpu"): 3})
    triggers.watch("b", {("p", "cpu"): 0})
    assert triggers.take_due() == []
    triggers.count("p", {"cpu": 1})
    assert triggers.take_due() == ["b"]
    triggers.count("p", {"cpu": 2})
    assert triggers.take_due() == []
    triggers.count("p", {"cpu": 1, "memory": 9})
    triggers.count("q", {"cpu": 9})
    assert triggers.take_due() == ["a"]
    assert triggers.take_due() == []
    assert not triggers


def test_changes_before_a_queue_watches_do_not_count() -> None:
    triggers = UsageTriggers()
    triggers.watch("a", {("p", "cpu"): 5})
    triggers.count("p", {"cpu": 5})
    triggers.watch("b", {("p", "cpu"): 5})
    triggers.watch("a", {("p", "cpu"): 1})
    triggers.count("p", {"cpu": 2})
    assert triggers.take_due() == ["a"]


def test_a_queue_that_watches_several_places_is_due_once() -> None:
    triggers = UsageTriggers()
    triggers.watch("a", {("p", "cpu"): 0, ("p", "memory"): 0, ("root", "cpu"): 0})
    triggers.count("p", {"cpu": 1, "memory": 1})
    triggers.count("root", {"cpu": 1})
    assert triggers.take_due() == ["a"]
    triggers.watch("a", {("p", "cpu"): 0})
    triggers.count("p", {"cpu": 1})
    triggers.forget("a")
    assert triggers.take_due() == []


def test_what_counts_as_used_or_set_aside_counts_in_all_ancestors() -> None:
    ledger = Ledger()
    ledger.set_path("q", ("q", "p"))
    for column in LedgerColumn:
        ledger.triggers.watch("a", {("p", "cpu"): 0})
        before = ledger.account("p").version
        ledger.change("q", column, {"cpu": 1}, +1)
        is_counted = column <= LedgerColumn.ELASTIC
        assert ledger.triggers.take_due() == (["a"] if is_counted else [])
        assert (ledger.account("p").version != before) is is_counted
    ledger.triggers.watch("a", {("p", "cpu"): 0})
    ledger.set_path("q", ("q", "r"))
    assert ledger.triggers.take_due() == ["a"]
