"""Whether writes to the disk succeed, and the line for the log when this changes.

While the disk fails, every write fails, but only the first failure and the recovery are logged. The disk counts as
recovered after a successful write that is at least as large as the largest failed one, because on a nearly full disk
small writes succeed between large ones that fail. This module does no I/O; ``store/io/committer.py`` reports the
outcome of each write.
"""

from __future__ import annotations


class DiskHealth:
    def __init__(self) -> None:
        self.problem: str | None = None
        """Why writes fail; ``None`` while they succeed."""
        self.size = 0
        """Bytes of objects in the largest failed write."""

    def failed(self, problem: str, size: int) -> str | None:
        """A write failed. Returns a line for the log if this is the first failure."""
        began = self.problem is None
        self.problem = problem
        self.size = max(self.size, size)
        return f"the disk fails: {problem}; writes are refused until it works again, reads continue" if began else None

    def succeeded(self, size: int) -> str | None:
        """A write succeeded. Returns a line for the log if this ends a failure."""
        if self.problem is None or size < self.size:
            return None
        self.problem, self.size = None, 0
        return "the disk works again: writes are accepted"
