"""The page in Debian's Chromium: every view shows data, changes arrive, keys work, and names stay text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.browser import Browser
from harness.embedded_server import EmbeddedServer
from harness.page import Page
from harness.scheduler_process import send, wait_for
from headgate.capacity.names import OPT_IN, QUEUE_NAME
from simulated_clusters import any_flavor, kueue_queue, volcano_queue

COMPONENTS = "apiserver,nodes,controllers,scheduler,quota,jobs"
PODS = "/api/v1/namespaces/default/pods"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
GATE = "example.com/data"
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp"
LONGEST = "a" * 253
MANY = 500


def a_pod(name: str, cpu: str = "1", queue: str = "q", gates: tuple[str, ...] = ()) -> dict[str, Any]:
    annotations = {QUEUE_NAME: queue, OPT_IN: "true", "headgate.dev/run-for": "5h"}
    container = {"name": "main", "image": "job", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "schedulerName": "headgate",
            "restartPolicy": "Never",
            "containers": [container],
            "schedulingGates": [{"name": each} for each in gates],
        },
    }


def a_job(name: str) -> dict[str, Any]:
    template = a_pod(name, "2")
    del template["spec"]["schedulerName"]
    template = {"metadata": {"annotations": {"headgate.dev/run-for": "5h"}}, "spec": template["spec"]}
    metadata = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "kq"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


@pytest.fixture(scope="module")
def server(chromium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """``chromium``: without a browser no server is started."""
    flags = ("--components", COMPONENTS, "--nodes", "3", "--dashboard-listen", "127.0.0.1:0")
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), flags=flags)
    try:
        send(running, "POST", QUEUES, volcano_queue("q", cpu=2))
        send(running, "POST", f"{KUEUE}/resourceflavors", any_flavor())
        cluster_queue, local_queue = kueue_queue("kq", 2)
        send(running, "POST", f"{KUEUE}/clusterqueues", cluster_queue)
        send(running, "POST", f"{KUEUE}/namespaces/default/localqueues", local_queue)
        send(running, "POST", PODS, a_pod("runs", "2"))
        wait_for(lambda: send(running, "GET", f"{PODS}/runs")["spec"].get("nodeName"))
        send(running, "POST", PODS, a_pod("waits"))
        send(running, "POST", PODS, a_pod("held", gates=(GATE,)))
        send(running, "POST", PODS, a_pod("hostile", queue=HOSTILE))
        send(running, "POST", PODS, a_pod(LONGEST, queue="missing"))
        send(running, "POST", JOBS, a_job("first"))
        send(running, "POST", JOBS, a_job("second"))
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


def show(browser: Browser, address: str) -> None:
    browser.evaluate(f"location.hash = '#/{address}'")


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


def test_a_change_is_shown_within_a_second(browser: Browser, server: EmbeddedServer) -> None:
    show(browser, "queues")
    browser.wait_for_text("2 of 2 used", "#main")
    send(server, "POST", QUEUES, volcano_queue("just-made", cpu=7))
    assert browser.wait_for_text("just-made", "#main") < 1.0


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


def test_names_stay_text(browser: Browser) -> None:
    show(browser, "problems")
    browser.wait_for_text("<img src=x onerror=alert(1)>", "#main")
    assert browser.evaluate("document.querySelectorAll('#main img').length") == 0
    show(browser, f"waiting?search={LONGEST}")
    browser.wait_for_text(LONGEST[:50], "#main")
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")


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


def test_every_control_has_a_name_and_every_table_a_header(browser: Browser) -> None:
    unnamed = """[...document.querySelectorAll('a, button, input, select')].filter(each => each.getClientRects().length
        && !(each.innerText || each.getAttribute('aria-label') || each.labels?.length)).map(each => each.outerHTML)"""
    small = """[...document.querySelectorAll('button, select')].filter(each => each.getClientRects().length
        && each.getBoundingClientRect().height < 18).map(each => each.outerHTML)"""
    for address in ("overview", "waiting", "queues", "quota", "gates", "nodes", "problems"):
        show(browser, address)
        browser.wait_for("document.querySelector('#main h1') !== null")
        assert browser.evaluate(unnamed) == []
        assert browser.evaluate(small) == []
        assert browser.evaluate("[...document.querySelectorAll('#main table')].every(each => each.tHead)")
        assert browser.evaluate("document.querySelectorAll('h1').length >= 1 && document.documentElement.lang") == "en"


def test_the_page_fits_a_narrow_window(browser: Browser) -> None:
    browser.resize(400, 800)
    for address in ("overview", "waiting", "queues", "gates", "nodes", "problems"):
        show(browser, address)
        browser.wait_for("document.querySelector('#main h1') !== null")
        assert browser.evaluate("document.documentElement.scrollWidth") <= 400


def test_many_waiting_pods_are_scrolled_without_a_long_task(browser: Browser, server: EmbeddedServer) -> None:
    for number in range(MANY):
        send(server, "POST", PODS, a_pod(f"many-{number:05}", queue="q"))
    show(browser, "waiting")
    browser.wait_for("Number(document.querySelector('.list').getAttribute('aria-rowcount')) > 500")
    browser.wait_for("document.querySelectorAll('.row a').length > 10")
    browser.evaluate(
        "window.long = []; new PerformanceObserver(list => long.push(...list.getEntries().map(each => each.duration)))"
        ".observe({ type: 'longtask' })"
    )
    for part in range(1, 11):
        browser.evaluate(f"(list => list.scrollTop = list.scrollHeight * {part / 10})(document.querySelector('.list'))")
        browser.wait_for("document.querySelectorAll('.row a').length > 5")
    browser.wait_for_text("many-00490", "#main")
    assert browser.evaluate("document.querySelectorAll('.row').length") < 100
    assert browser.evaluate("Math.max(0, ...long)") <= 100.0
