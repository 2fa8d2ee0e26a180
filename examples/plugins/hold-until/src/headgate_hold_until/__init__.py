"""HoldUntil: a PreEnqueue plugin for Headgate that holds a pod until the date in an annotation.

The scheduler does not try a pod with ``example.com/hold-until: "2027-01-01T06:00:00Z"`` before that date. A held pod
costs nothing: the plugin tells the scheduler when to ask again. The plugin does not hold a pod without the annotation.
It holds a pod whose date is invalid, with a reason, until a user corrects the annotation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from headgate.scheduling.framework import PodLike, Rejection, own_update

ANNOTATION = "example.com/hold-until"


class HoldUntil:
    name = "HoldUntil"

    def __init__(self, args: Mapping[str, Any], now_s: Callable[[], float] = time.time) -> None:
        """``args`` come from ``pluginConfig``. ``headgate config check`` shows the user any exception raised here."""
        unknown = sorted(args.keys() - {"annotation"})
        if unknown:
            raise ValueError(f"unknown argument {unknown[0]!r}; there is only 'annotation'")
        self.annotation = str(args.get("annotation", ANNOTATION))
        self.annotations = (self.annotation,)
        self._now_s = now_s

    def pre_enqueue(self, pod: PodLike, /) -> Rejection | None:
        date = pod.annotations.get(self.annotation)
        if date is None:
            return None
        moment_s = read_date(date)
        if moment_s is None:
            # Only a change of the pod can help, so the scheduler need not ask again after some time.
            return Rejection(self.name, f"{self.annotation}: {date!r} is not a date", own_update(), expires=False)
        wait_s = moment_s - self._now_s()
        if wait_s <= 0:
            return None
        return Rejection(self.name, f"held until {date}", own_update(), expires=False, look_again_s=wait_s)


def read_date(text: str) -> float | None:
    """Seconds since 1970; a date without zone is in UTC."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
