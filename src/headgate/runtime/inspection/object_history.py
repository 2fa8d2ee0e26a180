"""The reads of ``headgate history``: the object, what belongs to it, and the Events of all of them.

A generator that yields requests and is sent responses. To a job belong its Workloads and its pods, to a pod its
Workloads. A read that is refused is named in what cannot be known. ``timeline.py`` makes the entries.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final

from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.client.pager import ListRefused, ListResponse, list_all
from headgate.client.permissions import NOT_FOUND, refusal_text
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import DEPLOYMENTS, EVENTS, JOBS, NODES, PODS, APIResource
from headgate.kube.object_meta import owner_references
from headgate.kube.serializer import wire_json
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from headgate.runtime.inspection.object_reads import get_object
from headgate.runtime.inspection.timeline import (
    HistoryEntry,
    ObjectHistory,
    event_entries,
    in_order,
    object_entries,
    unknown_of,
)

Wire = dict[str, Any]

HISTORY_KINDS: Final[Mapping[str, APIResource]] = {
    "pod": PODS,
    "job": JOBS,
    "deployment": DEPLOYMENTS,
    "workload": WORKLOADS,
    "podgroup": POD_GROUPS,
    "queue": QUEUES,
    "clusterqueue": CLUSTER_QUEUES,
    "localqueue": LOCAL_QUEUES,
    "node": NODES,
}
_MAX_RELATED: Final = 20
_decode: Final = wire_json.WireDecoder(ListResponse[Wire]).decode


def read_history(
    kind: str, resource: APIResource, namespace: str, name: str, now_s: float
) -> Generator[HTTPRequest, HTTPResponse, ObjectHistory | ListRefused]:
    """``kind``: in lower case. An object that does not exist any more has only the Events that name it."""
    scope = namespace if resource.namespaced else ""
    obj = yield from get_object(resource, kind, scope, name)
    if isinstance(obj, ListRefused):
        if obj.status != NOT_FOUND:
            return obj
        return (yield from _history_of_absent(kind, scope, name, obj))
    unknown = dict.fromkeys(unknown_of(obj, now_s))
    entries = [*object_entries(obj)]
    events = yield from _events(scope, str(obj["metadata"].get("uid", "")), unknown)
    entries += event_entries(events)
    for subject, each in (yield from _related(kind, obj, unknown)):
        entries += object_entries(each, subject)
        related = yield from _events(scope, str(each["metadata"].get("uid", "")), unknown)
        entries += event_entries(related, subject)
    return ObjectHistory(kind, scope, name, str(obj["metadata"].get("uid", "")), in_order(entries), tuple(unknown))


def _history_of_absent(
    kind: str, namespace: str, name: str, missing: ListRefused
) -> Generator[HTTPRequest, HTTPResponse, ObjectHistory | ListRefused]:
    query = {"fieldSelector": f"involvedObject.name={name}"}
    listed = yield from list_all(EVENTS.collection_path(namespace or None), _decode, query)
    if isinstance(listed, ListRefused):
        return ListRefused(f"{missing.text}; {refusal_text('list', EVENTS, namespace or None, listed)}", missing.status)
    events = [each for each in listed.items if _kind_of(each) == kind]
    entries: list[HistoryEntry] = list(event_entries(events))
    if not entries:
        return ListRefused(f"{missing.text}, and no Event names it", missing.status)
    text = "all that its Events do not say: the object does not exist any more, and they may be of several objects"
    return ObjectHistory(kind, namespace, name, "", in_order(entries), (text,))


def _kind_of(event: Wire) -> str:
    return str((event.get("involvedObject") or {}).get("kind", "")).lower()


def _events(namespace: str, uid: str, unknown: dict[str, None]) -> Generator[HTTPRequest, HTTPResponse, list[Wire]]:
    scope = namespace or None
    listed = yield from list_all(EVENTS.collection_path(scope), _decode, {"fieldSelector": f"involvedObject.uid={uid}"})
    if isinstance(listed, ListRefused):
        unknown[f"its Events: {refusal_text('list', EVENTS, scope, listed)}"] = None
        return []
    return listed.items


def _related(
    kind: str, obj: Wire, unknown: dict[str, None]
) -> Generator[HTTPRequest, HTTPResponse, list[tuple[str, Wire]]]:
    """The Workloads and pods that the object owns."""
    if kind in ("queue", "clusterqueue", "localqueue", "node", "workload", "podgroup"):
        return []
    namespace, uid = obj["metadata"]["namespace"], obj["metadata"].get("uid")
    resources = [("workload", WORKLOADS)] if kind == "pod" else [("workload", WORKLOADS), ("pod", PODS)]
    found: list[tuple[str, Wire]] = []
    for word, resource in resources:
        listed = yield from list_all(resource.collection_path(namespace), _decode)
        if isinstance(listed, ListRefused):
            if listed.status != NOT_FOUND:
                unknown[f"its {word}s: {refusal_text('list', resource, namespace, listed)}"] = None
            continue
        own = [each for each in listed.items if any(owner.get("uid") == uid for owner in owner_references(each))]
        found += [(f"{word} {each['metadata']['name']}", each) for each in own[:_MAX_RELATED]]
        if len(own) > _MAX_RELATED:
            unknown[f"{len(own) - _MAX_RELATED} more of its {word}s are not shown"] = None
    return found
