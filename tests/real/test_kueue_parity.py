"""The same worlds, drawn by a seed, decided by Kueue's own scheduler and by Headgate: the same decisions.

Who is admitted with which flavors and how many pods, who is evicted for whom and why, what queues say of their usage
and of who waits, and in which words. What differs is in `kueue_comparison.ON_PURPOSE`, or ends a world, which is
compared up to there, for one of the `kueue_endings.ENDINGS`. Both are counted and bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from real.kueue_and_headgate import twins
from real.kueue_comparison import ON_PURPOSE, Purpose
from real.kueue_endings import ENDINGS, Ending
from real.kueue_parity_run import Story, play

pytestmark = pytest.mark.real

SEED = 8
WORLDS = 40
STEPS = 9


@pytest.fixture(scope="module")
def story(kube_binaries: Path, kueue_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with twins(tmp_path_factory.mktemp("twins"), kube_binaries, kueue_binaries) as pair:
        yield play(pair, SEED, WORLDS, STEPS)


def test_everything_is_decided_alike(story: Story) -> None:
    assert not story.differences, "\n".join(map(str, story.differences))


def test_no_difference_on_purpose_is_met_more_than_twice_as_often_as_in_five_recorded_stories(story: Story) -> None:
    allowed: tuple[Purpose | Ending, ...] = (*ON_PURPOSE, *ENDINGS)
    found = {each.name: (story.met[each.name], each.at_most) for each in allowed}
    assert {name: counts for name, counts in found.items() if counts[0] > counts[1]} == {}, story.met


def test_each_difference_that_no_chance_is_needed_for_was_met(story: Story) -> None:
    assert {each.name for each in ON_PURPOSE if min(each.met)} <= {*story.met}


def test_the_worlds_were_worth_the_while(story: Story) -> None:
    """Enough happened that both could have disagreed about."""
    assert story.seen["admitted"] > 100
    assert story.seen["preempted"] > 3
    assert story.seen["reduced"] > 0
    assert story.seen["waiting"] > 50
    assert story.seen["checked"] > 3
    assert story.seen["drained"] > 0
    assert len(story.retired) <= WORLDS // 5, "worlds that ended early tell little"
