"""The screen at any size, with any names, with and without Unicode."""

from __future__ import annotations

import pytest

from headgate.capacity.names import QUEUES
from headgate.client.connection import Connection
from headgate.kube.api_resources import NODES, PODS
from headgate.terminal.bars import ASCII, UNICODE
from headgate.terminal.cells import width
from headgate.terminal.drawing import draw
from headgate.terminal.screen_text import encode_changes
from headgate.terminal.top_screen import TopScreen
from headgate.terminal.view_tables import TABLES, VIEWS
from headgate.views.waiting_pages import WaitingPages
from viewed_clusters import NOW_S, ViewedCluster, a_node, a_pod

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31mred",
    "\u202egnp.exe",
    "a\nforged line",
    "日本語" * 30,
    "👩\u200d👩\u200d👧 😀",
    "e" + "\u0301" * 50,
    "a" * 253,
)


def a_screen(*queues: str) -> TopScreen:
    cluster = ViewedCluster()
    cluster.put(NODES, a_node("node-1"))
    cluster.put(QUEUES, {"metadata": {"name": "q", "uid": "q"}, "spec": {"capability": {"cpu": "2"}}})
    for index, name in enumerate(queues):
        cluster.put(PODS, a_pod(f"pod-{index}", queue=name, gates=("g.example/" + name,)))
    cluster.flush()
    screen = TopScreen("https://cluster.example")
    pages = WaitingPages(cluster.views)
    for view in VIEWS:
        screen.view = view
        screen.update(cluster.views, pages, "first", True)
    screen.view = "overview"
    return screen


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("mode", ["list", "detail", "filter", "help"])
def test_a_picture_has_the_size_of_the_terminal(view: str, mode: str) -> None:
    screen = a_screen("q", *HOSTILE)
    screen.press(str(VIEWS.index(view) + 1))
    screen.press({"detail": "enter", "filter": "/", "help": "?"}.get(mode, "esc"))
    for columns in (1, 5, 20, 40, 79, 80, 200):
        for rows in (1, 2, 3, 5, 8, 24):
            lines = draw(screen, columns, rows, NOW_S, UNICODE)
            assert len(lines) == rows
            assert all(width(line.text) <= columns for line in lines), (columns, rows)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_objects_send_nothing_to_the_terminal(view: str, name: str) -> None:
    screen = a_screen(name)
    screen.connection = Connection(name, NOW_S)
    for key in (str(VIEWS.index(view) + 1), "end", "enter"):
        screen.press(key)
        lines = draw(screen, 120, 30, NOW_S, UNICODE)
        for line in lines:
            assert line.text.isprintable(), line.text
        sent = encode_changes(None, lines, 120, colour=True)
        assert name not in sent or name.isprintable()
        assert sent.count("\x1b]") == sent.count("\x9b") == sent.count("\u202e") == sent.count("\n") == 0


def test_the_selected_row_is_visible_at_every_height() -> None:
    screen = a_screen(*[f"queue-{index:02}" for index in range(40)])
    screen.press("2")
    for rows in (8, 12, 30, 9, 50):
        draw(screen, 80, rows, NOW_S, UNICODE)
        for key in ("end", "pgup", "up", "home", "pgdn"):
            screen.press(key)
            lines = draw(screen, 80, rows, NOW_S, UNICODE)
            assert sum(line.is_selected for line in lines) == 1, (rows, key)


def test_narrow_terminals_show_the_columns_that_matter_most() -> None:
    screen = a_screen("q")
    headings = {}
    for view in VIEWS:
        screen.press(str(VIEWS.index(view) + 1))
        text = [line.text for line in draw(screen, 40, 24, NOW_S, UNICODE)]
        headings[view] = next(line for line in text if TABLES[view].columns[0].title[:5] in line)
    assert headings["waiting"].split() == ["PLACE", "NAME", "WAITS", "↑", "WHY"]
    assert headings["queues"].split() == ["QUEUE", "↑", "RESOURCE", "USE", "IN", "WORDS"] or "USE" in headings["queues"]
    assert "FULLEST" in headings["nodes"]


def test_without_unicode_the_screen_is_ascii() -> None:
    screen = a_screen("q")
    for view in VIEWS:
        screen.press(str(VIEWS.index(view) + 1))
        text = "".join(line.text for line in draw(screen, 120, 30, NOW_S, ASCII))
        assert text.replace("…", "").isascii()


def test_the_keys_that_lead_out_are_kept_in_a_narrow_footer() -> None:
    screen = a_screen("q")
    assert draw(screen, 24, 10, NOW_S, UNICODE)[-1].text.endswith("? help   q quit")
    screen.press("enter")
    assert draw(screen, 24, 10, NOW_S, UNICODE)[-1].text.endswith("Esc back   q quit")
