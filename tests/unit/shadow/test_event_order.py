"""Events of several watches come in the order of their revisions."""

from __future__ import annotations

from typing import Any

from headgate.kube.api_resources import NAMESPACES, PODS
from headgate.shadow.event_order import EventOrder


def an_object(name: str, revision: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": revision}}


def test_an_event_that_arrives_late_comes_at_its_revision() -> None:
    order = EventOrder(hold_s=1.0)
    order.put_applied(PODS, an_object("second", "20"), 100.0)
    order.put_applied(NAMESPACES, an_object("first", "10"), 100.5)
    assert [each.name for each in order.due(100.9)] == []
    assert [each.name for each in order.due(101.5)] == ["first", "second"]


def test_an_event_waits_for_an_earlier_one_that_arrived_after_it() -> None:
    order = EventOrder(hold_s=1.0)
    order.put_applied(PODS, an_object("second", "20"), 100.0)
    order.put_applied(NAMESPACES, an_object("first", "10"), 100.5)
    assert [each.name for each in order.due(101.2)] == []
    assert order.next_s() == 101.5


def test_a_deletion_comes_after_what_has_arrived_before() -> None:
    order = EventOrder(hold_s=0.0)
    order.put_applied(PODS, an_object("a", "20"), 1.0)
    order.put_removed(PODS, "", "a", "uid-a", 1.0)
    order.put_applied(PODS, an_object("b", "21"), 1.0)
    assert [(each.name, each.object is None) for each in order.due(1.0)] == [("a", False), ("a", True), ("b", False)]


def test_revisions_that_are_no_numbers_keep_the_order_of_arrival() -> None:
    order = EventOrder()
    for name in "cab":
        order.put_applied(PODS, an_object(name, f"opaque-{name}"), 1.0)
    assert [each.name for each in order.all()] == ["c", "a", "b"]
    assert len(order) == 0
