"""The mutation cache: late events, late responses, and names that are used again."""

from __future__ import annotations

import pytest

from headgate.controllers.framework.mutation_cache import DeletedUIDs, MutationCache, Object


def an_object(uid: str, revision: int) -> Object:
    return {"metadata": {"name": "a", "uid": uid, "resourceVersion": str(revision)}}


@pytest.fixture
def latest() -> MutationCache[str]:
    return MutationCache()


def test_events_older_than_a_response_change_nothing(latest: MutationCache[str]) -> None:
    assert latest.put("a", an_object("1", 5), from_watch=False)
    assert not latest.put("a", an_object("1", 3), from_watch=True)
    assert latest.get("a") == an_object("1", 5)


def test_the_watch_event_of_a_response_counts_as_a_change(latest: MutationCache[str]) -> None:
    latest.put("a", an_object("1", 5), from_watch=False)
    assert latest.put("a", an_object("1", 5), from_watch=True)


def test_a_response_about_a_deleted_object_restores_nothing(latest: MutationCache[str]) -> None:
    latest.put("a", an_object("1", 3), from_watch=True)
    assert latest.remove("a", "1") == an_object("1", 3)
    assert not latest.put("a", an_object("1", 5), from_watch=False)
    assert latest.get("a") is None


def test_a_deletion_does_not_affect_a_new_object_with_the_same_key(latest: MutationCache[str]) -> None:
    latest.put("a", an_object("1", 3), from_watch=True)
    latest.put("a", an_object("2", 7), from_watch=False)
    assert not latest.put("a", an_object("1", 5), from_watch=True), "older, and another one"
    assert latest.remove("a", "1") is None
    assert latest.get("a") == an_object("2", 7)


def test_an_object_known_only_from_a_response_is_dropped_if_a_list_does_not_have_it(latest: MutationCache[str]) -> None:
    latest.put("a", an_object("1", 5), from_watch=False)
    assert latest.missing("4") == [], "the list is older"
    assert latest.missing("9") == [("a", "1")]


def test_an_object_known_from_the_watch_is_not_dropped_by_a_list(latest: MutationCache[str]) -> None:
    latest.put("a", an_object("1", 3), from_watch=True)
    latest.put("a", an_object("1", 5), from_watch=False)
    assert latest.missing("9") == []


def test_incomparable_revisions_are_accepted_in_order_of_arrival(latest: MutationCache[str]) -> None:
    odd = {"metadata": {"name": "a", "uid": "1", "resourceVersion": "x"}}
    latest.put("a", odd, from_watch=True)
    assert latest.put("a", an_object("1", 1), from_watch=False)
    assert latest.missing("x") == []


def test_objects_missing_in_a_complete_list_are_removed_permanently(latest: MutationCache[str]) -> None:
    latest.put("a", an_object("u", 5), from_watch=False)
    latest.put("b", an_object("v", 6), from_watch=True)
    assert latest.remove_missing("4") == []
    assert latest.remove_missing("5") == [an_object("u", 5)]
    assert latest.objects() == {"b": an_object("v", 6)}
    assert not latest.put("a", an_object("u", 7), from_watch=False)


def test_only_the_last_deleted_uids_are_kept() -> None:
    deleted = DeletedUIDs()
    for number in range(10_001):
        deleted.add(str(number))
    assert "0" not in deleted
    assert "1" in deleted
    assert "10000" in deleted
