"""The objects of a load: what they are called and what they look like. Pure.

All names are fixed before the first request. A request that is sent again after a lost response therefore creates no
second object, and the same command continues an interrupted load. ``cli/loads/load_runner.py`` creates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.capacity.names import OPT_IN, QUEUE_NAME, QUEUES
from headgate.jobs.names import QUEUE_NAME as LOCAL_QUEUE_NAME
from headgate.kube.api_resources import JOBS, NODES, PODS, APIResource
from headgate.nodes.annotations import PREFIX
from headgate.nodes.node_template import NodeTemplate, make_more_nodes

Object = dict[str, Any]

LABEL: Final = f"{PREFIX}load"
KINDS: Final = {"node": NODES, "queue": QUEUES, "job": JOBS, "pod": PODS}
"""In the order of creation: pods find their queues and nodes."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


class LoadShape(msgspec.Struct, frozen=True):
    name: str
    namespace: str
    counts: Mapping[str, int]
    """By the kind in :data:`KINDS`."""
    requests: Mapping[str, str] = {}
    """Of each pod."""
    image: str = ""
    scheduler_name: str = ""
    queue: str = ""
    """A queue of Volcano for the pods. Without it they take the load's own queues in turn, if it has any."""
    local_queue: str = ""
    """A LocalQueue of Kueue for the jobs and pods."""
    gates: Sequence[str] = ()
    run_for: str = ""
    pods_per_job: int = 1
    queue_capability: Mapping[str, str] = {}
    node_resources: Mapping[str, str] = {}


class PlannedObject(msgspec.Struct, frozen=True):
    kind: str
    namespace: str
    obj: Object

    @property
    def resource(self) -> APIResource:
        return KINDS[self.kind]

    @property
    def name(self) -> str:
        name: str = self.obj["metadata"]["name"]
        return name


def name_problem(name: str) -> str:
    """Why a load cannot have this name; empty if it can."""
    if _NAME.fullmatch(name):
        return ""
    return f"{name!r} is not a name of a load: up to 40 lower-case letters, digits and hyphens, such as burst-1"


def object_name(load: str, kind: str, index: int) -> str:
    return f"{load}-{kind}-{index + 1:05}"


def planned_objects(shape: LoadShape, existing_nodes: Sequence[Object] = ()) -> Iterator[PlannedObject]:
    """Nodes, queues, jobs and pods. ``existing_nodes``: those of the cluster, whose pod CIDRs are not used again."""
    counts = {kind: shape.counts.get(kind, 0) for kind in KINDS}
    for index, node in enumerate(_nodes(shape, counts["node"], existing_nodes)):
        yield _planned(shape, "node", index, node)
    for index in range(counts["queue"]):
        yield _planned(shape, "queue", index, _queue(shape))
    for index in range(counts["job"]):
        yield _planned(shape, "job", index, _job(shape, index))
    for index in range(counts["pod"]):
        yield _planned(shape, "pod", index, {"apiVersion": "v1", "kind": "Pod", **_pod(shape, index)})


def _planned(shape: LoadShape, kind: str, index: int, obj: Object) -> PlannedObject:
    metadata = {**obj.get("metadata", {}), "name": object_name(shape.name, kind, index)}
    metadata["labels"] = {**metadata.get("labels", {}), LABEL: shape.name}
    namespace = shape.namespace if KINDS[kind].namespaced else ""
    return PlannedObject(kind, namespace, {**obj, "metadata": metadata})


def _nodes(shape: LoadShape, count: int, existing: Sequence[Object]) -> list[Object]:
    if not count:
        return []
    own = {object_name(shape.name, "node", index) for index in range(count)}
    others = [each for each in existing if each["metadata"]["name"] not in own]
    made = make_more_nodes(count, NodeTemplate(resources=shape.node_resources), others)
    for index, node in enumerate(made):
        name = object_name(shape.name, "node", index)
        node["metadata"]["labels"]["kubernetes.io/hostname"] = name
        node["spec"]["providerID"] = f"hollow://{name}"
    return made


def _queue(shape: LoadShape) -> Object:
    spec = {"capability": dict(shape.queue_capability)} if shape.queue_capability else {}
    return {"apiVersion": f"{QUEUES.group}/{QUEUES.version}", "kind": "Queue", "spec": spec}


def _job(shape: LoadShape, index: int) -> Object:
    labels = {LOCAL_QUEUE_NAME: shape.local_queue} if shape.local_queue else {}
    template = _pod(msgspec.structs.replace(shape, local_queue=""), index)
    template["metadata"]["labels"] = {LABEL: shape.name}
    spec = {"parallelism": shape.pods_per_job, "completions": shape.pods_per_job, "template": template}
    if shape.local_queue:
        spec["suspend"] = True
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"labels": labels}, "spec": spec}


def _pod(shape: LoadShape, index: int) -> Object:
    """Without name, kind and version: a Job has it as its template."""
    annotations = {f"{PREFIX}run-for": shape.run_for} if shape.run_for else {}
    queues = shape.counts.get("queue", 0)
    queue = shape.queue or (object_name(shape.name, "queue", index % queues) if queues else "")
    if queue:
        annotations |= {QUEUE_NAME: queue, OPT_IN: "true"}
    container: Object = {"name": "main", "image": shape.image}
    if shape.requests:
        container["resources"] = {"requests": dict(shape.requests)}
        extended = {name: amount for name, amount in shape.requests.items() if "/" in name}
        if extended:  # the API server requires limits for extended resources
            container["resources"]["limits"] = extended
    spec: Object = {"restartPolicy": "Never", "containers": [container]}
    scheduler_name = shape.scheduler_name or ("volcano" if queue else "")
    if scheduler_name:
        spec["schedulerName"] = scheduler_name
    if shape.gates:
        spec["schedulingGates"] = [{"name": name} for name in shape.gates]
    labels = {LOCAL_QUEUE_NAME: shape.local_queue} if shape.local_queue else {}
    return {"metadata": {"annotations": annotations, "labels": labels}, "spec": spec}
