"""Fixtures that several comparison suites share."""

from __future__ import annotations

import pytest

from harness.both import Both
from real.custom_kinds import define


@pytest.fixture(scope="module")
def prepared(both: Both) -> Both:
    """Both servers, serving the kinds of `real/custom_kinds.py`."""
    both.on_each(define)
    return both
