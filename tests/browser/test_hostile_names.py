"""Hostile names and messages are shown as text in each view: markup, text from right to left, emoji, 253 characters.

Kubernetes restricts the names of objects, so such texts come from annotations, conditions, users of GatePolicies and
values that only programs of other parties check.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from browser.page_cluster import LONGEST, PODS, QUEUES, VIEWS, show
from harness.browser import Browser
from harness.embedded_server import EmbeddedServer
from harness.page import Page
from harness.scheduler_process import send, wait_for
from shown_objects import a_pod
from simulated_clusters import volcano_queue

SCRIPT = "<script>document.title = 'taken'</script>"
IMAGE = "<img src=x onerror=\"document.title = 'taken'\">"
RIGHT_TO_LEFT = "\u202egnp.exe\u202c مرحبا"
EMOJI = "👩‍👩‍👧‍👦🚀"
TEXTS = (SCRIPT, IMAGE, RIGHT_TO_LEFT, EMOJI)
MERGE = "application/merge-patch+json"
ELEMENTS = "document.querySelectorAll('#main :is(script, img, iframe, object, style)').length"


@pytest.fixture(scope="module", autouse=True)
def hostile(server: EmbeddedServer, page: Page) -> None:
    """Pods that wait for queues with hostile names, with hostile messages and long names, also of gates and nodes."""
    for number, text in enumerate(TEXTS):
        send(server, "POST", PODS, a_pod(f"named-{number}", queue=text))
    pod = a_pod("said", gates=("example.com/" + "g" * 63,))
    send(server, "POST", PODS, pod)
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": " ".join(TEXTS)}
    send(server, "PATCH", f"{PODS}/said/status", {"status": {"conditions": [condition]}}, MERGE)
    send(server, "POST", QUEUES, {**volcano_queue("z" * 253, cpu=1)})
    node: dict[str, Any] = {"metadata": {"name": LONGEST}, "status": {"allocatable": {"cpu": "1"}}}
    send(server, "POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node})
    wait_for(lambda: LONGEST in page.rows("nodes") and len(page.rows("problems")) >= len(TEXTS))


@pytest.mark.parametrize("text", TEXTS)
def test_a_hostile_name_is_text(browser: Browser, text: str) -> None:
    title = browser.evaluate("document.title")
    assert "taken" not in title
    for address in ("problems", f"unit/pods/default/named-{TEXTS.index(text)}"):
        show(browser, address)
        browser.wait_for(f"document.getElementById('main').textContent.includes({json.dumps(text)})")
        assert browser.evaluate(ELEMENTS) == 0
    show(browser, "waiting")
    browser.wait_for(f"document.getElementById('main').textContent.includes({json.dumps(text)})")
    assert browser.evaluate(ELEMENTS) == 0
    assert "taken" not in browser.evaluate("document.title")


def test_text_from_right_to_left_changes_no_other_text(browser: Browser) -> None:
    show(browser, "problems")
    script = f"""[...document.querySelectorAll('#main .name')].filter(each =>
        each.textContent.includes({json.dumps(RIGHT_TO_LEFT)})).map(each => getComputedStyle(each).unicodeBidi)"""
    browser.wait_for(f"{script}.length > 0")
    assert set(browser.evaluate(script)) <= {"isolate", "plaintext", "isolate-override"}


@pytest.mark.parametrize("width", [1280, 400])
def test_long_names_widen_no_view(browser: Browser, width: int) -> None:
    browser.resize(width, 800)
    for address in (*VIEWS, f"waiting?search={LONGEST}", f"unit/pods/default/{LONGEST}"):
        show(browser, address)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, address


def test_a_hostile_address_is_text(browser: Browser) -> None:
    for text in TEXTS:
        browser.evaluate(f"location.hash = '#/waiting?search=' + encodeURIComponent({json.dumps(text)})")
        browser.wait_for(f"document.querySelector('#main h1')?.textContent.includes({json.dumps(text)})")
        assert browser.evaluate(ELEMENTS) == 0
    browser.evaluate("location.hash = '#/unit/pods/%FF/%3Cscript%3E'")
    browser.wait_for_text("Not shown", "#main")
    browser.problems.clear()  # the answer 404 is an error of the console


def test_the_browser_refuses_scripts_and_styles_in_the_page(browser: Browser) -> None:
    inject = """(() => {
        const script = document.createElement('script');
        script.textContent = "document.title = 'taken'";
        document.body.append(script);
        const handler = document.createElement('div');
        handler.setAttribute('onclick', "document.title = 'taken'");
        handler.setAttribute('style', 'position: fixed');
        document.body.append(handler);
        handler.click();
        return [document.title, getComputedStyle(handler).position];
    })()"""
    title, position = browser.evaluate(inject)
    assert "taken" not in title
    assert position == "static"
    browser.wait_for("true")
    refused = {each.partition(":")[2].strip() for each in browser.problems if each.startswith("CSP:")}
    assert {"script-src-elem", "script-src-attr", "style-src-attr"} <= refused
    browser.problems.clear()
    browser.evaluate("fetch('http://127.0.0.1:9/elsewhere').catch(() => null)")
    assert any("connect-src" in each for each in browser.problems)
    browser.problems.clear()
    browser.requests[:] = [each for each in browser.requests if "elsewhere" not in each]
