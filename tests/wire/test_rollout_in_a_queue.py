"""A Deployment whose queue has capacity for one of its two pods: a wait longer than its deadline does not fail it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import EmbeddedServer
from headgate.kube.timestamps import parse_time

pytestmark = pytest.mark.real

DEADLINE_S = 2
PATIENCE_S = 60.0
MANIFESTS = f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: small}}
spec: {{capability: {{cpu: "1"}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 2
  progressDeadlineSeconds: {DEADLINE_S}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata:
      labels: {{app: web}}
      annotations:
        scheduling.volcano.sh/queue-name: small
        scheduling.volcano.sh/queue-allocation-gate: "true"
    spec:
      schedulerName: volcano
      containers: [{{name: c, image: registry.example/web:1, resources: {{requests: {{cpu: "1"}}}}}}]
"""


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path) -> Iterator[EmbeddedServer]:
    flags = ("--components", "apiserver,nodes,controllers,scheduler")
    running = EmbeddedServer(tmp_path / "up", kube_binaries / "kubectl", flags)
    yield running
    running.disconnect()
    running.stop()


def kubectl(server: EmbeddedServer, *words: str, stdin: str | None = None) -> str:
    done = server.kubectl(list(words), stdin)
    assert done.exit == 0, done
    return done.stdout


def progressing(server: EmbeddedServer) -> dict[str, Any]:
    status = json.loads(kubectl(server, "get", "deployment", "web", "-o", "json")).get("status") or {}
    return next((each for each in status.get("conditions") or () if each["type"] == "Progressing"), {})


def has_waited(server: EmbeddedServer) -> bool:
    """For longer than the deadline allows, as the condition itself says."""
    told = progressing(server)
    assert told.get("reason") != "ProgressDeadlineExceeded"
    since_s = parse_time(told.get("lastUpdateTime", ""))
    is_held = told.get("reason") == "WaitingForQueue"
    return is_held and isinstance(since_s, int) and time.time() > since_s + 2 * DEADLINE_S


def test_a_rollout_that_waits_for_its_queue_is_not_late(server: EmbeddedServer) -> None:
    kubectl(server, "apply", "-f", "-", stdin=MANIFESTS)
    end_s = time.monotonic() + PATIENCE_S
    while not has_waited(server):
        assert time.monotonic() < end_s, progressing(server)
        time.sleep(0.2)
    kubectl(server, "patch", "queue", "small", "--type=merge", "-p", '{"spec":{"capability":{"cpu":"2"}}}')
    assert "successfully rolled out" in kubectl(server, "rollout", "status", "deployment/web", "--timeout=60s")
    assert progressing(server)["reason"] == "NewReplicaSetAvailable"
