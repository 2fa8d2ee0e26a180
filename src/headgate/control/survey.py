"""The queues of a cluster as of one moment, rebuilt from lists: for whoever asks once, such as ``headgate explain``.

A generator that yields requests and is sent answers. Pods come first, and the other lists are asked for at their
revision, so that all of them show the same moment; a server that no longer has it, or never had, answers with its
newest. A list that is refused is a gap, named with the right that is missing, and the rest is made without it. Nothing
is decided here: the engine is asked, and never told to admit anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.names import POD_GROUPS, QUEUES, ROOT
from headgate.capacity.queue import OPEN, Queue, read_queue
from headgate.capacity.queues import Queues
from headgate.capacity.settings import DEFAULTS, Settings
from headgate.capacity.task import ANNOTATIONS
from headgate.client.listing import Listed, Page, Refused, list_all
from headgate.client.rights import FORBIDDEN, NOT_FOUND
from headgate.client.transport import Request, Response
from headgate.control.gaps import Gap, gap_of, lacks
from headgate.kube import wire_json
from headgate.kube.resource import NAMESPACES, PODS, Resource
from headgate.scheduling.pod import Pod, read_pod
from headgate.scheduling.shape import Shapes
from headgate.scheduling.tasks import task_of

Wire = dict[str, Any]
Asking = Generator[Request, Response, Listed[Any] | Refused]

_decode: Final = wire_json.Decoder(Page[Wire]).decode


class Survey(msgspec.Struct, frozen=True):
    """``revision``: of the pods, and of all the rest if the server can. ``specs``: the queues that exist, by name.
    ``problems``: objects that are set aside, and why. ``strays``: how many pods name a queue that does not exist."""

    queues: Queues
    specs: Mapping[str, Queue]
    revision: str
    pods: int
    problems: Mapping[str, str]
    strays: Mapping[str, int] = {}
    gaps: tuple[Gap, ...] = ()

    def lacks(self, resource: Resource) -> bool:
        """Whether a list could not be had that is there, as far as is known."""
        return lacks(self.gaps, resource)

    @property
    def knows_usage(self) -> bool:
        """Whether all is known that says which pod counts in which queue: the pods, and what may name their queue."""
        return not any(map(self.lacks, (PODS, POD_GROUPS, NAMESPACES)))

    @property
    def is_blind(self) -> bool:
        """Whether something may not be seen without which no verdict can be given."""
        return self.lacks(QUEUES) or not self.knows_usage


def survey(served: Collection[str], settings: Settings = DEFAULTS) -> Generator[Request, Response, Survey]:
    """``served``: the schedulers whose pods go by queues."""
    queues, gaps, problems = Queues(settings), [], {}
    shapes = Shapes()

    def ours(body: bytes) -> Page[Pod]:
        """Page by page, so that no more of each pod is kept than counts."""
        page = _decode(body)
        read = []
        for wire in page.items:
            if ((wire.get("spec") or {}).get("schedulerName") or "default-scheduler") not in served:
                continue
            pod = read_pod(wire, shapes, ANNOTATIONS)
            if isinstance(pod, str):
                problems[_key("pod", wire)] = pod
            else:
                read.append(pod)
        return Page(page.metadata, read)

    pods = yield from list_all(PODS.collection(), ours)
    revision = "" if isinstance(pods, Refused) else pods.revision
    listed: dict[Resource, list[Wire]] = {}
    for resource in (QUEUES, POD_GROUPS, NAMESPACES):
        found = yield from list_at(resource, revision)
        if isinstance(found, Refused):
            gaps.append(gap_of(resource, found))
        listed[resource] = [] if isinstance(found, Refused) else found.items
        revision = revision or ("" if isinstance(found, Refused) else found.revision)
    for wire in listed[QUEUES]:
        queues.queue_applied(wire)
    for wire in listed[NAMESPACES]:
        queues.namespace_applied(wire)
    for wire in listed[POD_GROUPS]:
        queues.group_applied(wire)
    if isinstance(pods, Refused):
        gaps.insert(0, gap_of(PODS, pods))
        known: list[Pod] = []
    else:
        known = pods.items
    for pod in known:
        queues.task_applied(task_of(pod))
    specs = {queue.name: queue for queue in map(read_queue, listed[QUEUES])}
    specs.setdefault(ROOT, Queue(ROOT, parent="", state=OPEN))
    named = Counter(queues.queue_of(pod.uid) for pod in known if not pod.terminal)
    strays = {name: count for name, count in sorted(named.items()) if name and name not in specs}
    return Survey(queues, specs, revision, len(known), {**problems, **queues.problems()}, strays, tuple(gaps))


def list_at(resource: Resource, revision: str, namespace: str | None = None) -> Asking:
    """As of a revision, if the server still has it. ``namespace``: None for all of them."""
    path = resource.collection(namespace)
    if revision:
        exact = {"resourceVersion": revision, "resourceVersionMatch": "Exact"}
        found = yield from list_all(path, _decode, exact)
        if not isinstance(found, Refused) or found.status in (FORBIDDEN, NOT_FOUND):
            return found
    return (yield from list_all(path, _decode))


def _key(kind: str, wire: Wire) -> str:
    metadata = wire.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{kind}/{metadata.get('namespace')}/{metadata.get('name')}"
