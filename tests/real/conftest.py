"""Fixtures that several comparison suites share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.server_kinds import SERVER_KINDS
from harness.server_pair import ServerPair
from real.custom_kinds import define
from real.queue_cluster import QueueCluster, running_queue_cluster


@pytest.fixture(scope="module")
def prepared(servers: ServerPair) -> ServerPair:
    """Both servers, serving the kinds of `real/custom_kinds.py`."""
    servers.on_each(define)
    return servers


@pytest.fixture(scope="session")
def queue_clusters(
    kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], QueueCluster]]:
    """A cluster on a server of each kind, for all suites of a worker: starting one takes longer than most scenarios."""
    with ExitStack() as open_places:

        @functools.cache
        def find(make: str) -> QueueCluster:
            folder = tmp_path_factory.mktemp(f"queues-{make}")
            return open_places.enter_context(running_queue_cluster(make, folder, kube_binaries))

        yield find


@pytest.fixture(scope="module", params=SERVER_KINDS)
def queue_cluster(request: pytest.FixtureRequest, queue_clusters: Callable[[str], QueueCluster]) -> QueueCluster:
    return queue_clusters(request.param)


@pytest.fixture
def cluster(queue_cluster: QueueCluster) -> Iterator[QueueCluster]:
    """What a scenario made is gone when it ends."""
    yield queue_cluster
    queue_cluster.proxy.end_faults()
    queue_cluster.delete_pods()
