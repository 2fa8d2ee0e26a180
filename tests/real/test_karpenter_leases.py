"""Leases of promises beside the real Karpenter: what it serves never lapses, and what it cannot serve does.

Machines with a startup taint take no pods before it is removed, so they need many times the lease of their pods. How it
is known that nothing was bought, and what machines there are: `karpenter_cluster.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.karpenter import bought
from harness.scheduler_process import get_pod, is_bound, scheduled_reason, send
from headgate.capacity.names import LAPSED, LEASE, STAMP
from real.karpenter_cluster import MERGE, KarpenterCluster, scheduled_cluster

pytestmark = pytest.mark.real

NOWHERE = {"example.com/disk": "of-glass"}
"""A label that no machine has."""
STARTING = "example.com/starting"
SWITCH = ("--feature-gates", "ReservationLease=true")
BATCH = 12
"""More pods than Karpenter emits Events for at once."""


@pytest.fixture(scope="module")
def cluster(
    kube_binaries: Path, karpenter_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KarpenterCluster]:
    folder = tmp_path_factory.mktemp("karpenter-leases")
    with scheduled_cluster(folder, kube_binaries, karpenter_binaries, *SWITCH) as made:
        yield made


def annotations_of(cluster: KarpenterCluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = get_pod(cluster.server, name)["metadata"]["annotations"]
    return found


def reason(cluster: KarpenterCluster, name: str) -> str:
    return scheduled_reason(get_pod(cluster.server, name))


def test_promises_whose_machines_are_being_started_do_not_lapse_and_no_machine_is_bought_twice(
    cluster: KarpenterCluster,
) -> None:
    names = [f"served-{number}" for number in range(BATCH)]
    cluster.queue("served", str(BATCH), startup_taint=STARTING)
    for name in names:
        cluster.pod("served", name, gated=True, annotations={LEASE: "10s"})
    cluster.until(lambda: cluster.machines("served") == BATCH)
    stamps = {name: annotations_of(cluster, name)[STAMP] for name in names}
    cluster.queue("clock", "1")
    cluster.pod("clock", "clock", gated=True, annotations={LEASE: "25s"}, selector=NOWHERE)
    cluster.until(lambda: reason(cluster, "clock") == "WaitingForQueue")  # two leases of the others have passed
    for name in names:
        assert annotations_of(cluster, name)[STAMP] == stamps[name]
        assert LAPSED not in annotations_of(cluster, name)
        assert reason(cluster, name) == "Unschedulable"
    for claim in bought(cluster.server, "served"):
        send(cluster.server, "PATCH", f"/api/v1/nodes/{claim['status']['nodeName']}", {"spec": {"taints": None}}, MERGE)
    cluster.until_bound(*names)
    assert cluster.machines("served") == BATCH
    assert cluster.machines("clock") == 0


def test_the_promise_of_a_pod_that_no_machine_fits_lapses_and_the_next_pod_is_bound(cluster: KarpenterCluster) -> None:
    cluster.queue("stuck", "1")
    cluster.pod("stuck", "stuck-first", gated=True, annotations={LEASE: "5s"}, selector=NOWHERE)
    cluster.until(lambda: reason(cluster, "stuck-first") == "Unschedulable")
    cluster.pod("stuck", "stuck-second", gated=True)
    cluster.until_bound("stuck-second")
    cluster.until(lambda: reason(cluster, "stuck-first") == "WaitingForQueue")
    assert not is_bound(get_pod(cluster.server, "stuck-first"))
    assert '"count":1' in annotations_of(cluster, "stuck-first")[LAPSED]
    cluster.settle()
    assert cluster.machines("stuck") == 1


def test_a_restarted_scheduler_keeps_the_pod_hidden_until_its_back_off_is_over(
    cluster: KarpenterCluster,
) -> None:
    cluster.queue("again", "2")
    cluster.pod("again", "again-first", gated=True, annotations={LEASE: "2s"}, selector=NOWHERE)
    cluster.until(lambda: LAPSED in annotations_of(cluster, "again-first"))
    cluster.kill_scheduler()
    cluster.start_scheduler(*SWITCH)
    cluster.pod("again", "again-second", gated=True)
    cluster.until_bound("again-second")
    assert STAMP not in annotations_of(cluster, "again-first")
    cluster.until(lambda: reason(cluster, "again-first") == "WaitingForQueue")  # the killed one may not have said it
