"""How much happens per second: samples of the counters of the views, for sparklines.

A sample is taken about once a second, while the views are complete. Samples of other views (after a new start, or with
other rights) are not compared with earlier ones.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from headgate.views.activity import Activity

RATES: Final = ("created", "admitted", "bound", "workloads")
KEPT: Final = 120


class Rates:
    """``waiting``: the number of waiting pods at each sample. ``history``: rates per second, by name."""

    def __init__(self) -> None:
        self.waiting: Final[deque[float]] = deque(maxlen=KEPT)
        self.history: Final[dict[str, deque[float]]] = {name: deque(maxlen=KEPT) for name in RATES}
        self._last: tuple[str, float, Activity] | None = None

    def sample(self, epoch: str, now_s: float, activity: Activity, waiting: int) -> None:
        """``epoch``: names the views; counters of other views are not comparable."""
        self.waiting.append(waiting)
        last, self._last = self._last, (epoch, now_s, activity)
        if last is None or last[0] != epoch or now_s <= last[1]:
            return
        for name in RATES:
            happened: int = getattr(activity, name) - getattr(last[2], name)
            self.history[name].append(happened / (now_s - last[1]))

    def interrupt(self) -> None:
        """The views are not complete: what arrives next did not happen within a second."""
        self._last = None

    def latest(self, name: str) -> float | None:
        """The mean of the last samples, at most five; None before the second sample."""
        found = list(self.history[name])[-5:]
        return sum(found) / len(found) if found else None
