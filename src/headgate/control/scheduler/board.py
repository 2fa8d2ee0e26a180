"""What the outside may know about the scheduler of this process: whether it works, and what it measured.

Schedulers come and go here: one that failed is followed by another, and a replica that does not lead has none. A
replica that waits to be elected is ready for that, and has nothing to measure.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from headgate.control.health.answers import Answers, Check, Page
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
        self._works: Works | None = None

    def hang_up(self, works: Works | None) -> None:
        self._works = works

    def answers(self, further: Mapping[str, Check] | None = None) -> Answers:
        """``further``: what else in this process has to be well for it to be ready."""
        alive = {"ping": _fine}
        ready = {**alive, "informer-sync": self._synced, **(further or {})}
        return Answers(
            {"/livez": alive, "/healthz": alive, "/readyz": ready},
            {"/metrics": Page(CONTENT_TYPE, self._page)},
        )

    def _synced(self) -> str:
        late = [] if self._works is None else self._works.unsynced()
        return f"not listed yet: {', '.join(late)}" if late else ""

    def _page(self) -> bytes:
        return b"" if self._works is None else self._works.scheduler.page(time.monotonic())


def _fine() -> str:
    return ""
