"""Ten thousand waiting pods: the list is scrolled without a long task, and a view of them costs no memory per row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.page_cluster import COMPONENTS, show
from harness.browser import Browser
from harness.embedded_server import EmbeddedServer
from harness.headgate_cli import headgate

MANY = 10_000
PARTS = 20
FIRST = "many-0-pod-00001"
LAST = f"many-{PARTS - 1}-pod-{MANY // PARTS:05}"
LONG_TASK_MS = 100.0
LONG_TASKS = """
window.long = [];
const observer = new PerformanceObserver(list => long.push(...list.getEntries().map(each => each.duration)));
observer.observe({ type: 'longtask' })
"""


@pytest.fixture(scope="module")
def server(chromium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """Without a scheduler nothing else uses the machine while the list is scrolled."""
    components = COMPONENTS.replace(",scheduler,quota,jobs", "")
    flags = ("--components", components, "--nodes", "3", "--dashboard-listen", "127.0.0.1:0")
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), flags=flags)
    try:
        for part in range(PARTS):
            load = ("load", f"many-{part}", "--pods", str(MANY // PARTS), "--gate", "example.com/data")
            code, printed, problem = headgate(*load, "--kubeconfig", running.kubeconfig)
            assert code == 0, (printed, problem)
        yield running
    finally:
        running.disconnect()
        running.stop()


@pytest.mark.measured
def test_ten_thousand_waiting_pods_are_scrolled_without_a_long_task(browser: Browser) -> None:
    show(browser, "waiting")
    browser.wait_for(f"document.querySelector('.list').getAttribute('aria-rowcount') === '{MANY + 1}'")
    browser.evaluate(LONG_TASKS)
    for part in (*range(1, 41), *range(40, -1, -8)):
        browser.evaluate(f"(list => list.scrollTop = list.scrollHeight * {part / 40})(document.querySelector('.list'))")
        browser.wait_for("document.querySelectorAll('.row a').length > 5")
    browser.evaluate("(list => list.scrollTop = list.scrollHeight)(document.querySelector('.list'))")
    browser.wait_for_text(LAST, "#main")
    assert browser.evaluate("document.querySelectorAll('.row').length") < 100
    assert browser.evaluate("Math.max(0, ...long)") <= LONG_TASK_MS


def test_keys_reach_the_last_of_ten_thousand_rows(browser: Browser) -> None:
    show(browser, "waiting")
    browser.wait_for(f"document.querySelector('.list').getAttribute('aria-rowcount') === '{MANY + 1}'")
    browser.press("End")
    browser.wait_for_text(LAST, "#main")
    browser.wait_for(f"document.activeElement.textContent === '{LAST}'")
    browser.press("Home")
    browser.wait_for(f"document.activeElement.textContent === '{FIRST}'")
    browser.press("Enter")
    browser.wait_for_text("What has happened", "#main")
