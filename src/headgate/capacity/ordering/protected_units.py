"""The protected unit of each queue, and when it may start, as they were found last.

``capacity/grants/head_of_line.py`` finds them, for grants and for the reasons why units wait. A protected unit is kept
until the line, the limits or the strategy of its queue change (``capacity/grants/queue_cache.py``); the forecast also
depends on the time, and on the usage of the queue and its ancestors.
"""

from __future__ import annotations

import msgspec

from headgate.capacity.cache.ledger import Ledger
from headgate.capacity.cache.pod_record import Ask
from headgate.capacity.ordering.admission_index import Unit
from headgate.capacity.ordering.order_keys import Key
from headgate.capacity.ordering.start_forecast import StartForecast


class ProtectedUnit(msgspec.Struct, frozen=True):
    """The unit in a line that others may not delay. ``strategy``: the dequeue strategy of its queue. ``is_enqueue``: it
    is a group that waits for the enqueue action."""

    queue: str
    key: Key
    unit: Unit
    ask: Ask
    is_enqueue: bool
    strategy: str


class ProtectedUnits:
    """``_units``: the protected units, by queue. ``_forecasts``: by queue, the forecast for its protected unit and the
    *state* for which it was made: the time, and the versions of the accounts that decide. ``_queues_below``: by queue,
    the queues with a protected unit in and below it."""

    def __init__(self) -> None:
        self._units: dict[str, ProtectedUnit] = {}
        self._forecasts: dict[str, tuple[tuple[float, ...], StartForecast]] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self._queues_below: dict[str, dict[str, None]] = {}

    def get(self, queue: str) -> ProtectedUnit | None:
        return self._units.get(queue)

    def forecast(self, queue: str, now_s: float, ledger: Ledger) -> StartForecast | None:
        """The forecast for the protected unit, if it was made for this time and the current usage."""
        state, forecast = self._forecasts.get(queue, ((), None))
        return None if forecast is None or state != _state(forecast, now_s, ledger) else forecast

    def put(self, protected: ProtectedUnit, path: tuple[str, ...]) -> None:
        """``path``: its queue and all ancestors."""
        self.drop(protected.queue)
        self._units[protected.queue] = protected
        self._paths[protected.queue] = path
        for name in path:
            self._queues_below.setdefault(name, {})[protected.queue] = None

    def put_forecast(self, queue: str, now_s: float, ledger: Ledger, forecast: StartForecast) -> None:
        self._forecasts[queue] = _state(forecast, now_s, ledger), forecast

    def drop(self, queue: str) -> None:
        """The line of the queue changed."""
        if self._units.pop(queue, None) is None:
            return
        self._forecasts.pop(queue, None)
        for name in self._paths.pop(queue):
            queues = self._queues_below[name]
            del queues[queue]
            if not queues:
                del self._queues_below[name]

    def queues_below(self, queue: str) -> list[str]:
        """The queues with a protected unit in and below this one."""
        return list(self._queues_below.get(queue, ()))


def _state(forecast: StartForecast, now_s: float, ledger: Ledger) -> tuple[float, ...]:
    return (now_s, *(ledger.account(name).version for name in sorted(forecast.queues)))
