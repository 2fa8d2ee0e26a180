"""The admission step: enqueues groups, then grants capacity to units in order, until no further unit fits.

A unit is one pod, or the pods that a gang needs to reach its minimum. A granted amount is reserved at once, in the
queue and every ancestor, so that the next unit is checked against the remaining capacity. Whether a unit that does not
fit blocks the units after it depends on its queue (``head_of_line.py``); one that does not fit in a window
(``capacity/ordering/grant_windows.py``) does.
"""

from __future__ import annotations

import msgspec

from headgate.capacity.cache.pod_record import PROMISED
from headgate.capacity.grants import head_of_line, resize_conflicts, wait_reasons
from headgate.capacity.grants.queue_cache import QueueCache
from headgate.kube.timestamps import format_micro_time


class Grant(msgspec.Struct, frozen=True):
    """Pods that were granted capacity together: the pods that were missing to the minimum of a gang, or one pod."""

    queue: str
    uids: tuple[str, ...]


def admit(cache: QueueCache, now_s: float, max_pods: int, time_of_day_s: float | None = None) -> list[Grant]:
    """Run the admission step and return the grants: for up to ``max_pods`` pods; the last gang may exceed this
    number. ``time_of_day_s``: the seconds since 1970; without it, ``now_s``."""
    set_time_of_day(cache, now_s if time_of_day_s is None else time_of_day_s)
    cache.clock_offset_s = now_s - cache.time_of_day_s
    cache.reviews.begin_step(now_s, cache.time_of_day_s)
    _retry_refused_removals(cache, now_s)
    cache.process_changes()
    if cache.admission is not None:
        cache.admission.begin_step(cache, now_s, cache.time_of_day_s)
    _revoke_excess(cache)
    at = format_micro_time(max(now_s, cache.time_of_day_s))  # a dry run passes a ``now_s`` after all real times
    granted: list[Grant] = []
    while True:
        if cache.order.enqueues:
            _enqueue_groups(cache)
        is_group_held = cache.held_units.holds_groups
        found = _grant_units(cache, at, max_pods - sum(len(each.uids) for each in granted))
        granted += found
        if not is_group_held or not found:
            return granted  # otherwise a group may have been held back for a unit that has its grant now


def _grant_units(cache: QueueCache, at: str, max_pods: int) -> list[Grant]:
    granted: list[Grant] = []
    remaining = max_pods
    while remaining > 0:
        first = cache.grant_index.first()
        if first is None:
            if _revoke_incomplete_gangs(cache) or resize_conflicts.resolve_resize_conflict(cache):
                continue
            break
        queue, unit = first
        if head_of_line.hold_back(cache, queue, unit) or cache.close_window(queue, unit):
            continue
        gang = None if isinstance(unit, str) else cache.gangs[unit]
        uids = (
            (unit,)
            if isinstance(unit, str)
            else gang.grant_request.uids
            if gang is not None and gang.grant_request
            else ()
        )
        if cache.admission is not None and not cache.admission.admit(cache, queue, uids):
            continue
        _promise(cache, queue, uids, at)
        cache.process_changes()
        granted.append(Grant(queue, uids))
        remaining -= len(uids)
    return granted


def set_time_of_day(cache: QueueCache, time_of_day_s: float) -> None:
    """Set the seconds since 1970, by which pods end, units have waited for their time, and pods are overdue in
    windows."""
    cache.time_of_day_s = time_of_day_s
    cache.windows.timeouts.update(time_of_day_s)
    for queue in cache.overdue_units.update(time_of_day_s):
        cache.drop_protected_unit(queue)


def close_windows(cache: QueueCache) -> None:
    """Close the windows that an admission step would close now, for an engine that runs none: those that the first
    units in order do not fit in. It stops at a unit that the next step grants."""
    if not cache.windows.timeouts.has_pods:
        return
    cache.reviews.begin_step(cache.time_of_day_s, cache.time_of_day_s)
    cache.process_changes()
    while (first := cache.grant_index.first()) is not None:
        if not head_of_line.hold_back(cache, *first) and not cache.close_window(*first):
            return


def _promise(cache: QueueCache, queue: str, uids: tuple[str, ...], at: str) -> None:
    for uid in uids:
        record = cache.records[uid]
        cache.remove_from_counts(record)
        record.supersede()
        record.promise(queue, record.task.requests, at)
        cache.add_to_counts(record)


def _revoke_excess(cache: QueueCache) -> None:
    """End the promises that exceed a lowered limit, so that they do not block other pods."""
    is_changed = True
    while is_changed:
        exceeding = [cache.records[uid] for uid in sorted(cache.promises.exceeding_limit)]
        reasons = [wait_reasons.revocation_text(cache, record) for record in exceeding]
        is_changed = False
        for record, why in zip(exceeding, reasons, strict=True):
            is_changed |= cache.end_promise(record, why)
        cache.process_changes()


def _revoke_incomplete_gangs(cache: QueueCache) -> bool:
    """End the promises of gangs below their minimum: no further unit can be granted, so these gangs cannot become
    complete now. Returns whether such a promise has ended at once."""
    is_changed = False
    for gang in list(cache.incomplete_gangs.values()):
        why = wait_reasons.incomplete_gang_text(gang)
        for record in list(gang.members.values()):
            if record.state in PROMISED and not record.is_committed and not record.is_being_revoked:
                is_changed |= cache.end_promise(record, why)
    cache.process_changes()
    return is_changed


def _enqueue_groups(cache: QueueCache) -> None:
    while (first := cache.enqueue_index.first()) is not None:
        queue, unit = first
        if head_of_line.hold_back(cache, queue, unit, is_enqueue=True):
            continue
        if not isinstance(unit, str):
            gang = cache.gangs[unit]
            gang.enqueued_by_engine = True
            cache.mark_gang_changed(gang)
        cache.process_changes()


def _retry_refused_removals(cache: QueueCache, now_s: float) -> None:
    """Make pods whose gate removal was refused wait for a grant again after their retry time."""
    for uid in cache.gate_retries.due(now_s):
        record = cache.records[uid]
        record.gate_refusal = None
        cache.recount(record)
