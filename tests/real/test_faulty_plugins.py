"""A plugin of another package that answers wrongly, raises, rejects, refuses or is slow, on both servers.

The pods that it has nothing against are bound; each pod that it fails has the reason in its condition, in an Event and
in the answer of ``headgate explain``; and the scheduler never starts again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters import a_node, a_pod
from harness import headgate_cli
from harness.embedded_server import HEADGATE
from harness.processes import Process
from harness.scheduler_process import (
    create_nodes,
    create_pod,
    events_about,
    get_pod,
    is_bound,
    patch_pod,
    pods,
    scheduled_reason,
    wait_for,
)
from harness.server import Server
from harness.server_kinds import SERVER_KINDS, running_server

pytestmark = pytest.mark.real

Object = dict[str, Any]
LIMIT_S = 90.0
PLUGIN = '''
import asyncio
import sys
import time

import numpy as np

from headgate.scheduling.framework import (
    READS_NODE, SKIP, APIResource, FilterReason, ObjectPatch, PreFilterRejection, Rejection, asked_rows, own_update
)


async def later():
    return None


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("no text")


def raised(error):
    raise error


NAME = "Strange"
PODS = APIResource("", "v1", "pods", namespaced=True)
HOLDS = {
    "true": lambda: True,
    "text": lambda: "no",
    "coroutine": later,
    "list": lambda: [Rejection(NAME, "no")],
    "raises": lambda: raised(ValueError("no such calendar")),
    "exits": lambda: sys.exit("the end"),
    "interrupts": lambda: raised(KeyboardInterrupt("by the plugin")),
    "cancels": lambda: raised(asyncio.CancelledError("by the plugin")),
    "unprintable": lambda: raised(Unprintable()),
    "surrogate": lambda: Rejection(NAME, "half a character: \\ud800", own_update()),
    "long": lambda: Rejection(NAME, "long " * 1_000_000, own_update()),
    "at-once": lambda: Rejection(NAME, "at once", look_again_s=0),
    "rejects": lambda: Rejection(NAME, "not in this week", own_update(), expires=False),
    "slow": lambda: time.sleep(0.03),
}


class Strange:
    name = NAME
    reads = READS_NODE

    def __init__(self, args):
        pass

    def pre_enqueue(self, pod):
        return HOLDS.get(pod.labels.get("strange"), lambda: None)()

    def key(self, pod):
        return pod.labels.get("strange")

    def pre_filter(self, pod, matrix):
        return {"filter": pod.labels.get("strange")}

    def filter(self, shape, matrix, rows, state):
        number = len(asked_rows(matrix, rows))
        if state["filter"] == "filter-short":
            return np.zeros(number + 1, np.int64)
        return np.full(number, 1, np.int64) if state["filter"] == "filter-rejects" else None

    def reasons(self, shape):
        return [FilterReason("node(s) are not for this week")]

    def score(self, shape, matrix, rows, state):
        return np.zeros(len(asked_rows(matrix, rows)), np.int64)

    def reserve(self, pod, node_name):
        return "no" if pod.labels.get("strange") == "reserve-text" else None

    def unreserve(self, pod, node_name):
        pass

    def permit(self, pod, node_name):
        if pod.labels.get("strange") == "permit-exits":
            sys.exit(1)
        return True if pod.labels.get("strange") == "permit-true" else None

    def pre_bind(self, pod, node_name):
        if pod.labels.get("strange") == "pre-bind-object":
            return [ObjectPatch(PODS, pod.namespace, pod.name, pod.uid, {"metadata": {"labels": object()}})]
        return []


class Refuses:
    """Serves preFilter alone, and looks at a label: pods of one shape get different answers."""

    name = "Refuses"

    def __init__(self, args):
        pass

    def key(self, pod):
        return pod.labels.get("strange") == "refused"

    def pre_filter(self, pod, matrix):
        if pod.labels.get("strange") == "refused":
            return PreFilterRejection(FilterReason("this pod is not for any node"))
        return SKIP
'''
CONFIGURATION: Object = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "profiles": [
        {
            "schedulerName": "strange",
            "plugins": {"multiPoint": {"enabled": [{"name": "Strange"}, {"name": "Refuses"}]}},
        }
    ],
}
HELD = 'PreEnqueue plugin "Strange": '
EXPECTED: dict[str, tuple[str, str]] = {
    "true": ("SchedulerError", HELD + "InvalidPluginResult: returned True (bool) instead of None or a Rejection"),
    "text": ("SchedulerError", HELD + "InvalidPluginResult: returned 'no' (str) instead of None or a Rejection"),
    "coroutine": ("SchedulerError", HELD + "InvalidPluginResult: returned a coroutine instead of None or a Rejection"),
    "list": ("SchedulerError", HELD + "InvalidPluginResult: returned [Rejection("),
    "raises": ("SchedulerError", HELD + "ValueError: no such calendar"),
    "exits": ("SchedulerError", HELD + "SystemExit: the end"),
    "interrupts": ("SchedulerError", HELD + "KeyboardInterrupt: by the plugin"),
    "cancels": ("SchedulerError", HELD + "CancelledError: by the plugin"),
    "unprintable": ("SchedulerError", HELD + "Unprintable: the text of the exception cannot be shown"),
    "surrogate": ("PreEnqueueRejected", HELD + "half a character: ?"),
    "long": ("PreEnqueueRejected", HELD + "long long"),
    "at-once": (
        "SchedulerError",
        HELD + "InvalidPluginResult: look_again_s of Rejection must be None or a finite number",
    ),
    "rejects": ("PreEnqueueRejected", HELD + "not in this week"),
    "filter-short": ("SchedulerError", 'running Filter plugin "Strange": returned an array of 3 elements'),
    "filter-rejects": ("Unschedulable", "0/2 nodes are available: 2 node(s) are not for this week."),
    "reserve-text": (
        "SchedulerError",
        "running plugin \"Strange\" (reserve): InvalidPluginResult: returned 'no' (str)",
    ),
    "permit-true": ("SchedulerError", 'running plugin "Strange" (permit): InvalidPluginResult: returned True (bool)'),
    "permit-exits": ("SchedulerError", 'running plugin "Strange" (permit): SystemExit: 1'),
    "pre-bind-object": (
        "SchedulerError",
        'running plugin "Strange" (pre_bind): InvalidPluginResult: body of ObjectPatch must be',
    ),
    "refused": ("Unschedulable", "0/2 nodes are available: this pod is not for any node."),
}


@pytest.fixture(scope="module", params=SERVER_KINDS)
def server(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running_server(request.param, tmp_path_factory.mktemp(f"strange-{request.param}"), kube_binaries) as made:
        create_nodes(made, [a_node("node-a", cpu="100", pods="1000"), a_node("node-b", cpu="100", pods="1000")])
        yield made


@pytest.fixture(scope="module")
def scheduler(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("run")
    described = folder / "package" / "strange-1.dist-info"
    described.mkdir(parents=True)
    (folder / "package" / "strange_plugin.py").write_text(PLUGIN)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1\n")
    points = "Strange = strange_plugin:Strange\nRefuses = strange_plugin:Refuses\n"
    (described / "entry_points.txt").write_text(f"[headgate.plugins]\n{points}")
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(CONFIGURATION))
    files = ("--kubeconfig", str(server.kubeconfig), "--config", str(folder / "scheduler.yaml"))
    environment = {**os.environ, "PYTHONPATH": str(folder / "package")}
    running = Process([str(HEADGATE), "run", *files], folder / "run.log", environment)
    try:
        running.wait_until(lambda: "schedules pods" in running.log.read_text(), LIMIT_S)
        yield running
    finally:
        running.stop()


def our_pod(name: str, strange: str = "") -> Object:
    return a_pod(name, {"cpu": "1m"}, schedulerName="strange", labels={"strange": strange} if strange else {})


def message(pod: Object) -> str:
    found = {each["type"]: each for each in pod["status"].get("conditions") or ()}
    return str(found.get("PodScheduled", {}).get("message") or "")


def told_everywhere(server: Server, scheduler: Process, name: str, reason: str, text: str) -> None:
    """The pod waits, and its condition, its Event and ``explain`` say why."""
    wait_for(
        lambda: scheduled_reason(get_pod(server, name)) == reason,
        scheduler,
        LIMIT_S,
        lambda: f"{name}: {message(get_pod(server, name))[:500]}",
    )
    pod = get_pod(server, name)
    assert not is_bound(pod), name
    assert message(pod).startswith(text), (name, message(pod)[:300])
    assert len(message(pod)) < 5000
    first, *_ = wait_for(lambda: events_about(server, name), scheduler, LIMIT_S)
    said = reason if reason == "PreEnqueueRejected" else "FailedScheduling"
    assert (first["reason"], first["message"][:40]) == (said, message(pod)[:40]), name
    code, printed, complaint = headgate_cli.output_lines(server, "explain", "pod", name, "-n", "default")
    assert (code, complaint) == (0, ""), name
    assert text.removeprefix(HELD)[:40] in printed, (name, printed[:500])
    assert reason == "Unschedulable" or "Strange" in printed, (name, printed[:500])


def reason_of(server: Server, name: str) -> str:
    return scheduled_reason(get_pod(server, name))


def test_each_pod_that_the_plugin_fails_has_the_cause_and_all_other_pods_are_bound(
    server: Server, scheduler: Process
) -> None:
    create_pod(server, our_pod("first"))
    wait_for(lambda: is_bound(get_pod(server, "first")), scheduler, LIMIT_S)
    for name in EXPECTED:
        create_pod(server, our_pod(name, name))
    for number in range(20):
        create_pod(server, our_pod(f"free{number}"))
        create_pod(server, our_pod(f"slow{number}", "slow"))
    wanted = {"first", *(f"free{number}" for number in range(20)), *(f"slow{number}" for number in range(20))}
    wait_for(lambda: {name for name, pod in pods(server).items() if is_bound(pod)} >= wanted, scheduler, LIMIT_S)
    for name, (reason, text) in EXPECTED.items():
        told_everywhere(server, scheduler, name, reason, text)
    log = scheduler.log.read_text(errors="replace")
    assert scheduler.running()
    assert "starts again" not in log
    assert "plugin Strange is slow" in log
    assert re.search(r"default/raises.*no such calendar", log)


def test_a_pod_that_is_corrected_is_bound(server: Server, scheduler: Process) -> None:
    held = {f"{name}-corrected": name for name in ("rejects", "exits", "surrogate")}
    for name, strange in held.items():
        create_pod(server, our_pod(name, strange))
    wait_for(lambda: all(reason_of(server, name) for name in held), scheduler, LIMIT_S)
    for name in held:
        patch_pod(server, name, {"metadata": {"labels": {"strange": None}}})
    wait_for(lambda: all(is_bound(get_pod(server, name)) for name in held), scheduler, LIMIT_S)
