"""GatePolicies on both servers: which users may add and lift a gate, by every verb and path of a pod.

The embedded server applies the policies itself, a real one asks webhooks. Every user except `editor` may do everything
by RBAC, so only policies refuse. The processes of Headgate run as the admin of the kubeconfig.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.processes import free_ports
from harness.real_server import RealServer
from harness.scheduler_process import send, wait_for
from harness.server import Answer
from harness.server_kinds import SERVER_KINDS
from harness.users import ALICE, BOB, EDITOR, TOKEN, bearing
from harness.webhooks import VALIDATING, WebhookProcess, prepare
from headgate.kube.scheduling_gates import QUEUE_ALLOCATION_GATE

pytestmark = pytest.mark.real

Object = dict[str, Any]

ON = ("--feature-gates", "GateOwnership=true")
SPACE = "team"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
POLICIES = "/apis/headgate.dev/v1alpha1/gatepolicies"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases"
GATE, FREE = "example.com/owned", "example.com/free"
JSON, MERGE = "application/json", "application/merge-patch+json"
STRATEGIC, JSON_PATCH = "application/strategic-merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
ROBOT, JOB_CONTROLLER = (SPACE, "robot"), ("kube-system", "job-controller")
REFUSED = "GatePolicy"
REVIEWS = re.compile(r'headgate_webhook_review_duration_seconds_count\{webhook="gate-policies\.[^"]+"\} (\d+)')


class Cluster:
    """A server with GatePolicies. On a real one, `headgate run --components webhooks` applies them."""

    def __init__(self, kind: str, folder: Path, programs: Path) -> None:
        self._folder, self._starts, self._signs = folder, 0, 0
        self.server: EmbeddedServer | RealServer
        if kind == "real":
            self.server = RealServer(folder / "server", programs)
        else:
            flags = (*ON, "--components", "apiserver,controllers")
            self.server = EmbeddedServer(folder / "server", programs / "kubectl", flags)
        self.webhooks: WebhookProcess | None = None
        prepare(self.server)
        command = [str(HEADGATE), "install-crds", "--gate-policies", "--kubeconfig", str(self.server.kubeconfig)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        send(self.server, "POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})
        self.tokens = {"alice": ALICE, "bob": BOB, "editor": EDITOR, "admin": TOKEN}
        self._grant("bob", {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"})
        for name, (namespace, account) in {"robot": ROBOT, "job-controller": JOB_CONTROLLER}.items():
            accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
            self.server.request("POST", accounts, {"Content-Type": JSON}, _bytes({"metadata": {"name": account}}))
            made = send(self.server, "POST", f"{accounts}/{account}/token", {"spec": {"audiences": []}})
            self.tokens[name] = made["status"]["token"]
            self._grant(name, {"kind": "ServiceAccount", "namespace": namespace, "name": account})
        self.switch_on()

    def _grant(self, name: str, subject: Object) -> None:
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        send(self.server, "POST", BINDINGS, {"metadata": {"name": f"x-{name}"}, "roleRef": role, "subjects": [subject]})

    def switch_on(self) -> None:
        self._switch(ON)

    def switch_off(self) -> None:
        self._switch(())

    def _switch(self, flags: tuple[str, ...]) -> None:
        self._starts += 1
        if isinstance(self.server, EmbeddedServer):
            if self._starts > 1:
                self.server.restart((*flags, "--components", "apiserver,controllers"))
            return
        self.stop_webhooks()
        (self._metrics,) = free_ports(1)
        flags = (*flags, "--metrics-listen", f"127.0.0.1:{self._metrics}")
        self.webhooks = WebhookProcess(self.server, self._folder / f"webhooks-{self._starts}.log", *flags)

    def reviews(self) -> int:
        """How many writes the API server has asked the webhooks about, because of policies."""
        connection = http.client.HTTPConnection("127.0.0.1", self._metrics, timeout=20)
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
        connection.close()
        return sum(int(count) for count in REVIEWS.findall(page))

    def stop_webhooks(self) -> None:
        if self.webhooks is not None:
            self.webhooks.stop()
            self.webhooks = None

    def close(self) -> None:
        self.stop_webhooks()
        self.server.disconnect()
        self.server.stop()

    def call(self, user: str, method: str, path: str, body: Any = None, content: str = JSON) -> Answer:
        headers = {"Content-Type": content, **bearing(self.tokens[user])}
        return self.server.request(method, path, headers, None if body is None else _bytes(body))

    def policy(self, name: str, *gates: str, **spec: Any) -> None:
        """Creates a policy, or replaces its spec, and waits until it is in effect: a real server learns from a changed
        webhook configuration about which gates it has to ask. A gate that no policy has had before is the sign: a
        policy that an earlier test deleted may still be in effect."""
        self._signs += 1
        sign = f"example.com/sign-{self._signs}"
        body = {"apiVersion": "headgate.dev/v1alpha1", "kind": "GatePolicy", "metadata": {"name": name}}
        send(self.server, "POST", POLICIES, {**body, "spec": {"gates": list(gates or (GATE,)), **spec}})
        send(
            self.server,
            "POST",
            POLICIES,
            {**body, "metadata": {"name": sign.partition("/")[2]}, "spec": {"gates": [sign], "addedBy": []}},
        )
        wait_for(lambda: self.call("alice", "POST", f"{PODS}?dryRun=All", a_pod("sign", sign)).status == 403)

    def clear(self) -> None:
        for kind in (POLICIES, PODS, f"/apis/batch/v1/namespaces/{SPACE}/jobs"):
            for each in send(self.server, "GET", kind)["items"]:
                path = f"{kind}/{each['metadata']['name']}"
                body = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
                self.call("admin", "DELETE", path, body)

    def gates(self, name: str) -> list[str]:
        pod = send(self.server, "GET", f"{PODS}/{name}")
        return [each["name"] for each in pod["spec"].get("schedulingGates", [])]

    def conditions(self, name: str) -> dict[str, tuple[str, str]]:
        status = send(self.server, "GET", f"{POLICIES}/{name}").get("status") or {}
        return {each["type"]: (each["status"], each["reason"]) for each in status.get("conditions") or ()}


def _bytes(body: Any) -> bytes:
    return json.dumps(body).encode()


@pytest.fixture(scope="module", params=SERVER_KINDS)
def running(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    cluster = Cluster(request.param, tmp_path_factory.mktemp(f"policies-{request.param}"), kube_binaries)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    yield running
    running.clear()


def a_pod(name: str, *gates: str, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "schedulingGates": [{"name": each} for each in gates or (GATE,)],
            "containers": [{"name": "c", "image": "i"}],
            **spec,
        },
    }


# -- user x verb x path

OWNED: Object = {
    "addedBy": [{"kind": "Group", "name": "writers"}, {"kind": "User", "name": "editor"}],
    "liftedBy": [
        {"kind": "ServiceAccount", "namespace": SPACE, "name": "robot"},
        {"kind": "User", "name": "editor"},
    ],
}
ADDERS = {"alice": False, "bob": True, "robot": False, "editor": False, "job-controller": True}
LIFTERS = {"alice": False, "bob": False, "robot": True, "editor": False, "job-controller": False}
"""`bob` is in the group writers. `editor` is listed in the policy and has no right by RBAC."""


def _template(gate: str) -> Object:
    return {"metadata": {"labels": {"a": "b"}}, "spec": a_pod("x", gate)["spec"]}


def _workload(gate: str) -> Object:
    return {"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _template(gate)}}


def _job(gate: str) -> Object:
    template = {"spec": {**a_pod("x", gate)["spec"], "restartPolicy": "Never"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"template": template}}


def _cron_job(gate: str) -> Object:
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": _job(gate)["spec"]}}
    return {"metadata": {"name": "x"}, "spec": spec}


Add = Callable[[Cluster, str, str], Answer]
DRY = "dryRun=All"
_APPS, _BATCH = f"/apis/apps/v1/namespaces/{SPACE}", f"/apis/batch/v1/namespaces/{SPACE}"
ADDS: dict[str, Add] = {
    "create": lambda cluster, who, gate: cluster.call(who, "POST", PODS, a_pod(f"a-{who}", gate)),
    "dry run": lambda cluster, who, gate: cluster.call(who, "POST", f"{PODS}?{DRY}", a_pod("dry", gate)),
    "generated name": lambda cluster, who, gate: cluster.call(
        who, "POST", PODS, {**a_pod("", gate), "metadata": {"generateName": "g-"}}
    ),
    "server-side apply": lambda cluster, who, gate: cluster.call(
        who, "PATCH", f"{PODS}/s-{who}?fieldManager=m", a_pod(f"s-{who}", gate), APPLY
    ),
    "job": lambda cluster, who, gate: cluster.call(who, "POST", f"{_BATCH}/jobs?{DRY}", _job(gate)),
    "job by server-side apply": lambda cluster, who, gate: cluster.call(
        who, "PATCH", f"{_BATCH}/jobs/x?{DRY}&fieldManager=m", _job(gate), APPLY
    ),
    "cron job": lambda cluster, who, gate: cluster.call(who, "POST", f"{_BATCH}/cronjobs?{DRY}", _cron_job(gate)),
    "deployment": lambda cluster, who, gate: cluster.call(who, "POST", f"{_APPS}/deployments?{DRY}", _workload(gate)),
    "replica set": lambda cluster, who, gate: cluster.call(who, "POST", f"{_APPS}/replicasets?{DRY}", _workload(gate)),
    "daemon set": lambda cluster, who, gate: cluster.call(who, "POST", f"{_APPS}/daemonsets?{DRY}", _workload(gate)),
    "stateful set": lambda cluster, who, gate: cluster.call(
        who, "POST", f"{_APPS}/statefulsets?{DRY}", _workload(gate)
    ),
    "replication controller": lambda cluster, who, gate: cluster.call(
        who,
        "POST",
        f"/api/v1/namespaces/{SPACE}/replicationcontrollers?{DRY}",
        {"metadata": {"name": "x"}, "spec": {"selector": {"a": "b"}, "template": _template(gate)}},
    ),
}


@pytest.mark.parametrize("path", ADDS)
def test_only_listed_users_with_rights_add_a_gate(cluster: Cluster, path: str) -> None:
    cluster.policy("owned", **OWNED)
    for who, may_add in ADDERS.items():
        answer = ADDS[path](cluster, who, GATE)
        assert (answer.status in (200, 201)) == may_add, (who, answer.status, answer.body)
        assert may_add or answer.status == 403, (who, answer.body)
        assert (REFUSED in answer.json().get("message", "")) == (not may_add and who != "editor"), answer.body
        free = ADDS[path](cluster, who, FREE) if path != "create" and "apply" not in path else None
        assert free is None or (free.status in (200, 201)) == (who != "editor"), (who, free.status, free.body)


Lift = Callable[[Cluster, str, str], Answer]


def _put(cluster: Cluster, who: str, name: str) -> Answer:
    pod = send(cluster.server, "GET", f"{PODS}/{name}")
    del pod["spec"]["schedulingGates"]
    return cluster.call(who, "PUT", f"{PODS}/{name}", pod)


def _patch(body: Any, content: str, query: str = "") -> Lift:
    return lambda cluster, who, name: cluster.call(who, "PATCH", f"{PODS}/{name}{query}", body, content)


def _apply(cluster: Cluster, who: str, name: str) -> Answer:
    """The manager that applied the gate applies the pod without it."""
    pod = a_pod(name)
    del pod["spec"]["schedulingGates"]
    return cluster.call(who, "PATCH", f"{PODS}/{name}?fieldManager=creator", pod, APPLY)


LIFTS: dict[str, Lift] = {
    "update": _put,
    "merge patch": _patch({"spec": {"schedulingGates": None}}, MERGE),
    "merge patch with an empty list": _patch({"spec": {"schedulingGates": []}}, MERGE),
    "json patch": _patch([{"op": "remove", "path": "/spec/schedulingGates/0"}], JSON_PATCH),
    "json patch of the list": _patch([{"op": "remove", "path": "/spec/schedulingGates"}], JSON_PATCH),
    "strategic patch": _patch({"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}, STRATEGIC),
    "strategic replacement": _patch({"spec": {"schedulingGates": [{"$patch": "replace"}]}}, STRATEGIC),
    "server-side apply": _apply,
}


@pytest.mark.parametrize("path", LIFTS)
def test_only_the_owner_with_rights_lifts_a_gate(cluster: Cluster, path: str) -> None:
    cluster.policy("owned", **OWNED)
    for who in LIFTERS:
        made = cluster.call("bob", "PATCH", f"{PODS}/p-{who}?fieldManager=creator", a_pod(f"p-{who}"), APPLY)
        assert made.status == 201, made.body
    for who, may_lift in LIFTERS.items():
        answer = LIFTS[path](cluster, who, f"p-{who}")
        assert answer.status == (200 if may_lift else 403), (who, answer.status, answer.body)
        assert (REFUSED in answer.json().get("message", "")) == (not may_lift and who != "editor"), answer.body
        assert cluster.gates(f"p-{who}") == ([] if may_lift else [GATE])


def test_a_dry_run_of_a_lift_is_refused_as_well(cluster: Cluster) -> None:
    cluster.policy("owned", **OWNED)
    cluster.call("bob", "POST", PODS, a_pod("p"))
    lift = _patch({"spec": {"schedulingGates": None}}, MERGE, "?dryRun=All")
    assert (lift(cluster, "alice", "p").status, lift(cluster, "robot", "p").status) == (403, 200)
    assert cluster.gates("p") == [GATE]


SUBRESOURCES: dict[str, Callable[[Cluster, Object], Answer]] = {
    "status by update": lambda cluster, pod: cluster.call("alice", "PUT", f"{PODS}/p/status", pod),
    "status by patch": lambda cluster, pod: cluster.call(
        "alice",
        "PATCH",
        f"{PODS}/p/status",
        {"spec": {"schedulingGates": None}, "status": {"reason": "x"}},
        MERGE,
    ),
    "status by server-side apply": lambda cluster, pod: cluster.call(
        "alice",
        "PATCH",
        f"{PODS}/p/status?fieldManager=creator&force=true",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"reason": "x"}},
        APPLY,
    ),
    "binding": lambda cluster, pod: cluster.call(
        "alice", "POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    ),
    "ephemeral containers by update": lambda cluster, pod: cluster.call(
        "alice",
        "PUT",
        f"{PODS}/p/ephemeralcontainers",
        {**pod, "spec": {**pod["spec"], "ephemeralContainers": [{"name": "e", "image": "i"}]}},
    ),
    "ephemeral containers by patch": lambda cluster, pod: cluster.call(
        "alice",
        "PATCH",
        f"{PODS}/p/ephemeralcontainers",
        {"spec": {"schedulingGates": None, "ephemeralContainers": [{"name": "e", "image": "i"}]}},
        MERGE,
    ),
    "resize by update": lambda cluster, pod: cluster.call("alice", "PUT", f"{PODS}/p/resize", pod),
    "resize by patch": lambda cluster, pod: cluster.call(
        "alice",
        "PATCH",
        f"{PODS}/p/resize",
        {
            "spec": {
                "schedulingGates": None,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}],
            }
        },
        STRATEGIC,
    ),
}


@pytest.mark.parametrize("path", SUBRESOURCES)
def test_no_subresource_lifts_a_gate(cluster: Cluster, path: str) -> None:
    cluster.policy("owned", **OWNED)
    made = cluster.call("bob", "POST", PODS, a_pod("p"))
    assert made.status == 201, made.body
    pod = made.json()
    without = {**pod, "spec": {key: value for key, value in pod["spec"].items() if key != "schedulingGates"}}
    answer = SUBRESOURCES[path](cluster, without)
    assert answer.status < 500, answer.body
    assert cluster.gates("p") == [GATE], answer.body


def test_writes_that_are_not_about_the_gate_are_free(cluster: Cluster) -> None:
    cluster.policy("owned", **OWNED)
    cluster.call("bob", "POST", PODS, a_pod("p", FREE, GATE))
    assert cluster.call("alice", "PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, MERGE).status == 200
    one = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    assert cluster.call("alice", "PATCH", f"{PODS}/p", one, JSON_PATCH).status == 200
    assert cluster.gates("p") == [GATE]
    assert cluster.call("alice", "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0}).status == 200


def test_headgate_lifts_its_own_gate_whatever_a_policy_says(cluster: Cluster) -> None:
    cluster.policy("own", QUEUE_ALLOCATION_GATE, liftedBy=[])
    cluster.call("bob", "POST", PODS, a_pod("p", QUEUE_ALLOCATION_GATE))
    lift = _patch({"spec": {"schedulingGates": None}}, MERGE)
    assert lift(cluster, "alice", "p").status == 403
    if cluster.server.name == "real":  # the webhooks run as this user; the embedded server has a user of its own
        assert lift(cluster, "admin", "p").status == 200


# -- limits, ages, status


def test_at_most_max_pods_wait_behind_a_gate(cluster: Cluster) -> None:
    gate = "example.com/three"  # no other test has pods behind it, whose deletion the webhooks learn of late
    cluster.policy("limited", gate, maxPods=3)
    statuses = [cluster.call("alice", "POST", PODS, a_pod(f"p{number}", gate)).status for number in range(6)]
    assert statuses == [201, 201, 201, 403, 403, 403]
    refused = cluster.call("job-controller", "POST", PODS, a_pod("late", gate))
    assert "3 pods of this namespace wait" in refused.json()["message"]
    assert _patch({"spec": {"schedulingGates": None}}, MERGE)(cluster, "alice", "p0").status == 200
    wait_for(lambda: cluster.call("alice", "POST", PODS, a_pod("late", gate)).status == 201)


def test_pods_that_are_created_at_the_same_time_do_not_exceed_the_limit(cluster: Cluster) -> None:
    gate = "example.com/ten"
    cluster.policy("limited", gate, maxPods=10)

    def create(number: int) -> int:
        return cluster.call("alice", "POST", PODS, a_pod(f"p{number}", gate)).status

    with ThreadPoolExecutor(8) as threads:
        done = threads.map(create, range(40))
    assert sorted(done) == [201] * 10 + [403] * 30
    assert len(send(cluster.server, "GET", PODS)["items"]) == 10


@pytest.mark.parametrize("running", ["embedded"], indirect=True)
def test_the_pods_of_a_job_wait_behind_the_gate_of_its_template(cluster: Cluster) -> None:
    """The controllers of the embedded cluster create them."""
    cluster.policy("owned", **OWNED)
    assert cluster.call("bob", "POST", f"{_BATCH}/jobs", _job(GATE)).status == 201
    (pod,) = wait_for(lambda: send(cluster.server, "GET", PODS)["items"])
    name = pod["metadata"]["name"]
    lift = _patch({"spec": {"schedulingGates": None}}, MERGE)
    assert lift(cluster, "bob", name).status == 403
    assert lift(cluster, "robot", name).status == 200


def test_bad_policies_say_why_and_others_are_in_effect(cluster: Cluster) -> None:
    cluster.policy("duration", "example.com/duration", maxAge="soon", addedBy=[])
    cluster.policy("a-owned", **OWNED)
    wait_for(lambda: cluster.conditions("a-owned") == {"Accepted": ("True", "Accepted")})
    cluster.policy("lease", "example.com/lease", ownerLease={"namespace": SPACE, "name": "missing"})
    # Times have whole seconds. Of two policies of the same second the first by name is in effect.
    cluster.policy("b-conflict", GATE, liftedBy=[])
    wait_for(lambda: cluster.conditions("duration") == {"Accepted": ("False", "Invalid")})
    wait_for(lambda: cluster.conditions("b-conflict") == {"Accepted": ("False", "Conflict")})
    wait_for(lambda: cluster.conditions("lease").get("OwnerAlive") == ("False", "LeaseNotFound"))
    assert cluster.conditions("lease")["Accepted"] == ("True", "Accepted")
    assert cluster.call("alice", "POST", PODS, a_pod("d", "example.com/duration")).status == 403
    assert cluster.call("bob", "POST", PODS, a_pod("p")).status == 201
    assert _patch({"spec": {"schedulingGates": None}}, MERGE)(cluster, "robot", "p").status == 200


def test_an_overdue_gate_is_lifted_and_an_overdue_pod_deleted(cluster: Cluster) -> None:
    cluster.policy("lifting", "example.com/lift", maxAge="2s", onMaxAge="Lift", liftedBy=[])
    cluster.policy("deleting", "example.com/delete", maxAge="2s", onMaxAge="Delete", liftedBy=[])
    cluster.policy("telling", "example.com/tell", maxAge="2s")
    for gate in ("lift", "delete", "tell"):
        assert cluster.call("alice", "POST", PODS, a_pod(gate, f"example.com/{gate}")).status == 201
    wait_for(lambda: cluster.gates("lift") == [])
    wait_for(lambda: cluster.call("alice", "GET", f"{PODS}/delete").status == 404)
    wait_for(lambda: cluster.conditions("telling").get("WithinMaxAge") == ("False", "Overdue"))
    assert cluster.gates("tell") == ["example.com/tell"]

    def reasons() -> set[str]:
        events = send(cluster.server, "GET", f"/api/v1/namespaces/{SPACE}/events")["items"]
        return {each["reason"] for each in events}

    wait_for(lambda: {"GateOverdue", "OverdueGateLifted", "OverduePodDeleted"} <= reasons())


def test_the_list_of_gates_shows_owner_health_and_age(cluster: Cluster) -> None:
    cluster.policy("owned", ownerLease={"namespace": SPACE, "name": "missing"}, **OWNED)
    cluster.call("bob", "POST", PODS, a_pod("p", GATE, FREE))
    wait_for(lambda: cluster.conditions("owned").get("OwnerAlive") == ("False", "LeaseNotFound"))
    command = [str(HEADGATE), "gates", "list", "-n", SPACE, "--kubeconfig", str(cluster.server.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert rows["GATE"].split() == ["GATE", "PODS", "OLDEST", "AGE", "SET", "BY", "OWNER", "HEALTH"]
    assert rows[GATE].endswith("LeaseNotFound")
    assert f"serviceaccount {SPACE}/robot, user editor (owned)" in rows[GATE]
    assert rows[FREE].split()[-2:] == ["-", "-"]


@pytest.mark.parametrize("running", ["real"], indirect=True)
def test_only_writes_about_owned_gates_are_sent_to_the_webhooks(cluster: Cluster) -> None:
    cluster.policy("owned", **OWNED)
    cluster.call("bob", "POST", PODS, a_pod("p", FREE, GATE))
    before = cluster.reviews()
    plain = a_pod("plain")
    del plain["spec"]["schedulingGates"]
    for pod in (plain, a_pod("free", FREE)):
        assert cluster.call("alice", "POST", PODS, pod).status == 201
    assert _patch({"spec": {"schedulingGates": None}}, MERGE)(cluster, "alice", "free").status == 200
    assert cluster.call("alice", "PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}, MERGE).status == 200
    assert cluster.call("alice", "POST", f"{_BATCH}/jobs?{DRY}", _job(FREE)).status == 201
    assert cluster.call("bob", "POST", f"{_BATCH}/jobs", _job(GATE)).status == 201
    assert cluster.reviews() == before + 1
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert cluster.call("alice", "PATCH", f"{_BATCH}/jobs/x", labels, MERGE).status == 200
    assert cluster.reviews() == before + 1
    assert _put(cluster, "robot", "p").status == 200
    assert cluster.reviews() == before + 2


# -- off, on, and failures of the webhooks; these change the processes, so they are the last


def test_switched_off_nothing_is_refused_and_switched_on_again_every_promise_holds(cluster: Cluster) -> None:
    cluster.policy("owned", **OWNED)
    lift = _patch({"spec": {"schedulingGates": None}}, MERGE)
    for name in ("first", "second"):
        assert cluster.call("bob", "POST", PODS, a_pod(name)).status == 201
    assert lift(cluster, "alice", "first").status == 403
    cluster.switch_off()
    try:
        if cluster.server.name == "real":
            entries = send(cluster.server, "GET", VALIDATING)["webhooks"]
            assert not [each for each in entries if each["name"].startswith("gate-policies.")]
        wait_for(lambda: lift(cluster, "alice", "first").status == 200)
        assert cluster.call("alice", "POST", PODS, a_pod("third")).status == 201
    finally:
        cluster.switch_on()
    # An API server learns of the webhooks by a watch. Until then it lifts gates, so only dry runs ask for it.
    dry_lift = _patch({"spec": {"schedulingGates": None}}, MERGE, f"?{DRY}")
    wait_for(lambda: dry_lift(cluster, "alice", "second").status == 403)
    wait_for(lambda: cluster.call("alice", "POST", f"{PODS}?{DRY}", a_pod("fourth")).status == 403)
    assert lift(cluster, "alice", "second").status == 403
    assert cluster.gates("second") == [GATE]
    assert lift(cluster, "robot", "second").status == 200
    assert lift(cluster, "robot", "third").status == 200


@pytest.mark.parametrize("running", ["real"], indirect=True)
def test_without_webhooks_only_writes_about_owned_gates_fail(cluster: Cluster) -> None:
    cluster.policy("owned", **OWNED)
    assert cluster.call("bob", "POST", PODS, a_pod("p", GATE)).status == 201
    cluster.stop_webhooks()
    try:
        lift = _patch({"spec": {"schedulingGates": None}}, MERGE)
        assert lift(cluster, "robot", "p").status == 500
        assert cluster.call("bob", "POST", PODS, a_pod("q", GATE)).status == 500
        assert cluster.call("alice", "POST", PODS, a_pod("free", FREE)).status == 201
        assert lift(cluster, "alice", "free").status == 200
        labels = {"metadata": {"labels": {"a": "b"}}}
        assert cluster.call("alice", "PATCH", f"{PODS}/p", labels, MERGE).status == 200
    finally:
        cluster.switch_on()
