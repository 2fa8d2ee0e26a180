"""Actions in the browser: a dialog shows what will happen before it is done, with the mouse or with keys only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.page_cluster import COMPONENTS, GATE, KUEUE, PODS, QUEUES, fill, show, workload_of
from harness.accessibility import accessibility_problems, focus_problems
from harness.browser import Browser
from harness.embedded_server import EmbeddedServer
from harness.scheduler_process import send, wait_for

CONFIRM = "document.getElementById('action-confirm')"


@pytest.fixture(scope="module")
def server(chromium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    flags = ("--components", COMPONENTS, "--nodes", "3", "--dashboard-listen", "127.0.0.1:0", "--allow-actions")
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), flags=(*flags, "--feature-gates", "ActivationLabels=true"))
    try:
        fill(running)
        for name, value in (("low", 1), ("high", 1000)):
            body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "value": value}
            send(running, "POST", f"{KUEUE}/workloadpriorityclasses", {**body, "metadata": {"name": name}})
        yield running
    finally:
        running.disconnect()
        running.stop()


def press_button(browser: Browser, text: str) -> None:
    found = f"[...document.querySelectorAll('#main button.act')].find(each => each.textContent === '{text}')"
    browser.wait_for(f"{found} !== undefined")
    browser.evaluate(f"{found}.click()")
    browser.wait_for("document.getElementById('action').open")


def gates(server: EmbeddedServer, pod: str) -> list[str]:
    return [each["name"] for each in send(server, "GET", f"{PODS}/{pod}")["spec"].get("schedulingGates") or ()]


def test_a_gate_is_lifted_with_keys_after_a_preview(browser: Browser, server: EmbeddedServer) -> None:
    show(browser, "unit/pods/default/held")
    press_button(browser, "Lift this gate")
    browser.wait_for_text("it waits in queue q then, at place", "#action")
    browser.wait_for(f"document.activeElement === {CONFIRM}")
    assert accessibility_problems(browser) == []
    assert focus_problems(browser) == []
    assert GATE in gates(server, "held")
    browser.press("Escape")
    browser.wait_for("!document.getElementById('action').open")
    assert GATE in gates(server, "held")
    press_button(browser, "Lift this gate")
    browser.wait_for(f"document.activeElement === {CONFIRM} && !{CONFIRM}.disabled")
    browser.press("Enter")
    browser.wait_for_text("Done.", "#action")
    assert GATE not in gates(server, "held")
    browser.press("Enter")
    browser.wait_for("!document.getElementById('action').open")
    browser.wait_for(
        "![...document.querySelectorAll('#main button.act')].some(each => each.textContent.includes('Lift'))"
    )


def test_a_queue_is_held_and_resumed(browser: Browser, server: EmbeddedServer) -> None:
    show(browser, "queues")
    for label, state in (("Hold", "Closed"), ("Resume", "Open")):
        button = f"document.querySelector('#main button[aria-label=\"{label}: Queue q\"]')"
        browser.wait_for(f"{button} !== null")
        browser.evaluate(f"{button}.click()")
        browser.wait_for(f"!{CONFIRM}.disabled")
        browser.press("Enter")
        browser.wait_for_text("Done.", "#action")
        annotations = send(server, "GET", f"{QUEUES}/q")["metadata"]["annotations"]
        assert annotations["headgate.dev/state"] == state
        browser.press("Enter")
        browser.wait_for("!document.getElementById('action').open")


def test_a_priority_is_asked_for_before_the_preview(browser: Browser, server: EmbeddedServer) -> None:
    name = workload_of(server, "second")
    show(browser, f"unit/workloads/default/{name}")
    press_button(browser, "Change the priority")
    browser.wait_for("document.activeElement.id === 'action-value'")
    browser.write("absent")
    browser.press("Enter")
    browser.wait_for_text("not found", "#action")
    assert browser.evaluate(f"{CONFIRM}.disabled")
    browser.evaluate("document.getElementById('action-value').select()")
    browser.write("high")
    browser.press("Enter")
    browser.wait_for_text("changes from 0 to 1000", "#action")
    browser.wait_for(f"document.activeElement === {CONFIRM}")
    browser.press("Enter")
    browser.wait_for_text("Done.", "#action")
    path = f"{KUEUE}/namespaces/default/workloads/{name}"
    wait_for(lambda: send(server, "GET", path)["spec"].get("priority") == 1000)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
def test_views_with_buttons_have_no_problem(browser: Browser, server: EmbeddedServer, scheme: str, width: int) -> None:
    browser.prefer(scheme)
    browser.resize(width, 800)
    for address in ("queues", "quota", "gates", f"unit/workloads/default/{workload_of(server, 'second')}"):
        show(browser, address)
        browser.wait_for("document.querySelectorAll('#main button.act').length > 0")
        assert accessibility_problems(browser) == [], address
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, address
