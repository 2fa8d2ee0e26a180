"""Whether writes to the disk succeed, and when to log that this has changed.

A failing disk fails every write; one line is logged when the failure begins and one when it ends. A failure ends with
a successful write that is at least as large as the failed one: on a nearly full disk, small writes succeed between the
large ones that fail. Pure; ``store/io/committer.py`` reports the outcomes.
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
        return f"the disk fails: {problem}; writes are refused until it works again, reads go on" if began else None

    def succeeded(self, size: int) -> str | None:
        """A write succeeded. Returns a line for the log if this ends a failure."""
        if self.problem is None or size < self.size:
            return None
        self.problem, self.size = None, 0
        return "the disk works again: writes are accepted"
