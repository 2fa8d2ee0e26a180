"""Lists and trees of rows: order, filter, and the places of rows, after any changes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.terminal.listed_rows import ListedRows, ListedTree
from headgate.views.rows import NodeRow, QueueRow


def a_node(name: str, pods: int = 0) -> NodeRow:
    return NodeRow(name, "", True, True, pods, 0.0, "", ())


def by_pods() -> ListedRows[NodeRow]:
    return ListedRows(lambda row: row.key, lambda row: row.pods)


def names(listed: ListedRows[NodeRow]) -> list[str]:
    return [each.row.key for each in listed.entries(0, len(listed))]


def test_rows_are_in_the_order_of_a_column_then_of_their_keys() -> None:
    listed = by_pods()
    listed.replace([a_node("b", 1), a_node("a", 1), a_node("c", 0)])
    assert names(listed) == ["c", "a", "b"]
    listed.set_order(lambda row: row.pods, is_reversed=True)
    assert names(listed) == ["b", "a", "c"]
    assert [listed.index_of((name, 0)) for name in "bac"] == [0, 1, 2]


def test_a_change_moves_the_row() -> None:
    listed = by_pods()
    listed.replace([a_node("a", 1), a_node("b", 2)])
    listed.put(a_node("a", 3))
    assert names(listed) == ["b", "a"]
    listed.remove("b")
    listed.remove("absent")
    assert names(listed) == ["a"]
    assert listed.index_of(("b", 0)) is None


def test_a_filter_lists_rows_with_all_words() -> None:
    listed = by_pods()
    listed.replace([a_node("gpu-east"), a_node("gpu-west"), a_node("cpu-east")])
    listed.set_filter("EAST gpu")
    assert names(listed) == ["gpu-east"]
    listed.put(a_node("east-gpu"))
    listed.put(a_node("west"))
    assert names(listed) == ["east-gpu", "gpu-east"]
    listed.set_filter("")
    assert len(listed) == 5


STEPS = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.booleans()), max_size=30)


@settings(max_examples=200)
@given(STEPS, st.booleans(), st.sampled_from(["", "a", "b c"]), st.integers(0, 6), st.integers(0, 6))
def test_a_list_is_that_of_sorting_all_rows(
    steps: list[tuple[str, int, bool]], is_reversed: bool, text: str, start: int, end: int
) -> None:
    listed = by_pods()
    listed.set_order(lambda row: row.pods, is_reversed=is_reversed)
    listed.set_filter(text)
    rows: dict[str, NodeRow] = {}
    for name, pods, is_removed in steps:
        if is_removed:
            rows.pop(name, None)
            listed.remove(name)
        else:
            rows[name] = a_node(name, pods)
            listed.put(rows[name])
    matching = [row for row in rows.values() if all(word in row.key for word in text.split())]
    wanted = sorted(matching, key=lambda row: (row.pods, row.key), reverse=is_reversed)
    assert names(listed) == [row.key for row in wanted]
    assert [each.row for each in listed.entries(start, end)] == wanted[start:end]
    assert all(listed.index_of((row.key, 0)) == index for index, row in enumerate(wanted))


def a_queue(name: str, parent: str = "", waiting: int = 0) -> QueueRow:
    return QueueRow(name, parent, "Open", 0, 1, 0.0, waiting, "", ())


def a_tree() -> ListedTree[QueueRow]:
    return ListedTree(lambda row: row.key, lambda row: row.key, lambda row: row.parent, lambda row: len(row.key))


def lines(tree: ListedTree[QueueRow]) -> list[tuple[str, int, int]]:
    return [(each.row.key, each.part, each.depth) for each in tree.entries(0, len(tree))]


def test_rows_of_a_tree_are_below_their_parents_with_a_line_for_each_part() -> None:
    tree = a_tree()
    tree.replace([a_queue("r"), a_queue("ab", "r"), a_queue("c", "ab"), a_queue("b", "r")])
    assert lines(tree) == [("r", 0, 0), ("ab", 0, 1), ("ab", 1, 1), ("c", 0, 2), ("b", 0, 1)]
    assert tree.index_of(("ab", 1)) == 2
    tree.set_order(lambda row: row.key, is_reversed=True)
    assert [each[0] for each in lines(tree)] == ["r", "b", "ab", "ab", "c"]


def test_a_row_without_its_parent_and_rows_of_a_cycle_are_listed_once() -> None:
    tree = a_tree()
    tree.replace([a_queue("x", "absent"), a_queue("p", "q"), a_queue("q", "p"), a_queue("s", "s")])
    assert sorted(each[0] for each in lines(tree)) == ["p", "q", "s", "x"]


def test_a_filter_of_a_tree_lists_the_rows_above_too() -> None:
    tree = a_tree()
    tree.replace([a_queue("r"), a_queue("a", "r"), a_queue("z", "a"), a_queue("b", "r")])
    tree.set_filter("z")
    assert [each[0] for each in lines(tree)] == ["r", "a", "z"]


def test_a_change_that_moves_nothing_shows_the_new_row_in_its_place() -> None:
    tree = a_tree()
    tree.replace([a_queue("r"), a_queue("a", "r")])
    before = lines(tree)
    tree.put(a_queue("a", "r", waiting=7))
    assert lines(tree) == before
    assert tree.entries(1, 2)[0].row.waiting == 7
    tree.put(a_queue("a", ""))
    assert lines(tree) == [("a", 0, 0), ("r", 0, 0)]
    tree.remove("r")
    assert lines(tree) == [("a", 0, 0)]
