"""A cluster with rows in each view, its page, and a browser that is logged in. Each test file has its own cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.page_cluster import COMPONENTS, fill
from harness.browser import Browser
from harness.embedded_server import EmbeddedServer
from harness.page import Page


@pytest.fixture(scope="module")
def server(chromium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """``chromium``: without a browser no server is started."""
    flags = ("--components", COMPONENTS, "--nodes", "3", "--dashboard-listen", "127.0.0.1:0")
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), flags=flags)
    try:
        fill(running)
        yield running
    finally:
        running.disconnect()
        running.stop()


@pytest.fixture(scope="module")
def page(server: EmbeddedServer) -> Page:
    return Page(server._process.log)


@pytest.fixture
def browser(page: Page, chromium: Path, tmp_path: Path) -> Iterator[Browser]:
    """Logged in, and at the overview. At the end, nothing may have been reported or requested from elsewhere."""
    opened = Browser(tmp_path, chromium)
    try:
        opened.open(page.address)
        opened.wait_for_text("live", "#live")
        yield opened
        assert opened.problems == []
        elsewhere = [
            each for each in opened.requests if not each.startswith((f"http://{page.host}/", "about:", "data:"))
        ]
        assert elsewhere == []
        assert not any(page.token in each for each in opened.requests if "#" not in each)
    finally:
        opened.close()
