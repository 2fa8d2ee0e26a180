"""One picture of a view as plain text."""

from __future__ import annotations

import pytest

from headgate.capacity.names import QUEUES
from headgate.kube.api_resources import NODES, PODS
from headgate.terminal.bars import UNICODE
from headgate.terminal.snapshot import snapshot_lines
from headgate.terminal.top_screen import TopScreen
from headgate.terminal.view_tables import VIEWS, ViewName
from headgate.views.waiting_pages import WaitingPages
from viewed_clusters import NOW_S, ViewedCluster, a_node, a_pod


def snapshot(view: ViewName, columns: int | None = None, pods: int = 3) -> list[str]:
    cluster = ViewedCluster()
    cluster.put(NODES, a_node("node-1"))
    cluster.put(QUEUES, {"metadata": {"name": "q", "uid": "q"}, "spec": {"capability": {"cpu": "2"}}})
    for index in range(pods):
        cluster.put(PODS, a_pod(f"pod-{index}" + "x" * 60, queue="q", at_s=index))
    cluster.flush()
    screen = TopScreen("https://cluster.example", view)
    screen.update(cluster.views, WaitingPages(cluster.views), "first", True)
    return list(snapshot_lines(screen, columns, NOW_S + 60, UNICODE))


def test_all_rows_are_printed_in_full() -> None:
    lines = snapshot("waiting", pods=500)
    assert len(lines) == 501
    assert lines[0].split()[:3] == ["PLACE", "NAMESPACE", "NAME"]
    assert "pod-0" + "x" * 60 in lines[1]
    assert "queue q has capacity for it; the scheduler has not admitted it yet" in lines[1]


def test_lines_are_cut_to_a_width() -> None:
    assert max(map(len, snapshot("waiting", 60))) <= 60


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_but_printable_text_is_printed(view: ViewName) -> None:
    lines = snapshot(view)
    assert lines
    assert all(line.isprintable() for line in lines)


def test_the_overview_has_no_rates_because_there_is_one_picture() -> None:
    text = "\n".join(snapshot("overview"))
    assert "3 waiting" in text
    assert "created" not in text


def test_an_empty_view_says_so() -> None:
    assert snapshot("gates", pods=0) == ["no gate holds a pod"]
