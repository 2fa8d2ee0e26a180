"""Compare-and-swap is linearizable, and the checker rejects an illegal history."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from torture.compare_and_swap import Illegal, Op, check, run_in_process


def test_eight_writers_on_twenty_counters_are_linearizable(fast_folder: Path) -> None:
    history = run_in_process(fast_folder, ops=3000)
    assert check(history) >= 3000
    kinds = Counter(op.kind for op in history)
    assert kinds["write"] > 500
    assert kinds["conflict"] > 50


CREATED = Op("write", "k", 0, 1, 0, 10, 0)
RAISED = Op("write", "k", 2, 3, 10, 11, 1)


def test_a_legal_history_is_accepted() -> None:
    slow_loser = Op("conflict", "k", 2, 9, 10, 0, 0)
    reads = [Op("read", "k", 2, 3, 0, 10, 0), Op("read", "k", 4, 5, 0, 11, 1)]
    assert check([CREATED, RAISED, slow_loser, *reads]) == 5


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ([CREATED, RAISED, Op("write", "k", 4, 5, 10, 12, 1)], "does not follow"),
        ([CREATED, Op("write", "k", 2, 3, 10, 11, 5)], "does not follow"),
        ([CREATED, RAISED, Op("read", "k", 4, 5, 0, 10, 0)], "overwritten before the read"),
        ([CREATED, Op("read", "k", 2, 3, 0, 11, 1), Op("write", "k", 4, 5, 10, 11, 1)], "nobody wrote that"),
        ([CREATED, RAISED, Op("read", "k", 4, 5, 0, 11, 7)], "nobody wrote that"),
        ([CREATED, Op("conflict", "k", 2, 3, 10, 0, 0)], "nobody was faster"),
        ([CREATED, Op("write", "other", 5, 6, 0, 3, 0)], "after a higher one"),
    ],
    ids=[
        "two on one base",
        "a lost raise",
        "a stale read",
        "a read of the future",
        "a wrong value",
        "no rival",
        "back",
    ],
)
def test_an_illegal_history_is_rejected(history: list[Op], message: str) -> None:
    with pytest.raises(Illegal, match=message):
        check(history)
