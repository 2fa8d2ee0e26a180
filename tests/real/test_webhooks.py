"""The webhooks of a real cluster as an operator meets them: made, found changed, rotated, killed, and switched off."""

from __future__ import annotations

import base64
import datetime
import http.client
import json
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509

from clusters import a_node, a_pod
from harness.embedded_server import HEADGATE
from harness.faulty_proxy import FaultyProxy
from harness.processes import Process, free_ports
from harness.real_server import REPOSITORY, RealServer
from harness.scheduler_process import SchedulerProcess, create_nodes, wait_for
from harness.server import Server
from harness.webhooks import MUTATING, SECRET, VALIDATING, WebhookProcess, prepare, sent
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME, QUEUES, STAMP
from headgate.runtime.webhooks.certificates import ensure_certificates
from headgate.runtime.webhooks.target import WebhookTarget

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    running = RealServer(tmp_path_factory.mktemp("webhooks-real"), kube_binaries)
    prepare(running)
    yield running
    running.disconnect()
    running.stop()


@pytest.fixture
def webhooks(server: RealServer, tmp_path: Path) -> Iterator[WebhookProcess]:
    """The API server learns of their configurations by a watch, after they are ready."""
    process = WebhookProcess(server, tmp_path / "webhooks.log")
    try:
        wait_for(lambda: gated(server), process)
        yield process
    finally:
        process.stop()


def gated(server: Server, annotations: dict[str, str] | None = None, scheduler: str = "headgate") -> bool:
    """Whether a pod that is created now comes with our gate."""
    metadata = {"generateName": "p-", "annotations": annotations or {OPT_IN: "true"}}
    spec = {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}
    answer = sent(server, "POST", PODS, {"metadata": metadata, "spec": spec}, as_alice=True)
    assert answer.status == 201, answer.body
    return {"name": GATE} in answer.json()["spec"].get("schedulingGates", [])


def configuration(server: Server, path: str) -> list[Any]:
    found = sent(server, "GET", path)
    return list(found.json().get("webhooks") or []) if found.status == 200 else []


def shown(process: WebhookProcess) -> x509.Certificate:
    pem = ssl.get_server_certificate(("127.0.0.1", process.port), timeout=20)
    return x509.load_pem_x509_certificate(pem.encode())


def asked(process: WebhookProcess, server: Server, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """As an API server asks, believing the authority that is in the Secret."""
    bundle = base64.b64decode(sent(server, "GET", SECRET).json()["data"]["ca.crt"]).decode()
    trust = ssl.create_default_context(cadata=bundle)
    connection = http.client.HTTPSConnection("127.0.0.1", process.port, timeout=20, context=trust)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_what_is_registered_fails_open_and_leaves_system_namespaces_alone(
    server: RealServer, webhooks: WebhookProcess
) -> None:
    hooks = [*configuration(server, MUTATING), *configuration(server, VALIDATING)]
    assert [hook["name"] for hook in hooks] == [
        "gate.pods.headgate.dev",
        "stamp.pods.headgate.dev",
        "resize.pods.headgate.dev",
        "queues.headgate.dev",
        "podgroups.headgate.dev",
        "resourceflavors.kueue.headgate.dev",
        "clusterqueues.kueue.headgate.dev",
        "cohorts.kueue.headgate.dev",
        "localqueues.kueue.headgate.dev",
        "workloads.kueue.headgate.dev",
        "admissionchecks.kueue.headgate.dev",
        "status.workloads.kueue.headgate.dev",
    ]
    assert {hook["failurePolicy"] for hook in hooks} == {"Ignore"}
    assert max(hook["timeoutSeconds"] for hook in hooks) <= 5
    system = "/api/v1/namespaces/kube-system/pods"
    pod: dict[str, Any] = {"metadata": {"name": "p", "annotations": {OPT_IN: "true"}}}
    pod |= {"spec": {"schedulerName": "headgate", "containers": [{"name": "c", "image": "i"}]}}
    made = sent(server, "POST", f"{system}?dryRun=All", pod)
    assert "schedulingGates" not in made.json()["spec"]


def test_changed_or_deleted_configurations_are_repaired(server: RealServer, webhooks: WebhookProcess) -> None:
    def is_repaired() -> bool:
        return [configuration(server, path) for path in (MUTATING, VALIDATING)] == right

    right = [configuration(server, path) for path in (MUTATING, VALIDATING)]
    for path, (first, *others) in zip((MUTATING, VALIDATING), right, strict=True):
        spoiled = [{**first, "clientConfig": {**first["clientConfig"], "caBundle": ""}}, *others]
        former = [{**first, "failurePolicy": "Fail", "name": "former.headgate.dev"}, first, *others]
        for wrong in (spoiled, former, []):
            assert sent(server, "PATCH", path, {"webhooks": wrong}).status == 200
            wait_for(is_repaired, webhooks)
        sent(server, "DELETE", path)
        wait_for(is_repaired, webhooks)
    wait_for(lambda: gated(server), webhooks)


def test_entries_of_others_in_our_configurations_are_left_alone(server: RealServer, webhooks: WebhookProcess) -> None:
    first, *_ = right = configuration(server, MUTATING)
    strange = {**first, "name": "strange.example.com", "objectSelector": {"matchLabels": {"no": "pod"}}}
    assert sent(server, "PATCH", MUTATING, {"webhooks": [strange]}).status == 200
    wait_for(lambda: configuration(server, MUTATING) == [*right, strange], webhooks)
    assert sent(server, "PATCH", MUTATING, {"webhooks": right}).status == 200


def test_what_is_right_is_not_written_again(server: RealServer, webhooks: WebhookProcess) -> None:
    def revisions() -> list[str]:
        return [sent(server, "GET", path).json()["metadata"]["resourceVersion"] for path in (MUTATING, SECRET)]

    before = revisions()
    # A replica that restores one configuration checks all objects.
    right = configuration(server, VALIDATING)
    assert sent(server, "PATCH", VALIDATING, {"webhooks": []}).status == 200
    wait_for(lambda: configuration(server, VALIDATING) == right, webhooks)
    assert revisions() == before


def test_a_certificate_that_expires_soon_is_replaced_while_pods_are_still_gated(
    server: RealServer, webhooks: WebhookProcess
) -> None:
    old = shown(webhooks)
    long_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=350)
    ending = ensure_certificates({}, WebhookTarget(url=f"https://127.0.0.1:{webhooks.port}"), long_ago)
    secret = sent(server, "GET", SECRET).json()
    assert sent(server, "PUT", SECRET, {**secret, "data": ending.data()}).status == 200
    wait_for(lambda: shown(webhooks) != old, webhooks)
    fresh = shown(webhooks)
    assert fresh.not_valid_after_utc - datetime.datetime.now(datetime.UTC) > datetime.timedelta(days=360)
    wait_for(lambda: gated(server), webhooks)
    held = sent(server, "GET", SECRET).json()["data"]
    assert base64.b64decode(held["tls.crt"]) != ending.server.certificate
    assert webhooks.running()


def test_a_deleted_or_damaged_secret_is_recreated(server: RealServer, webhooks: WebhookProcess) -> None:
    old = shown(webhooks)
    sent(server, "DELETE", SECRET)
    wait_for(lambda: shown(webhooks) != old, webhooks)
    wait_for(lambda: gated(server), webhooks)
    second = shown(webhooks)
    assert sent(server, "PATCH", SECRET, {"data": {"ca.crt": "bm9wZQ==", "ca.key": "bm9wZQ=="}}).status == 200
    wait_for(lambda: shown(webhooks) != second, webhooks)
    wait_for(lambda: gated(server), webhooks)


def _says_ready(log: Path) -> bool:
    return "webhooks: ready" in log.read_text()


def test_replicas_that_start_together_share_one_secret(server: RealServer, tmp_path: Path) -> None:
    sent(server, "DELETE", SECRET)
    port, other = free_ports(2)
    command = [str(HEADGATE), "run", "--kubeconfig", str(server.kubeconfig), "--components", "webhooks"]
    command += ["--webhook-url", f"https://127.0.0.1:{port}"]
    logs = [tmp_path / "one.log", tmp_path / "two.log"]
    replicas = [
        Process([*command, "--webhook-listen", f"127.0.0.1:{each}"], log)
        for each, log in zip((port, other), logs, strict=True)
    ]
    try:
        for replica, log in zip(replicas, logs, strict=True):
            replica.wait_until(partial(_says_ready, log), 30)
        pems = {ssl.get_server_certificate(("127.0.0.1", each), timeout=20) for each in (port, other)}
        assert len(pems) == 1
        wait_for(lambda: gated(server), replicas[0])
    finally:
        for replica in replicas:
            replica.stop()


def test_when_the_webhooks_are_gone_pods_are_created_all_the_same(server: RealServer, tmp_path: Path) -> None:
    webhooks = WebhookProcess(server, tmp_path / "one.log")
    wait_for(lambda: gated(server), webhooks)
    webhooks.kill()
    assert not gated(server)
    again = WebhookProcess(server, tmp_path / "two.log", port=webhooks.port)
    try:
        wait_for(lambda: gated(server), again)
    finally:
        again.stop()


def test_a_restarted_api_server_calls_the_webhooks(server: RealServer, tmp_path: Path) -> None:
    webhooks = WebhookProcess(server, tmp_path / "w.log")
    try:
        server.kill()
        server.restart()
        wait_for(lambda: gated(server), webhooks)
        right = configuration(server, MUTATING)
        assert sent(server, "PATCH", MUTATING, {"webhooks": []}).status == 200
        wait_for(lambda: configuration(server, MUTATING) == right, webhooks)
    finally:
        webhooks.stop()


def test_it_prints_ready_and_ends_without_an_error_at_ctrl_c(server: RealServer, tmp_path: Path) -> None:
    (metrics,) = free_ports(1)
    webhooks = WebhookProcess(server, tmp_path / "w.log", "--metrics-listen", f"127.0.0.1:{metrics}")
    connection = http.client.HTTPConnection("127.0.0.1", metrics, timeout=20)
    connection.request("GET", "/readyz?verbose")
    answer = connection.getresponse()
    assert (answer.status, b"[+]webhooks ok" in answer.read()) == (200, True)
    connection.close()
    for path in ("/livez", "/healthz", "/readyz"):
        assert asked(webhooks, server, "GET", path) == (200, b"ok\n")
    webhooks.signal(signal.SIGINT)
    assert webhooks.wait() == 0
    assert webhooks.tail(1) == "stopped"
    assert "Traceback" not in webhooks.log.read_text()


def readiness(port: int) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/readyz?verbose")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("late", "check"),
    [
        ("/podgroups", "[-]webhooks failed"),
        ("/mutatingwebhookconfigurations/headgate", "[-]webhooks failed"),
        ("/nodes", "[-]informer-sync failed"),
    ],
    ids=["a cache of the webhooks", "the registration", "a cache of the scheduler"],
)
def test_it_is_not_ready_before_caches_are_synced_and_webhooks_are_served(
    late: str, check: str, server: RealServer, tmp_path: Path
) -> None:
    proxy = FaultyProxy(server, tmp_path)
    proxy.refuse("GET", late)
    metrics, port = free_ports(2)
    where = ("--webhook-url", f"https://127.0.0.1:{port}", "--webhook-listen", f"127.0.0.1:{port}")
    words = ("run", "--kubeconfig", str(proxy.kubeconfig), "--components", "scheduler,webhooks", *where)
    process = Process(
        [str(HEADGATE), *words, "--metrics-listen", f"127.0.0.1:{metrics}", "--shutdown-delay", "0"], tmp_path / "w.log"
    )
    try:
        wait_for(lambda: "metrics: " in process.log.read_text(), process)
        wait_for(lambda: check in readiness(metrics)[1] and proxy.faults["error"] > 1, process)
        assert readiness(metrics)[0] == 500
        proxy.allow()
        wait_for(lambda: readiness(metrics)[0] == 200, process)
        urls = [hook["clientConfig"]["url"] for hook in configuration(server, MUTATING)]
        assert {urlsplit(each).port for each in urls} == {port}, "webhooks are served when it is ready"
        wait_for(lambda: gated(server), process)
    finally:
        process.stop()
        proxy.close()


def test_after_sigterm_it_is_not_ready_has_released_its_lease_and_still_serves(
    server: RealServer, tmp_path: Path
) -> None:
    (metrics,) = free_ports(1)
    flags = (
        "--components",
        "scheduler,webhooks",
        "--metrics-listen",
        f"127.0.0.1:{metrics}",
        "--shutdown-delay",
        "60s",
    )
    webhooks = WebhookProcess(server, tmp_path / "w.log", *flags)
    try:
        wait_for(lambda: "elected: " in webhooks.log.read_text(), webhooks)
        wait_for(lambda: readiness(metrics)[0] == 200, webhooks)
        wait_for(lambda: len(holders(server)) == 1, webhooks)
        wait_for(lambda: gated(server), webhooks)
        webhooks.signal(signal.SIGTERM)
        wait_for(lambda: readiness(metrics)[0] == 500, webhooks)
        assert "[-]shutdown failed: the process is stopping" in readiness(metrics)[1]
        assert asked(webhooks, server, "GET", "/readyz") == (500, b"the webhook server is stopping\n")
        assert gated(server)
        wait_for(lambda: not holders(server), webhooks)
        assert webhooks.running()
        webhooks.signal(signal.SIGTERM)
        assert webhooks.wait(10) == 1, "a second signal ends it at once"
    finally:
        webhooks.kill()


def holders(server: Server) -> list[str]:
    """The holders of Headgate's Leases."""
    leases = sent(server, "GET", "/apis/coordination.k8s.io/v1/leases").json()["items"]
    ours = [each["spec"].get("holderIdentity") for each in leases if each["metadata"]["name"].startswith("headgate")]
    return [each for each in ours if each]


def test_ctrl_c_does_not_wait_for_the_delay(server: RealServer, tmp_path: Path) -> None:
    webhooks = WebhookProcess(server, tmp_path / "w.log", "--shutdown-delay", "60s")
    webhooks.signal(signal.SIGINT)
    assert webhooks.wait(20) == 0


def test_webhooks_that_cannot_start_do_not_stop_the_scheduler(server: RealServer, tmp_path: Path) -> None:
    create_nodes(server, [a_node("node-of-failed-start", cpu="100", memory="100Gi", pods="1000")])
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "one"}}
    assert sent(server, "POST", QUEUES.collection_path(), {**queue, "spec": {"capability": {"cpu": "1"}}}).status == 201
    metrics, port = free_ports(2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        address = f"127.0.0.1:{port}"
        flags = ("--components", "scheduler,webhooks", "--no-leader-elect", "--metrics-listen", f"127.0.0.1:{metrics}")
        where = ("--webhook-url", f"https://{address}", "--webhook-listen", address, "--shutdown-delay", "0")
        running = SchedulerProcess(server, tmp_path / "s.log", *flags, *where)
        try:
            wait_for(lambda: "[-]webhooks failed: cannot listen on" in readiness(metrics)[1], running)
            metadata = {"name": "bound-all-the-same", "annotations": {QUEUE_NAME: "one"}}
            pod = {**a_pod("p", {"cpu": "1"}, schedulerName="headgate"), "metadata": metadata}
            assert sent(server, "POST", PODS, pod).status == 201
            path = f"{PODS}/bound-all-the-same"
            wait_for(lambda: sent(server, "GET", path).json()["spec"].get("nodeName"), running)
            taken.close()
            wait_for(lambda: readiness(metrics)[0] == 200, running)
            assert "webhooks: cannot listen on" in running.log.read_text()
        finally:
            running.stop()


def test_w6_with_the_feature_off_pods_are_not_asked_about(server: RealServer, tmp_path: Path) -> None:
    off = WebhookProcess(server, tmp_path / "off.log", "--feature-gates", "SchedulingGatesQueueAdmission=false")
    try:
        assert configuration(server, MUTATING) == []
        rules = [hook["rules"][0]["resources"] for hook in configuration(server, VALIDATING)]
        assert rules[:3] == [["pods/resize"], ["queues"], ["podgroups"]], "queues have limits without gates, too"
        assert not any("pods" in each for each in rules)
        wait_for(lambda: not gated(server), off)
    finally:
        off.stop()


def test_a_whole_installation_opts_in(server: RealServer, tmp_path: Path) -> None:
    everybody = WebhookProcess(server, tmp_path / "all.log", "--gate-all-pods")
    try:
        assert gated(server, {"note": "says nothing"})
        assert not gated(server, {OPT_IN: "false"})
        assert not gated(server, {"note": "says nothing"}, scheduler="default-scheduler")
    finally:
        everybody.stop()


def test_w7_and_other_requests_that_are_no_creation_get_an_answer(server: RealServer, webhooks: WebhookProcess) -> None:
    request: dict[str, Any] = {"uid": "u", "operation": "UPDATE", "resource": {"resource": "pods"}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    status, body = asked(webhooks, server, "POST", "/pods/mutate", json.dumps(review).encode())
    response = json.loads(body)["response"]
    assert (status, response["allowed"]) == (200, False)
    assert response["status"]["message"] == "expect operation to be 'CREATE'"
    for method, path, body, expected in (
        ("POST", "/pods/mutate", b"{", 400),
        ("POST", "/pods/mutate", b"", 400),
        ("POST", "/elsewhere", b"{}", 404),
        ("PUT", "/pods/mutate", b"{}", 405),
        ("GET", "/pods/mutate", b"", 404),
        ("POST", "/pods/mutate", b"x" * (9 * 1024 * 1024), 413),
    ):
        assert asked(webhooks, server, method, path, body)[0] == expected, (method, path)
    assert gated(server)


def test_the_rights_that_the_example_grants_are_all_that_it_takes(server: RealServer, tmp_path: Path) -> None:
    applied = server.kubectl(["apply", "-f", str(REPOSITORY / "examples" / "webhook-rights.yaml")])
    assert applied.exit == 0, applied.stderr
    token = server.kubectl(["create", "token", "-n", "headgate-system", "headgate"]).stdout.strip()
    account = yaml.safe_load(server.kubeconfig.read_text())
    account["users"][0]["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(account))
    for path in (SECRET, MUTATING, VALIDATING):
        sent(server, "DELETE", path)
    webhooks = WebhookProcess(server, tmp_path / "w.log", "--kubeconfig", str(kubeconfig))
    try:
        wait_for(lambda: gated(server), webhooks)
        right = configuration(server, MUTATING)
        assert sent(server, "PATCH", MUTATING, {"webhooks": []}).status == 200
        wait_for(lambda: configuration(server, MUTATING) == right, webhooks)
        old = shown(webhooks)
        assert sent(server, "PATCH", SECRET, {"data": {"tls.crt": "", "tls.key": ""}}).status == 200
        wait_for(lambda: shown(webhooks) != old, webhooks)
        assert "WARNING" not in webhooks.log.read_text()
    finally:
        webhooks.stop()


def test_others_are_trusted_by_name(server: RealServer, tmp_path: Path) -> None:
    trusting = WebhookProcess(server, tmp_path / "t.log", "--trusted-user", "alice")
    try:
        pod = {"metadata": {"name": "stamped"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert sent(server, "POST", PODS, pod).status == 201
        stamp = {"metadata": {"annotations": {STAMP: "hers"}}}
        assert sent(server, "PATCH", f"{PODS}/stamped", stamp, as_alice=True).status == 200
    finally:
        trusting.stop()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            ("--webhook-url", "https://127.0.0.1:1", "--webhook-listen", "127.0.0.1:0", "--webhook-secret", "no/s"),
            'namespaces "no" not found; create its namespace, or pass another --webhook-secret',
        ),
        (("--webhook-url", "https://h", "--webhook-listen", "192.0.2.1:1"), "check --webhook-listen"),
    ],
)
def test_options_that_cannot_work_are_refused_with_a_hint(
    server: RealServer, flags: tuple[str, ...], says: str
) -> None:
    command = [str(HEADGATE), "run", "--kubeconfig", str(server.kubeconfig), "--components", "webhooks", *flags]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert says in " ".join(ended.stderr.split())
