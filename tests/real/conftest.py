"""Fixtures that several comparison suites share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.server_kinds import MAKES
from harness.server_pair import Both
from real.custom_kinds import define
from real.queue_cluster import Place, a_place


@pytest.fixture(scope="module")
def prepared(both: Both) -> Both:
    """Both servers, serving the kinds of `real/custom_kinds.py`."""
    both.on_each(define)
    return both


@pytest.fixture(scope="session")
def queue_places(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Place]]:
    """A place on a server of each make, for all suites of a worker: starting one takes longer than most stories."""
    with ExitStack() as open_places:

        @functools.cache
        def find(make: str) -> Place:
            folder = tmp_path_factory.mktemp(f"queues-{make}")
            return open_places.enter_context(a_place(make, folder, kube_binaries))

        yield find


@pytest.fixture(scope="module", params=MAKES)
def queue_place(request: pytest.FixtureRequest, queue_places: Callable[[str], Place]) -> Place:
    return queue_places(request.param)


@pytest.fixture
def place(queue_place: Place) -> Iterator[Place]:
    """What a story made is gone when it ends."""
    yield queue_place
    queue_place.wire.heal()
    queue_place.sweep()
