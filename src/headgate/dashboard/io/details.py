"""Reads one pod or Workload, and the Workloads that it belongs to, and explains it.

The views do not keep whole objects, so the object is read from the API server with the right of this process; whether
the viewer may get it is asked before. One explanation is made at a time, because it may take long on a large cluster.
"""

from __future__ import annotations

import time
from typing import Any, Final

from headgate.dashboard.io.feed import ViewsFeed
from headgate.dashboard.io.viewers import Viewer, Viewers
from headgate.http.transport import HTTPRequest, Unreachable
from headgate.jobs.pods.pod_metadata import group_of
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.serializer.wire_json import WireDecoder
from headgate.quota.kinds.names import WORKLOADS
from headgate.runtime.health.access_reviews import Verdict
from headgate.views.explanations import UnitDetail, explain_pod, explain_workload_object, workloads_of_pod

Object = dict[str, Any]

_decode: Final = WireDecoder(dict[str, Any]).decode
_KINDS: Final = {"pods": PODS, "workloads": WORKLOADS}
_MAX_WORKLOADS: Final = 5


async def find_detail(
    feed: ViewsFeed, viewers: Viewers, viewer: Viewer, kind: str, namespace: str, name: str
) -> UnitDetail | Verdict:
    """``kind``: ``pods`` or ``workloads``. An object that the viewer may not get looks like one that is not there."""
    resource = _KINDS[kind]
    found = None
    if await viewers.may_get(viewer, resource, namespace):
        found = await read_detail(feed, kind, namespace, name)
        if found is None and feed.connection.problem:
            return Verdict(502, "the API server cannot be reached")
    if found is None:
        return Verdict(404, f"{kind} {namespace}/{name} does not exist, or you may not get it")
    return found


async def read_detail(feed: ViewsFeed, kind: str, namespace: str, name: str) -> UnitDetail | None:
    """As :func:`find_detail`, with the rights of this process. None if the object could not be read."""
    resource = _KINDS[kind]
    obj = await read_object(feed, resource, namespace, name)
    if obj is None:
        return None
    if resource == WORKLOADS:
        return explain_workload_object(feed.views, obj, time.time())
    workloads = []
    for key in workloads_of_pod(feed.views, obj, group_of(obj))[:_MAX_WORKLOADS]:
        found = await read_object(feed, WORKLOADS, *key.split("/", 1))
        workloads += [] if found is None else [found]
    return explain_pod(feed.views, obj, workloads, time.time())


async def read_object(feed: ViewsFeed, resource: APIResource, namespace: str, name: str) -> Object | None:
    try:
        path = resource.object_path(namespace, name)
        response = await feed.transport.request(HTTPRequest("GET", path, "", {"accept": "application/json"}))
    except Unreachable:
        return None
    return _decode(response.body) if response.ok else None
