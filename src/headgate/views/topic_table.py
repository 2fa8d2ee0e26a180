"""The rows of one topic, each with the revision of its last change, and the changes since a revision.

A change costs the changed row only: rows are kept in the order of their last change, so the newest are read from the
end. Removed keys are remembered up to a limit; a reader that is further behind has to read all rows again.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec

from headgate.views.rows import Row

R = TypeVar("R", bound=Row)
_MAX_REMOVED: Final = 20_000


class TopicChanges(msgspec.Struct, frozen=True):
    """``revision``: of the newest change. ``removed``: keys."""

    revision: int
    upserts: tuple[Row, ...]
    removed: tuple[str, ...]


class TopicTable(Generic[R]):
    """``revision``: of its last change."""

    def __init__(self, max_removed: int = _MAX_REMOVED) -> None:
        self.rows: Final[dict[str, R]] = {}
        self.revision = 0
        self._changed: Final[dict[str, int]] = {}  # revisions by key, in the order of the last change
        self._removed: Final[dict[str, int]] = {}
        self._max_removed: Final = max_removed
        self._forgotten = 0  # removals up to this revision are not known any more

    def put(self, key: str, row: R | None, revision: int) -> bool:
        """Sets or removes a row. Returns whether that is a change."""
        if self.rows.get(key) == row:
            return False
        self._changed.pop(key, None)
        self._removed.pop(key, None)
        if row is None:
            del self.rows[key]
            self._removed[key] = revision
            if len(self._removed) > self._max_removed:
                oldest = next(iter(self._removed))
                self._forgotten = self._removed.pop(oldest)
        else:
            self.rows[key] = row
            self._changed[key] = revision
        self.revision = revision
        return True

    def changes_since(self, revision: int) -> TopicChanges | None:
        """None if the removals since that revision are not all known."""
        if revision < self._forgotten:
            return None
        upserts: list[Row] = []
        for key in reversed(self._changed):
            if self._changed[key] <= revision:
                break
            upserts.append(self.rows[key])
        removed: list[str] = []
        for key in reversed(self._removed):
            if self._removed[key] <= revision:
                break
            removed.append(key)
        return TopicChanges(self.revision, tuple(reversed(upserts)), tuple(reversed(removed)))
