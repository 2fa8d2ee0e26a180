"""What the webhook server knows of other objects."""

from __future__ import annotations

from typing import Any

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.control.webhooks.book import Book, Reading
from headgate.kube.resource import NAMESPACES


def a_queue(name: str, parent: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"parent": parent} if parent else {}}


def a_group(name: str, queue: str, namespace: str = "t") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"queue": queue}}


def test_children_follow_what_queues_say() -> None:
    book = Book()
    for queue in (a_queue("a"), a_queue("b", "a"), a_queue("c", "a")):
        book.applied(QUEUES, queue)
    assert [each["metadata"]["name"] for each in book.children("a")] == ["b", "c"]
    book.applied(QUEUES, a_queue("b", "c"))
    book.removed(QUEUES, "", "c")
    assert book.children("a") == []
    assert [each["metadata"]["name"] for each in book.children("c")] == ["b"]


def test_a_queue_has_groups_until_the_last_one_is_gone_or_moved() -> None:
    book = Book()
    book.applied(POD_GROUPS, a_group("g", "a"))
    book.applied(POD_GROUPS, a_group("g", "a", namespace="u"))
    book.removed(POD_GROUPS, "t", "g")
    assert book.has_groups("a")
    book.applied(POD_GROUPS, a_group("g", "b", namespace="u"))
    assert (book.has_groups("a"), book.has_groups("b")) == (False, True)
    book.removed(POD_GROUPS, "u", "g")
    book.removed(POD_GROUPS, "u", "g")
    assert not book.has_groups("b")


def test_what_is_malformed_is_kept_and_counts_nowhere() -> None:
    book = Book()
    book.applied(QUEUES, {"metadata": {"name": "a"}, "spec": None})
    book.applied(QUEUES, {"metadata": {"name": "b"}, "spec": {"parent": 7}})
    book.removed(QUEUES, "", "b")
    assert book.get(QUEUES, "", "a") is not None


def test_a_reading_says_what_it_missed_and_takes_what_was_fetched() -> None:
    book = Book()
    book.applied(NAMESPACES, {"metadata": {"name": "t"}})
    reading = Reading(book, {})
    assert reading.get(NAMESPACES, "", "t") is not None
    assert reading.get(POD_GROUPS, "t", "g") is None
    assert reading.missed == [(POD_GROUPS, "t", "g")]
    again = Reading(book, {(POD_GROUPS, "t", "g"): a_group("g", "a"), (QUEUES, "", "a"): None})
    assert again.get(POD_GROUPS, "t", "g") == a_group("g", "a")
    assert again.get(QUEUES, "", "a") is None
    assert again.missed == []
