"""A pytest plugin: a folder in memory, for tests that sync thousands of times."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def fast_folder() -> Iterator[Path]:
    """In memory where the system has such a place: there a sync costs nothing, and no disk is worn for nothing."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None, prefix="headgate-test-") as folder:
        yield Path(folder)
