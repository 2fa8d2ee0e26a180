"""A server of either kind on which Headgate manages Kueue's queues, for tests that run on both.

The embedded server does it in one process. The real one is a kube-apiserver with a kube-controller-manager and
`headgate run --components quota,jobs,webhooks` beside them. There is no scheduler and no kubelet: a test binds pods to
the only node and sets their phases.
"""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

from harness.control_plane import ABSENT, RATE
from harness.embedded_server import EmbeddedServer
from harness.processes import Process
from harness.real_server import RealServer
from harness.scheduler_process import wait_for
from harness.server import Answer, Server
from harness.webhooks import WebhookProcess, prepare, sent
from headgate.kube import conditions
from queued_objects import PRIORITY, Wire, collection, gates, queued

API = "/apis/kueue.x-k8s.io/v1beta2"
NAMESPACE = "default"
NODE = "the-node"
PATIENCE_S = 60.0
GRACE_S = 600
"""Longer than any scenario: a terminating pod still exists at its end."""
_MUTABLE = "MutablePodResourcesForSuspendedJobs=true"
_PARTS = "apiserver,controllers,quota,jobs"


class KueueCluster:
    def __init__(
        self, server_kind: str, folder: Path, programs: Path, features: str, flags: tuple[str, ...] = ()
    ) -> None:
        """``flags``: further ones of Headgate."""
        self._make = server_kind
        self._more = flags
        self._folder = folder
        self._logs = itertools.count(1)
        self._beside: list[Process] = []
        self._headgate: WebhookProcess | None = None
        self.server: EmbeddedServer | RealServer
        if server_kind == "embedded":
            self.server = EmbeddedServer(folder / "server", programs / "kubectl", self._flags(features))
        else:
            self.server = RealServer(folder / "server", programs, flags=(f"--feature-gates={_MUTABLE}",))
        try:
            self._begin(programs, features)
        except BaseException:
            self.stop()
            raise

    def _begin(self, programs: Path, features: str) -> None:
        if isinstance(self.server, RealServer):
            prepare(self.server)
            self._beside.append(_controller_manager(self.server, programs, self._folder))
            self._start_beside(features)
        self.made("/api/v1/nodes", {"metadata": {"name": NODE}})
        for name, value in (("low", 1), ("high", 100)):
            self.made(f"{API}/workloadpriorityclasses", _kueue("WorkloadPriorityClass", name, value=value))
        self.made(f"{API}/resourceflavors", _kueue("ResourceFlavor", "any", spec={}))

    def _flags(self, features: str) -> tuple[str, ...]:
        gates = ",".join(filter(None, (features, _MUTABLE)))
        return ("--components", _PARTS, "--feature-gates", gates, *self._more)

    def _start_beside(self, features: str) -> None:
        assert isinstance(self.server, RealServer)
        flags = ("--components", "quota,jobs,webhooks", "--no-leader-elect", "--feature-gates", features, *self._more)
        port = 0 if self._headgate is None else self._headgate.port
        self._headgate = WebhookProcess(self.server, self._folder / f"run-{next(self._logs)}.log", *flags, port=port)
        # An API server learns of webhooks by a watch, and of each by itself.
        self.until(lambda: all(map(self.is_asked, ("Job", "Pod"))))

    def is_asked(self, kind: str) -> bool:
        """Whether new objects of this kind are validated."""
        path, wrong = f"{collection(kind, NAMESPACE)}?dryRun=All", queued(kind, queue="Not_A_Name")
        return sent(self.server, "POST", path, wrong).status == 403

    def switch(self, features: str) -> None:
        """Headgate ends and comes back with other feature gates."""
        if isinstance(self.server, EmbeddedServer):
            self.server.restart(self._flags(features))
        elif self._headgate is not None:
            self._headgate.stop()
            self._start_beside(features)

    def stop(self) -> None:
        for process in (*([] if self._headgate is None else [self._headgate]), *self._beside):
            process.stop()
        self.server.disconnect()
        self.server.stop()

    # -- what a scenario does -----------------------------------------------------------------------------------------

    def made(self, path: str, body: Wire) -> Wire:
        answer = sent(self.server, "POST", path, body)
        assert answer.status == 201, answer.body
        found: Wire = answer.json()
        return found

    def queue(self, name: str, cpu: int | str, **spec: Any) -> None:
        """A ClusterQueue and the LocalQueue of the same name that leads to it."""
        quota = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}]
        groups = [{"coveredResources": ["cpu"], "flavors": quota}]
        told = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
        self.made(f"{API}/clusterqueues", _kueue("ClusterQueue", name, spec=told))
        path = f"{API}/namespaces/{NAMESPACE}/localqueues"
        self.made(path, _kueue("LocalQueue", name, spec={"clusterQueue": name}))

    def create(self, kind: str, name: str, **more: Any) -> Answer:
        return sent(self.server, "POST", collection(kind, NAMESPACE), queued(kind, name, **more))

    def pod(self, name: str, queue: str, priority: str = "low", grace_s: int = GRACE_S, **more: Any) -> None:
        labels = {PRIORITY: priority, **more.pop("labels", {})}
        answer = self.create("Pod", name, queue=queue, labels=labels, terminationGracePeriodSeconds=grace_s, **more)
        assert answer.status == 201, answer.body

    def run(self, *names: str) -> None:
        """They are admitted, get the node, and run."""
        for name in names:
            self.until(partial(self.is_admitted, name))
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            self.made(f"{self._place(name)}/binding", {"metadata": {"name": name}, "target": target})
            self.report(name, "Running")

    def report(self, name: str, phase: str) -> None:
        answer = sent(self.server, "PATCH", f"{self._place(name)}/status", {"status": {"phase": phase}})
        assert answer.status == 200, answer.body

    def delete(self, name: str) -> None:
        answer = sent(self.server, "DELETE", self._place(name))
        assert answer.status == 200, answer.body

    def patch(self, path: str, body: Wire) -> Answer:
        return sent(self.server, "PATCH", path, body)

    # -- what it looks at ------------------------------------------------------------------------------------------

    def get(self, path: str) -> Wire:
        answer = sent(self.server, "GET", path)
        assert answer.status == 200, answer.body
        found: Wire = answer.json()
        return found

    def is_admitted(self, name: str) -> bool:
        """Whether its gate is lifted."""
        return not gates(self.get(self._place(name)))

    def has_quota(self, name: str) -> bool:
        """Whether its Workload is admitted. Its gate may be lifted later, when terminating pods have left."""
        return bool(self.workloads(name)) and self.condition(name, "Admitted") is not None

    def is_ending(self, name: str) -> bool:
        """Terminating, and still running."""
        pod = self.get(self._place(name))
        return "deletionTimestamp" in pod["metadata"] and pod["status"]["phase"] == "Running"

    def grace_s(self, name: str) -> int:
        """The grace period with which it was deleted."""
        found: int = self.get(self._place(name))["metadata"]["deletionGracePeriodSeconds"]
        return found

    def workloads(self, owner: str) -> list[Wire]:
        """Those of a job or pod, by its name."""
        items: list[Wire] = self.get(f"{API}/namespaces/{NAMESPACE}/workloads")["items"]
        return [each for each in items if owner in {one["name"] for one in each["metadata"]["ownerReferences"]}]

    def condition(self, owner: str, type_: str) -> tuple[str, str] | None:
        """Reason and message of a condition that is true, of the only Workload."""
        (workload,) = self.workloads(owner)
        found = conditions.find((workload.get("status") or {}).get("conditions"), type_)
        return None if found is None or found["status"] != "True" else (found["reason"], found["message"])

    def is_there(self, name: str) -> bool:
        return self.server.request("GET", self._place(name)).status == 200

    def finalizers(self, name: str) -> list[str]:
        """None, too, of one that is gone."""
        answer = self.server.request("GET", self._place(name))
        found: list[str] = answer.json()["metadata"].get("finalizers", []) if answer.status == 200 else []
        return found

    def delete_workload(self, name: str) -> None:
        answer = sent(self.server, "DELETE", f"{API}/namespaces/{NAMESPACE}/workloads/{name}")
        assert answer.status == 200, answer.body

    def until(self, what: Any) -> Any:
        return wait_for(what, self._headgate, PATIENCE_S)

    @staticmethod
    def _place(name: str) -> str:
        return f"{collection('Pod', NAMESPACE)}/{name}"


def _controller_manager(server: Server, programs: Path, folder: Path) -> Process:
    controllers = ",".join(("*", *(f"-{each}-controller" for each in ABSENT)))
    plugins = folder / "plugins"
    plugins.mkdir()
    return Process(
        [
            *(str(programs / "kube-controller-manager"), f"--kubeconfig={server.kubeconfig}", "--secure-port=0"),
            *("--leader-elect=false", f"--controllers={controllers}", f"--feature-gates={_MUTABLE}"),
            *(f"--kube-api-qps={RATE}", f"--kube-api-burst={RATE}", f"--flex-volume-plugin-dir={plugins}"),
        ],
        folder / "kube-controller-manager.log",
    )


def _kueue(kind: str, name: str, **more: Any) -> Wire:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, **more}
