"""Exponential back-off: the delay after the n-th failure in a row.

All packages use this formula, like ``wait.Backoff`` in Kubernetes, with their own first delay and limit. The caller
counts the failures. ``client/backoff.py`` adds jitter for requests to an API server.
"""

from __future__ import annotations

from typing import Final

import msgspec

_MAX_STEPS: Final = 600  # more steps exceed every limit anyway, and would raise OverflowError


class ExponentialBackoff(msgspec.Struct, frozen=True):
    """``initial_s`` after the first failure, ``factor`` times as long after each further one, never above ``max_s``."""

    initial_s: float
    max_s: float
    factor: float = 2.0

    def delay_s(self, failures: int) -> float:
        """The delay after this many failures in a row; 0 without a failure."""
        if failures <= 0:
            return 0.0
        return min(self.initial_s * self.factor ** min(failures - 1, _MAX_STEPS), self.max_s)
