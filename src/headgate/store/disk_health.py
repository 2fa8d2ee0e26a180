"""Whether writes to the disk succeed, and when a change of that is logged.

A failing disk fails every write; one line is logged when that begins and one when it ends. It ends with a success that
is at least as large as what failed: on a disk that is nearly full, small writes succeed between the large ones that
fail. Pure; ``store/io/committer.py`` reports the outcomes.
"""

from __future__ import annotations


class DiskHealth:
    def __init__(self) -> None:
        self.problem: str | None = None
        """What the disk does not do, while it does not."""
        self.size = 0
        """How many bytes of objects the largest failure was about."""

    def failed(self, problem: str, size: int) -> str | None:
        """The disk refused; returns the line for the log, if it is the first time."""
        began = self.problem is None
        self.problem = problem
        self.size = max(self.size, size)
        return f"the disk fails: {problem}; writes are refused until it works again, reads go on" if began else None

    def succeeded(self, size: int) -> str | None:
        """The disk did what was asked; returns the line for the log, if that ends a failure."""
        if self.problem is None or size < self.size:
            return None
        self.problem, self.size = None, 0
        return "the disk works again: writes are accepted"
