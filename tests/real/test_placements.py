"""The real kube-scheduler and our cycle on the same random clusters: feasible nodes, reasons and scores are equal.

`--placements N` says how many clusters are compared, `--random-placements` draws others than last time, and
`--placement-case N` plays the one with that number, which a failure names, several times over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom

import pytest

from real.placements.cases import Case, draw_case
from real.placements.comparison import find_difference
from real.placements.kube_scheduler_run import KubeSchedulerRun

pytestmark = pytest.mark.real

CASES_PER_TEST = 50
CASES_PER_ARENA = 2500
AGAIN = 20
CONFIRMING = 8
REPLAY = "pytest tests/real/test_placements.py --placement-case"
FAR = 10**9


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "share" in metafunc.fixturenames:
        wanted = metafunc.config.getoption("--placements")
        alone = metafunc.config.getoption("--placement-case") is not None
        metafunc.parametrize("share", range(1 if alone else -(-wanted // CASES_PER_TEST)))


class Arenas:
    """One after the other: what was played stays, and after some thousands of clusters it is in the way."""

    def __init__(self, programs: Path, folders: pytest.TempPathFactory) -> None:
        self._programs = programs
        self._folders = folders
        self._running: KubeSchedulerRun | None = None

    def get(self) -> KubeSchedulerRun:
        if self._running and self._running.played >= CASES_PER_ARENA:
            self.stop()
        if self._running is None:
            self._running = KubeSchedulerRun(self._programs, self._folders.mktemp("placements"))
        return self._running

    def stop(self) -> None:
        if self._running:
            self._running.stop()
        self._running = None


@pytest.fixture(scope="module")
def arenas(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arenas]:
    found = Arenas(kube_binaries, tmp_path_factory)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def first(request: pytest.FixtureRequest) -> int:
    return SystemRandom().randrange(FAR) if request.config.getoption("--random-placements") else 0


def test_drawn_clusters_are_filled_alike(
    arenas: Arenas, first: int, share: int, request: pytest.FixtureRequest
) -> None:
    wanted: int | None = request.config.getoption("--placement-case")
    run = arenas.get()
    if wanted is not None:
        games = play(run, [draw_case(wanted, again + 1) for again in range(AGAIN)])
        told = "\n\n".join(text for _, text in games[:5])
        assert not games, f"{len(games)} of {AGAIN} times it differs:\n\n{told}"
        return
    begin = first + share * CASES_PER_TEST
    found = play(run, [draw_case(number) for number in range(begin, begin + CASES_PER_TEST)])
    # More than one that cannot be seen again would be no accident.
    differing = [text for case, text in found if len(found) > 1 or not case.leaving or is_confirmed(run, case, text)]
    assert not differing, f"{len(differing)} of {CASES_PER_TEST} clusters differ:\n\n" + "\n\n".join(differing[:5])


def play(run: KubeSchedulerRun, cases: list[Case]) -> list[tuple[Case, str]]:
    """What differs, case by case."""
    run.lay_out(cases)
    found = [(case, find_difference(case, run.schedule(case))) for case in cases]
    return [(case, f"case {case.number}: {text}\nreplay it: {REPLAY} {case.number}") for case, text in found if text]


def is_confirmed(run: KubeSchedulerRun, case: Case, text: str) -> bool:
    """Whether a case differs again, asked only where pods leave: when kube-scheduler hears of that is up to its watch.

    One such cluster once showed a score without a pod that was still leaving, and never again in a thousand games.
    """
    if play(run, [draw_case(case.number, AGAIN + again + 1) for again in range(CONFIRMING)]):
        return True
    logging.getLogger(__name__).warning("differed once, and not in %d more games:\n%s", CONFIRMING, text)
    return False
