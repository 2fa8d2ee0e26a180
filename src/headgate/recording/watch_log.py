"""Lines about watches that are lost and come back, for a recorder whose user sees no progress line.

When an API server stops, all watches are lost within a second: one line names all that were lost for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from headgate.kube.timestamps import human_duration

_NAMED: Final = 3


class WatchLog:
    """``lost``: since when each resource is not watched, and why."""

    def __init__(self) -> None:
        self.lost: dict[str, tuple[float, str]] = {}
        self._new: dict[str, str] = {}
        self._back: dict[str, float] = {}

    def lose(self, resource: str, problem: str, now_s: float) -> None:
        if resource not in self.lost:
            self.lost[resource] = now_s, problem
            self._new[resource] = problem

    def regain(self, resource: str, now_s: float) -> None:
        """The resource is watched, perhaps again."""
        found = self.lost.pop(resource, None)
        if found is not None:
            self._back[resource] = max(now_s - found[0], 0.0)

    def lost_names(self) -> str:
        """The resources that are not watched now; empty if all are."""
        return _shown(self.lost)

    def take_lines(self) -> Iterator[str]:
        """What has changed since the last call."""
        new, back = self._new, self._back
        self._new, self._back = {}, {}
        for problem in dict.fromkeys(new.values()):
            names = [name for name, each in new.items() if each == problem]
            yield f"not watched: {_shown(names)}: {problem}"
        if back:
            yield f"watched again: {_shown(back)}, after {human_duration(max(back.values()))}"


def _shown(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return ", ".join(listed[:_NAMED]) + more
