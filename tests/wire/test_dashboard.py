"""The page of `headgate up` and of `headgate dashboard`: its headers, its stream, and what a viewer may see."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.headgate_cli import headgate
from harness.page import Event, Page
from harness.processes import Process
from harness.scheduler_process import send, wait_for
from headgate.capacity.names import OPT_IN, QUEUE_NAME
from headgate.install.rights import DASHBOARD_RULES
from headgate.install.roles import policy_rules
from simulated_clusters import any_flavor, kueue_queue, volcano_queue

COMPONENTS = "apiserver,nodes,controllers,scheduler,quota,jobs"
NAMESPACES = "/api/v1/namespaces"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOSTILE = '<script>alert("x")</script>'
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def a_pod(name: str, cpu: int = 2, queue: str = "q", **metadata: Any) -> dict[str, Any]:
    annotations = {QUEUE_NAME: queue, OPT_IN: "true", "headgate.dev/run-for": "1h"}
    container = {"name": "main", "image": "job", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations, **metadata},
        "spec": {"schedulerName": "headgate", "restartPolicy": "Never", "containers": [container]},
    }


def create_pod(server: EmbeddedServer, namespace: str, pod: dict[str, Any]) -> None:
    send(server, "POST", f"{NAMESPACES}/{namespace}/pods", pod)


def allow(server: EmbeddedServer, name: str, rules: list[dict[str, Any]], namespace: str = "") -> str:
    """A service account with these rights, in the namespace or everywhere. Returns its token."""
    send(server, "POST", f"{NAMESPACES}/default/serviceaccounts", {"metadata": {"name": name}})
    kind = "Role" if namespace else "ClusterRole"
    base = f"{RBAC}/namespaces/{namespace}" if namespace else RBAC
    plural = f"{kind.lower()}s"
    send(server, "POST", f"{base}/{plural}", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    binding = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}, "subjects": [subject]}
    send(server, "POST", f"{base}/{kind.lower()}bindings", {"metadata": {"name": name}, **binding})
    asked = send(server, "POST", f"{NAMESPACES}/default/serviceaccounts/{name}/token", {"spec": {}})
    return str(asked["status"]["token"])


def reading(*groups_and_plurals: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"apiGroups": [group], "resources": [each], "verbs": ["get", "list"]} for group, each in groups_and_plurals]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    flags = ("--components", COMPONENTS, "--nodes", "2", "--dashboard-listen", "127.0.0.1:0")
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), flags=flags, disabled_plugins="")
    try:
        for namespace in ("mine", "secret"):
            send(running, "POST", NAMESPACES, {"metadata": {"name": namespace}})
        send(running, "POST", QUEUES, volcano_queue("q", cpu=2))
        send(running, "POST", f"{KUEUE}/resourceflavors", any_flavor())
        cluster_queue, local_queue = kueue_queue("kq", 2)
        send(running, "POST", f"{KUEUE}/clusterqueues", cluster_queue)
        send(running, "POST", f"{KUEUE}/namespaces/default/localqueues", local_queue)
        create_pod(running, "secret", a_pod("hidden-holder"))
        wait_for(lambda: send(running, "GET", f"{NAMESPACES}/secret/pods/hidden-holder")["spec"].get("nodeName"))
        create_pod(running, "secret", a_pod("hidden-second"))
        first = {"metadata": {"name": "first"}, "value": 1000, "preemptionPolicy": "Never"}
        send(running, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", first)
        visible = a_pod("visible")
        visible["spec"]["priorityClassName"] = "first"
        create_pod(running, "mine", visible)
        yield running
    finally:
        running.disconnect()
        running.stop()


@pytest.fixture(scope="module")
def page(server: EmbeddedServer) -> Page:
    return Page(server._process.log)


def test_the_page_forbids_the_browser_all_that_it_does_not_need(page: Page) -> None:
    for path in ("/", "/app.js", "/page.css", "/absent", "/api/info"):
        _, headers, _ = page.request(path)
        assert headers["Content-Security-Policy"] == POLICY
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    status, _, body = page.request("/", token="")
    assert status == 200
    assert b"<script>" not in body
    assert b"style=" not in body


def test_nothing_is_answered_without_a_valid_token(page: Page) -> None:
    for path in ("/api/info", "/api/rows", "/api/waiting", "/api/stream", "/api/pods/mine/visible"):
        assert page.request(path, token="")[0] == 401
        assert page.request(path, token="wrong")[0] == 401
    assert page.request("/api/login", "", "POST", {"token": "wrong"})[0] == 401


def test_a_login_makes_a_cookie_that_scripts_cannot_read(page: Page) -> None:
    status, headers, _ = page.request("/api/login", "", "POST", {"token": page.token})
    assert status == 204
    assert "HttpOnly; SameSite=Strict" in headers["Set-Cookie"]
    cookie = headers["Set-Cookie"].split(";")[0]
    assert page.token not in cookie
    assert page.request("/api/info", "", cookie=cookie)[0] == 200
    assert page.request("/api/logout", "", "POST", {}, cookie=cookie)[0] == 204
    assert page.request("/api/info", "", cookie=cookie)[0] == 401


def test_other_sites_and_other_host_names_are_refused(page: Page) -> None:
    login = {"token": page.token}
    assert page.request("/api/login", "", "POST", login, origin="http://elsewhere.example")[0] == 403
    assert page.request("/api/login", "", "POST", login, content_type="text/plain")[0] == 403
    assert page.request("/api/info", host="rebound.example:80")[0] == 421


def test_the_page_changes_nothing(page: Page) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert page.request("/api/pods/mine/visible", method=method, body={})[0] == 405
        assert page.request("/", method=method, body={})[0] == 405


def test_a_waiting_pod_is_shown_with_its_place_and_its_reason(page: Page) -> None:
    found = page.get("/api/waiting?queue=q&kind=Queue")
    assert [entry["row"]["name"] for entry in found["entries"]] == ["visible", "hidden-second"]
    assert [entry["position"] for entry in found["entries"]] == [0, 1]
    assert "no capacity for 2 cpu: 2 of 2" in found["entries"][1]["sentence"]


def test_a_change_is_on_the_stream_within_a_second(server: EmbeddedServer, page: Page) -> None:
    stream = page.stream("topics=overview,waiting")
    try:
        stream.wait_for(lambda event: event[0] == "reset")
        create_pod(server, "default", a_pod("announced"))

        def is_about_it(event: Event) -> bool:
            rows = event[2]["topics"].get("overview", {}).get("rows", [])
            return any(row["key"] == "default" and row["queued"] for row in rows)

        assert stream.wait_for(is_about_it) < 1.0
    finally:
        stream.close()


def test_a_stream_resumes_where_it_ended(server: EmbeddedServer, page: Page) -> None:
    stream = page.stream("topics=queues")
    stream.wait_for(lambda event: event[0] == "reset")
    stream.close()
    send(server, "POST", QUEUES, volcano_queue("resumed", cpu=1))
    wait_for(lambda: "resumed" in page.rows("queues"))
    again = page.stream(f"topics=queues&since={stream.last_id}")
    try:
        event, _, data = again.next()
        assert event == "change"
        assert "resumed" in [row["key"] for row in data["topics"]["queues"]["rows"]]
    finally:
        again.close()


def test_the_words_of_the_page_are_those_of_headgate_explain(server: EmbeddedServer, page: Page) -> None:
    shown = page.get("/api/pods/mine/visible")["pod"]
    code, printed, _ = headgate(
        "explain", "pod", "visible", "-n", "mine", "-o", "json", "--kubeconfig", server.kubeconfig
    )
    assert code in (0, 3), printed
    explained = json.loads(printed)
    explained = explained.get("pod", explained)
    assert shown["summary"] == explained["summary"]
    assert shown["holds"][0]["text"] == explained["holds"][0]["text"]
    assert shown["next"][0] == explained["next"][0]


def test_a_viewer_without_rights_sees_nothing(server: EmbeddedServer, page: Page) -> None:
    token = allow(server, "nobody", [])
    for topic in ("overview", "queues", "cluster-queues", "waiting", "gates", "nodes", "problems"):
        assert page.rows(topic, token) == {}, topic
    assert page.get("/api/waiting", token)["total"] == 0
    assert page.request("/api/pods/mine/visible", token)[0] == 404
    assert page.request("/api/pods/mine/absent", token)[0] == 404


def test_a_viewer_of_one_namespace_finds_no_name_of_another_one(server: EmbeddedServer, page: Page) -> None:
    token = allow(server, "reader", reading(("", "pods")), "mine")
    said = [page.request(path, token)[2] for path in ("/api/rows", "/api/waiting", "/api/pods/mine/visible")]
    stream = page.stream("", token)
    try:
        said.append(json.dumps(stream.next()).encode())
    finally:
        stream.close()
    assert all(b"visible" in each or b'"mine"' in each for each in said)
    assert not any(b"hidden" in each or b"secret" in each for each in said)
    assert page.get("/api/waiting", token)["entries"][0]["position"] is None
    assert page.request("/api/pods/secret/hidden-second", token)[0] == 404


def test_a_viewer_of_queues_sees_amounts_and_no_names_of_others(server: EmbeddedServer, page: Page) -> None:
    rules = reading(("scheduling.volcano.sh", "queues"))
    token = allow(server, "queue-reader", rules)
    subject = {"kind": "ServiceAccount", "name": "queue-reader", "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    binding = {"metadata": {"name": "queue-reader"}, "roleRef": role, "subjects": [subject]}
    send(server, "POST", f"{RBAC}/namespaces/mine/rolebindings", binding)
    assert page.rows("queues", token)["q"]["resources"][0]["used"] == 2000
    body = page.request("/api/pods/mine/visible", token)[2]
    assert b"2 of 2 are in use" in body
    assert b"that you may not list" in body, body
    assert b"hidden" not in body


def test_the_start_of_a_unit_is_estimated_for_viewers_who_may_list_its_queue(
    server: EmbeddedServer, page: Page
) -> None:
    assert page.get("/api/estimates/pods/mine/visible")[""]["state"] == "range"
    token = allow(server, "no-queues", reading(("", "pods")), "mine")
    found = page.get("/api/estimates/pods/mine/visible", token)[""]
    assert set(found) == {"state", "reason"}
    assert "you may not list" in found["reason"]
    assert page.request("/api/estimates/pods/secret/hidden-second", token)[0] == 404


def test_all_that_is_recorded_is_listed_without_events_for_a_viewer_who_may_not_list_them(
    server: EmbeddedServer, page: Page
) -> None:
    pod = send(server, "GET", f"{NAMESPACES}/mine/pods/visible")["metadata"]
    about = {"kind": "Pod", "namespace": "mine", "name": "visible", "uid": pod["uid"]}
    body = {"metadata": {"name": "told"}, "involvedObject": about, "reason": "Told", "message": "by an Event"}
    send(server, "POST", f"{NAMESPACES}/mine/events", {**body, "firstTimestamp": pod["creationTimestamp"]})
    found = page.get("/api/history/pods/mine/visible")
    texts = [entry["text"] for entry in found["entries"]]
    assert {"created", "Told: by an Event"} <= set(texts)
    assert any(text.startswith("PodScheduled became False") for text in texts)
    token = allow(server, "no-events", reading(("", "pods")), "mine")
    seen = page.get("/api/history/pods/mine/visible", token)
    assert set(texts) - {entry["text"] for entry in seen["entries"]} == {"Told: by an Event"}
    assert "its Events: you may not list them" in seen["unknown"]
    assert page.request("/api/history/pods/secret/hidden-second", token)[0] == 404
    assert page.request("/api/history/pods/mine/absent", token)[0] == 404


def test_hostile_text_stays_data(server: EmbeddedServer, page: Page) -> None:
    pod = a_pod("hostile", queue=HOSTILE)
    create_pod(server, "default", pod)
    wait_for(lambda: any(HOSTILE in row["text"] for row in page.rows("problems").values()))
    status, headers, body = page.request("/api/rows")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert HOSTILE.replace('"', '\\"').encode() in body


def test_a_port_in_use_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        flags = ("--listen", "127.0.0.1:0", "--components", "apiserver")
        code, _, problem = headgate("up", "--data", tmp_path / "d", *flags, "--dashboard-listen", where)
    assert code == 1
    assert "cannot serve the page" in problem
    assert "--no-dashboard" in problem


def test_plain_http_is_refused_on_an_address_that_is_not_loopback(server: EmbeddedServer, tmp_path: Path) -> None:
    code, _, problem = headgate("dashboard", "--listen", "0.0.0.0:0", "--kubeconfig", server.kubeconfig)
    assert code == 2
    assert "tokens would be sent in the clear" in problem
    code, _, problem = headgate("up", "--data", tmp_path / "d", "--dashboard-listen", "0.0.0.0:0")
    assert code == 2
    assert "has no TLS" in problem


def test_the_page_of_another_cluster_names_the_rights_that_it_lacks(server: EmbeddedServer, tmp_path: Path) -> None:
    token = allow(server, "limited", reading(("", "pods"), ("scheduling.volcano.sh", "queues"), ("", "namespaces")))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(server.kubeconfig.read_text().replace(server.token, token))
    words = (str(HEADGATE), "dashboard", "--listen", "127.0.0.1:0", "--kubeconfig", str(kubeconfig))
    process = Process([*words], tmp_path / "dashboard.log")
    try:
        process.wait_until(lambda: "the page of" in process.log.read_text(), 30)
        other = Page(process.log)
        assert "remark: missing right: list nodes" in process.log.read_text()
        problems = [row["text"] for row in other.rows("problems").values()]
        assert "missing right: list nodes" in problems
        assert "q" in other.rows("queues")
        assert "Pod/mine/visible" in other.rows("waiting")
    finally:
        process.stop()
    assert "Traceback" not in process.log.read_text()


def test_a_page_for_users_prints_no_token_and_makes_its_certificate(server: EmbeddedServer, tmp_path: Path) -> None:
    """What the Deployment of the chart runs, with the rights of the documentation."""
    token = allow(server, "page", policy_rules(DASHBOARD_RULES))
    viewer = allow(server, "page-viewer", reading(("scheduling.volcano.sh", "queues")))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(server.kubeconfig.read_text().replace(server.token, token))
    words = ("--listen", "0.0.0.0:0", "--own-certificate", "--user-tokens-only", "--kubeconfig", str(kubeconfig))
    process = Process([str(HEADGATE), "dashboard", *words], tmp_path / "dashboard.log")
    try:
        process.wait_until(lambda: "the page of" in process.log.read_text(), 30)
        said = process.log.read_text()
        assert "token=" not in said
        assert "missing right" not in said
        found = re.search(r"https://0\.0\.0\.0:(\d+)/", said)
        assert found is not None, said
        assert _secure_get(int(found[1]), "/livez") == (200, b"ok\n")
        assert _secure_get(int(found[1]), "/api/info")[0] == 401
        assert _secure_get(int(found[1]), "/api/info", server.token)[0] == 200
        status, body = _secure_get(int(found[1]), "/api/rows?topics=queues,waiting", viewer)
        assert status == 200
        assert [row["key"] for row in json.loads(body)["topics"]["queues"] if row["key"] == "q"] == ["q"]
        assert json.loads(body)["topics"]["waiting"] == []
    finally:
        process.stop()
    assert "Traceback" not in process.log.read_text()


def _secure_get(port: int, path: str, token: str = "") -> tuple[int, bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    try:
        connection.request("GET", path, headers={"authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_no_page_is_served_with_no_dashboard(tmp_path: Path) -> None:
    running = EmbeddedServer(tmp_path, flags=("--no-dashboard",))
    try:
        assert "#token=" not in running._process.log.read_text()
    finally:
        running.stop()
