"""A cluster in which everything happens that Headgate measures and logs, scraped by Debian's Prometheus.

Headgate runs with the rights of an installation, secure metrics and the log of decisions, on a real API server.
Prometheus finds it with the scrape configuration of docs/observability.md and has the alerts of `deploy/monitoring`.
The actions are done twice, with a scrape between them: a rate needs two samples.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from clusters import a_node, a_pod
from harness.embedded_server import HEADGATE, EmbeddedServer
from harness.metrics_page import get
from harness.processes import Process, free_ports
from harness.prometheus import MANIFESTS, Prometheus
from harness.queues import QUEUES, a_queue
from harness.real_server import REPOSITORY, RealServer
from harness.rights import json_lines
from harness.scheduler_process import PATIENCE_S, create_nodes, create_pod, get_pod, is_bound, send, wait_for
from harness.server import JSON_TYPE
from harness.webhooks import prepare
from headgate.capacity.names import OPT_IN, QUEUE_NAME
from headgate.http.certificates import make_authority, make_server_certificate
from kueue_builders import a_cluster_queue, a_flavor, a_local_queue
from real.gated_cluster import GatesProcess

Object = dict[str, Any]

PAGE = REPOSITORY / "docs" / "observability.md"
RULES = REPOSITORY / "deploy" / "monitoring" / "rules.yaml"
NAMESPACE = "headgate-system"
FOREIGN_GATE = "example.com/dependency-ready"
FEATURES = "SchedulingGatedBy=true,GateOwnership=true,ReservationLease=true"
VALUES: Object = {
    "metrics": {"secure": True},
    "gatePolicies": {"enabled": True},
    "monitoring": {name: {"enabled": True} for name in ("podMonitor", "serviceMonitor", "prometheusRule", "dashboard")},
}
_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_WORKLOADS = f"{_KUEUE}/namespaces/default/workloads"
_MERGE = "application/merge-patch+json"
_JOB_QUEUE = "kueue.x-k8s.io/queue-name"


def documented_scrape_config() -> list[Object]:
    """The scrape configuration of the page, as it stands there."""
    (block,) = re.findall(r"```yaml\n(scrape_configs:.*?)```", PAGE.read_text(), re.DOTALL)
    found: list[Object] = yaml.safe_load(block)["scrape_configs"]
    return found


class ObservedCluster:
    def __init__(self, folder: Path, kube: Path, prometheus: Path) -> None:
        self._folder = folder
        self._stop: list[Callable[[], None]] = []
        try:
            self._start(kube, prometheus)
        except BaseException:
            self.stop()
            raise

    def _start(self, kube: Path, prometheus: Path) -> None:
        self.server = RealServer(self._folder / "server", kube)
        self._stop += [self.server.stop, self.server.disconnect]
        for file in sorted((prometheus / MANIFESTS).iterdir()):
            self.typed("create", "-f", str(file))
        self.typed("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
        self.install()
        create_nodes(self.server, [a_node("node-a", cpu="8", pods="110"), a_node("node-b", cpu="2")])
        self.log = self._folder / "headgate.log"
        self.headgate = self._start_headgate()
        self._stop.append(self.headgate.stop)
        self._start_embedded(kube)
        self.prometheus = Prometheus(prometheus, self._folder, self._config())
        self._stop.append(self.prometheus.stop)

    def stop(self) -> None:
        while self._stop:
            self._stop.pop()()

    def typed(self, *words: str, stdin: str | None = None) -> str:
        done = self.server.kubectl(words, stdin)
        assert done.exit == 0, (words, done.stderr)
        return done.stdout

    # What runs

    def install(self) -> None:
        """All objects of an installation, by `headgate install`: its pods run as one process here."""
        values = self._folder / "values.yaml"
        values.write_text(yaml.safe_dump(VALUES))
        command = [str(HEADGATE), "install", "--apply", "--values", str(values)]
        command += ["--kubeconfig", str(self.server.kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)

    def _start_headgate(self) -> Process:
        metrics, webhooks = free_ports(2)
        now = datetime.datetime.now(datetime.UTC)
        authority = make_authority("metrics-ca", now)
        host = f"headgate-metrics.{NAMESPACE}.svc"
        pair = make_server_certificate(authority, host, (host,), now)
        (self._folder / "headgate-metrics-ca.crt").write_bytes(authority.certificate)
        for name, content in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
            (self._folder / name).write_bytes(content)
        command = [
            str(HEADGATE),
            *("run", "--kubeconfig", str(self._kubeconfig_of("headgate"))),
            *("--components", "scheduler,webhooks,quota,jobs", "--feature-gates", FEATURES),
            *("--webhook-url", f"https://127.0.0.1:{webhooks}", "--webhook-listen", f"127.0.0.1:{webhooks}"),
            *("--metrics-listen", f"127.0.0.1:{metrics}", "--metrics-secure"),
            *("--metrics-cert", str(self._folder / "tls.crt"), "--metrics-key", str(self._folder / "tls.key")),
            *("--log-level", "info", "--log-format", "json", "--shutdown-delay", "0"),
        ]
        process = Process(command, self.log)
        ready = ("webhooks: ready", "headgate-scheduler", "headgate-quota", "headgate-jobs")
        process.wait_until(lambda: all(each in self.log.read_text() for each in ready), PATIENCE_S)
        targets = [{"targets": [f"127.0.0.1:{metrics}"]}]
        (self._folder / "headgate-targets.yaml").write_text(yaml.safe_dump(targets))
        self.metrics_url = f"https://127.0.0.1:{metrics}/metrics"
        self.metrics_token = self._token_of("headgate-metrics-reader")
        (self._folder / "headgate-metrics-token").write_text(self.metrics_token)
        return process

    def _token_of(self, account: str) -> str:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        return str(send(self.server, "POST", path, {"spec": {}})["status"]["token"])

    def _kubeconfig_of(self, account: str) -> Path:
        config = yaml.safe_load(self.server.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": self._token_of(account)}
        file = self._folder / f"{account}.kubeconfig"
        file.write_text(yaml.safe_dump(config))
        return file

    def _start_embedded(self, kube: Path) -> None:
        """The embedded API server with its metrics, and the component `gates` beside it with its own."""
        listen = ("--metrics-listen", "127.0.0.1:0")
        self.embedded = EmbeddedServer(self._folder / "embedded", kube / "kubectl", listen)
        self._stop += [self.embedded.stop, self.embedded.disconnect]
        found = re.search(r"metrics +(http://\S+)", self.embedded.log())
        assert found is not None
        self.embedded_url = found[1]
        prepare(self.embedded)
        log = self._folder / "gates.log"
        gates = GatesProcess(self.embedded, log, *listen, "--no-leader-elect", "--shutdown-delay", "0")
        self._stop.append(gates.stop)
        self._gates = gates
        found = re.search(r"metrics: (http://\S+)", log.read_text())
        assert found is not None
        self.gates_url = found[1]

    def _config(self) -> Object:
        """The documented configuration as it stands, and what is around it in this test only."""
        (self._folder / "admin-token").write_text(self.server.token)
        server = {
            "job_name": "kube-apiserver",
            "scheme": "https",
            "authorization": {"credentials_file": "admin-token"},
            "tls_config": {"ca_file": str(self.server.ca)},
            "static_configs": [{"targets": [self.server.address]}],
        }
        plain = [each.removeprefix("http://").removesuffix("/metrics") for each in (self.embedded_url, self.gates_url)]
        others = {"job_name": "others", "static_configs": [{"targets": plain}]}
        return {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [*documented_scrape_config(), server, others],
        }

    def page(self) -> str:
        status, text = get(self.metrics_url, self.metrics_token)
        assert status == 200, text
        return text

    # What happens

    def prepare_queues(self) -> None:
        for name, limit in (("team", "3"), ("far", "100"), ("shrinks", "5")):
            send(self.server, "POST", QUEUES, a_queue(name, capability={"cpu": limit}))
        priority = {"metadata": {"name": "important"}, "value": 1000}
        send(self.server, "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", priority)
        lease = {"namespace": "kube-system", "name": "headgate-scheduler"}
        policy = {"gates": [FOREIGN_GATE], "maxAge": "1s", "onMaxAge": "Event", "ownerLease": lease}
        owned = {"apiVersion": "headgate.dev/v1alpha1", "kind": "GatePolicy", "metadata": {"name": "owned"}}
        self.typed("create", "-f", "-", stdin=json.dumps({**owned, "spec": policy}))
        self._create("WorkloadPriorityClass", {"metadata": {"name": "high"}, "value": 1000, "description": ""})
        check = {"metadata": {"name": "approval"}, "spec": {"controllerName": "example.com/approval"}}
        self._create("AdmissionCheck", check)
        self._set_condition(f"{_KUEUE}/admissionchecks/approval", "Active")
        self._create("ResourceFlavor", a_flavor())
        preemption = {"withinClusterQueue": "LowerPriority"}
        strategy = {"admissionChecks": [{"name": "approval"}]}
        batch = a_cluster_queue("batch", {"default": {"cpu": 4}}, preemption=preemption, cohortName="all")
        checked = a_cluster_queue("checked", {"default": {"cpu": 4}}, admissionChecksStrategy=strategy)
        for each in (batch, checked):
            self._create("ClusterQueue", each)
            name = each["metadata"]["name"]
            self._create("LocalQueue", a_local_queue(name, name, "default"))

    def _create(self, kind: str, obj: Object) -> None:
        """An object of Kueue."""
        self.typed("create", "-f", "-", stdin=json.dumps({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **obj}))

    def use_queues(self, number: int) -> None:
        """Pods that run, wait for their queue, have capacity and no node, have a gate of another controller; jobs."""
        create_pod(self.server, self._pod(f"runs-{number}", "team"))
        create_pod(self.server, self._waiting_pod(f"waits-{number}"))
        create_pod(self.server, self._far_pod(f"far-{number}"))
        create_pod(self.server, self._gated_pod(f"gated-{number}"))
        wait_for(lambda: is_bound(get_pod(self.server, f"runs-{number}")), self.headgate)
        self.create_job(f"high-{number}", "batch", "1", {"kueue.x-k8s.io/priority-class": "high"})
        self.until_started(f"high-{number}")

    def create_job(self, name: str, queue: str, cpu: str, labels: Object | None = None, **annotations: str) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        named = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
        metadata = {"name": name, "labels": {_JOB_QUEUE: queue, **(labels or {})}, "annotations": named}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        send(self.server, "POST", _JOBS, {"metadata": metadata, "spec": {"template": template}})

    def until_started(self, job: str, *, started: bool = True) -> None:
        wait_for(lambda: send(self.server, "GET", f"{_JOBS}/{job}")["spec"]["suspend"] is not started, self.headgate)

    def workload_of(self, job: str) -> str:
        """The path of the Workload of a job."""

        def found() -> str:
            names = [each["metadata"]["name"] for each in send(self.server, "GET", _WORKLOADS)["items"]]
            return next((f"{_WORKLOADS}/{name}" for name in names if name.startswith(f"job-{job}-")), "")

        return str(wait_for(found, self.headgate))

    def decide_everything(self) -> None:
        """Each kind of decision that :meth:`use_queues` does not lead to."""
        self.create_job("waits-for-data", "batch", "1", scheduling_gated_by="example.com/data-ready")
        self.create_job("low", "batch", "2")
        self.until_started("low")
        self.create_job("preemptor", "batch", "2", {"kueue.x-k8s.io/priority-class": "high"})
        self.until_started("low", started=False)
        self.until_started("preemptor")
        send(self.server, "PATCH", self.workload_of("preemptor"), {"spec": {"active": False}}, _MERGE)
        self.until_logged("stopped", "preemptor")
        self.create_job("rejected", "checked", "1")
        self.until_logged("quota reserved", "job-rejected-")
        self._reject(self.workload_of("rejected"))
        self.until_logged("deactivated", "job-rejected-")
        create_pod(self.server, self._pod("shrinks", "shrinks", nodeSelector={"zone": "none"}))
        wait_for(lambda: not get_pod(self.server, "shrinks")["spec"].get("schedulingGates"), self.headgate)
        send(self.server, "PATCH", f"{QUEUES}/shrinks", {"spec": {"capability": {"cpu": "500m"}}}, _MERGE)
        self.until_logged("revoked", "shrinks")
        victim = a_pod("victim", {"cpu": "5"}, schedulerName="headgate", terminationGracePeriodSeconds=0)
        create_pod(self.server, victim)
        wait_for(lambda: is_bound(get_pod(self.server, "victim")), self.headgate)
        important = a_pod("important", {"cpu": "5"}, schedulerName="headgate", priorityClassName="important")
        create_pod(self.server, important)
        wait_for(lambda: is_bound(get_pod(self.server, "important")), self.headgate)
        refused = self.server.request("POST", QUEUES, JSON_TYPE, json.dumps(a_queue("wrong", parent="absent")).encode())
        assert refused.status >= 400, refused
        self.until_logged("refused", "wrong")

    def break_webhooks(self) -> None:
        """All processes of Headgate are gone, and the API server cannot call its webhooks."""
        self.headgate.kill()
        self._gates.kill()
        self.embedded.kill()
        self.refused_by_absence()

    def refused_by_absence(self) -> None:
        pod = a_pod("refused", {"cpu": "1"}, labels={_JOB_QUEUE: "batch"})
        answer = self.server.request("POST", "/api/v1/namespaces/default/pods", JSON_TYPE, json.dumps(pod).encode())
        assert answer.status == 500, answer

    def decisions(self) -> list[Object]:
        """The log lines of decisions."""
        return [each for each in json_lines(self.log) if each["logger"] == "headgate.decisions"]

    def until_logged(self, verb: str, name: str) -> None:
        def is_logged() -> bool:
            return any(each["msg"] == verb and each["name"].startswith(name) for each in self.decisions())

        wait_for(is_logged, self.headgate, state=lambda: f"no line {verb} of {name}")

    def _pod(self, name: str, queue: str, cpu: str = "1", **spec: Any) -> Object:
        pod = a_pod(name, {"cpu": cpu}, schedulerName="headgate", **spec)
        pod["metadata"]["annotations"] = {OPT_IN: "true", QUEUE_NAME: queue}
        return pod

    def _waiting_pod(self, name: str) -> Object:
        return self._pod(name, "team", "5")

    def _far_pod(self, name: str) -> Object:
        return self._pod(name, "far", nodeSelector={"zone": "none"})

    def _gated_pod(self, name: str) -> Object:
        return a_pod(name, {"cpu": "1"}, schedulerName="headgate", schedulingGates=[{"name": FOREIGN_GATE}])

    def _free_pod(self, name: str) -> Object:
        return a_pod(name, {"cpu": "1m"}, schedulerName="headgate")

    def more_of(self, sort: str, number: int) -> Object:
        """One more pod: far, waits, gated or free."""
        makers = {"far": self._far_pod, "waits": self._waiting_pod, "gated": self._gated_pod, "free": self._free_pod}
        return makers[sort](f"more-{sort}-{number}")

    def _set_condition(self, path: str, name: str) -> None:
        stamp = "2026-01-01T00:00:00Z"
        condition = {"type": name, "status": "True", "reason": name, "message": "", "lastTransitionTime": stamp}
        send(self.server, "PATCH", f"{path}/status", {"status": {"conditions": [condition]}}, _MERGE)

    def _reject(self, workload: str) -> None:
        state = {"name": "approval", "state": "Rejected", "message": "no", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        send(self.server, "PATCH", f"{workload}/status", {"status": {"admissionChecks": [state]}}, _MERGE)
