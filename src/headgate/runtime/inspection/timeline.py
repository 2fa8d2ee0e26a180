"""What happened to an object, from what its present state and its Events record: a timeline with times and sources.

Kubernetes keeps no history. A timeline is therefore incomplete, and says in which way: a condition has only its last
transition, managedFields have only the last write of each manager, and Events expire. Pure; ``object_history.py`` reads
the objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.names import OPT_IN, STAMP
from headgate.jobs.names import MANAGED
from headgate.kube.lenient_reader import find_items, find_object
from headgate.kube.resource_amounts import amount_text
from headgate.kube.scheduling_gates import gate_names
from headgate.kube.timestamps import format_time, parse_micro_time, parse_time

Wire = Mapping[str, Any]

EVENT_TTL_S: Final = 3600.0
"""How long API servers keep Events by default (``--event-ttl``)."""
_MICROS: Final = 1_000_000
_MAX_FIELDS: Final = 4


class HistoryEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """``at``: as in the API. ``source``: where the time is recorded. ``subject``: the object, if it is not the one that
    was asked for."""

    at: str
    source: str
    text: str
    subject: str = ""


class ObjectHistory(msgspec.Struct, frozen=True, omit_defaults=True):
    """``unknown``: what cannot be known."""

    kind: str
    namespace: str
    name: str
    uid: str
    entries: tuple[HistoryEntry, ...]
    unknown: tuple[str, ...] = ()


def seconds(text: str) -> float | None:
    """Of a time with or without microseconds; None for an invalid one."""
    micro, whole = parse_micro_time(text), parse_time(text)
    if isinstance(micro, int):
        return micro / _MICROS
    return None if isinstance(whole, str) else float(whole)


def in_order(entries: Iterable[HistoryEntry]) -> tuple[HistoryEntry, ...]:
    """By time; entries without a valid time are left out."""
    timed = [(at_s, each) for each in entries if (at_s := seconds(each.at)) is not None]
    return tuple(each for _, each in sorted(timed, key=lambda pair: pair[0]))


def object_entries(obj: Wire, subject: str = "") -> Iterator[HistoryEntry]:
    """What the object itself records."""
    metadata, status = find_object(obj, "metadata"), find_object(obj, "status")

    def entry(at: Any, source: str, text: str) -> HistoryEntry:
        return HistoryEntry(str(at or ""), source, text, subject)

    yield entry(metadata.get("creationTimestamp"), "metadata", "created")
    deleted = str(metadata.get("deletionTimestamp") or "")
    deleted_s = seconds(deleted)
    if deleted_s is not None:
        grace_s = metadata.get("deletionGracePeriodSeconds")
        requested = format_time(deleted_s - (grace_s if isinstance(grace_s, int) else 0))
        held = ", ".join(map(str, metadata.get("finalizers") or ()))
        note = f"; it waits for the finalizers {held}" if held else ""
        yield entry(requested, "metadata", f"deletion requested, to end by {deleted}{note}")
    for write in find_items(metadata, "managedFields"):
        part = f", {write['subresource']}" if write.get("subresource") else ""
        fields = ", ".join(_fields(write.get("fieldsV1") or {}))
        what = f"last write of {write.get('manager') or 'an unknown client'} ({write.get('operation')}{part})"
        yield entry(write.get("time"), "managedFields", f"{what}: {fields}" if fields else what)
    for condition in find_items(status, "conditions"):
        said = f"{condition.get('reason') or ''}: {condition.get('message') or ''}".strip(": ")
        text = f"{condition.get('type')} became {condition.get('status')}" + (f": {said}" if said else "")
        yield entry(condition.get("lastTransitionTime"), "condition", text)
    yield from (entry(*each) for each in _stamp(metadata))
    for field, text in (("startTime", "started"), ("completionTime", "completed")):
        if status.get(field):
            yield entry(status[field], "status", text)
    for container in find_items(status, "containerStatuses"):
        yield from (entry(*each) for each in _container(container))


def _fields(fields: Wire) -> Iterator[str]:
    """The first fields, two levels deep."""
    found = [
        f"{top.removeprefix('f:')}.{inner.removeprefix('f:')}" if inner else top.removeprefix("f:")
        for top, below in fields.items()
        for inner in ([each for each in below if each.startswith("f:")] or [""])
    ]
    yield from found[:_MAX_FIELDS]
    if len(found) > _MAX_FIELDS:
        yield f"{len(found) - _MAX_FIELDS} more"


def _stamp(metadata: Wire) -> Iterator[tuple[str, str, str]]:
    text = find_object(metadata, "annotations").get(STAMP)
    if not isinstance(text, str):
        return
    stamp = read_stamp(text, str(metadata.get("uid", "")))
    if stamp is None:
        return
    amounts = ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in sorted(stamp.requests.items()))
    yield stamp.at, "stamp", f"queue {stamp.queue} promised {amounts or 'nothing'}, and the queue gate was removed"


def _container(container: Wire) -> Iterator[tuple[str, str, str]]:
    name = container.get("name")
    for state in (find_object(container, "lastState"), find_object(container, "state")):
        running, ended = find_object(state, "running"), find_object(state, "terminated")
        for each in (running, ended):
            if each.get("startedAt"):
                yield str(each["startedAt"]), "status", f"container {name} started"
        if ended.get("finishedAt"):
            text = (
                f"container {name} ended with exit code {ended.get('exitCode')} ({ended.get('reason') or 'no reason'})"
            )
            yield str(ended["finishedAt"]), "status", text


def event_entries(events: Iterable[Wire], subject: str = "") -> Iterator[HistoryEntry]:
    """An Event that was repeated has one entry, at its last time."""
    for event in events:
        series = find_object(event, "series")
        first = str(event.get("firstTimestamp") or event.get("eventTime") or "")
        last = str(event.get("lastTimestamp") or series.get("lastObservedTime") or first)
        count = series.get("count") or event.get("count") or 1
        repeated = f" ({count} times since {first})" if isinstance(count, int) and count > 1 else ""
        source = event.get("reportingComponent") or find_object(event, "source").get("component") or "unknown"
        text = f"{event.get('reason')}: {event.get('message')}{repeated}"
        yield HistoryEntry(last, f"Event of {source}", text, subject)


def unknown_of(obj: Wire, now_s: float) -> Iterator[str]:
    """What the object does not record."""
    metadata = find_object(obj, "metadata")
    created_s = seconds(str(metadata.get("creationTimestamp") or ""))
    if created_s is not None and now_s - created_s > EVENT_TTL_S:
        before = format_time(now_s - EVENT_TTL_S)
        yield f"Events before about {before}: API servers delete them after an hour, unless --event-ttl says otherwise"
    if find_items(find_object(obj, "status"), "conditions"):
        yield "earlier transitions of a condition: only the last one is recorded"
    if metadata.get("managedFields"):
        yield "earlier writes of a manager: managedFields have only its last one"
    annotations, labels = find_object(metadata, "annotations"), find_object(metadata, "labels")
    has_stamp = isinstance(annotations.get(STAMP), str)
    in_queue = annotations.get(OPT_IN) == "true" or labels.get(MANAGED) == "true"
    if obj.get("kind") in ("Pod", None) and "containers" in find_object(obj, "spec") and not gate_names(obj):
        if in_queue and not has_stamp:
            yield "when its scheduling gate was removed: no field records it"
        elif not in_queue:
            yield "whether it had scheduling gates, and when they were removed: no field records it"
