"""How long history is kept: by age, by number of changes, and by bytes.

Clients that fall further behind must list again, as after etcd's compaction. Pure: the caller provides the time, and
compacts to the returned revision.
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
    """Remembers which revision was the newest at which time."""

    def __init__(self, limits: RetentionLimits) -> None:
        self.limits = limits
        self._marks: deque[tuple[float, Revision]] = deque()
        self._expired = Revision(0)

    def tick(self, now_s: float, committed: Revision) -> Revision:
        """The newest revision of which every change is older than the age limit."""
        while self._marks and self._marks[0][0] <= now_s - self.limits.max_age_s:
            self._expired = self._marks.popleft()[1]
        if not self._marks or self._marks[-1][1] != committed:
            self._marks.append((now_s, committed))
        return self._expired
