"""Fixtures that several comparison suites share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.both import Both
from harness.either import MAKES
from real.custom_kinds import define
from real.queue_place import Place, a_place


@pytest.fixture(scope="module")
def prepared(both: Both) -> Both:
    """Both servers, serving the kinds of `real/custom_kinds.py`."""
    both.on_each(define)
    return both


@pytest.fixture(scope="module", params=MAKES)
def queue_place(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """For a whole suite: starting a server takes longer than most stories."""
    with a_place(request.param, tmp_path_factory.mktemp(f"queues-{request.param}"), kube_binaries) as made:
        yield made


@pytest.fixture
def place(queue_place: Place) -> Iterator[Place]:
    """What a story made is gone when it ends."""
    yield queue_place
    queue_place.wire.heal()
    queue_place.sweep()
