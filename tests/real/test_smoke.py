"""The smoke suite: an installation from rendered objects on a version of Kubernetes, used and removed again.

`make test` runs it on the newest version, `make skew` on each from 1.33 to 1.36. The pods of Headgate run as processes
under their own service account (`harness/process_kubelet.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.installed_cluster import InstalledCluster
from harness.real_server import REPOSITORY
from headgate.capacity.names import GATE

pytestmark = pytest.mark.real

Object = dict[str, Any]
EXAMPLES = REPOSITORY / "examples"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"


@pytest.fixture
def cluster(
    kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[InstalledCluster]:
    made = InstalledCluster(tmp_path_factory.mktemp("smoke"), kubernetes_binaries)
    minor = request.node.callspec.params["kubernetes_binaries"]
    assert (made.get("/version") or {})["gitVersion"].startswith(f"v{minor}.")
    yield made
    made.stop()


def test_an_installation_works_on_this_version_of_kubernetes(cluster: InstalledCluster) -> None:
    before = cluster.objects_at_rest()
    rendered = cluster.headgate("install")
    cluster.typed("apply", "--server-side", "-f", "-", stdin=rendered)
    cluster.typed("rollout", "status", "deployment/headgate", "-n", "headgate-system", "--timeout=90s")
    assert "The installation is complete." in cluster.headgate("install", "--check")
    cluster.headgate("install", "--status", "--wait", "60")

    _queue_gate(cluster)
    _quota_and_jobs(cluster)

    cluster.headgate("uninstall", "--delete-data")
    cluster.until_same(before)
    assert cluster.refusals() == []


def _queue_gate(cluster: InstalledCluster) -> None:
    cluster.typed("apply", "-f", str(EXAMPLES / "install" / "queue-and-pods.yaml"))
    _until_bound(cluster, "first")
    assert (cluster.get(f"{PODS}/second") or {})["spec"]["schedulingGates"] == [{"name": GATE}]
    explained = cluster.headgate("explain", "pod", "second")
    assert "pod default/second: it waits for its queue" in explained
    assert "queue small (QueueFull)" in explained
    assert re.search(r"small +Open +cpu 1 +cpu 1", cluster.headgate("queues"))
    cluster.typed("delete", "pod", "first")
    _until_bound(cluster, "second")
    cluster.typed("delete", "pod", "second")


def _quota_and_jobs(cluster: InstalledCluster) -> None:
    """Two Jobs in a queue with quota for one, a pod that waits for the same quota, and both versions of the kinds."""
    cluster.typed("apply", "-f", str(EXAMPLES / "quota-jobs.yaml"))
    running = cluster.until("one Job runs", lambda: _running(cluster))
    (waiting,) = {"first", "second"} - {running}
    # The first Job may run before the Workload of the second one has been created and examined.
    expected = f"job default/{waiting}: it waits for quota"
    cluster.until(f"Job {waiting} waits", lambda: expected in cluster.headgate("explain", "job", waiting))
    cluster.until("both are listed", lambda: cluster.headgate("workloads").count("one-cpu-of-quota") == 2)
    older = json.loads(cluster.typed("get", "clusterqueues.v1beta1.kueue.x-k8s.io", "one-cpu-of-quota", "-o", "json"))
    assert older["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    cluster.typed("delete", "job", running)
    cluster.until(f"Job {waiting} runs", lambda: _running(cluster) == waiting)
    cluster.typed("delete", "job", waiting)
    cluster.until("no Workload is left", lambda: not (cluster.get(WORKLOADS) or {})["items"])


def _running(cluster: InstalledCluster) -> str:
    """The name of the Job that runs, if it is one."""
    items = (cluster.get(JOBS) or {})["items"]
    names = [each["metadata"]["name"] for each in items if not each["spec"].get("suspend")]
    return names[0] if len(names) == 1 else ""


def _until_bound(cluster: InstalledCluster, name: str) -> None:
    cluster.until(f"{name} is bound", lambda: (cluster.get(f"{PODS}/{name}") or {})["spec"].get("nodeName"))
