"""The page in Debian's Chromium: every view shows data, changes arrive, keys work, and names stay text."""

from __future__ import annotations

import pytest

from browser.page_cluster import GATE, POD_VIEW, PODS, QUEUES, VIEWS, show, workload_of
from harness.browser import Browser
from harness.embedded_server import EmbeddedServer
from harness.page import Page
from harness.scheduler_process import send
from shown_objects import a_pod
from simulated_clusters import volcano_queue


@pytest.mark.parametrize(
    ("address", "texts"),
    [
        ("overview", ("Waiting for a queue", "cpu", "has no capacity for 1 cpu", "default")),
        ("waiting", ("waits", "held", "QueueFull", f"{GATE} has to be removed by its owner")),
        ("waiting?kind=Queue&queue=q", ("queue q", "waits", "1")),
        ("queues", ("q", "2 of 2 used", "Open")),
        ("quota", ("kq", "2 of 2 used", "default/kq")),
        ("gates", (GATE, "held", "not known: no GatePolicy names it")),
        ("nodes", ("node-0001", "ready", "requested")),
        ("problems", ("queue missing does not exist; 1 waiting pod names it", "To do:")),
        (
            "unit/pods/default/waits",
            ("created", "What holds it", "no capacity for 1 cpu", "headgate explain pod waits"),
        ),
    ],
)
def test_every_view_shows_data(browser: Browser, address: str, texts: tuple[str, ...]) -> None:
    show(browser, address)
    for text in texts:
        browser.wait_for_text(text, "#main")


def test_the_token_leaves_the_address_at_once(browser: Browser, page: Page) -> None:
    assert page.token not in browser.evaluate("location.href")
    assert browser.evaluate("document.cookie") == ""
    browser.evaluate("location.reload()")
    browser.wait_for_text("live", "#live")  # the session stays


def test_a_workload_is_shown_with_its_missing_quota(browser: Browser, server: EmbeddedServer) -> None:
    show(browser, f"unit/workloads/default/{workload_of(server, 'second')}")
    for text in ("created", "Missing quota", "Before it in its LocalQueue", "headgate explain workload"):
        browser.wait_for_text(text, "#main")


def test_all_that_is_recorded_is_shown_on_request(browser: Browser) -> None:
    show(browser, POD_VIEW)
    button = "[...document.querySelectorAll('#main button')].find(each => each.textContent.startsWith('Show all'))"
    browser.wait_for(f"{button} !== undefined")
    browser.evaluate(f"{button}.click()")
    for text in ("PodScheduled became False", "managedFields", "Not known:"):
        browser.wait_for_text(text, "#main")


@pytest.mark.measured
def test_changes_are_shown_within_a_second(browser: Browser, server: EmbeddedServer) -> None:
    show(browser, "queues")
    browser.wait_for_text("2 of 2 used", "#main")
    send(server, "POST", QUEUES, volcano_queue("just-made", cpu=7))
    assert browser.wait_for_text("just-made", "#main") < 1.0
    for address, name, gates in (("waiting", "new-unit", ()), ("gates", "new-gated", ("example.com/new-gate",))):
        show(browser, address)
        send(server, "POST", PODS, a_pod(name, gates=gates))
        assert browser.wait_for_text(gates[0] if gates else name, "#main") < 1.0
    show(browser, "problems")
    send(server, "POST", PODS, a_pod("new-problem", queue="unknown-queue"))
    assert browser.wait_for_text("unknown-queue", "#main") < 1.0
    show(browser, "unit/pods/default/new-gated")
    browser.wait_for_text("example.com/new-gate", "#main")
    send(server, "PATCH", f"{PODS}/new-gated", {"spec": {"schedulingGates": []}}, "application/merge-patch+json")
    browser.wait_for("!document.getElementById('main').innerText.includes('example.com/new-gate')", 1.0)


def test_the_page_resumes_after_the_stream_broke(browser: Browser) -> None:
    browser.command(
        "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1
    )
    browser.evaluate("dispatchEvent(new Event('offline'))")
    browser.press("p")
    browser.wait_for_text("paused", "#live")
    browser.press("p")
    browser.wait_for_text("reconnecting", "#live")
    browser.command(
        "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
    )
    browser.wait_for("document.getElementById('live').dataset.state === 'on'")
    browser.problems.clear()  # the requests that failed while the network was off


def test_the_page_is_used_with_keys_only(browser: Browser) -> None:
    browser.press("g", "w")
    browser.wait_for_text("units wait", "#main")
    browser.wait_for("document.querySelectorAll('.row a').length > 2")
    browser.press("j", "j", "k")
    browser.wait_for("document.activeElement.closest('.row.current') !== null")
    browser.press("Enter")
    browser.wait_for_text("What has happened", "#main")
    browser.press("Escape")
    browser.wait_for_text("units wait", "#main")
    browser.press("/")
    assert browser.evaluate("document.activeElement.id") == "search"
    browser.write("held")
    browser.press("Enter")
    browser.wait_for_text("1 unit waits", "#main")
    browser.press("Escape")
    for key, heading in (("q", "Queues"), ("n", "Nodes"), ("t", "Gates that hold pods"), ("o", "Overview")):
        browser.press("g", key)
        browser.wait_for(f"document.querySelector('#main h1')?.textContent.startsWith('{heading}')")
    browser.press("?")
    browser.wait_for("document.getElementById('help').open")
    browser.press("Escape")
    browser.wait_for("!document.getElementById('help').open")


def test_a_page_without_a_session_asks_for_a_token(browser: Browser, page: Page) -> None:
    browser.evaluate("document.getElementById('logout').click()")
    browser.wait_for_text("You are logged out.")
    browser.evaluate("document.getElementById('token').focus()")
    browser.write(page.token)
    browser.press("Enter")
    browser.wait_for_text("live", "#live")


def test_the_page_fits_a_narrow_window(browser: Browser) -> None:
    browser.resize(400, 800)
    for address in (*VIEWS, POD_VIEW):
        show(browser, address)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_page_that_changes_nothing_has_no_buttons_for_actions(browser: Browser) -> None:
    for address in ("queues", "quota", "gates", "unit/pods/default/held"):
        show(browser, address)
        assert browser.evaluate("document.querySelectorAll('button.act').length") == 0


def test_a_unit_that_waits_shows_when_it_will_start_on_request(browser: Browser) -> None:
    show(browser, POD_VIEW)
    browser.wait_for_text("Estimate when it will start", "#main")
    assert "replays by the engines" not in str(browser.evaluate("document.getElementById('main').textContent"))
    asked = [each for each in browser.requests if "/api/estimates/" in each]
    assert asked == []
    find = "[...document.querySelectorAll('#main button')].find((each) => each.textContent.startsWith('Estimate when'))"
    browser.evaluate(f"{find}.click()")
    browser.wait_for_text("in 8 of 10 replays", "#main")
    browser.wait_for_text("replays by the engines", "#main")
