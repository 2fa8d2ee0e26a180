"""Which objects a real API server asks the webhooks about, and which replica writes which entries."""

from __future__ import annotations

import http.client
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import a_pod
from harness.processes import free_ports
from harness.real_server import RealServer
from harness.scheduler_process import wait_for
from harness.server import Answer, Server
from harness.webhooks import MUTATING, VALIDATING, WebhookProcess, prepare, sent
from headgate.admission.review_scope import ReviewScope
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.names import GATE, OPT_IN, STAMP
from headgate.jobs.names import ADMISSION_GATE, QUEUE_NAME
from headgate.jobs.settings import JobSettings
from headgate.kube.api_resources import APIResource
from headgate.runtime.webhooks import configurations
from headgate.runtime.webhooks.configurations import component_of
from headgate.runtime.webhooks.target import WebhookTarget

pytestmark = pytest.mark.real

COUNT = re.compile(r'headgate_webhook_review_duration_seconds_count\{webhook="([^"]+)"\} (\d+)')
LOCAL_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/localqueues"
LEASE = {
    "metadata": {"name": "headgate-jobs", "namespace": "kube-system"},
    "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600, "renewTime": "2099-01-01T00:00:00.000000Z"},
}


@pytest.fixture(scope="module")
def server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    running = RealServer(tmp_path_factory.mktemp("scope-real"), kube_binaries)
    prepare(running)
    sent(running, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", LEASE)
    for name in ("team", "free"):
        sent(running, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield running
    running.disconnect()
    running.stop()


class Asked(WebhookProcess):
    """Webhooks of the queue gate and of jobs, with metrics."""

    def __init__(self, server: RealServer, log: Path, *flags: str) -> None:
        self.metrics = free_ports(1)[0]
        listen = ("--metrics-listen", f"127.0.0.1:{self.metrics}")
        super().__init__(server, log, "--components", "webhooks,jobs", *listen, *flags)

    def reviews(self) -> dict[str, int]:
        """How many reviews each webhook has answered."""
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics, timeout=20)
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
        connection.close()
        return {name: int(count) for name, count in COUNT.findall(page)}


@pytest.fixture
def webhooks(server: RealServer, tmp_path: Path) -> Iterator[Asked]:
    process = Asked(server, tmp_path / "webhooks.log")
    try:
        # The API server learns of each configuration by a watch. Until then it asks the process of an earlier test.
        wait_for(lambda: has_gate(server, GATE, annotations={OPT_IN: "true"}), process)
        wait_for(lambda: has_gate(server, ADMISSION_GATE, labels={QUEUE_NAME: "q"}), process)
        wait_for(lambda: try_to_create(server, "team", labels={QUEUE_NAME: "Not_A_Name"}).status == 403, process)
        yield process
    finally:
        process.stop()


def try_to_create(
    server: Server, namespace: str, scheduler: str = "headgate", dry_run: bool = True, **metadata: Any
) -> Answer:
    pod: dict[str, Any] = a_pod("p", {"cpu": "1"}, schedulerName=scheduler)
    path = f"/api/v1/namespaces/{namespace}/pods{'?dryRun=All' if dry_run else ''}"
    return sent(server, "POST", path, {**pod, "metadata": {"generateName": "p-", **metadata}}, as_alice=True)


def has_gate(server: Server, gate: str, **metadata: Any) -> bool:
    """Whether a new pod gets exactly this gate."""
    answer = try_to_create(server, "team", **metadata)
    return answer.status == 201 and answer.json()["spec"].get("schedulingGates") == [{"name": gate}]


def create(server: Server, namespace: str, scheduler: str = "headgate", dry_run: bool = False, **metadata: Any) -> Any:
    answer = try_to_create(server, namespace, scheduler, dry_run, **metadata)
    assert answer.status == 201, answer.body
    return answer.json()


def gates(server: Server, namespace: str, scheduler: str = "headgate", **metadata: Any) -> list[str]:
    created = create(server, namespace, scheduler, dry_run=True, **metadata)
    return [each["name"] for each in created["spec"].get("schedulingGates") or ()]


def test_pods_that_do_not_concern_headgate_are_not_asked_about(server: RealServer, webhooks: Asked) -> None:
    before = webhooks.reviews()
    for _ in range(5):
        pod = create(server, "free", "default-scheduler", annotations={"note": "n"}, labels={"app": "web"})
        path = f"/api/v1/namespaces/free/pods/{pod['metadata']['name']}"
        change = {"metadata": {"labels": {"x": "y"}, "annotations": {"z": "1"}}}
        assert sent(server, "PATCH", path, change, as_alice=True).status == 200
        bound = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": "n"}}
        assert sent(server, "POST", f"{path}/binding", bound).status == 201
        assert sent(server, "PATCH", path, {"metadata": {"labels": {"x": "z"}}}).status == 200
        larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
        assert sent(server, "PATCH", f"{path}/resize", larger).status in (200, 422)
        assert sent(server, "DELETE", path, {"gracePeriodSeconds": 0}).status == 200
    for kind in ("deployments", "statefulsets", "replicasets"):
        assert sent(server, "POST", f"/apis/apps/v1/namespaces/free/{kind}", an_owner()).status == 201
    assert sent(server, "POST", "/apis/batch/v1/namespaces/free/jobs", a_job()).status == 201
    assert webhooks.reviews() == before
    assert gates(server, "free", "default-scheduler", labels={QUEUE_NAME: "q"}) == [ADMISSION_GATE]
    assert webhooks.reviews() != before


def an_owner() -> Any:
    labels = {"matchLabels": {"app": "a"}}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": "plain"}, "spec": {"replicas": 0, "selector": labels, "template": template}}


def a_job() -> Any:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": "plain"}, "spec": {"parallelism": 0, "template": template}}


def test_stamps_of_other_users_are_asked_about_and_those_of_headgate_are_not(
    server: RealServer, webhooks: Asked
) -> None:
    """The webhooks run as the user of the kubeconfig, whose requests are those that are not Alice's."""
    name = "stamp.pods.headgate.dev"
    pod = create(server, "free", "default-scheduler")
    path = f"/api/v1/namespaces/free/pods/{pod['metadata']['name']}"
    before = webhooks.reviews().get(name, 0)
    for stamp in ("{}", None):
        changed = {"metadata": {"annotations": {STAMP: stamp}}}
        assert sent(server, "PATCH", path, changed).status == 200
    assert webhooks.reviews().get(name, 0) == before
    changed = {"metadata": {"annotations": {STAMP: "{}"}}}
    assert sent(server, "PATCH", path, changed, as_alice=True).status == 403
    assert webhooks.reviews().get(name, 0) == before + 1


def test_pods_of_our_schedulers_and_pods_with_an_annotation_of_ours_are_asked_about(
    server: RealServer, webhooks: Asked
) -> None:
    name = "gate.pods.headgate.dev"
    for scheduler, metadata in (
        ("headgate", {}),
        ("default-scheduler", {"annotations": {OPT_IN: "true"}}),
        ("default-scheduler", {"annotations": {"headgate.dev/admitted": "{}"}}),
    ):
        before = webhooks.reviews()[name]
        pod = create(server, "free", scheduler, dry_run=True, **metadata)
        assert "headgate.dev/admitted" not in pod["metadata"].get("annotations", {})
        assert webhooks.reviews()[name] == before + 1


def test_a_default_queue_makes_pods_of_its_namespace_asked_about_and_no_others(
    server: RealServer, webhooks: Asked
) -> None:
    name = "others.wait.pods.jobs.headgate.dev"
    assert gates(server, "team", "default-scheduler") == []
    queue: dict[str, Any] = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"}
    queue |= {"metadata": {"name": "default"}, "spec": {"clusterQueue": "c"}}
    assert sent(server, "POST", LOCAL_QUEUES, queue).status == 201
    wait_for(lambda: gates(server, "team", "default-scheduler") == [ADMISSION_GATE], webhooks)
    before = webhooks.reviews()
    assert gates(server, "free", "default-scheduler") == []
    assert webhooks.reviews() == before
    sent(server, "DELETE", f"{LOCAL_QUEUES}/default")

    def is_asked() -> bool:
        return any(hook["name"] == name and "'team'" in str(hook["matchConditions"]) for hook in hooks(server))

    wait_for(lambda: not is_asked(), webhooks)


@pytest.mark.parametrize(
    "resource", [configurations.MUTATING, configurations.VALIDATING], ids=["mutating", "validating"]
)
@pytest.mark.parametrize("scope", [ReviewScope(), ReviewScope(frozenset({"a", "b"}), False, frozenset({"c"}))])
def test_a_real_server_accepts_the_conditions_of_every_policy(
    resource: APIResource, scope: ReviewScope, server: RealServer
) -> None:
    target = WebhookTarget(url="https://127.0.0.1:1")
    for schedulers in ({"headgate"}, {"default-scheduler", "it's"}):
        for gates_all, manages_all in ((False, False), (True, True)):
            settings = AdmissionSettings(
                schedulers=frozenset(schedulers),
                gates_all_pods=gates_all,
                suspends_jobs=True,
                jobs=JobSettings(manages_all=manages_all),
            )
            webhooks = configurations.desired_webhooks(resource, settings, target, b"", scope)
            body = {"metadata": {"name": "tried"}, "webhooks": webhooks}
            answer = sent(server, "POST", f"{resource.collection_path()}?dryRun=All", body)
            assert answer.status == 201, answer.body


def hooks(server: Server) -> list[Any]:
    found = (sent(server, "GET", path).json() for path in (MUTATING, VALIDATING))
    return [hook for configuration in found for hook in configuration.get("webhooks") or ()]


def generations(server: Server) -> list[int]:
    return [sent(server, "GET", path).json()["metadata"]["generation"] for path in (MUTATING, VALIDATING)]


def test_replicas_with_other_components_keep_both_sets_of_entries_and_do_not_write_in_turns(
    server: RealServer, tmp_path: Path
) -> None:
    with_jobs = Asked(server, tmp_path / "jobs.log")
    url = f"https://127.0.0.1:{with_jobs.port}"
    without = WebhookProcess(server, tmp_path / "gates.log", "--webhook-url", url)
    try:
        names = [hook["name"] for hook in hooks(server)]
        assert {component_of(name) for name in names} == {"webhooks", "jobs"}
        begun = generations(server)
        for number, path in enumerate((MUTATING, VALIDATING, MUTATING)):
            entries = sent(server, "GET", path).json()["webhooks"]
            spoiled = [{**entry, "timeoutSeconds": 29 - number} for entry in entries]
            assert sent(server, "PATCH", path, {"webhooks": spoiled}).status == 200
            wait_for(lambda: all(hook["timeoutSeconds"] == 5 for hook in hooks(server)), with_jobs)
        assert [hook["name"] for hook in hooks(server)] == names
        # Each changed configuration was restored once, or by each replica in its part: no replica undid the part of the
        # other.
        after = generations(server)
        assert (after[0] - begun[0], after[1] - begun[1]) <= (6, 3)
        with_jobs.signal(signal.SIGINT)
        with_jobs.wait()
        entries = sent(server, "GET", MUTATING).json()["webhooks"]
        broken = [entry for entry in entries if entry["name"] != "gate.pods.headgate.dev"]
        assert sent(server, "PATCH", MUTATING, {"webhooks": broken}).status == 200
        wait_for(lambda: sorted(hook["name"] for hook in hooks(server)) == sorted(names), without)
    finally:
        with_jobs.stop()
        without.stop()


def test_replicas_with_contradictory_flags_come_to_rest(server: RealServer, tmp_path: Path) -> None:
    first = WebhookProcess(server, tmp_path / "one.log")
    second = WebhookProcess(server, tmp_path / "two.log", "--scheduler-name", "volcano")
    try:
        wait_for(lambda: "a replica with other settings that started later" in first.log.read_text(), first)
        begun, written_s = generations(server), time.monotonic()
        right = hooks(server)
        entries = sent(server, "GET", MUTATING).json()["webhooks"]
        of_others = [entry for entry in entries if component_of(entry["name"]) != "webhooks"]
        assert sent(server, "PATCH", MUTATING, {"webhooks": of_others}).status == 200
        wait_for(lambda: hooks(server) == right, second)
        assert generations(server)[0] == begun[0] + 2, f"after {time.monotonic() - written_s:.1f} s"
        conditions = str(right[0]["matchConditions"])
        assert "'volcano'" in conditions
        assert "'headgate'" not in conditions
    finally:
        first.stop()
        second.stop()
