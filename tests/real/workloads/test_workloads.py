"""Our workload controllers and scheduler against kube-controller-manager and kube-scheduler: same stories, same stops.

Without `-k`, the groups of `catalogue.py` are told, each as one test with a subtest per story. With `-k`, each module
and each story is a test of its own: `pytest tests/real/workloads -k job-scenarios`, `... -k a-job-is-suspended`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness.request_cases import slug
from harness.scenarios import Story, compared
from real.workloads.catalogue import groups, modules
from real.workloads.clusters import Sides, two_clusters

pytestmark = pytest.mark.real


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    told = groups()
    if metafunc.config.option.keyword:
        told = {f"{module}-scenarios": stories for module, stories in modules().items()}
        told |= {slug(story.name): [story] for stories in modules().values() for story in stories}
    if "stories" in metafunc.fixturenames:
        metafunc.parametrize("stories", list(told.values()), ids=list(told))


@pytest.fixture(scope="module")
def sides(
    kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory, met_allowances: Counter[str]
) -> Iterator[Sides]:
    with two_clusters(tmp_path_factory.mktemp("workloads"), kube_binaries, met_allowances) as sides:
        yield sides


def test_every_story_is_the_same_at_every_stop(
    stories: Sequence[Story], sides: Sides, subtests: pytest.Subtests
) -> None:
    ends = sides.tell(stories)
    for story in stories:
        with subtests.test(msg=story.name):
            real, ours = ends[story.name]
            sides.both.judge(list(compared(story.name, real, ours)))
            assert not real.trouble
