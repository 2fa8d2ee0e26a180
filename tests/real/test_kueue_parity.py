"""Kueue's own scheduler and Headgate decide about the same random clusters: the decisions must be the same.

Compared are admissions with flavors and pod counts, evictions with preemptor and reason, the usage and the pending
workloads that queues report, and messages. The intended differences are in `kueue_comparison.ON_PURPOSE`, or end the
comparison of a cluster (`kueue_endings.ENDINGS`). Both are counted and have limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from real.kueue_and_headgate import running_pair
from real.kueue_comparison import ON_PURPOSE, Purpose
from real.kueue_endings import ENDINGS, Ending
from real.kueue_parity_run import ParityRun, run_parity

pytestmark = pytest.mark.real

SEED = 8
WORLDS = 40
STEPS = 9


@pytest.fixture(scope="module")
def run(kube_binaries: Path, kueue_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ParityRun]:
    with running_pair(tmp_path_factory.mktemp("twins"), kube_binaries, kueue_binaries) as pair:
        yield run_parity(pair, SEED, WORLDS, STEPS)


def test_everything_is_decided_alike(run: ParityRun) -> None:
    assert not run.differences, "\n".join(map(str, run.differences))


def test_no_intended_difference_occurs_more_than_twice_as_often_as_in_five_recorded_runs(run: ParityRun) -> None:
    allowed: tuple[Purpose | Ending, ...] = (*ON_PURPOSE, *ENDINGS)
    found = {each.name: (run.met[each.name], each.at_most) for each in allowed}
    assert {name: counts for name, counts in found.items() if counts[0] > counts[1]} == {}, run.met


def test_each_deterministic_difference_occurred(run: ParityRun) -> None:
    assert {each.name for each in ON_PURPOSE if min(each.met)} <= {*run.met}


def test_the_worlds_were_worth_the_while(run: ParityRun) -> None:
    """Enough happened that both could have disagreed about."""
    assert run.seen["admitted"] > 100
    assert run.seen["preempted"] > 3
    assert run.seen["reduced"] > 0
    assert run.seen["waiting"] > 50
    assert run.seen["checked"] > 3
    assert run.seen["drained"] > 0
    assert len(run.retired) <= WORLDS // 5, "worlds that ended early tell little"
