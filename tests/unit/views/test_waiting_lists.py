"""Lists of waiting units stay what a new list would be, and lists that are not read are dropped."""

from __future__ import annotations

from headgate.views.rows import WaitingRow
from headgate.views.waiting_lists import Order, WaitingLists


def a_row(name: str, since_s: float = 0.0, namespace: str = "ns") -> WaitingRow:
    return WaitingRow(f"Pod/{namespace}/{name}", "Pod", namespace, name, "queued", since_s=since_s)


def in_ns(row: WaitingRow) -> bool:
    return row.namespace == "ns"


def names(order: list[Order]) -> list[str]:
    return [key.rpartition("/")[2] for _, key in order]


class Units:
    """Units, and lists of them."""

    def __init__(self) -> None:
        self.rows: dict[str, WaitingRow] = {}
        self.fills = 0
        self.lists = WaitingLists(self._all)

    def _all(self) -> list[WaitingRow]:
        self.fills += 1
        return list(self.rows.values())

    def put(self, row: WaitingRow) -> None:
        before = self.rows.get(row.key)
        self.rows[row.key] = row
        self.lists.put(None if before is None else before.since_s, row)

    def remove(self, row: WaitingRow) -> None:
        del self.rows[row.key]
        self.lists.discard(row.since_s, row.key)


def test_a_list_follows_new_changed_and_removed_units() -> None:
    units = Units()
    units.put(a_row("b", 2.0))
    assert names(units.lists.get("ns", in_ns)) == ["b"]
    units.put(a_row("c", 3.0))
    units.put(a_row("a", 1.0))
    units.put(a_row("other", 1.0, "elsewhere"))
    assert names(units.lists.get("ns", in_ns)) == ["a", "b", "c"]
    units.put(a_row("a", 9.0))
    units.put(a_row("b", 2.0))
    assert names(units.lists.get("ns", in_ns)) == ["b", "c", "a"]
    units.remove(a_row("b", 2.0))
    assert names(units.lists.get("ns", in_ns)) == ["c", "a"]
    assert units.fills == 1


def test_a_unit_enters_and_leaves_a_list_when_it_begins_and_ends_to_match() -> None:
    units = Units()
    units.lists.get("x", lambda row: row.queue == "x")
    row = a_row("a")
    units.put(row)
    assert units.lists.get("x", in_ns) == []
    units.put(WaitingRow(row.key, "Pod", "ns", "a", "queued", queue="x"))
    assert names(units.lists.get("x", in_ns)) == ["a"]
    units.put(row)
    assert units.lists.get("x", in_ns) == []


def test_a_list_that_is_not_read_costs_nothing_after_a_while() -> None:
    units = Units()
    calls: list[WaitingRow] = []

    def counted(row: WaitingRow) -> bool:
        calls.append(row)
        return True

    units.lists.get("unread", counted)
    for _ in range(20_000):
        units.put(a_row("a"))
    assert len(calls) < 15_000
    units.lists.get("unread", in_ns)
    assert units.fills == 2


def test_the_list_that_was_read_longest_ago_makes_room() -> None:
    units = Units()
    for number in range(20):
        units.lists.get(number, in_ns)
        units.lists.get(0, in_ns)
    assert units.fills == 20
    units.lists.get(1, in_ns)
    assert units.fills == 21
