"""The heap of named items, and the heap of deadlines."""

from __future__ import annotations

from headgate.waiting.heap import DeadlineHeap, Heap


def test_the_least_key_is_first_and_equal_keys_are_in_order_of_insertion() -> None:
    heap: Heap[str] = Heap()
    for name, key in (("c", 2), ("b", 1), ("a", 1)):
        heap.put(name, key)
    assert [heap.pop(), heap.pop(), heap.pop(), heap.pop()] == ["b", "a", "c", None]


def test_a_name_that_is_put_again_counts_once_with_its_new_key() -> None:
    heap: Heap[str] = Heap()
    heap.put("a", 1)
    heap.put("b", 2)
    heap.put("a", 3)
    assert len(heap) == 2
    assert [heap.pop(), heap.pop(), heap.pop()] == ["b", "a", None]


def test_a_discarded_name_is_not_returned_and_may_be_put_again() -> None:
    heap: Heap[str] = Heap()
    heap.put("a", 1)
    heap.discard("a")
    heap.discard("a")
    assert heap.first() is None
    heap.put("a", 2)
    assert heap.first() == (2, "a")
    assert "a" in heap
    assert list(heap) == ["a"]


def test_stale_entries_do_not_accumulate() -> None:
    heap: Heap[int] = Heap()
    heap.put(0, 0)
    for key in range(10_000):
        heap.put(1, key)
    for name in range(2, 10_000):
        heap.put(name, name)
        heap.discard(name)
    assert len(heap) == 2
    assert len(heap._entries) < 200


def test_stale_entries_are_at_most_as_many_as_the_names_and_sixty_four_more() -> None:
    heap: Heap[int] = Heap()
    for name in range(10):
        heap.put(name, name)
    for key in range(74):
        heap.put(0, -key)
    assert len(heap._entries) == 2 * 10 + 64
    heap.put(0, -100)
    assert len(heap._entries) == 10
    assert heap.first() == (-100, 0)


def test_key_of_returns_the_key_of_a_name() -> None:
    heap: Heap[str] = Heap()
    heap.put("a", 1)
    heap.put("a", 2)
    assert (heap.key_of("a"), heap.key_of("b")) == (2, None)


def test_names_are_due_one_by_one_and_those_put_meanwhile_count_too() -> None:
    deadlines: DeadlineHeap[str] = DeadlineHeap()
    for name, at_s in (("later", 3.0), ("second", 2.0), ("first", 1.0)):
        deadlines.put(name, at_s)
    found = []
    for name in deadlines.due(2.0):
        assert name not in deadlines
        found.append(name)
        if name == "first":
            deadlines.put("now", 0.0)
    assert found == ["first", "now", "second"]
    assert deadlines.next_deadline_s() == 3.0


def test_an_empty_heap_has_no_deadline() -> None:
    deadlines: DeadlineHeap[str] = DeadlineHeap()
    assert deadlines.next_deadline_s() is None
    assert list(deadlines.due(1.0)) == []
