"""Changes of a live cluster come in the order of revisions, and those that a list may have missed are not observed."""

from __future__ import annotations

from headgate.recording.changes import RecordedChange, ResourceSynced, SessionStarted
from headgate.recording.history import MAX_HOLD_S, WINDOW_S, LiveOrder

PODS, NODES = "pods", "nodes"


def a_change(resource: str, revision: int, at_s: float, *, observed: bool = True) -> RecordedChange:
    obj = {"metadata": {"name": f"{resource}-{revision}", "uid": "u", "resourceVersion": str(revision)}}
    return RecordedChange(resource, obj, at_s, revision, observed=observed)


def an_order() -> LiveOrder:
    """After the first lists, at revision 10."""
    order = LiveOrder()
    for event in (
        SessionStarted(0.0, "", False, (PODS, NODES)),
        a_change(PODS, 5, 0.0, observed=False),
        ResourceSynced(0.0, PODS, 10),
        ResourceSynced(0.0, NODES, 10),
    ):
        assert list(order.take(event)) == []
    listed = list(order.tick(WINDOW_S))
    assert [(each.revision, each.observed) for each in listed] == [(5, False)]
    return order


def shown(changes: list[RecordedChange]) -> list[tuple[int, bool]]:
    return [(each.revision, each.observed) for each in changes]


def test_changes_of_two_watches_are_put_in_order() -> None:
    order = an_order()
    list(order.take(a_change(PODS, 12, 100.0)))
    list(order.take(a_change(NODES, 11, 101.0)))
    assert shown(list(order.tick(100.0 + WINDOW_S))) == []
    assert shown(list(order.tick(101.0 + WINDOW_S))) == [(11, True), (12, True)]
    assert order.gaps == 0


def test_a_list_that_is_not_complete_holds_all_changes_back() -> None:
    order = an_order()
    list(order.take(a_change(NODES, 11, 100.0)))
    order.listing(NODES)
    assert shown(list(order.tick(200.0))) == []
    before_s = order.complete_s(200.0)
    assert shown(list(order.take(ResourceSynced(201.0, NODES, 20)))) == [(11, True)]
    assert order.gaps == 1
    assert order.complete_s(300.0) == 300.0 - WINDOW_S > before_s


def test_changes_in_the_range_of_a_list_are_not_observed() -> None:
    order = an_order()
    list(order.take(a_change(NODES, 11, 100.0)))
    order.listing(NODES)
    list(order.take(a_change(PODS, 12, 101.0)))
    found = list(order.take(ResourceSynced(201.0, NODES, 20)))
    found += list(order.take(a_change(PODS, 21, 202.0)))
    found += list(order.tick(300.0))
    assert shown(found) == [(11, True), (12, False), (21, True)]


def test_a_resource_that_cannot_be_listed_does_not_hold_the_others_for_ever() -> None:
    order = an_order()
    order.listing(NODES)
    list(order.take(a_change(PODS, 12, 100.0)))
    assert shown(list(order.tick(150.0))) == []
    assert shown(list(order.tick(151.0 + MAX_HOLD_S))) == [(12, False)]


def test_what_is_held_at_the_end_is_delivered() -> None:
    order = an_order()
    list(order.take(a_change(PODS, 12, 100.0)))
    assert shown(list(order.flush())) == [(12, True)]


def test_times_never_go_back() -> None:
    order = an_order()
    list(order.take(a_change(PODS, 12, 105.0)))
    list(order.take(a_change(NODES, 11, 104.0)))
    assert [each.at_s for each in order.tick(200.0)] == [104.0, 105.0]
