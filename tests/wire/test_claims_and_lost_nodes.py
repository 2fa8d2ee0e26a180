"""A whole `headgate up` and a real kubectl: a pod with a claim runs, and pods of a lost node are evicted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.embedded_server import EmbeddedServer

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "storage.yaml"
FLAGS = ("--components", "apiserver,nodes,controllers,scheduler", "--nodes", "2", "--node-monitor-grace-period", "4s")
PATIENCE_S = 60.0
POD = """
apiVersion: v1
kind: Pod
metadata: {name: guest}
spec:
  nodeName: node-0001
  tolerations:
    - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
  containers: [{name: c, image: registry.example/guest:1}]
"""

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def server(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    running = EmbeddedServer(tmp_path_factory.mktemp("up"), kube_binaries / "kubectl", FLAGS)
    yield running
    running.disconnect()
    running.stop()


def kubectl(server: EmbeddedServer, line: str, stdin: str | None = None) -> str:
    done = server.kubectl(line.split(), stdin)
    assert done.exit == 0, done
    return done.stdout


def until(what: str, holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, f"it never happened that {what}"
        time.sleep(0.1)


def test_the_example_of_storage_runs_and_leaves_nothing_behind(server: EmbeddedServer) -> None:
    kubectl(server, f"apply -f {EXAMPLE}")
    kubectl(server, "wait --for=condition=Ready pod/reader --timeout=60s")
    assert kubectl(server, "get pvc data -o jsonpath={.status.phase}:{.status.capacity.storage}") == "Bound:5Gi"
    kubectl(server, "delete pod/reader pvc/data --timeout=60s")
    until("the volume is gone", lambda: not kubectl(server, "get pv -o name"))


def test_a_node_that_falls_silent_is_left_and_welcome_again(server: EmbeddedServer) -> None:
    kubectl(server, "apply -f -", POD)
    kubectl(server, "wait --for=condition=Ready pod/guest --timeout=60s")
    kubectl(server, "annotate node node-0001 headgate.dev/silent-after=0s")
    kubectl(server, "wait --for=condition=Ready=Unknown node/node-0001 --timeout=60s")
    going = "get pod guest -o jsonpath={.metadata.deletionTimestamp}"
    until("the pod has to leave", lambda: bool(kubectl(server, going)))
    taints = "get node node-0001 -o jsonpath={.spec.taints[*].effect}"
    both = ["NoExecute", "NoSchedule"]
    until("the node has both taints", lambda: sorted(kubectl(server, taints).split()) == both)
    kubectl(server, "annotate node node-0001 headgate.dev/silent-after-")
    kubectl(server, "wait --for=condition=Ready node/node-0001 --timeout=60s")
    until("the taints are gone", lambda: not kubectl(server, taints))
    kubectl(server, "wait --for=delete pod/guest --timeout=60s")
