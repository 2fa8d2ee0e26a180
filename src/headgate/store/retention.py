"""How long history is kept: by age, by number of changes, and by bytes.

A client whose position is older must list again, as after etcd's compaction. This module does no I/O: the caller
provides the time, and compacts the store up to the returned revision.
"""

from __future__ import annotations

from collections import deque

import msgspec

from headgate.store.item import Revision


class RetentionLimits(msgspec.Struct, frozen=True):
    max_age_s: float = 300.0
    max_changes: int = 100_000
    max_bytes: int = 256 * 1024 * 1024


class Retention:
    """Records which revision was the newest at which time."""

    def __init__(self, limits: RetentionLimits) -> None:
        self.limits = limits
        self._samples: deque[tuple[float, Revision]] = deque()  # a time, and the newest revision at that time
        self._expired = Revision(0)  # all changes up to this revision are older than the age limit

    def tick(self, now_s: float, committed: Revision) -> Revision:
        """The newest revision such that all changes up to it are older than the age limit."""
        while self._samples and self._samples[0][0] <= now_s - self.limits.max_age_s:
            self._expired = self._samples.popleft()[1]
        if not self._samples or self._samples[-1][1] != committed:
            self._samples.append((now_s, committed))
        return self._expired
