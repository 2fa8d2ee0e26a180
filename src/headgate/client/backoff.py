"""The back-off of requests to an API server, with jitter, so that clients that failed together do not return together.

Pure: the caller provides the randomness. The formula is in ``kube/backoff.py``.
"""

from __future__ import annotations

from headgate.kube.backoff import ExponentialBackoff


class Backoff:
    """Counts the failures in a row. The delay doubles from ``initial_s`` to ``max_s``. A random part of up to the same
    length is added."""

    def __init__(self, initial_s: float = 0.8, max_s: float = 30.0) -> None:
        self._delays = ExponentialBackoff(initial_s, max_s)
        self._failures = 0

    def next(self, jitter: float) -> float:
        """The delay after one more failure; ``jitter`` is in [0, 1)."""
        self._failures += 1
        return self._delays.delay_s(self._failures) * (1 + jitter)

    def reset(self) -> None:
        """Called after a success."""
        self._failures = 0
