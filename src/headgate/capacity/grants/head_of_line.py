"""Head-of-line protection: which units may pass the first unit in the line of their queue.

The line of a queue is its units that wait for a grant and its groups that wait for the enqueue action, in order; a unit
that asks for more than the queue may ever use is not in the line. If the first does not fit, the dequeue strategy of
the queue (``DEQUEUE_STRATEGY`` in ``capacity/names.py``) decides which units after it get capacity: ``fifo``: none;
``backfill``: those that do not delay the first (``capacity/ordering/start_forecast.py``); ``traverse``: all that fit.
With ``traverse`` and the plugin ``sla``, the first unit that has waited for its time is protected as with ``backfill``.

Amounts that are set aside for an enqueued group belong to the group. So if the first unit lacks only these, members of
the groups that have them pass it; otherwise each would wait for the other. For the same reason a pod that has a promise
and requests more is never held back: it cannot start without the rest, and keeps what the first unit may lack. The line
is that of one queue: the order between queues is not changed here.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

import msgspec

from headgate.capacity.api.queue import FIFO, TRAVERSE
from headgate.capacity.cache.pod_record import AllocationState, Ask, PodRecord
from headgate.capacity.cache.run_times import run_time_s_of
from headgate.capacity.cache.usage_triggers import QueueResource
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.capacity.ordering.admission_index import Unit
from headgate.capacity.ordering.held_units import RESIZED, set_aside_of
from headgate.capacity.ordering.order_keys import Key
from headgate.capacity.ordering.protected_units import ProtectedUnit
from headgate.capacity.ordering.start_forecast import ForecastBound, StartForecast

_LEAST_FRACTION: Final = 1 / 256
_FRACTIONS: Final = (1 / 4, 1 / 16, 1 / 64)
"""How much of its limit the usage of an ancestor may change until held units are looked at again: the largest of these
that cannot change the result. If no change can, they are not looked at again; if even the least fraction can, after any
change."""


class Delay(msgspec.Struct, frozen=True):
    """Why a unit may not pass the protected unit. ``not_before_s``: the earliest start of the latter, in seconds since
    1970. ``exceeded``: the queue and the resource of which the unit asks for more than the protected unit leaves, and
    how much that is; None with ``fifo``."""

    protected: ProtectedUnit
    not_before_s: float
    exceeded: tuple[QueueResource, int] | None


def hold_back(cache: QueueCache, queue: str, unit: Unit, *, is_enqueue: bool = False) -> bool:
    """Whether this unit, which fits, may not get capacity now, because it would pass the protected unit of its queue.
    Then all such units of the queue are held back until a change."""
    protected = find_protected(cache, queue)
    if protected is None or (protected.unit == unit and protected.is_enqueue is is_enqueue):
        return False
    forecast = _forecast(cache, protected)
    held: dict[tuple[Unit, bool], Ask] = {}  # by unit, and whether it waits for the enqueue action: the limited part
    for index, is_of_enqueue in ((cache.grant_index, False), (cache.enqueue_index, True)):
        for limited_ask, key, each in index.heads(queue):
            if key > protected.key and _find_delay(cache, protected, forecast, each, is_enqueue=is_of_enqueue):
                held[each, is_of_enqueue] = limited_ask
    if held:
        bound = _find_bound(cache, protected, held)
        grants, enqueues = (
            frozenset(part for (_, is_of_enqueue), part in held.items() if is_of_enqueue is each)
            for each in (False, True)
        )
        cache.reviews.hold(queue, grants, enqueues, bound.changes, bound.until_s)
    return (unit, is_enqueue) in held


def _find_bound(cache: QueueCache, protected: ProtectedUnit, held: Collection[tuple[Unit, bool]]) -> ForecastBound:
    """How much the usage of ancestors may change, and how long, while these units stay held back."""
    now_s = cache.time_of_day_s

    def bound_of(fraction: float) -> ForecastBound:
        options = _forecast_options(protected)
        return cache.forecaster.bound(protected.queue, protected.ask, now_s, fraction, **options)

    def are_held(bound: ForecastBound) -> bool:
        return all(_find_delay(cache, protected, bound.forecast, unit, is_enqueue=each) for unit, each in held)

    bound = bound_of(math.inf)
    if are_held(bound):
        return bound
    least = bound_of(_LEAST_FRACTION)
    if are_held(least):
        return next((bound for bound in map(bound_of, _FRACTIONS) if are_held(bound)), least)
    changes = dict.fromkeys(least.changes, 0)
    return ForecastBound(least.forecast, changes, least.until_s if math.isinf(least.until_s) else now_s)


def _forecast_options(protected: ProtectedUnit) -> dict[str, bool]:
    return {"is_enqueue": protected.is_enqueue, "is_timed": protected.strategy != FIFO}


def find_delay(cache: QueueCache, record: PodRecord) -> Delay | None:
    """Why the unit of this waiting pod is held back although it fits; None if it is not."""
    unit, key = _unit_of(cache, record)
    protected = find_protected(cache, record.queue)
    if protected is None or key <= protected.key:
        return None
    is_enqueue = not isinstance(unit, str) and cache.gangs[unit].enqueue_request is not None
    return _find_delay(cache, protected, _forecast(cache, protected), unit, is_enqueue=is_enqueue)


def may_preempt(cache: QueueCache, record: PodRecord) -> bool:
    """Whether pods may be preempted, or promises revoked, for the unit of this waiting pod: only if it is not held back
    afterwards, whatever they free. A unit after the protected unit may therefore take nothing of what that asks for:
    how much that leaves, and when it starts, depends on which pods are gone."""
    unit, key = _unit_of(cache, record)
    protected = find_protected(cache, record.queue)
    if protected is None or key <= protected.key:
        return True
    forecast = _forecast(cache, protected)
    no_spare = StartForecast(
        cache.time_of_day_s,
        dict.fromkeys(forecast.spare, 0),
        dict.fromkeys(forecast.spare_of_committed, 0),
        forecast.missing_of_groups,
    )
    return _find_delay(cache, protected, no_spare, unit, is_enqueue=False) is None


def _unit_of(cache: QueueCache, record: PodRecord) -> tuple[Unit, Key]:
    """The unit of a waiting pod, and its sort key."""
    if record.gang is None or record.state is AllocationState.RESIZED:
        return record.task.uid, cache.order.pod_key(record)
    return record.gang.key, cache.gang_key(record.gang)


def find_protected(cache: QueueCache, queue: str) -> ProtectedUnit | None:
    """The protected unit of the queue; None if there is none."""
    protected = cache.protected_units.get(queue)
    if protected is None:
        protected = _find_protected(cache, queue)
        if protected is not None:
            cache.protected_units.put(protected, cache.tree.path(queue))
    return protected


def _find_protected(cache: QueueCache, queue: str) -> ProtectedUnit | None:
    tree_queue = cache.tree.queues.get(queue)
    if tree_queue is None:
        return None
    limits = tree_queue.limits

    def may_fit(ask: Ask) -> bool:
        return all(amount <= limits.get(resource, amount) for resource, amount in ask)

    def is_possible(unit: Unit) -> bool:
        return all(amount <= limits.get(resource, amount) for resource, amount in _whole_ask(cache, unit).items())

    if tree_queue.dequeue_strategy == TRAVERSE:
        first = cache.overdue_units.first(queue, is_possible)
    else:
        indexes = cache.grant_index, cache.enqueue_index
        found = (index.first_possible(queue, may_fit, is_possible) for index in indexes)
        first = min((each for each in found if each is not None), default=None)
    if first is None:
        return None
    key, unit = first
    request = None if isinstance(unit, str) else cache.gangs[unit].enqueue_request
    ask = cache.ask_of_unit(unit) if request is None else request.ask
    return ProtectedUnit(queue, key, unit, ask, request is not None, tree_queue.dequeue_strategy)


def _whole_ask(cache: QueueCache, unit: Unit) -> dict[str, int]:
    """What the unit asks for, together with what its pod, or its gang below the minimum, already holds."""
    if isinstance(unit, str):
        record = cache.records[unit]
        return dict(record.task.requests if record.state is AllocationState.RESIZED else record.ask or ())
    gang = cache.gangs[unit]
    if gang.enqueue_request is not None:
        return dict(gang.enqueue_request.ask)
    held = gang.held if gang.missing_count else {}
    return {resource: amount + held.get(resource, 0) for resource, amount in cache.ask_of_unit(unit)}


def _forecast(cache: QueueCache, protected: ProtectedUnit) -> StartForecast:
    """When the protected unit may start; it is computed once for each time of day and change of usage."""
    now_s = cache.time_of_day_s
    forecast = cache.protected_units.forecast(protected.queue, now_s, cache.ledger)
    if forecast is None:
        forecast = cache.forecaster.forecast(protected.queue, protected.ask, now_s, **_forecast_options(protected))
        cache.protected_units.put_forecast(protected.queue, now_s, cache.ledger, forecast)
    return forecast


def _find_delay(
    cache: QueueCache, protected: ProtectedUnit, forecast: StartForecast, unit: Unit, *, is_enqueue: bool
) -> Delay | None:
    """How the unit, which comes after the protected unit, would delay it; None if it would not."""
    request = cache.gangs[unit].enqueue_request if is_enqueue and not isinstance(unit, str) else None
    ask = cache.ask_of_unit(unit) if request is None else request.ask
    set_aside = set_aside_of(ask)
    if RESIZED in ask or any(set_aside.get(each) for each in forecast.missing_of_groups):
        return None
    if protected.strategy == FIFO:
        return Delay(protected, forecast.not_before_s, None)
    run_time_s = run_time_s_of(ask)
    if run_time_s is not None and cache.time_of_day_s + run_time_s <= forecast.not_before_s:
        return None
    asked = dict(ask)
    for spare, own in ((forecast.spare, {}), (forecast.spare_of_committed, set_aside)):
        for place, amount in spare.items():
            taken = asked.get(place[1], 0) - own.get(place[1], 0)
            if taken > 0 and taken > amount:
                return Delay(protected, forecast.not_before_s, (place, int(max(amount, 0))))
    return None
