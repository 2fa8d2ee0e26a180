"""A page that is open while its server is killed goes on with the next server, without a login or a reload; one of
`headgate dashboard` says since when the API server is not reached."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.page_cluster import COMPONENTS, QUEUES, show
from harness.browser import Browser
from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.page import Page
from harness.processes import Process
from harness.scheduler_process import send
from simulated_clusters import volcano_queue


@pytest.fixture(scope="module")
def flags() -> tuple[str, ...]:
    """The page is at the same address after the restart."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return ("--components", COMPONENTS, "--dashboard-listen", f"127.0.0.1:{port}")


@pytest.fixture(scope="module")
def server(
    chromium: Path, flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedServer]:
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), flags=flags)
    try:
        send(running, "POST", QUEUES, volcano_queue("before", cpu=2))
        yield running
    finally:
        running.disconnect()
        running.stop()


def test_the_page_goes_on_after_the_server_was_killed(
    browser: Browser, server: EmbeddedServer, page: Page, flags: tuple[str, ...]
) -> None:
    show(browser, "queues")
    browser.wait_for_text("before", "#main")
    browser.evaluate("window.isTheSamePage = true")
    server.disconnect()
    server.kill()
    browser.wait_for_text("reconnecting since", "#live")
    browser.wait_for_text("before", "#main")  # the last state stays
    server.restart(flags)
    browser.wait_for_text("live", "#live")
    send(server, "POST", QUEUES, volcano_queue("after", cpu=2))
    browser.wait_for_text("after", "#main")
    browser.evaluate("location.hash = '#/waiting?search=nothing'")
    browser.wait_for_text("0 units wait", "#main")
    assert browser.evaluate("window.isTheSamePage")
    assert Page(server._process.log).address == page.address
    browser.problems.clear()  # the requests that no server answered


def test_the_page_of_another_process_says_that_the_cluster_is_not_reached(chromium: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = ("--components", COMPONENTS, "--no-dashboard", "--listen", f"127.0.0.1:{port}")
    running = EmbeddedServer(tmp_path / "up", flags=flags)
    words = (str(HEADGATE), "dashboard", "--listen", "127.0.0.1:0", "--kubeconfig", str(running.kubeconfig))
    process = Process([*words], tmp_path / "dashboard.log")
    opened = Browser(tmp_path, chromium)
    try:
        send(running, "POST", QUEUES, volcano_queue("before", cpu=2))
        process.wait_until(lambda: "the page of" in process.log.read_text(), 60)
        opened.open(Page(process.log).address)
        opened.wait_for_text("live", "#live")
        assert opened.evaluate("document.getElementById('connection').hidden")
        show(opened, "queues")
        opened.wait_for_text("before", "#main")
        running.disconnect()
        running.kill()
        opened.wait_for_text("The cluster is not reached since 20", "#connection")
        opened.wait_for_text("not live", "#live")
        opened.wait_for_text("before", "#main")  # the last state stays
        opened.open(Page(process.log).address)  # a page that is opened meanwhile says it, too
        opened.wait_for_text("The cluster is not reached since 20", "#connection")
        running.restart(flags)
        opened.wait_for("document.getElementById('connection').hidden")
        opened.wait_for_text("live", "#live")
        send(running, "POST", QUEUES, volcano_queue("after", cpu=2))
        show(opened, "queues")
        opened.wait_for_text("after", "#main")
    finally:
        opened.close()
        process.stop()
        running.disconnect()
        running.stop()
