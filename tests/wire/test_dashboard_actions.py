"""Actions of the page: each with the viewer's own rights, previewed by a dry run, never by another site, and logged."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import EmbeddedServer
from harness.page import Page
from harness.scheduler_process import send, wait_for
from headgate.capacity.names import OPT_IN, QUEUE_NAME, STATE
from simulated_clusters import any_flavor, kueue_queue, volcano_queue

COMPONENTS = "apiserver,nodes,controllers,scheduler,quota,jobs"
NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GATE = "example.com/data"
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "patch", "update"]}]
READING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
PATCHING_PODS = [*READING, {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]

Object = dict[str, Any]


def a_pod(name: str, queue: str = "q", gates: tuple[str, ...] = (), **metadata: Any) -> Object:
    annotations = {QUEUE_NAME: queue, OPT_IN: "true", "headgate.dev/run-for": "1h"}
    container = {"name": "main", "image": "job", "resources": {"requests": {"cpu": "2"}}}
    spec = {"schedulerName": "headgate", "restartPolicy": "Never", "containers": [container]}
    spec["schedulingGates"] = [{"name": each} for each in gates]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec}


def a_job(name: str) -> Object:
    pod = a_pod(name)
    spec = {key: pod["spec"][key] for key in ("restartPolicy", "containers")}
    labels = {"kueue.x-k8s.io/queue-name": "kq", "kueue.x-k8s.io/priority-class": "low"}
    metadata = {"name": name, "labels": labels}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": {"metadata": {"annotations": {"headgate.dev/run-for": "1h"}}, "spec": spec}},
    }


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, audit_log: Path) -> Iterator[EmbeddedServer]:
    flags = ("--components", COMPONENTS, "--nodes", "2", "--dashboard-listen", "127.0.0.1:0", "--allow-actions")
    more = ("--feature-gates", "ActivationLabels=true", "--audit-log", str(audit_log))
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), flags=(*flags, *more), disabled_plugins="")
    try:
        send(running, "POST", QUEUES, volcano_queue("q", cpu=2))
        send(running, "POST", f"{KUEUE}/resourceflavors", any_flavor())
        for each in kueue_queue("kq", 2):
            plural = "clusterqueues" if each["kind"] == "ClusterQueue" else "namespaces/default/localqueues"
            send(running, "POST", f"{KUEUE}/{plural}", each)
        send(running, "POST", PODS, a_pod("runs"))
        wait_for(lambda: send(running, "GET", f"{PODS}/runs")["spec"].get("nodeName"))
        for name, value in (("low", 1), ("high", 1000)):
            body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "value": value}
            send(running, "POST", f"{KUEUE}/workloadpriorityclasses", {**body, "metadata": {"name": name}})
        send(running, "POST", JOBS, a_job("runs"))
        wait_for(lambda: send(running, "GET", f"{JOBS}/runs")["spec"].get("suspend") is False)
        for name in ("first", "second"):
            send(running, "POST", JOBS, a_job(name))
            wait_for(functools.partial(_find_workload, running, name))
        yield running
    finally:
        running.disconnect()
        running.stop()


@pytest.fixture(scope="module")
def page(server: EmbeddedServer) -> Page:
    return Page(server._process.log)


@pytest.fixture(scope="module")
def tokens(server: EmbeddedServer, page: Page) -> dict[str, str]:
    """By viewer; each has other rights."""
    rules = {"actor": EVERYTHING, "pod-actor": PATCHING_PODS, "reader": READING, "stranger": []}
    return {"operator": page.token, **{name: _account(server, name, each) for name, each in rules.items()}}


def _account(server: EmbeddedServer, name: str, rules: list[Object]) -> str:
    send(server, "POST", f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}})
    send(server, "POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    send(server, "POST", f"{RBAC}/clusterrolebindings", binding)
    return str(send(server, "POST", f"{NAMESPACE}/serviceaccounts/{name}/token", {"spec": {}})["status"]["token"])


def _find_workload(server: EmbeddedServer, job: str) -> str:
    found = send(server, "GET", f"{KUEUE}/namespaces/default/workloads")["items"]
    names = {each["metadata"]["ownerReferences"][0]["name"]: each["metadata"]["name"] for each in found}
    return str(names.get(job, ""))


def act(page: Page, token: str, action: Object, *, preview: bool = False) -> Object:
    path = "/api/actions/preview" if preview else "/api/actions"
    status, _, body = page.request(path, token, "POST", action)
    assert status == 200, body
    found: Object = json.loads(body)
    return found


class Case:
    """An action, what it is done to, and what tells whether it was done."""

    def __init__(self, server: EmbeddedServer, name: str, action: Object, path: str, field: Callable[[Object], Any]):
        self._server = server
        self.name = name
        self.action = action
        self._path = path
        self._field = field

    @property
    def state(self) -> Any:
        return self._field(send(self._server, "GET", self._path))

    def has_changed(self, before: Any) -> bool:
        return bool(self.state != before)


def _gates(pod: Object) -> list[str]:
    return [each["name"] for each in pod["spec"].get("schedulingGates") or ()]


def cases(server: EmbeddedServer, viewer: str) -> Iterator[Case]:
    for name in (f"one-{viewer}", f"all-{viewer}"):
        send(server, "POST", PODS, a_pod(name, gates=(f"{GATE}-{name}",)))
    pod = {"action": "lift-gate", "kind": "Pod", "namespace": "default"}
    yield Case(
        server, "pod", {**pod, "name": f"one-{viewer}", "value": f"{GATE}-one-{viewer}"}, f"{PODS}/one-{viewer}", _gates
    )
    space = {"action": "lift-gate", "kind": "Namespace", "namespace": "default", "value": f"{GATE}-all-{viewer}"}
    yield Case(server, "namespace", space, f"{PODS}/all-{viewer}", _gates)
    hold = {"action": "hold", "kind": "Queue", "name": "q"}
    yield Case(server, "queue", hold, f"{QUEUES}/q", lambda each: each["metadata"].get("annotations", {}).get(STATE))
    for kind, path in (("ClusterQueue", "clusterqueues/kq"), ("LocalQueue", "namespaces/default/localqueues/kq")):
        where = {"namespace": "default"} if kind == "LocalQueue" else {}
        yield Case(
            server,
            kind,
            {"action": "hold", "kind": kind, "name": "kq", **where},
            f"{KUEUE}/{path}",
            lambda each: each["spec"].get("stopPolicy"),
        )
    workload = {"kind": "Workload", "namespace": "default", "name": _find_workload(server, "second")}
    yield Case(
        server,
        "priority",
        {"action": "set-priority", "value": "high", **workload},
        f"{JOBS}/second",
        lambda each: each["metadata"]["labels"].get("kueue.x-k8s.io/priority-class"),
    )
    yield Case(
        server,
        "workload",
        {"action": "hold", **workload},
        f"{KUEUE}/namespaces/default/workloads/{workload['name']}",
        lambda each: each["spec"].get("active", True),
    )


def undo(server: EmbeddedServer) -> None:
    merge = "application/merge-patch+json"
    send(server, "PATCH", f"{QUEUES}/q", {"metadata": {"annotations": {STATE: "Open"}}}, merge)
    for path in ("clusterqueues/kq", "namespaces/default/localqueues/kq"):
        send(server, "PATCH", f"{KUEUE}/{path}", {"spec": {"stopPolicy": "None"}}, merge)
    labels = {"kueue.x-k8s.io/priority-class": "low", "kueue.x-k8s.io/activate": "true"}
    send(server, "PATCH", f"{JOBS}/second", {"metadata": {"labels": labels}}, merge)
    workload = f"{KUEUE}/namespaces/default/workloads/{_find_workload(server, 'second')}"
    wait_for(lambda: send(server, "GET", workload)["spec"].get("active", True))


@pytest.mark.parametrize(
    ("viewer", "allowed"),
    [
        ("operator", {"pod", "namespace", "queue", "ClusterQueue", "LocalQueue", "priority", "workload"}),
        ("actor", {"pod", "namespace", "queue", "ClusterQueue", "LocalQueue", "priority", "workload"}),
        ("pod-actor", {"pod", "namespace"}),
        ("reader", set()),
        ("stranger", set()),
    ],
)
def test_each_viewer_does_what_the_api_server_lets_that_user_do(
    server: EmbeddedServer, page: Page, tokens: dict[str, str], viewer: str, allowed: set[str]
) -> None:
    for case in cases(server, viewer):
        before, token = case.state, tokens[viewer]
        previewed = act(page, token, case.action, preview=True)
        assert case.state == before, f"the preview of {case.name} changed something"
        is_allowed = case.name in allowed
        assert (previewed["affected"] > 0) is is_allowed, (case.name, previewed)
        assert bool(previewed["problems"]) is not is_allowed, (case.name, previewed)
        done = act(page, token, {**case.action, "uid": previewed["uid"]})
        assert (done["affected"] > 0) is is_allowed, (case.name, done)
        if is_allowed:
            assert previewed["effects"], case.name
            wait_for(functools.partial(case.has_changed, before))
        else:
            assert case.state == before, case.name
            assert "missing right" in done["problems"][0] or "cannot patch" in done["problems"][0], done
    undo(server)


def test_a_preview_says_which_place_the_pod_will_have(server: EmbeddedServer, page: Page) -> None:
    send(server, "POST", PODS, a_pod("previewed", gates=(GATE,)))
    wait_for(lambda: "Pod/default/previewed" in page.rows("waiting"))
    action = {"action": "lift-gate", "kind": "Pod", "namespace": "default", "name": "previewed", "value": GATE}
    said = "\n".join(act(page, page.token, action, preview=True)["effects"])
    assert "it waits in queue q then, at place" in said
    assert "queue q has no capacity for 2 cpu: 2 of 2 are in use" in said


def test_a_preview_names_no_amounts_to_a_viewer_who_may_not_list_queues(server: EmbeddedServer, page: Page) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "patch"]}]
    token = _account(server, "only-pods", rules)
    send(server, "POST", PODS, a_pod("no-amounts", gates=(GATE,)))
    wait_for(lambda: "Pod/default/no-amounts" in page.rows("waiting"))
    action = {"action": "lift-gate", "kind": "Pod", "namespace": "default", "name": "no-amounts", "value": GATE}
    said = "\n".join(act(page, token, action, preview=True)["effects"])
    assert "you may not list queues" in said
    assert "2 of 2" not in said
    assert "place" not in said


def test_an_object_that_was_created_again_is_not_changed(server: EmbeddedServer, page: Page) -> None:
    action = {"action": "hold", "kind": "Queue", "name": "q", "uid": "of-an-earlier-queue"}
    done = act(page, page.token, action)
    assert done["affected"] == 0
    assert "another object has this name now" in done["problems"][0]


def test_a_job_that_runs_is_not_held(server: EmbeddedServer, page: Page) -> None:
    action = {"action": "hold", "kind": "Workload", "namespace": "default", "name": _find_workload(server, "runs")}
    assert "only a suspended job can be held" in act(page, page.token, action, preview=True)["problems"][0]


def test_a_priority_class_has_to_exist(server: EmbeddedServer, page: Page) -> None:
    name = _find_workload(server, "second")
    action = {"action": "set-priority", "kind": "Workload", "namespace": "default", "name": name, "value": "absent"}
    assert "not found" in act(page, page.token, action, preview=True)["problems"][0]


def test_no_other_site_can_act(page: Page) -> None:
    action = {"action": "hold", "kind": "Queue", "name": "q"}
    _, headers, _ = page.request("/api/login", "", "POST", {"token": page.token})
    cookie = headers["Set-Cookie"].split(";")[0]
    own = {"cookie": cookie, "origin": f"http://{page.host}"}
    for path in ("/api/actions", "/api/actions/preview"):
        assert page.request(path, "", "POST", action, cookie=cookie)[0] == 403
        assert page.request(path, "", "POST", action, cookie=cookie, origin="http://elsewhere.example")[0] == 403
        assert page.request(path, "", "POST", action, **own, sec_fetch_site="cross-site")[0] == 403
        assert page.request(path, "", "POST", action, **own, content_type="text/plain")[0] == 403
        assert page.request(path, "", "POST", action)[0] == 403
        assert page.request(path, "wrong", "POST", action)[0] == 401
        for method in ("GET", "PUT", "DELETE"):
            assert page.request(path, method=method)[0] == 405
    assert page.request("/api/actions/preview", "", "POST", action, **own)[0] == 200
    assert page.request("/api/actions", method="POST", body={"action": "hold"})[0] == 400


def test_the_logs_name_the_user(server: EmbeddedServer, page: Page, tokens: dict[str, str], audit_log: Path) -> None:
    send(server, "POST", PODS, a_pod("logged", gates=(GATE,)))
    action = {"action": "lift-gate", "kind": "Pod", "namespace": "default", "name": "logged", "value": GATE}
    assert act(page, tokens["actor"], action)["affected"] == 1
    user = "system:serviceaccount:default:actor"
    assert f"by '{user}': done, 1 changed" in server._process.log.read_text()

    def is_audited() -> bool:
        events = [json.loads(line) for line in audit_log.read_text().splitlines()]
        return any(
            event.get("verb") == "patch"
            and event.get("objectRef", {}).get("name") == "logged"
            and event["user"]["username"] == user
            for event in events
        )

    wait_for(is_audited)


def test_a_page_without_the_flag_changes_nothing(tmp_path: Path) -> None:
    running = EmbeddedServer(tmp_path, flags=("--dashboard-listen", "127.0.0.1:0"))
    try:
        other = Page(running._process.log)
        assert other.get("/api/info")["allows_actions"] is False
        status, _, body = other.request("/api/actions", method="POST", body={"action": "hold"})
        assert status == 403
        assert b"--allow-actions" in body
    finally:
        running.disconnect()
        running.stop()
