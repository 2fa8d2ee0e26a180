"""The same worlds, drawn by a seed, decided by Kueue's own scheduler and by Headgate: the same decisions.

Who is admitted with which flavors and how many pods, who is evicted for whom and why, what queues say of their usage
and of who waits, and in which words. What differs is in `kueue_comparing.ON_PURPOSE`, and has to be met unless it is
chance; a world that ends because of `STOLEN` or `ELSEWHERE` (`kueue_story.py`) is compared up to there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from real.kueue_comparing import ON_PURPOSE
from real.kueue_story import Story, play
from real.kueue_twins import twins

pytestmark = pytest.mark.real

SEED = 7
WORLDS = 40
STEPS = 9


@pytest.fixture(scope="module")
def story(kube_binaries: Path, kueue_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with twins(tmp_path_factory.mktemp("twins"), kube_binaries, kueue_binaries) as pair:
        yield play(pair, SEED, WORLDS, STEPS)


def test_everything_is_decided_alike(story: Story) -> None:
    assert not story.differences, "\n".join(map(str, story.differences))


def test_each_difference_on_purpose_was_met(story: Story) -> None:
    assert {each.name for each in ON_PURPOSE if not each.is_chance} <= story.purposes


def test_the_worlds_were_worth_the_while(story: Story) -> None:
    """Enough happened that both could have disagreed about."""
    assert story.seen["admitted"] > 100
    assert story.seen["preempted"] > 3
    assert story.seen["reduced"] > 0
    assert story.seen["waiting"] > 50
    assert len(story.retired) <= WORLDS // 5, "worlds that ended early tell little"
