"""What is recorded about one pod or Workload, as ``headgate history`` says it, for a viewer with the rights to see it.

The reads are those of the process. A viewer who may not list Events sees none, and one who may not list what belongs to
the object sees only the object.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from headgate.client.pager import ListRefused
from headgate.dashboard.io.feed import ViewsFeed
from headgate.dashboard.io.viewers import Viewer, Viewers
from headgate.http.transport import Unreachable
from headgate.kube.api_resources import EVENTS, PODS, APIResource
from headgate.quota.kinds.names import WORKLOADS
from headgate.runtime.health.access_reviews import Verdict
from headgate.runtime.inspection.object_history import read_history
from headgate.runtime.inspection.timeline import HistoryEntry, ObjectHistory

_KINDS: Final = {"pods": ("pod", PODS), "workloads": ("workload", WORKLOADS)}
_EVENT: Final = "Event of "


async def find_history(
    feed: ViewsFeed, viewers: Viewers, viewer: Viewer, kind: str, namespace: str, name: str
) -> ObjectHistory | Verdict:
    """``kind``: ``pods`` or ``workloads``. An object that the viewer may not get looks like one that is not there."""
    word, resource = _KINDS[kind]
    absent = Verdict(404, f"{kind} {namespace}/{name} does not exist, or you may not get it")
    if not await viewers.may_get(viewer, resource, namespace):
        return absent
    found = await _read(feed, word, resource, namespace, name)
    if isinstance(found, Verdict):
        return found
    if found is None or not found.uid:  # Events of an object that is gone may be of another one of its name
        return absent
    sees_events = await viewers.may_list(viewer, EVENTS, namespace)
    sees_related = await viewers.may_list(viewer, WORKLOADS, namespace)
    return visible_history(found, sees_events=sees_events, sees_related=sees_related)


def visible_history(found: ObjectHistory, *, sees_events: bool, sees_related: bool) -> ObjectHistory:
    def is_visible(entry: HistoryEntry) -> bool:
        return (sees_events or not entry.source.startswith(_EVENT)) and (sees_related or not entry.subject)

    hidden = [] if sees_events else ["its Events: you may not list them"]
    hidden += [] if sees_related else ["its Workloads: you may not list them"]
    entries = tuple(filter(is_visible, found.entries))
    return msgspec.structs.replace(found, entries=entries, unknown=(*found.unknown, *hidden))


async def _read(
    feed: ViewsFeed, word: str, resource: APIResource, namespace: str, name: str
) -> ObjectHistory | Verdict | None:
    steps = read_history(word, resource, namespace, name, time.time())
    try:
        request = next(steps)
        while True:
            request = steps.send(await feed.transport.request(request))
    except Unreachable as problem:
        return Verdict(502, f"the API server cannot be reached: {problem}")
    except StopIteration as done:
        return None if isinstance(done.value, ListRefused) else done.value
