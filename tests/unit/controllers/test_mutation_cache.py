"""What was last seen of objects, whoever told of it: late news, late answers, and names that are used again."""

from __future__ import annotations

import pytest

from headgate.controllers.framework.mutation_cache import DeletedUIDs, MutationCache, Object


def an_object(uid: str, revision: int) -> Object:
    return {"metadata": {"name": "a", "uid": uid, "resourceVersion": str(revision)}}


@pytest.fixture
def latest() -> MutationCache[str]:
    return MutationCache()


def test_news_that_are_older_than_an_answer_change_nothing(latest: MutationCache[str]) -> None:
    assert latest.put("a", an_object("1", 5), from_watch=False)
    assert not latest.put("a", an_object("1", 3), from_watch=True)
    assert latest.get("a") == an_object("1", 5)


def test_the_echo_of_an_answer_is_news(latest: MutationCache[str]) -> None:
    latest.put("a", an_object("1", 5), from_watch=False)
    assert latest.put("a", an_object("1", 5), from_watch=True)


def test_an_answer_about_what_has_gone_brings_nothing_back(latest: MutationCache[str]) -> None:
    latest.put("a", an_object("1", 3), from_watch=True)
    assert latest.remove("a", "1") == an_object("1", 3)
    assert not latest.put("a", an_object("1", 5), from_watch=False)
    assert latest.get("a") is None


def test_that_somebody_went_is_no_news_of_who_has_the_name_now(latest: MutationCache[str]) -> None:
    latest.put("a", an_object("1", 3), from_watch=True)
    latest.put("a", an_object("2", 7), from_watch=False)
    assert not latest.put("a", an_object("1", 5), from_watch=True), "older, and another one"
    assert latest.remove("a", "1") is None
    assert latest.get("a") == an_object("2", 7)


def test_what_only_an_answer_told_of_goes_when_a_whole_list_does_not_have_it(latest: MutationCache[str]) -> None:
    latest.put("a", an_object("1", 5), from_watch=False)
    assert latest.missing("4") == [], "the list is older"
    assert latest.missing("9") == [("a", "1")]


def test_what_the_watch_told_of_is_left_to_the_watch(latest: MutationCache[str]) -> None:
    latest.put("a", an_object("1", 3), from_watch=True)
    latest.put("a", an_object("1", 5), from_watch=False)
    assert latest.missing("9") == []


def test_revisions_that_cannot_be_compared_are_believed_in_the_order_they_come(latest: MutationCache[str]) -> None:
    odd = {"metadata": {"name": "a", "uid": "1", "resourceVersion": "x"}}
    latest.put("a", odd, from_watch=True)
    assert latest.put("a", an_object("1", 1), from_watch=False)
    assert latest.missing("x") == []


def test_what_a_whole_list_does_not_have_is_removed_for_good(latest: MutationCache[str]) -> None:
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
