"""Which lists a controller awaits, and for how long."""

from __future__ import annotations

from headgate.controllers.framework.first_lists import MAX_OPTIONAL_WAIT_S, FirstLists
from headgate.kube.api_resources import CONFIG_MAPS, JOBS, NAMESPACES, PODS


def test_an_optional_list_is_awaited_for_some_time_and_a_required_one_without_end() -> None:
    lists = FirstLists((NAMESPACES,), (PODS,))
    lists.listing(PODS, NAMESPACES, CONFIG_MAPS)
    assert lists.awaited(0) == [NAMESPACES, PODS]
    assert not lists.is_late(MAX_OPTIONAL_WAIT_S - 1)
    assert lists.awaited(MAX_OPTIONAL_WAIT_S) == [NAMESPACES]
    assert lists.is_late(MAX_OPTIONAL_WAIT_S)
    lists.synced(NAMESPACES)
    assert lists.awaited(MAX_OPTIONAL_WAIT_S) == []


def test_a_kind_that_is_not_served_any_more_is_not_awaited() -> None:
    lists = FirstLists((NAMESPACES, JOBS), ())
    lists.listing(NAMESPACES, JOBS)
    lists.keep([NAMESPACES])
    assert lists.awaited(0) == [NAMESPACES]
    lists.synced(NAMESPACES)
    assert lists.awaited(0) == []


def test_the_time_begins_again_with_a_later_list() -> None:
    lists = FirstLists((), (PODS,))
    lists.listing(PODS)
    assert lists.awaited(0) == [PODS]
    lists.synced(PODS)
    assert lists.awaited(1) == []
    lists.listing(PODS)
    assert lists.awaited(MAX_OPTIONAL_WAIT_S + 1) == [PODS]
