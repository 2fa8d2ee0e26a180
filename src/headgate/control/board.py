"""What the outside may know about this process: whether its scheduler works, and what everybody here measured.

Schedulers come and go: one that failed is followed by another, and a replica that does not lead has none. A replica
that waits to be elected is ready for that, and has nothing to measure. Others who measure add a page of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from headgate.control.health.answers import Answers, Check, Page
from headgate.control.health.restarts import Restarts
from headgate.kube.exposition import CONTENT_TYPE
from headgate.scheduling.scheduler import Scheduler


class Works(Protocol):
    @property
    def scheduler(self) -> Scheduler: ...

    def unsynced(self) -> list[str]:
        """The resources that were not heard of in full yet."""
        ...


class Board:
    def __init__(self) -> None:
        self.restarts = Restarts()
        self._works: Works | None = None
        self._pages: list[Callable[[], bytes]] = []

    def add(self, write: Callable[[], bytes]) -> None:
        """A page of metrics that no other has."""
        self._pages.append(write)

    def hang_up(self, works: Works | None) -> None:
        self._works = works

    def answers(self, further: Mapping[str, Check] | None = None) -> Answers:
        """``further``: what else in this process has to be well for it to be ready."""
        alive: dict[str, Check] = {"ping": _fine, "restarts": self.restarts.problem}
        ready = {**alive, "informer-sync": self._synced, **(further or {})}
        return Answers(
            {"/livez": alive, "/healthz": alive, "/readyz": ready},
            {"/metrics": Page(CONTENT_TYPE, self._page)},
        )

    def _synced(self) -> str:
        late = [] if self._works is None else self._works.unsynced()
        return f"not listed yet: {', '.join(late)}" if late else ""

    def _page(self) -> bytes:
        own = b"" if self._works is None else self._works.scheduler.page(time.monotonic())
        return own + b"".join(write() for write in self._pages)


def _fine() -> str:
    return ""
