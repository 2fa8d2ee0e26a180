"""With capacity in its queue and a free node a gated pod is bound in the cycle that admits it: by two writes.

The first takes the gate off and writes the stamp, the second is the binding; nothing is written in between or after.
Revisions are counted by a watch that begins before the pods do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import a_node, a_pod
from harness.queues import QUEUES, a_queue, install_crds
from harness.scheduler_process import SchedulerProcess, create_nodes, send
from harness.server import Server
from harness.server_kinds import SERVER_KINDS, running_server
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME, STAMP

pytestmark = pytest.mark.real

Object = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(params=SERVER_KINDS)
def server(request: pytest.FixtureRequest, kube_binaries: Path, tmp_path: Path) -> Iterator[Server]:
    with running_server(request.param, tmp_path / "server", kube_binaries) as running:
        install_crds(running)
        send(running, "POST", QUEUES, a_queue("wide", capability={"cpu": "100"}))
        create_nodes(running, [a_node("node", cpu="100", memory="100Gi", pods="100")])
        yield running


def create(server: Server, name: str) -> str:
    pod = a_pod(name, {"cpu": "1"}, schedulerName="headgate", schedulingGates=[{"name": GATE}])
    pod["metadata"] = {"name": name, "annotations": {OPT_IN: "true", QUEUE_NAME: "wide"}}
    return str(send(server, "POST", PODS, pod)["metadata"]["uid"])


def shape(pod: Object) -> tuple[bool, bool, bool]:
    """Whether it has a gate, a stamp, a node."""
    gates, annotations = pod["spec"].get("schedulingGates"), pod["metadata"]["annotations"]
    return bool(gates), STAMP in annotations, bool(pod["spec"].get("nodeName"))


def test_a_gated_pod_is_bound_by_two_writes_to_it_and_no_more(server: Server, tmp_path: Path) -> None:
    begin = send(server, "GET", PODS)["metadata"]["resourceVersion"]
    scheduler = SchedulerProcess(server, tmp_path / "run.log", "--no-leader-elect")
    try:
        wanted = {create(server, f"pod-{number}") for number in range(10)}
        seen = followed(server, begin, wanted)
        wanted = {create(server, "last")}
        seen |= followed(server, begin, wanted)  # what was written after the bindings of the others is seen by now
    finally:
        scheduler.stop()
    gated, lifted, bound = (True, False, False), (False, True, False), (False, True, True)
    assert len(seen) == 11
    for revisions in seen.values():
        assert [shape(each) for each in revisions] == [gated, lifted, bound]


def followed(server: Server, begin: str, wanted: set[str]) -> dict[str, list[Object]]:
    """Every revision of every pod, until all of the wanted are on nodes."""
    found: dict[str, list[Object]] = {}
    watch = server.watch(f"{PODS}?watch=1&resourceVersion={begin}&timeoutSeconds=60", timeout_s=60.0)
    try:
        while any(not shape(found[uid][-1])[2] if uid in found else True for uid in wanted):
            (line,) = watch.lines(1)
            event = json.loads(line)
            assert event["type"] in ("ADDED", "MODIFIED"), event
            found.setdefault(event["object"]["metadata"]["uid"], []).append(event["object"])
    finally:
        watch.close()
    return found
