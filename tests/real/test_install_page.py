"""docs/install.md and docs/uninstall.md on a real control plane: their commands run as written, in their order.

A line after a command is what the command must print. The pods of Headgate run as processes under their own service
account (`harness/process_kubelet.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.installed_cluster import InstalledCluster
from harness.page_sessions import page_steps
from harness.real_server import REPOSITORY

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def cluster(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledCluster]:
    made = InstalledCluster(tmp_path_factory.mktemp("page"), kube_binaries)
    yield made
    made.stop()


def test_the_pages_can_be_typed_from_top_to_bottom(cluster: InstalledCluster) -> None:
    before = cluster.objects_at_rest()
    steps = page_steps("\n".join((REPOSITORY / "docs" / page).read_text() for page in ("install.md", "uninstall.md")))
    assert len(steps) > 10
    for step in steps:
        said = cluster.type(step.command)
        assert said.splitlines() == step.shown or not step.shown, step.command
    cluster.until_same(before)
    assert cluster.refusals() == []
