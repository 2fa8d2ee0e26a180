"""A recording, or the store of the embedded server, as the cluster and the trace of a simulation.

The states that a recording begins with are the snapshot; later changes of nodes, queues, quota, namespaces and
PodGroups become changes of the simulated cluster at their time. ``recorded_jobs.py`` makes the jobs. A cluster that is
simulated with an autoscaler model begins without the machines that an autoscaler bought: the model buys its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.audit.pod_facts import PodFacts, read_pod
from headgate.capacity.names import DEFAULT, POD_GROUPS, QUEUE_NAME, QUEUES
from headgate.kube import conditions
from headgate.kube.api_resources import NAMESPACES, NODES, PODS, APIResource
from headgate.kube.timestamps import human_duration
from headgate.quota.kinds.names import (
    API_VERSION,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    OLDER_API_VERSION,
    RESOURCE_FLAVORS,
)
from headgate.recording.changes import Object, RecordedChange
from headgate.recording.history import Survey
from headgate.recording.resources import resource_key
from headgate.simulate.job_objects import Queueing
from headgate.simulate.recorded_jobs import RecordedWindow, Remarks, recorded_jobs
from headgate.simulate.recorded_pods import PodHistories
from headgate.simulate.recorded_workloads import WorkloadHistories
from headgate.simulate.snapshot import KINDS, LaterChange, Snapshot, SnapshotError, cleaned_object
from headgate.simulate.trace import TraceJob

_KINDS: Final[Mapping[str, str]] = {
    resource_key(resource): kind
    for kind, resource in KINDS.items()
    if resource in (NAMESPACES, NODES, QUEUES, POD_GROUPS, RESOURCE_FLAVORS, COHORTS, CLUSTER_QUEUES, LOCAL_QUEUES)
}
_CREATION_ORDER: Final = {KINDS[kind]: number for number, kind in enumerate(KINDS)}
_PODS: Final = resource_key(PODS)
_WORKLOADS: Final = "workloads.kueue.x-k8s.io"
_CORE: Final = ("Namespace", "Node")
_OLDER_FIELDS: Final = frozenset({"cohort", "parent", "admissionChecks"})
"""Fields that only the older version of Kueue's kinds has: a recording has no versions."""
_NOT_SIMULATED: Final = {
    "ClusterQueue": ("admissionChecks", "admissionChecksStrategy"),
    "ResourceFlavor": ("topologyName",),
}
BOUGHT: Final = ("karpenter.sh/nodepool", "headgate.dev/node-group")
"""Labels of machines that an autoscaler bought."""


class RecordedCluster(msgspec.Struct, frozen=True):
    """``queueing``: the kind of queues that its jobs are in. ``remarks``: what is not known, left out or assumed."""

    snapshot: Snapshot
    jobs: tuple[TraceJob, ...]
    queueing: Queueing
    duration_s: float
    remarks: tuple[str, ...]


def read_recorded_cluster(
    changes: Iterable[RecordedChange], found: Survey, served: Collection[str], queueing: Queueing | None = None
) -> RecordedCluster:
    """``changes``: in the order of revisions. ``served``: the schedulers whose pods are in Volcano's queues. It raises
    :class:`SnapshotError`."""
    reader = _ClusterReader(frozenset(served))
    for change in changes:
        reader.take(change)
    return reader.result(found, queueing)


def without_bought_nodes(snapshot: Snapshot) -> Snapshot:
    """The recorded cluster for an autoscaler model: without the nodes that an autoscaler had bought, and without those
    that appear later."""
    kept = {obj["metadata"]["name"] for obj in snapshot.of(NODES) if not _is_bought(obj)}
    return msgspec.structs.replace(
        snapshot,
        objects=tuple(
            (resource, obj)
            for resource, obj in snapshot.objects
            if resource != NODES or obj["metadata"]["name"] in kept
        ),
        later=tuple(each for each in snapshot.later if each.resource != NODES or each.obj["metadata"]["name"] in kept),
    )


def _is_bought(node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    return any(each in labels for each in BOUGHT)


class _ClusterReader:
    def __init__(self, served: Collection[str]) -> None:
        self._served = served
        self._pods = PodHistories()
        self._workloads = WorkloadHistories()
        self._objects: dict[tuple[APIResource, str, str], Object] = {}  # the present state
        self._first: dict[tuple[APIResource, str, str], Object] = {}
        self._later: list[tuple[float, APIResource, Object, bool]] = []
        self._namespaces: dict[str, Object] = {}
        self._groups: dict[tuple[str, str], str] = {}  # the queue of each PodGroup that ever existed
        self._queues: dict[APIResource, set[tuple[str, str]]] = {QUEUES: set(), LOCAL_QUEUES: set()}
        self._daemons: dict[str, Object] = {}  # by uid
        self._remarks = Remarks()
        self._is_initial = True
        self._start_s = 0.0
        self._end_s = 0.0

    def take(self, change: RecordedChange) -> None:
        if self._is_initial:
            if change.observed:
                self._is_initial = False
                self._start_s = self._start_s or change.at_s
                self._first = dict(self._objects)
            else:
                self._start_s = change.at_s
        self._end_s = change.at_s
        if change.resource == _PODS:
            self._pods.take(change)
            self._take_daemon(change)
        elif change.resource == _WORKLOADS:
            self._workloads.take(change)
        elif change.resource in _KINDS:
            self._take_object(change)

    # Objects

    def _take_object(self, change: RecordedChange) -> None:
        kind = _KINDS[change.resource]
        resource, obj = KINDS[kind], self._cleaned(kind, change.object)
        key = (resource, *change.key)
        if change.deleted:
            if self._objects.pop(key, None) is not None:
                self._changed(change.at_s, resource, obj, gone=True)
            return
        if self._objects.get(key) == obj:
            return  # only its status changed
        self._objects[key] = obj
        if resource == NAMESPACES:
            self._namespaces[change.key[1]] = obj
        elif resource == POD_GROUPS:
            self._groups[change.key] = str((obj.get("spec") or {}).get("queue") or "")
        elif resource in self._queues:
            self._queues[resource].add(change.key)
        self._changed(change.at_s, resource, obj)

    def _changed(self, at_s: float, resource: APIResource, obj: Object, *, gone: bool = False) -> None:
        if not self._is_initial:
            self._later.append((at_s, resource, obj, gone))

    def _cleaned(self, kind: str, obj: Object) -> Object:
        spec = dict(obj.get("spec") or {})
        for field in _NOT_SIMULATED.get(kind, ()):
            if spec.pop(field, None):
                name = f"{kind} {obj['metadata']['name']}"
                self._remarks.add(f"{{}} objects have spec.{field}, which is not simulated and left out", name)
        named = {**obj, "kind": kind, "apiVersion": _api_version(kind, obj.get("spec") or {})}
        if spec or "spec" in obj:
            named["spec"] = spec
        cleaned = cleaned_object(kind, named)
        cleaned["metadata"].pop("finalizers", None)
        if kind == "Node":
            status = obj.get("status") or {}
            ready = conditions.is_true(status.get("conditions"), "Ready")
            listed = [{"type": "Ready", "status": "True" if ready else "False"}]
            sizes = {key: status[key] for key in ("capacity", "allocatable") if key in status}
            sizes.setdefault("allocatable", sizes.get("capacity") or {})
            cleaned["status"] = {**sizes, "conditions": listed}
        elif kind == "PodGroup":
            cleaned["status"] = {}
        return cleaned

    def _take_daemon(self, change: RecordedChange) -> None:
        """Pods of DaemonSets belong to their nodes: they are objects, not jobs."""
        known = self._daemons.get(change.uid)
        if known is not None:
            if change.deleted:
                del self._daemons[change.uid]
                self._changed(change.at_s, PODS, known, gone=True)
            return
        if change.deleted:
            return
        facts = read_pod(change.object)
        if facts.is_daemon and facts.node and facts.is_active:
            obj = cleaned_object("Pod", {**change.object, "kind": "Pod", "apiVersion": "v1"})
            self._daemons[change.uid] = obj
            self._changed(change.at_s, PODS, obj)
            if self._is_initial:
                self._objects[PODS, facts.namespace, facts.name] = obj

    # Result

    def result(self, found: Survey, queueing: Queueing | None) -> RecordedCluster:
        if not self._end_s:
            raise SnapshotError("the recording has no changes")
        if self._is_initial:
            self._first = dict(self._objects)
        chosen = queueing or self._queueing()
        queues = self._queues[QUEUES if chosen == "volcano" else LOCAL_QUEUES]
        end_s = max(self._end_s, found.to_s)
        window = RecordedWindow(self._start_s, end_s, chosen, self._queue_of, queues, self._groups)
        read = recorded_jobs(self._pods, self._workloads, window)
        objects = [(key[0], obj) for key, obj in self._first.items()]
        objects += [(PODS, cleaned_object("Pod", obj)) for obj in read.running]
        objects.sort(key=lambda each: _CREATION_ORDER[each[0]])
        later = tuple(
            LaterChange(round(at_s - self._start_s, 3), resource, obj, gone)
            for at_s, resource, obj, gone in self._later
        )
        snapshot = Snapshot(tuple(objects), (), later, self._start_s)
        remarks = (*_gaps(found), *self._remarks.texts(), *read.remarks)
        return RecordedCluster(snapshot, read.jobs, chosen, end_s - self._start_s, remarks)

    def _queueing(self) -> Queueing:
        in_volcano = any(each.facts.scheduler in self._served for each in self._pods)
        in_kueue = any(True for _ in self._workloads)
        if in_volcano and in_kueue:
            raise SnapshotError("the recording has pods in Volcano's queues and Workloads of Kueue: say --queueing")
        if in_kueue or in_volcano:
            return "kueue" if in_kueue else "volcano"
        if self._queues[LOCAL_QUEUES] and not self._queues[QUEUES]:
            return "kueue"
        if not self._queues[QUEUES]:
            raise SnapshotError("the recording has no Queue of Volcano and no LocalQueue of Kueue")
        return "volcano"

    def _queue_of(self, pod: PodFacts) -> str:
        """The queue of a pod, as Volcano's rules are; empty if its scheduler has no queues."""
        if pod.scheduler not in self._served:
            return ""
        group = self._groups.get((pod.namespace, pod.group), "") if pod.group else ""
        namespace = self._namespaces.get(pod.namespace) or {}
        annotations = (namespace.get("metadata") or {}).get("annotations") or {}
        return group or pod.queue or str(annotations.get(QUEUE_NAME) or "") or DEFAULT


def _api_version(kind: str, spec: Mapping[str, Any]) -> str:
    if kind in _CORE:
        return "v1"
    resource = KINDS[kind]
    if resource in (QUEUES, POD_GROUPS):
        return f"{resource.group}/{resource.version}"
    return OLDER_API_VERSION if _OLDER_FIELDS & spec.keys() else API_VERSION


def _gaps(found: Survey) -> list[str]:
    texts = []
    if found.skipped:
        texts.append(f"not recorded: {', '.join(found.skipped)}")
    if found.gaps:
        seconds = sum(each.to_s - each.from_s for each in found.gaps)
        texts.append(
            f"the recording has {len(found.gaps)} gaps, {human_duration(seconds)} in all; what happened in them counts"
            " from when it was first seen"
        )
    texts += [f"a request of the recorder failed: {each}" for each in found.problems[:5]]
    return texts
