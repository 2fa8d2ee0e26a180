"""What answers know of other objects."""

from __future__ import annotations

from typing import Any

from headgate.admission.book import Book, Reading
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.kube.resource import NAMESPACES


def a_queue(name: str, parent: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"parent": parent} if parent else {}}


def a_group(name: str, queue: str, namespace: str = "t") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"queue": queue}}


def test_queues_follow_what_they_say() -> None:
    book = Book()
    for queue in (a_queue("a"), a_queue("b", "a"), a_queue("c", "a")):
        book.applied(QUEUES, queue)
    assert list(book.queues.children("a")) == ["b", "c"]
    book.applied(QUEUES, a_queue("b", "c"))
    book.removed(QUEUES, "", "c")
    assert list(book.queues.children("a")) == []
    assert list(book.queues.children("c")) == ["b"]


def test_a_queue_has_tenants_until_the_last_one_is_gone_or_moved() -> None:
    book = Book()
    book.applied(POD_GROUPS, a_group("g", "a"))
    book.applied(POD_GROUPS, a_group("g", "a", namespace="u"))
    assert book.tenants("a") == 2
    book.removed(POD_GROUPS, "t", "g")
    assert book.tenants("a") == 1
    book.applied(POD_GROUPS, a_group("g", "b", namespace="u"))
    assert (book.tenants("a"), book.tenants("b")) == (0, 1)
    book.removed(POD_GROUPS, "u", "g")
    book.removed(POD_GROUPS, "u", "g")
    assert book.tenants("b") == 0


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
