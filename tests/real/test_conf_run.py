"""`headgate run --config volcano-scheduler.conf` on both servers: the three pods of the seed, explained as they go."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters import a_node, a_pod
from harness.embedded_server import HEADGATE
from harness.objects import priority_class
from harness.queues import QUEUES, a_queue, install_crds
from harness.real_server import REPOSITORY
from harness.scheduler_process import (
    SchedulerProcess,
    create_nodes,
    create_pod,
    create_priority_class,
    delete_pod,
    get_pod,
    is_bound,
    scheduled_reason,
    send,
    wait_for,
)
from harness.server import Server
from harness.server_kinds import SERVER_KINDS, running_server

pytestmark = pytest.mark.real

CONF = REPOSITORY / "examples" / "volcano" / "volcano-scheduler.conf"
GATE = "scheduling.volcano.sh/queue-allocation-gate"


@pytest.fixture(scope="module", params=SERVER_KINDS)
def server(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running_server(request.param, tmp_path_factory.mktemp(f"conf-{request.param}"), kube_binaries) as made:
        install_crds(made)
        create_nodes(made, [a_node("node-a", cpu="4"), a_node("node-b", cpu="4")])
        yield made


def asked(server: Server, *arguments: str) -> list[str]:
    command = [str(HEADGATE), *arguments, "--kubeconfig", str(server.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def story() -> list[dict[str, object]]:
    """The example, with the gates that the webhook puts on its pods: not every server here has one."""
    made = list(yaml.safe_load_all((REPOSITORY / "examples" / "volcano" / "three-pods.yaml").read_text()))
    for each in made:
        if each["kind"] == "Pod":
            each["spec"]["schedulingGates"] = [{"name": GATE}]
    return made


def test_the_three_pods_are_explained_while_a_scheduler_with_a_conf_runs(server: Server, tmp_path: Path) -> None:
    running = SchedulerProcess(server, tmp_path / "run.log", "--config", str(CONF), "--scheduler-name", "volcano")
    assert "headgate schedules pods of volcano" in running.tail()
    queue, first, second, third = story()
    made = server.kubectl(["create", "-f", "-"], yaml.safe_dump_all([queue, first]))
    assert made.exit == 0, made.stderr
    wait_for(lambda: is_bound(get_pod(server, "pod-1")), running)
    made = server.kubectl(["create", "-f", "-"], yaml.safe_dump_all([second, third]))
    assert made.exit == 0, made.stderr
    assert "  queue one-cpu (QueueFull): queue one-cpu has no capacity for 1 cpu" in "\n".join(
        asked(server, "explain", "pod", "pod-2")
    )
    delete_pod(server, "pod-1")
    wait_for(lambda: scheduled_reason(get_pod(server, "pod-2")) == "Unschedulable", running)
    lines = asked(server, "explain", "pod", "pod-2")
    assert lines[0] == "pod default/pod-2: it waits for a node"
    assert lines[2].startswith("  its capacity was promised at "), lines
    assert "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector" in lines[4]
    (row,) = (line.split() for line in asked(server, "queues") if line.split()[:1] == ["one-cpu"])
    assert row == ["one-cpu", "Open", "cpu", "1", "-", "cpu", "1", "-", "1", "1.00"], "promised to one, and one waits"
    lines = asked(server, "explain", "pod", "pod-3")
    assert lines[0] == "pod default/pod-3: it waits for its queue"
    assert lines[4:6] == [
        "    cpu in queue one-cpu: asked 1, taken 1, limit 1",
        "    before it in queue one-cpu: 0",
    ]
    delete_pod(server, "pod-2")
    wait_for(lambda: is_bound(get_pod(server, "pod-3")), running)
    assert asked(server, "explain", "pod", "pod-3")[0].startswith("pod default/pod-3: it is on node node-")
    running.stop()


def test_a_conf_that_is_wrong_is_refused_with_its_line_before_anything_starts(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "volcano-scheduler.conf"
    file.write_text(CONF.read_text().replace("name: drf", "name: tdm"))
    command = [str(HEADGATE), "run", "--config", str(file), "--kubeconfig", str(server.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f'{file}:10: tiers[1].plugins[0].name: Unsupported value: "tdm"' in done.stderr


def test_u13_a_gated_pod_of_higher_priority_preempts_another_and_is_never_unschedulable(
    server: Server, tmp_path: Path
) -> None:
    running = SchedulerProcess(server, tmp_path / "run.log", "--config", str(CONF), "--scheduler-name", "volcano")
    create_priority_class(server, priority_class("vital", 100))
    send(server, "POST", QUEUES, a_queue("crowded", capability={"cpu": "4"}))

    def pod(name: str, **spec: Any) -> dict[str, Any]:
        made = a_pod(name, {"cpu": "4"}, schedulerName="volcano", nodeSelector={"kind": "crowded"}, **spec)
        annotations = {GATE: "true", "scheduling.volcano.sh/queue-name": "crowded"}
        return {**made, "metadata": {"name": name, "annotations": annotations}}

    create_nodes(server, [a_node("node-c", cpu="4", labels={"kind": "crowded"})])
    create_pod(server, pod("plain", schedulingGates=[{"name": GATE}]))
    wait_for(lambda: is_bound(get_pod(server, "plain")), running)
    create_pod(server, pod("vital", schedulingGates=[{"name": GATE}], priorityClassName="vital"))
    wait_for(lambda: get_pod(server, "plain")["metadata"].get("deletionTimestamp"), running)

    def ungated_and_nominated() -> dict[str, Any] | None:
        """Two writes."""
        found = get_pod(server, "vital")
        is_gated = found["spec"].get("schedulingGates")
        return None if is_gated or found["status"].get("nominatedNodeName") != "node-c" else found

    vital = wait_for(ungated_and_nominated, running)
    assert scheduled_reason(vital) != "Unschedulable"
    lines = asked(server, "explain", "pod", "vital")
    assert lines[2].startswith("  its capacity was promised at "), lines
    assert lines[4].endswith("node node-c is nominated for it; other pods have to leave that node first")
    delete_pod(server, "plain")
    wait_for(lambda: is_bound(get_pod(server, "vital")), running)
    running.stop()
