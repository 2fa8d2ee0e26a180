"""Headgate's workload controllers and scheduler against kube-controller-manager and kube-scheduler: the same scenarios
with the same checkpoints.

Without `-k`, each group of `catalogue.py` is one test with a subtest per scenario. With `-k`, each module and each
scenario is a test of its own: `pytest tests/real/workloads -k job-scenarios`, `... -k a-job-is-suspended`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness.request_cases import slug
from harness.scenarios import Scenario, compare_results
from real.workloads.catalogue import groups, modules
from real.workloads.clusters import ClusterPair, two_clusters

pytestmark = pytest.mark.real


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    told = groups()
    if metafunc.config.option.keyword:
        told = {f"{module}-scenarios": scenarios for module, scenarios in modules().items()}
        told |= {slug(scenario.name): [scenario] for scenarios in modules().values() for scenario in scenarios}
    if "scenarios" in metafunc.fixturenames:
        metafunc.parametrize("scenarios", list(told.values()), ids=list(told))


@pytest.fixture(scope="module")
def clusters(
    kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory, met_allowances: Counter[str]
) -> Iterator[ClusterPair]:
    with two_clusters(tmp_path_factory.mktemp("workloads"), kube_binaries, met_allowances) as clusters:
        yield clusters


def test_every_scenario_is_the_same_at_every_checkpoint(
    scenarios: Sequence[Scenario], clusters: ClusterPair, subtests: pytest.Subtests
) -> None:
    ends = clusters.run(scenarios)
    for scenario in scenarios:
        with subtests.test(msg=scenario.name):
            real, ours = ends[scenario.name]
            clusters.servers.judge(list(compare_results(scenario.name, real, ours)))
            assert not real.failure
