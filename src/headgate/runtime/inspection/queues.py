"""The queues of a cluster at one revision, rebuilt from lists for one command, such as ``headgate explain``.

A generator that yields requests and is sent responses. Pods are listed first, and the other lists are requested at
their revision, so that all show the same moment; a server that does not have that revision returns its newest. A
refused list is reported as unavailable, with the missing permission, and the rest is built without it. The queue engine
receives the objects and is queried; it never admits a pod here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.queue import OPEN, Queue, read_queue
from headgate.capacity.api.task import ANNOTATIONS
from headgate.capacity.conf import DEFAULTS, SchedulerConf
from headgate.capacity.engine import QueueEngine
from headgate.capacity.names import POD_GROUPS, QUEUES, ROOT, STAMP
from headgate.client.pager import ListRefused, ListResponse, ListResult, list_all
from headgate.client.permissions import FORBIDDEN, NOT_FOUND
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import NAMESPACES, PODS, APIResource
from headgate.kube.lenient_reader import find_object
from headgate.kube.pods.termination import OVERDUE_AFTER_S
from headgate.kube.serializer import wire_json
from headgate.runtime.inspection.unavailable import UnavailableResource, lacks, unavailable_resource
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.gates.capacity_objects import asks_in_spite_of_lapse, counts_in_queue, leaves_capacity, task_of

Wire = dict[str, Any]
ListSteps = Generator[HTTPRequest, HTTPResponse, ListResult[Any] | ListRefused]

_decode: Final = wire_json.WireDecoder(ListResponse[Wire]).decode


class QueueInspection(msgspec.Struct, frozen=True):
    """``revision``: of the pods, and of the other lists if the server still has it. ``specs``: the queues, by name.
    ``problems``: invalid objects, and why. ``pods_of_missing_queues``: how many pods name a queue that does not exist,
    by queue."""

    queues: QueueEngine
    specs: Mapping[str, Queue]
    revision: str
    pods: int
    problems: Mapping[str, str]
    pods_of_missing_queues: Mapping[str, int] = {}
    unavailable: tuple[UnavailableResource, ...] = ()

    def lacks(self, resource: APIResource) -> bool:
        """Whether the list of an existing resource is missing."""
        return lacks(self.unavailable, resource)

    @property
    def knows_usage(self) -> bool:
        """Whether all lists are available that say which pod counts in which queue."""
        return not any(map(self.lacks, (PODS, POD_GROUPS, NAMESPACES)))

    @property
    def is_incomplete(self) -> bool:
        """Whether a list is missing without which nothing can be explained."""
        return self.lacks(QUEUES) or not self.knows_usage


def inspect_queues(
    served: Collection[str], gated: Collection[str] = (), now_s: float = 0.0, settings: SchedulerConf = DEFAULTS
) -> Generator[HTTPRequest, HTTPResponse, QueueInspection]:
    """``served``: the ``schedulerName`` values whose pods are in queues. ``gated``: the names of other schedulers, for
    which the component ``gates`` removes gates. ``now_s``: the seconds since 1970; a terminating pod that is overdue
    by then delays no other pod."""
    # A pod that records a lapse waits for its back-off, which only the engine with leases knows.
    queues = QueueEngine(msgspec.structs.replace(settings, has_leases=True))
    unavailable, problems = [], {}
    shape_table = ShapeTable()

    def decode_pods(body: bytes) -> ListResponse[PodInfo]:
        """Decodes one page, and keeps only the fields of each pod that count."""
        page = _decode(body)
        read = []
        for wire in page.items:
            scheduler = (wire.get("spec") or {}).get("schedulerName") or "default-scheduler"
            if scheduler not in served and scheduler not in gated:
                continue
            pod = read_pod(wire, shape_table, ANNOTATIONS)
            if isinstance(pod, str):
                problems[_key("pod", wire)] = pod
            elif scheduler in served or counts_in_queue(pod):
                read.append(pod)
        return ListResponse(page.metadata, read)

    pods = yield from list_all(PODS.collection_path(), decode_pods)
    revision = "" if isinstance(pods, ListRefused) else pods.revision
    listed: dict[APIResource, list[Wire]] = {}
    for resource in (QUEUES, POD_GROUPS, NAMESPACES):
        found = yield from list_at(resource, revision)
        if isinstance(found, ListRefused):
            unavailable.append(unavailable_resource(resource, found))
        listed[resource] = [] if isinstance(found, ListRefused) else found.items
        revision = revision or ("" if isinstance(found, ListRefused) else found.revision)
    for wire in listed[QUEUES]:
        queues.queue_applied(wire)
    for wire in listed[NAMESPACES]:
        queues.namespace_applied(wire)
    for wire in listed[POD_GROUPS]:
        queues.group_applied(wire)
    if isinstance(pods, ListRefused):
        unavailable.insert(0, unavailable_resource(PODS, pods))
        known: list[PodInfo] = []
    else:
        known = pods.items
    for pod in known:
        apply_pod(queues, pod, served, now_s)
    queues.update_leases(0.0, now_s)
    queues.set_time_of_day(now_s)
    specs = {queue.name: queue for queue in map(read_queue, listed[QUEUES])}
    specs.setdefault(ROOT, Queue(ROOT, parent="", state=OPEN))
    ignored = {f"queue/{name}": queue.ignored for name, queue in specs.items() if queue.ignored}
    named = Counter(queues.queue_of(pod.uid) for pod in known if not pod.terminal)
    pods_of_missing_queues = {name: count for name, count in sorted(named.items()) if name and name not in specs}
    return QueueInspection(
        queues,
        specs,
        revision,
        len(known),
        {**ignored, **problems, **queues.problems()},
        pods_of_missing_queues,
        tuple(unavailable),
    )


def apply_pod(queues: QueueEngine, pod: PodInfo, served: Collection[str], now_s: float) -> None:
    """Adds a pod, or its new version. ``served``, ``now_s``: see :func:`inspect_queues`."""
    queues.task_applied(task_of(pod))
    if asks_in_spite_of_lapse(pod):
        queues.end_backoff(pod.uid)
    if pod.scheduler_name not in served and pod.annotations.get(STAMP):
        queues.commit(pod.uid)  # as the component ``gates`` does: its scheduler may bind the pod at any time
    if pod.scheduler_name not in served and leaves_capacity(pod):
        queues.set_leaving(pod.uid, leaving=(pod.gone_by_s or 0.0) + OVERDUE_AFTER_S > now_s)


def list_at(resource: APIResource, revision: str, namespace: str | None = None) -> ListSteps:
    """The list at a revision, if the server still has it. ``namespace``: None for all namespaces."""
    path = resource.collection_path(namespace)
    if revision:
        exact = {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
        found = yield from list_all(path, _decode, exact)
        if not isinstance(found, ListRefused) or found.status in (FORBIDDEN, NOT_FOUND):
            return found
    return (yield from list_all(path, _decode))


def _key(kind: str, wire: Wire) -> str:
    metadata = find_object(wire, "metadata")
    return f"{kind}/{metadata.get('namespace')}/{metadata.get('name')}"
