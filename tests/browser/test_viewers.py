"""What viewers with tokens of their own see in the browser: what they may list, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from browser.page_cluster import GATE, HOSTILE, LONGEST, POD_VIEW, VIEWS, show
from harness.browser import Browser
from harness.embedded_server import EmbeddedServer
from harness.page import Page
from harness.scheduler_process import send, wait_for

RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACES = "/api/v1/namespaces"
WORDS = ("hostile", LONGEST, HOSTILE, GATE, "node-0", "kq", "job-second", "no capacity", "2 of 2", "headgate explain")
"""Of the rows and explanations that these viewers may not see."""


def account(server: EmbeddedServer, name: str, namespace: str = "", rules: list[dict[str, Any]] | None = None) -> str:
    """The token of a service account with these rights in the namespace."""
    send(server, "POST", f"{NAMESPACES}/default/serviceaccounts", {"metadata": {"name": name}})
    if rules:
        base = f"{RBAC}/namespaces/{namespace}"
        send(server, "POST", f"{base}/roles", {"metadata": {"name": name}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        send(
            server, "POST", f"{base}/rolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        )
    asked = send(server, "POST", f"{NAMESPACES}/default/serviceaccounts/{name}/token", {"spec": {}})
    return str(asked["status"]["token"])


def log_in(browser: Browser, token: str) -> None:
    browser.evaluate("document.getElementById('logout').click()")
    browser.wait_for_text("You are logged out.")
    browser.evaluate("document.getElementById('token').focus()")
    browser.write(token)
    browser.press("Enter")
    browser.wait_for_text("live", "#live")


@pytest.fixture(scope="module")
def without_rights(server: EmbeddedServer) -> str:
    return account(server, "without-rights")


@pytest.mark.parametrize("address", [*VIEWS, POD_VIEW, "unit/workloads/default/job-first"])
def test_a_viewer_without_rights_sees_no_object(browser: Browser, without_rights: str, address: str) -> None:
    log_in(browser, without_rights)
    browser.evaluate(f"location.hash = '#/{address}'")
    browser.wait_for(f"document.getElementById('main').dataset.view === '{address}'")
    browser.wait_for("document.querySelector('#main h1') !== null")
    browser.wait_for("performance.getEntriesByType('resource').some(each => each.name.includes('/api/stream'))")
    asked = "['waiting', 'unit'].some(each => location.hash.startsWith('#/' + each))"
    browser.wait_for(f"!{asked} || document.getElementById('main').innerText.match(/0 units wait|Not shown/) !== null")
    text = browser.evaluate("document.getElementById('main').textContent")
    heading = browser.text("#main h1")
    assert not [each for each in WORDS if each in text.replace(heading, "")]
    leave_unit(browser)


def leave_unit(browser: Browser) -> None:
    """The answer 404 is an error of the console."""
    browser.evaluate("location.hash = '#/gates'")
    browser.wait_for("document.getElementById('main').dataset.view === 'gates'")
    browser.problems[:] = [each for each in browser.problems if "status of 404" not in each]


def test_nothing_is_left_of_the_viewer_before(browser: Browser, without_rights: str) -> None:
    show(browser, "queues")
    browser.wait_for_text("2 of 2 used", "#main")
    browser.evaluate("document.getElementById('logout').click()")
    browser.wait_for_text("You are logged out.")
    text = "document.body.textContent"
    assert not [each for each in ("2 of 2 used", "the operator") if each in browser.evaluate(text)]
    log_in(browser, without_rights)
    assert "2 of 2 used" not in browser.evaluate(text)


def test_a_viewer_of_another_namespace_sees_its_pods_only(browser: Browser, server: EmbeddedServer, page: Page) -> None:
    send(server, "POST", NAMESPACES, {"metadata": {"name": "mine"}})
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "example.com/my-gate"}]}
    pod = {"metadata": {"name": "my-own"}, "spec": spec}
    wait_for(lambda: server.request("GET", f"{NAMESPACES}/mine/serviceaccounts/default").status == 200)
    send(server, "POST", f"{NAMESPACES}/mine/pods", pod)
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    log_in(browser, account(server, "of-mine", "mine", rules))
    for address, text in (("waiting", "my-own"), ("gates", "example.com/my-gate"), ("overview", "mine")):
        browser.evaluate(f"location.hash = '#/{address}'")
        browser.wait_for_text(text, "#main")
        assert not [each for each in WORDS if each in browser.text("#main")]
    browser.evaluate("location.hash = '#/unit/pods/mine/my-own'")
    browser.wait_for_text("example.com/my-gate", "#main")
