"""Rows of the embedded server's store as a recording.

The store keeps every state of the last minutes, and the current state of every object. A row has no time: it is taken
from the object, which has the times of its writes in ``managedFields`` and elsewhere. Rows up to the oldest kept
revision are states, not changes: what was between them is compacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from headgate.kube.serializer import wire_json
from headgate.kube.timestamps import parse_micro_time, parse_time
from headgate.recording.changes import HistoryEvent, Object, RecordedChange, ResourceSynced, SessionStarted
from headgate.recording.pruning import prune
from headgate.recording.resources import BY_NAME
from headgate.store import Item

StoredChange = tuple[Item, bool]
"""A row, and whether it is a deletion."""
_US: Final = 1_000_000
_LEASES: Final = "leases.coordination.k8s.io"


def store_events(rows: Iterable[StoredChange], oldest: int) -> Iterator[HistoryEvent]:
    """``rows`` in the order of revisions. ``oldest``: the oldest revision of which all later changes are kept."""
    names = tuple(BY_NAME)
    now_s = 0.0
    is_started = False
    for item, deleted in rows:
        obj: Object = wire_json.decode(item.data)
        now_s = max(now_s, _written_s(item.resource, obj, deleted))
        if not is_started:
            is_started = True
            yield SessionStarted(now_s, "", False, names)
            for name in names:
                yield ResourceSynced(now_s, name, oldest)
        if item.resource in BY_NAME:
            observed = item.revision > oldest
            yield RecordedChange(
                item.resource, prune(item.resource, obj), now_s, item.revision, deleted, observed, now_s
            )


def _written_s(resource: str, obj: Object, deleted: bool) -> float:
    """The newest time in the object that a write of the server can have set."""
    metadata = obj.get("metadata") or {}
    times = [_seconds(metadata.get("creationTimestamp"))]
    times += [_seconds(each.get("time")) for each in metadata.get("managedFields") or () if isinstance(each, dict)]
    status = obj.get("status")
    if isinstance(status, dict):
        for each in status.get("conditions") or ():
            times.append(_seconds(each.get("lastTransitionTime")) if isinstance(each, dict) else 0.0)
    if resource == _LEASES:
        times.append(_seconds((obj.get("spec") or {}).get("renewTime")))
    deletion_s = _seconds(metadata.get("deletionTimestamp"))
    if deletion_s:  # the time of the request, not the end of the grace period
        times.append(deletion_s - float(metadata.get("deletionGracePeriodSeconds") or 0) * (not deleted))
    return max(times)


def _seconds(value: Any) -> float:
    if not isinstance(value, str):
        return 0.0
    found = parse_micro_time(value)
    if isinstance(found, int):
        return found / _US
    whole = parse_time(value)
    return float(whole) if isinstance(whole, int) else 0.0
