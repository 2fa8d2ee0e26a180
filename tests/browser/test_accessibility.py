"""The page by WCAG 2.2 AA: names, roles, contrast, sizes of targets, and the focus, in all views and both colours."""

from __future__ import annotations

import pytest

from browser.page_cluster import POD_VIEW, VIEWS, show, workload_of
from harness.accessibility import accessibility_problems, focus_problems
from harness.browser import Browser
from harness.embedded_server import EmbeddedServer

MOST_STOPS = 80


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_problem(browser: Browser, server: EmbeddedServer, scheme: str) -> None:
    browser.prefer(scheme)
    for address in (*VIEWS, POD_VIEW, f"unit/workloads/default/{workload_of(server, 'second')}"):
        show(browser, address)
        assert accessibility_problems(browser) == [], address
    browser.press("?")
    browser.wait_for("document.getElementById('help').open")
    assert accessibility_problems(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_login_has_no_problem(browser: Browser, scheme: str) -> None:
    browser.prefer(scheme)
    browser.evaluate("document.getElementById('logout').click()")
    browser.wait_for_text("You are logged out.")
    assert accessibility_problems(browser) == []
    assert focus_problems(browser) == []


def test_a_narrow_window_has_no_problem(browser: Browser) -> None:
    browser.resize(400, 800)
    for address in (*VIEWS, POD_VIEW):
        show(browser, address)
        assert accessibility_problems(browser) == [], address


@pytest.mark.parametrize("width", [1280, 400])
def test_the_focus_is_marked_and_visible_on_its_way_through_each_view(browser: Browser, width: int) -> None:
    browser.resize(width, 800)
    for address in (*VIEWS, POD_VIEW):
        show(browser, address)
        browser.evaluate("document.getElementById('skip').focus({ focusVisible: true })")
        assert focus_problems(browser) == []
        assert walk_with_tab(browser) > len(VIEWS), address


def walk_with_tab(browser: Browser) -> int:
    """Presses Tab until the focus leaves the page. Returns how many stops there were."""
    seen = 0
    browser.evaluate("window.stops = new Set()")
    while seen < MOST_STOPS:
        browser.press("Tab")
        if browser.evaluate("document.activeElement === document.body || stops.has(document.activeElement)"):
            break
        browser.evaluate("stops.add(document.activeElement) && null")
        assert focus_problems(browser) == []
        seen += 1
    return seen


def test_the_first_stop_skips_to_the_content(browser: Browser) -> None:
    show(browser, "gates")
    first = "document.querySelector('a[href], button, input, select, [tabindex=\"0\"]')"
    assert browser.evaluate(f"{first}.id") == "skip"
    browser.evaluate(f"{first}.focus()")
    browser.press("Enter")
    assert browser.evaluate("document.activeElement.id") == "main"


def test_the_checks_find_what_is_wrong(browser: Browser) -> None:
    show(browser, "gates")
    spoiled = """
    const main = document.getElementById('main');
    const add = (tag, change) => { const each = document.createElement(tag); change(each); main.append(each); };
    add('button', each => {});
    add('p', each => { each.textContent = 'pale'; each.style.color = '#bbb'; each.style.background = '#fff'; });
    add('h4', each => each.textContent = 'too deep');
    add('div', each => { each.setAttribute('role', 'row'); each.textContent = 'lost'; });
    add('input', each => each.setAttribute('aria-labelledby', 'absent'));
    const tiny = { minHeight: 0, height: '9px', width: '9px', padding: 0, margin: 0 };
    for (const text of 'ab') add('button', each => { each.textContent = text; Object.assign(each.style, tiny); });
    """
    browser.evaluate(f"(() => {{ {spoiled} }})()")
    found = "\n".join(accessibility_problems(browser))
    for rule in (
        *("no name: <button", "contrast 1.", "a level of headings is left out", "the parent of the role is absent"),
        *("aria-labelledby names an absent element", "a target of"),
    ):
        assert rule in found, (rule, found)
