"""Index lists of jobs against sets of numbers as a slow, obvious reference."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from headgate.apimachinery.validation.workloads.completion_indexes import InvalidIndexes, count_indexes, first_overlap

COMPLETIONS = 40
INDEXES = st.sets(st.integers(0, COMPLETIONS - 1))


def written(indexes: set[int]) -> str:
    """Runs of consecutive indexes as intervals, as the job controller writes them."""
    runs = groupby(enumerate(sorted(indexes)), key=lambda pair: pair[1] - pair[0])
    intervals = [[index for _, index in run] for _, run in runs]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in intervals)


@given(INDEXES)
def test_a_written_list_is_counted(indexes: set[int]) -> None:
    assert count_indexes(written(indexes), COMPLETIONS) == len(indexes)


@given(INDEXES, INDEXES)
def test_two_lists_overlap_first_where_the_sets_do(completed: set[int], failed: set[int]) -> None:
    expected = min(completed & failed, default=None)
    assert first_overlap(written(completed), written(failed), COMPLETIONS) == expected


@given(st.text("0123456789-,a", max_size=12))
def test_a_list_that_is_accepted_is_in_order_and_in_bounds(text: str) -> None:
    counted = count_indexes(text, COMPLETIONS)
    if isinstance(counted, InvalidIndexes):
        assert counted.text
        return
    bounds = [int(number) for fragment in text.split(",") for number in fragment.split("-")] if text else []
    assert bounds == sorted(set(bounds))
    assert all(number < COMPLETIONS for number in bounds)
