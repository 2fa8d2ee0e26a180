"""The pytest plugin: clusters as fixtures. pytest finds it by its entry point when Headgate is installed.

Only pytest imports this module, so Headgate does not depend on pytest. A cluster, and with it the rest of Headgate, is
imported when a test first asks for a fixture: a run without them pays only for this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headgate.testing.cluster import EmbeddedCluster

_MARK = "headgate"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{_MARK}(**options): options of the cluster of this test, as for headgate.testing.Cluster"
    )


@pytest.fixture(scope="session")
def headgate_cluster_options() -> dict[str, Any]:
    """Options of all clusters of the run; a conftest.py replaces this fixture."""
    return {}


@pytest.fixture
def headgate_cluster(
    request: pytest.FixtureRequest, headgate_cluster_options: dict[str, Any]
) -> Iterator[EmbeddedCluster]:
    """A cluster for this test alone. ``@pytest.mark.headgate(nodes=5)`` sets its options."""
    from headgate.testing.cluster import EmbeddedCluster

    mark = request.node.get_closest_marker(_MARK)
    if mark is not None and mark.args:
        raise pytest.UsageError(f"@pytest.mark.{_MARK} takes keywords, such as nodes=5")
    with EmbeddedCluster(**{**headgate_cluster_options, **(mark.kwargs if mark is not None else {})}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def headgate_session_cluster(headgate_cluster_options: dict[str, Any]) -> Iterator[EmbeddedCluster]:
    """One cluster for the whole run, or for a worker of pytest-xdist. Its tests share nodes, queues and definitions."""
    from headgate.testing.cluster import EmbeddedCluster

    with EmbeddedCluster(**headgate_cluster_options) as cluster:
        yield cluster


@pytest.fixture
def headgate_namespace(headgate_session_cluster: EmbeddedCluster) -> Iterator[str]:
    """The name of a new namespace of the shared cluster; its deletion begins when the test ends."""
    client = headgate_session_cluster.client
    made = client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "test-"}})
    name: str = made["metadata"]["name"]
    yield name
    client.delete("Namespace", name)
