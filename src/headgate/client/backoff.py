"""The back-off of requests to an API server, with jitter, so that clients that failed together do not retry together.

Pure: the caller provides the randomness. The formula is in ``kube/backoff.py``.
"""

from __future__ import annotations

import math
from typing import Final

from headgate.kube.backoff import ExponentialBackoff


class Backoff:
    """Counts the failures in a row. The delay doubles from ``initial_s`` to ``max_s``. A random part of up to the same
    length is added."""

    def __init__(self, initial_s: float = 0.8, max_s: float = 30.0) -> None:
        self._delays = ExponentialBackoff(initial_s, max_s)
        self._failures = 0

    def next(self, jitter: float, max_s: float = math.inf) -> float:
        """The delay after one more failure; ``jitter`` is in [0, 1). ``max_s``: another limit for this delay."""
        self._failures += 1
        return min(self._delays.delay_s(self._failures), max_s) * (1 + jitter)

    def reset(self) -> None:
        """Called after a success."""
        self._failures = 0


_SHORT: Final = ExponentialBackoff(0.25, 1.0)
_LONG: Final = ExponentialBackoff(2.0, 30.0)
_FAILURES_TO_SHORT_LIMIT: Final = 3
_SHORT_FAILURES: Final = 20
"""About half a minute. kube-apiserver answers 403, 429 and 503 for some seconds after its start, until its caches are
filled."""


class APIServerBackoff:
    """The back-off of a request that is repeated until the API server performs it, for example a list.

    A server that restarts refuses connections, and then answers with errors until it has started. It should be used
    again within seconds. So the delay is short (at most 1 s, and a random part of up to the same length) while no
    connection can be opened, which costs the server nothing, and for the first 20 failures after that. A failure that
    lasts longer, for example a missing permission, has delays of up to 30 s and the random part."""

    def __init__(self) -> None:
        self._failures = 0

    def next(self, jitter: float, *, connected: bool = True) -> float:
        """The delay after one more failure; ``jitter`` is in [0, 1). ``connected``: see ``Unreachable``."""
        self._failures += 1
        if not connected:
            self._failures = min(self._failures, _FAILURES_TO_SHORT_LIMIT)
        if self._failures <= _SHORT_FAILURES:
            return _SHORT.delay_s(self._failures) * (1 + jitter)
        return _LONG.delay_s(self._failures - _SHORT_FAILURES) * (1 + jitter)

    def reset(self) -> None:
        """Called after a success."""
        self._failures = 0
