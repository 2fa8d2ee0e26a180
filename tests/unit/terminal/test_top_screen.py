"""The state machine of `headgate top`: keys and rows in, lines of the screen out."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.capacity.names import QUEUES
from headgate.client.connection import Connection
from headgate.kube.api_resources import NODES, PODS
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.terminal.bars import UNICODE
from headgate.terminal.drawing import draw
from headgate.terminal.screen_text import ScreenLine
from headgate.terminal.top_screen import Target, TopScreen
from headgate.terminal.view_tables import VIEWS
from headgate.views.waiting_pages import WaitingPages
from kueue_builders import a_cluster_queue, a_flavor, a_local_queue, a_workload
from viewed_clusters import NOW_S, ViewedCluster, a_node, a_pod

FOREIGN = "example.com/data"


class Shown:
    """A screen of 100 columns and 20 lines, and the cluster that it shows."""

    def __init__(self, columns: int = 100, rows: int = 20) -> None:
        self.cluster = ViewedCluster()
        self.pages = WaitingPages(self.cluster.views)
        self.screen = TopScreen("https://cluster.example")
        self.columns, self.rows = columns, rows
        self.now_s = NOW_S + 60
        self.epoch = "first"

    def update(self, *, is_complete: bool = True) -> bool:
        self.cluster.flush()
        return self.screen.update(self.cluster.views, self.pages, self.epoch, is_complete)

    def lines(self) -> list[ScreenLine]:
        self.update()
        self.screen.refresh_detail(self.now_s)
        return draw(self.screen, self.columns, self.rows, self.now_s, UNICODE)

    def text(self) -> str:
        return "\n".join(line.text for line in self.lines())

    def press(self, *keys: str) -> str:
        for key in keys:
            self.screen.press(key)
            self.update()
        return self.text()

    def selected(self) -> str:
        found = [line.text for line in self.lines() if line.is_selected]
        assert len(found) <= 1
        return found[0] if found else ""


@pytest.fixture
def shown() -> Shown:
    """Three pods wait in a queue of 2 cpu, one of them behind another gate, and one runs."""
    found = Shown()
    put = found.cluster.put
    put(NODES, a_node("node-1"), a_node("node-2", ready=False))
    put(QUEUES, {"metadata": {"name": "q", "uid": "q"}, "spec": {"capability": {"cpu": "2"}}})
    put(PODS, a_pod("runs", "2", "q", gates=(), node="node-1", phase="Running"))
    put(PODS, a_pod("first", queue="q", at_s=1), a_pod("second", queue="q", at_s=2, namespace="other"))
    put(PODS, a_pod("held", queue="q", gates=("scheduling.volcano.sh/queue-allocation-gate", FOREIGN), at_s=3))
    put(RESOURCE_FLAVORS, a_flavor())
    put(CLUSTER_QUEUES, a_cluster_queue())
    put(LOCAL_QUEUES, a_local_queue())
    put(WORKLOADS, a_workload("w", cpu=1, at_s=4))
    found.update()
    return found


# -- views -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("1", ("3 waiting", "1 behind other gates", "1 running", "1 of 2 ready", "12%, 2 of 16", "other")),
        ("2", ("first", "QueueFull", "Gated", "queue q has no capacity for 1 c", "w ")),
        ("3", ("q", "2 of 2 used, 3 waiting", "█")),
        ("4", ("cq", "0 of 10 used", "  ns/lq")),
        ("5", (FOREIGN, "not known: no GatePoli")),
        ("6", ("node-1", "ready", "25% cpu", "not ready")),
        ("7", ("queue/missing", "does not exist", "error")),
    ],
)
def test_every_view_shows_its_rows(shown: Shown, key: str, texts: tuple[str, ...]) -> None:
    if key == "7":
        shown.cluster.put(PODS, a_pod("lost", queue="missing"))
    text = shown.press(key)
    for each in texts:
        assert each in text, text


def test_views_are_chosen_by_number_by_tab_and_by_letters(shown: Shown) -> None:
    views = []
    for key in ("tab", "tab", "backtab", "right", "left"):
        shown.press(key)
        views.append(shown.screen.view)
    assert views == ["waiting", "queues", "waiting", "queues", "waiting"]
    for letter in "owqctnpx":
        shown.press("g", letter)
        views.append(shown.screen.view)
    assert views[5:] == [*VIEWS, "problems"]
    assert " Overview " in shown.press("tab")
    assert shown.screen.view == VIEWS[0]


def test_the_tabs_count_rows_and_the_title_says_that_it_is_live(shown: Shown) -> None:
    lines = shown.lines()
    assert lines[0].text.startswith("headgate top  https://cluster.example")
    assert lines[0].text.endswith("live")
    assert "2 Waiting 4" in lines[1].text


def test_an_empty_view_says_what_that_means() -> None:
    shown = Shown()
    assert "nothing waits" in shown.press("2")
    assert "there are no Queues" in shown.press("3")
    assert "nothing is known to be wrong" in shown.press("7")


def test_rows_are_not_called_absent_while_the_cluster_is_being_read() -> None:
    shown = Shown()
    shown.cluster.flush()
    shown.screen.view = "waiting"
    shown.screen.update(shown.cluster.views, shown.pages, "first", False)
    text = "\n".join(line.text for line in draw(shown.screen, 80, 10, NOW_S, UNICODE))
    assert "reading the cluster" in text
    assert "nothing waits" not in text


# -- rows --------------------------------------------------------------------------------------------------------------


def test_a_change_of_the_cluster_changes_the_screen(shown: Shown) -> None:
    assert "third" not in shown.press("2")
    shown.cluster.put(PODS, a_pod("third", queue="q", at_s=9))
    assert "third" in shown.text()
    shown.cluster.remove(PODS, "ns/third")
    assert "third" not in shown.text()


def test_nothing_changes_without_a_change(shown: Shown) -> None:
    assert not shown.update()
    shown.cluster.put(PODS, a_pod("third", queue="q", at_s=9))
    assert shown.update()
    assert not shown.update()


def test_the_selection_stays_on_its_row_when_rows_before_it_come_and_go(shown: Shown) -> None:
    shown.press("2", "down")
    assert "second" in shown.selected()
    shown.cluster.put(PODS, a_pod("earlier", queue="q", at_s=-5))
    assert "second" in shown.selected()
    shown.cluster.remove(PODS, "ns/first")
    assert "second" in shown.selected()
    shown.cluster.remove(PODS, "other/second")
    assert shown.selected()


def test_keys_move_within_the_rows(shown: Shown) -> None:
    shown.rows = 9
    for index in range(30):
        shown.cluster.put(PODS, a_pod(f"p{index:02}", queue="q", at_s=10 + index))
    shown.press("2", "G")
    assert "p29" in shown.selected()
    shown.press("down")
    assert "p29" in shown.selected()
    shown.press("pgup")
    assert "p25" in shown.selected()
    shown.press("k", "up", "j")
    assert "p24" in shown.selected()
    shown.press("g", "g")
    before = shown.selected()
    assert shown.press("up")
    assert shown.selected() == before
    shown.press("ctrl-d", "home")
    assert shown.selected() == before


def test_sorting_takes_the_columns_in_turn_and_can_be_reversed(shown: Shown) -> None:
    shown.press("6")
    assert "node-1" in shown.selected()
    assert "NODE ↑" in shown.text()
    shown.press("r")
    assert "NODE ↓" in shown.text()
    assert [line.text.split()[0] for line in shown.lines()[3:5]] == ["node-2", "node-1"]
    shown.press("s", "s", "s")
    assert "PODS ↓" in shown.text()
    assert [line.text.split()[0] for line in shown.lines()[3:5]] == ["node-1", "node-2"]
    shown.press("S")
    assert "STATE ↑" in shown.text()


def test_a_filter_is_typed_kept_and_dropped(shown: Shown) -> None:
    text = shown.press("2", "/", *"seco")
    assert "filter: seco_" in text
    assert "second" in text
    assert "first" not in text
    text = shown.press("enter")
    assert "filter: seco; Esc: none" in text
    assert "1 line" in text
    assert "first" in shown.press("esc")
    shown.press("/", *"qqx")
    assert "no row has these words" in shown.text()
    shown.press("backspace", "backspace", "backspace")
    assert "first" in shown.press("enter")
    shown.press("/", *"zz", "ctrl-u")
    assert shown.screen.place.text == ""
    shown.press("x", "esc")
    assert (shown.screen.mode, shown.screen.place.text) == ("list", "")


def test_keys_of_the_list_are_text_while_a_filter_is_typed(shown: Shown) -> None:
    shown.press("2", "/", "q", "p", "?", "1", "g")
    assert shown.screen.place.text == "qp?1g"
    assert (shown.screen.view, shown.screen.is_paused) == ("waiting", False)


def test_the_line_of_a_queue_has_its_units_in_order(shown: Shown) -> None:
    shown.press("3", "/", "q", "enter")
    text = shown.press("l")
    assert "units of Queue q, in order" in text
    assert "3 lines" in text
    rows = [line.text.split() for line in shown.lines()[4:7]]
    assert [row[0] for row in rows] == ["1", "2", "-"], "a pod behind another gate is not in line"
    assert rows[0][2] == "first"
    shown.press("down", "down", "down")
    assert shown.screen.place.index == 2
    shown.press("s", "r")
    assert [line.text.split()[0] for line in shown.lines()[4:7]] == ["1", "2", "-"]
    assert "2 lines" not in shown.press("/", *"second")
    assert "1 line" in shown.press("enter")
    shown.press("esc")
    assert "4" in shown.press("esc").splitlines()[1]
    assert shown.screen.query is None


@pytest.mark.parametrize(("view", "named"), [("1", "namespace"), ("5", "gate"), ("4", "ClusterQueue cq")])
def test_the_units_of_other_rows_are_listed_too(shown: Shown, view: str, named: str) -> None:
    assert f"units of {named}" in shown.press(view, "l")


def test_many_rows_cost_the_visible_ones_only(shown: Shown) -> None:
    formatted = 0
    entry = shown.pages.entry

    def counting(row: Any) -> Any:
        nonlocal formatted
        formatted += 1
        return entry(row)

    for index in range(3000):
        shown.cluster.put(PODS, a_pod(f"p{index:04}", queue="q", at_s=10 + index))
    shown.press("2", "G", "pgup")
    shown.pages.entry = counting  # type: ignore[method-assign]  # counts the calls, and answers as before
    shown.lines()
    assert formatted <= shown.rows


# -- details -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "target"),
    [
        (("2", "enter"), Target("pods", "ns", "first")),
        (("2", "/", "w", "enter", "enter"), Target("workloads", "ns", "w")),
        (("3", "enter"), Target("queue", "", "q")),
        (("4", "enter"), Target("clusterqueue", "", "cq")),
        (("4", "down", "enter"), Target("localqueue", "ns", "lq")),
    ],
)
def test_the_details_of_a_unit_or_a_queue_are_explained(shown: Shown, keys: tuple[str, ...], target: Target) -> None:
    text = shown.press(*keys)
    assert shown.screen.target == target
    assert "reading …" in text
    shown.screen.set_detail(Target("pods", "ns", "other"), ["late"])
    shown.screen.set_detail(target, ["it waits", "  because of this"])
    assert "because of this" in shown.text()
    shown.press("esc")
    shown.screen.set_detail(target, ["late"])
    assert (shown.screen.mode, shown.screen.detail) == ("list", ())


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        (("1", "enter"), ("namespace ns", "admission of their Workload: 1", "l lists its units")),
        (("5", "enter"), ("gate ", "holds", "waits longest")),
        (("6", "enter"), ("node node-1: ready", "cpu: 2 of 8 requested")),
    ],
)
def test_other_rows_show_all_that_they_have(shown: Shown, keys: tuple[str, ...], texts: tuple[str, ...]) -> None:
    text = shown.press(*keys)
    for each in texts:
        assert each in text, text


def test_the_details_of_a_row_follow_its_changes_until_it_is_gone(shown: Shown) -> None:
    shown.press("6", "enter")
    shown.cluster.put(NODES, a_node("node-1", unschedulable=True))
    assert "node node-1: cordoned" in shown.text()
    shown.cluster.remove(NODES, "node-1")
    text = shown.text()
    assert "it is gone" in text
    assert "node node-1" in text


def test_long_details_scroll_to_their_end_and_no_further(shown: Shown) -> None:
    shown.press("3", "enter")
    target = shown.screen.target
    assert target is not None
    shown.screen.set_detail(target, [f"line {index}" for index in range(50)])
    assert "line 0" in shown.text()
    text = shown.press("G")
    assert "line 49" in text
    assert shown.press("down") == text
    assert "line 0\n" in shown.press("home")
    assert "line 49" not in shown.press("pgdn")


def test_the_help_lists_the_keys_and_returns(shown: Shown) -> None:
    shown.rows = 40
    shown.press("3", "enter")
    text = shown.press("?")
    for each in ("2 or g w", "Waiting", "p Space", "pause the updates", "sort by the next column"):
        assert each in text, text
    shown.press("esc")
    assert shown.screen.mode == "detail"
    shown.press("?", "2")
    assert (shown.screen.mode, shown.screen.view) == ("list", "waiting")


# -- the session -------------------------------------------------------------------------------------------------------


def test_some_keys_are_for_the_session(shown: Shown) -> None:
    assert [shown.screen.press(key) for key in ("q", "ctrl-c", "ctrl-z", "ctrl-l", "j", "é")] == [
        "quit",
        "quit",
        "suspend",
        "redraw",
        None,
        None,
    ]
    for mode in ("/", "enter", "?"):
        shown.press("esc", "esc", mode)
        assert shown.screen.press("ctrl-c") == "quit"


def test_a_pause_keeps_the_rows(shown: Shown) -> None:
    shown.press("2", "p")
    shown.cluster.put(PODS, a_pod("third", queue="q", at_s=9))
    text = shown.text()
    assert "paused" in text
    assert "third" not in text
    assert "node-1" in shown.press("6"), "a view that was not shown before is read"
    shown.press("2")
    assert "third" in shown.press("p")


def test_a_lost_connection_is_said_and_the_rows_stay(shown: Shown) -> None:
    shown.press("2")
    shown.screen.connection = Connection("connection refused", NOW_S + 50)
    text = shown.text()
    assert "reconnecting for 10s" in text
    assert "no connection: connection refused" in text
    assert "first" in text
    shown.screen.connection = Connection()
    assert "live" in shown.text()


def test_new_views_after_a_restart_replace_all_rows(shown: Shown) -> None:
    shown.press("2")
    shown.cluster = ViewedCluster()
    shown.pages = WaitingPages(shown.cluster.views)
    shown.epoch = "second"
    shown.cluster.put(PODS, a_pod("only", queue="q"))
    text = shown.text()
    assert "only" in text
    assert "first" not in text
    assert "0 of 0 ready" in shown.press("1")


def test_a_missing_right_is_named_where_rows_are_missing() -> None:
    shown = Shown()
    shown.cluster.views.set_missing_rights(["missing right: list nodes"])
    text = shown.press("6")
    assert "missing right: list nodes; what is shown is incomplete" in text
    assert "nothing can be shown without the missing right" in text
    assert "there are no nodes" not in text
    assert "missing right" not in shown.press("3")
    assert "missing right: list nodes" in shown.press("7")


def test_a_remark_of_the_process_is_in_the_last_line(shown: Shown) -> None:
    shown.screen.remark = "controllers: the watch of pods failed"
    assert shown.lines()[-1].text == "controllers: the watch of pods failed"


def test_rates_are_sampled_while_the_views_are_complete(shown: Shown) -> None:
    screen, views = shown.screen, shown.cluster.views
    screen.sample("first", NOW_S, views)
    shown.cluster.put(PODS, a_pod("third", queue="q", at_s=9))
    screen.sample("first", NOW_S + 1, views)
    assert screen.rates.latest("created") == 1.0
    assert "pods created          1.0/s" in shown.text()
    screen.connection = Connection("refused", NOW_S)
    screen.sample("first", NOW_S + 2, views)
    screen.connection = Connection()
    screen.sample("first", NOW_S + 3, views)
    assert len(screen.rates.history["created"]) == 1
