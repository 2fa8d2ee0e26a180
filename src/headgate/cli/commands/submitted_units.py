"""The units of objects that do not exist yet (``headgate explain -f``): whether they would start, and if not, why.

The present objects are listed once; the objects of the file are added to them, and the queue engine, the quota engine
and the replays of estimates are asked as if they existed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from headgate.admission.admission_cache import AdmissionCache
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.api.task import ANNOTATIONS
from headgate.capacity.engine import QueueEngine
from headgate.capacity.explanation import PodGate, explain
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.cli.commands.expected_starts import (
    WORKLOAD_RESOURCES,
    missing_reason,
    pod_starts,
    targets_of,
    workload_starts,
)
from headgate.cli.commands.explain_pod import pod_lines
from headgate.cli.commands.explain_quota import description_lines
from headgate.cli.options.cluster_access import perform
from headgate.cli.wiring.estimates import EstimateEngines
from headgate.estimates.estimator import StartEstimate
from headgate.estimates.present_state import Past, pod_state, workload_state
from headgate.estimates.submission import (
    SubmittedObject,
    SubmittedObjects,
    missing_class,
    pods_of_template,
    priorities_of,
    with_priority,
)
from headgate.estimates.units import group_of
from headgate.estimates.workload_replay import workload_key
from headgate.http.transport import Transport
from headgate.jobs.framework.workload import PriorityClasses, admission_gates_of, new_workload, queue_of
from headgate.jobs.kinds.job_kind import JobKind, has_suspend_set, pod_set_sources
from headgate.jobs.names import POD_PRIORITY_CLASSES
from headgate.jobs.pods import group_workload
from headgate.jobs.pods.managed_pod import read_managed_pod
from headgate.jobs.pods.pod_cache import GROUP
from headgate.jobs.pods.pod_metadata import group_of as kueue_group_of
from headgate.jobs.pods.pod_metadata import is_managed
from headgate.jobs.pods.pod_unit import PodUnit
from headgate.jobs.settings import JobSettings
from headgate.kube.api_resources import DAEMON_SETS, NAMESPACES, PODS, APIResource
from headgate.kube.lenient_reader import get_path
from headgate.kube.scheduling_gates import gate_names
from headgate.kube.schema import Schemas
from headgate.quota.explain.description import describe_workload
from headgate.quota.kinds.names import LOCAL_QUEUES, PRIORITY_CLASSES, WORKLOADS
from headgate.runtime.inspection.listed_objects import SCHEDULED, ListedObjects, list_objects
from headgate.runtime.inspection.queues import inspect_queues
from headgate.runtime.inspection.quota import apply_object, inspect_quota
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.gates.capacity_objects import task_of
from headgate.simulate.job_objects import stored_pod

Object = dict[str, Any]
Outcome = Literal["starts", "queued", "refused", "unknown"]
_MAX_PODS: Final = 1000


class SubmittedUnit(msgspec.Struct, frozen=True, omit_defaults=True):
    """``reason``: in one sentence. ``changes``: what admission would change of its pods. ``lines``: the explanation, as
    ``headgate explain`` prints it for existing objects."""

    title: str
    outcome: Outcome
    reason: str = ""
    changes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    estimate: StartEstimate | None = None


class _Waiting(msgspec.Struct, frozen=True):
    """A unit that is not refused. ``pods``: in Volcano-style queues; ``workload``: in Kueue's."""

    title: str
    pods: tuple[Object, ...] = ()
    workload: Object | None = None
    changes: tuple[str, ...] = ()


async def explain_submitted(
    transport: Transport,
    schemas: Schemas,
    documents: Sequence[tuple[str, Any]],
    namespace: str,
    kinds: Collection[JobKind],
    served: tuple[str, ...],
    gated: tuple[str, ...],
    now_s: float,
) -> tuple[list[SubmittedObject], list[SubmittedUnit], list[str]]:
    """The objects, their units, and what could not be read. It raises ``SubmissionError``."""
    engines = EstimateEngines((*served, *gated))
    in_pods = await perform(transport, list_objects((*SCHEDULED, POD_PRIORITY_CLASSES)))
    in_quota = await perform(transport, list_objects((*WORKLOAD_RESOURCES, PRIORITY_CLASSES)))
    has_kueue = WORKLOADS not in in_quota.absent
    settings = AdmissionSettings(
        frozenset((*served, *gated)),
        suspends_jobs=has_kueue,
        jobs=JobSettings(kinds=tuple(kinds)),
    )
    cache = _cache(in_pods, in_quota)
    reader = SubmittedObjects(schemas, settings, cache, kinds, namespace, now_s)
    objects = [reader.read(document, where) for where, document in documents]
    added = [(each.resource, each.obj) for each in objects if each.role == "cluster" and not each.refusal]
    units = _Units(reader, in_pods, in_quota, added, has_kueue)
    for each in objects:
        units.add(each)
    explained = units.found
    explained += await _explain_pods(transport, engines, units, in_pods, added, served, gated, now_s)
    explained += await _explain_workloads(transport, units, in_quota, added, namespace, now_s)
    problems = dict.fromkeys(each.line for each in (*in_pods.unavailable, *in_quota.unavailable))
    return objects, explained, list(problems)


def _cache(in_pods: ListedObjects, in_quota: ListedObjects) -> AdmissionCache:
    cache = AdmissionCache()
    for resource in (NAMESPACES, QUEUES, POD_GROUPS):
        for each in in_pods.objects.get(resource, ()):
            cache.applied(resource, each)
    for each in in_quota.objects.get(LOCAL_QUEUES, ()):
        cache.applied(LOCAL_QUEUES, each)
    return cache


class _Units:
    """Makes units of objects. ``found``: those about which everything is known already."""

    def __init__(
        self,
        reader: SubmittedObjects,
        in_pods: ListedObjects,
        in_quota: ListedObjects,
        added: Iterable[tuple[APIResource | None, Object]],
        has_kueue: bool,
    ) -> None:
        self._reader = reader
        self._has_kueue = has_kueue
        new = list(added)
        of_pods = [*in_pods.objects.get(POD_PRIORITY_CLASSES, ()), *(o for r, o in new if r == POD_PRIORITY_CLASSES)]
        of_workloads = [*in_quota.objects.get(PRIORITY_CLASSES, ()), *(o for r, o in new if r == PRIORITY_CLASSES)]
        self._priorities = priorities_of(of_pods)
        self._classes = PriorityClasses(
            {each["metadata"]["name"]: each for each in of_workloads},
            {each["metadata"]["name"]: each for each in of_pods},
        )
        self._present = {
            (each["metadata"].get("namespace"), each["metadata"]["name"]) for each in in_pods.objects.get(PODS, ())
        }
        self.found: list[SubmittedUnit] = []
        self.waiting: list[_Waiting] = []
        self._groups: dict[tuple[str, str], list[Object]] = {}

    def add(self, submitted: SubmittedObject) -> None:
        if submitted.refusal and submitted.role != "cluster":
            self.found.append(SubmittedUnit(submitted.title, "refused", submitted.refusal))
        elif submitted.role == "pod":
            self._add_pods(submitted.title, [submitted.obj], ())
        elif submitted.role == "job" and submitted.job_kind is not None:
            self._add_job(submitted.title, submitted.job_kind, submitted.obj)
        elif submitted.role == "owner":
            self._add_owner(submitted)

    def _add_job(self, title: str, kind: JobKind, job: Object) -> None:
        if self._has_kueue and queue_of(job) and has_suspend_set(kind, job):
            made = new_workload(kind, job, self._classes, admission_gates_of(job))
            if isinstance(made, str):
                self.found.append(SubmittedUnit(title, "refused", f"no Workload would be created for it: {made}"))
            else:
                self.waiting.append(_Waiting(title, workload=_stored(made, job)))
            return
        if has_suspend_set(kind, job):
            reason = "its field suspend is true, and it names no queue that would start it"
            self.found.append(SubmittedUnit(title, "queued", reason))
            return
        pods: list[Object] = []
        for source in pod_set_sources(kind, job):
            template = get_path(job, source.template) or {}
            pods += pods_of_template(job, template, min(source.count(job), _MAX_PODS), self._priorities)
        self._add_new_pods(title, pods)

    def _add_owner(self, submitted: SubmittedObject) -> None:
        spec = submitted.obj.get("spec") or {}
        if submitted.resource == DAEMON_SETS:
            self.found.append(SubmittedUnit(submitted.title, "unknown", "pods of a DaemonSet are not in queues"))
            return
        replicas = spec.get("replicas", 1)
        pods = pods_of_template(submitted.obj, spec.get("template") or {}, min(replicas, _MAX_PODS), self._priorities)
        self._add_new_pods(submitted.title, pods)

    def _add_new_pods(self, title: str, pods: Sequence[Object]) -> None:
        """Pods that a controller would create: they pass admission on their own."""
        admitted, changes = [], dict[str, None]()
        for pod in pods:
            changed, refusal, _, obj = self._reader.admit(PODS, pod)
            if refusal:
                self.found.append(SubmittedUnit(title, "refused", f"its pods: {refusal}"))
                return
            changes.update(dict.fromkeys(f"its pods: {each}" for each in changed))
            admitted.append(obj)
        self._add_pods(title, admitted, tuple(changes))

    def _add_pods(self, title: str, pods: Sequence[Object], changes: tuple[str, ...]) -> None:
        plain = []
        for pod in pods:
            missing = missing_class(pod["spec"], self._priorities)
            metadata = pod["metadata"]
            if missing:
                self.found.append(SubmittedUnit(title, "refused", missing))
                return
            if (metadata["namespace"], metadata["name"]) in self._present:
                self.found.append(SubmittedUnit(title, "refused", f"pod {metadata['name']} exists already"))
                return
            stored = with_priority({**pod, "status": {"phase": "Pending"}}, self._priorities)
            if self._has_kueue and is_managed(stored):
                self._add_managed_pod(title, stored, changes)
            else:
                plain.append(stored_pod(stored, metadata["name"], metadata["uid"]))
        if plain:
            self._add_plain_pods(title, plain, changes)

    def _add_plain_pods(self, title: str, pods: Sequence[Object], changes: tuple[str, ...]) -> None:
        """The pods of one gang are one unit."""
        group = group_of(pods[0])
        if group:
            title = f"gang {pods[0]['metadata']['namespace']}/{group}"
            known = next((each for each in self.waiting if each.title == title), None)
            if known is not None:
                self.waiting.remove(known)
                pods, changes = (*known.pods, *pods), tuple(dict.fromkeys((*known.changes, *changes)))
        self.waiting.append(_Waiting(title, tuple(pods), changes=changes))

    def _add_managed_pod(self, title: str, pod: Object, changes: tuple[str, ...]) -> None:
        group, namespace = kueue_group_of(pod), pod["metadata"]["namespace"]
        if not group:
            key = ("pod", namespace, pod["metadata"]["name"])
            self._add_pod_unit(title, PodUnit(key, (read_managed_pod(pod),)), changes)
            return
        members = self._groups.setdefault((namespace, group), [])
        members.append(pod)
        unit = PodUnit((GROUP, namespace, group), tuple(map(read_managed_pod, members)))
        self.waiting = [each for each in self.waiting if each.title != f"pod group {namespace}/{group}"]
        self.found = [each for each in self.found if each.title != f"pod group {namespace}/{group}"]
        problem = group_workload.find_workload_problem(unit)
        if problem:
            self.found.append(SubmittedUnit(f"pod group {namespace}/{group}", "queued", problem))
        else:
            self._add_pod_unit(f"pod group {namespace}/{group}", unit, changes)

    def _add_pod_unit(self, title: str, unit: PodUnit, changes: tuple[str, ...]) -> None:
        made = group_workload.new_workload(unit, self._classes, group_workload.admission_gates_of_members(unit.members))
        if isinstance(made, str):
            self.found.append(SubmittedUnit(title, "refused", f"no Workload would be created for it: {made}"))
        else:
            self.waiting.append(_Waiting(title, workload=_stored(made, unit.members[0].pod), changes=changes))


def _stored(workload: Object, owner: Object) -> Object:
    metadata = owner["metadata"]
    own = {
        **workload["metadata"],
        "uid": f"workload-of-{metadata['uid']}",
        "creationTimestamp": metadata["creationTimestamp"],
        "generation": 1,
        "resourceVersion": "0",
    }
    return {**workload, "metadata": own, "status": {}}


async def _explain_pods(
    transport: Transport,
    engines: EstimateEngines,
    units: _Units,
    listed: ListedObjects,
    added: Sequence[tuple[APIResource | None, Object]],
    served: tuple[str, ...],
    gated: tuple[str, ...],
    now_s: float,
) -> list[SubmittedUnit]:
    waiting = [each for each in units.waiting if each.pods]
    known = (*served, *gated)
    found = [
        SubmittedUnit(
            each.title,
            "unknown",
            f"its scheduler {_scheduler(each.pods[0])} does not use queues; queues are for {', '.join(known)}",
            each.changes,
        )
        for each in waiting
        if _scheduler(each.pods[0]) not in known
    ]
    waiting = [each for each in waiting if _scheduler(each.pods[0]) in known]
    if not waiting:
        return found
    reason = missing_reason(listed)
    if reason:
        return found + [SubmittedUnit(each.title, "unknown", reason, each.changes) for each in waiting]
    inspection = await perform(transport, inspect_queues(served, gated, now_s))
    read = _apply_to_queues(inspection.queues, added, waiting)
    present = pod_state(listed.objects, now_s)
    new_pods = [pod for each in waiting for pod in each.pods]
    objects = {resource: [*held] for resource, held in listed.objects.items()}
    for resource, obj in added:
        if resource in objects:
            objects[resource].append(obj)
    objects[PODS] += new_pods
    state = pod_state(objects, now_s, Past(present.ended, present.arrivals))
    targets = {
        f"{number}": frozenset(uid for pod in each.pods for uid in targets_of(pod, objects))
        for number, each in enumerate(waiting)
    }
    estimates = pod_starts(engines, state, targets)
    for number, each in enumerate(waiting):
        problem = next((text for pod in each.pods if isinstance(text := read[pod["metadata"]["uid"]], str)), "")
        estimate = estimates[f"{number}"]
        if problem:
            found.append(SubmittedUnit(each.title, "refused", problem, each.changes))
        elif estimate.state == "now":
            reason = f"on node {estimate.place}" if estimate.place else ""
            found.append(SubmittedUnit(each.title, "starts", reason, each.changes, estimate=estimate))
        else:
            pod = each.pods[0]
            info = read[pod["metadata"]["uid"]]
            assert not isinstance(info, str)
            gates = [PodGate(name) for name in gate_names(pod)]
            explanation = explain(pod, inspection.queues, info.shape.requests, gates, known)
            lines = tuple(pod_lines(explanation, now_s))
            found.append(SubmittedUnit(each.title, "queued", "", each.changes, lines, estimate))
    return found


def _apply_to_queues(
    queues: QueueEngine, added: Iterable[tuple[APIResource | None, Object]], waiting: Iterable[_Waiting]
) -> Mapping[str, PodInfo | str]:
    """Adds the objects of the file to the queue engine. Returns the pods as the scheduler reads them, by uid."""
    for resource, obj in added:
        if resource == QUEUES:
            queues.queue_applied(obj)
        elif resource == NAMESPACES:
            queues.namespace_applied(obj)
        elif resource == POD_GROUPS:
            queues.group_applied(obj)
    shapes, read = ShapeTable(), dict[str, PodInfo | str]()
    for each in waiting:
        for pod in each.pods:
            info = read[pod["metadata"]["uid"]] = read_pod(pod, shapes, ANNOTATIONS)
            if not isinstance(info, str):
                queues.task_applied(task_of(info))
    return read


def _scheduler(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("schedulerName") or "default-scheduler")


async def _explain_workloads(
    transport: Transport,
    units: _Units,
    listed: ListedObjects,
    added: Sequence[tuple[APIResource | None, Object]],
    namespace: str,
    now_s: float,
) -> list[SubmittedUnit]:
    waiting = [each for each in units.waiting if each.workload is not None]
    if not waiting:
        return []
    reason = missing_reason(listed)
    if reason:
        return [SubmittedUnit(each.title, "unknown", reason, each.changes) for each in waiting]
    quota = await perform(transport, inspect_quota(namespace, now_s))
    objects = {resource: [*held] for resource, held in listed.objects.items()}
    for resource, obj in added:
        if resource in objects:
            objects[resource].append(obj)
            apply_object(quota.engine, resource, obj, now_s)
    present = workload_state(listed.objects, now_s)
    made = [each.workload for each in waiting if each.workload is not None]
    objects[WORKLOADS] += made
    for workload in made:
        quota.engine.workload_applied(workload, now_s)
    state = workload_state(objects, now_s, Past(present.ended, present.arrivals))
    estimates = workload_starts(state, [workload_key(each) for each in made], objects)
    found = []
    for each, workload in zip(waiting, made, strict=True):
        estimate = estimates[workload_key(workload)]
        if estimate.state == "now":
            reason = f"with quota in ClusterQueue {_cluster_queue(workload, objects)}: {estimate.place}"
            found.append(SubmittedUnit(each.title, "starts", reason, each.changes, estimate=estimate))
            continue
        description = describe_workload(quota.engine, workload, quota.knows_positions, now_s)
        lines = [
            *description_lines(description, now_s, "its workload"),
            *(f"next: {step}" for step in description.next),
        ]
        found.append(SubmittedUnit(each.title, "queued", "", each.changes, tuple(lines), estimate))
    return found


def _cluster_queue(workload: Object, objects: Mapping[APIResource, Sequence[Object]]) -> str:
    namespace, name = workload["metadata"]["namespace"], workload["spec"].get("queueName")
    return next(
        (
            str(each["spec"]["clusterQueue"])
            for each in objects[LOCAL_QUEUES]
            if (each["metadata"]["namespace"], each["metadata"]["name"]) == (namespace, name)
        ),
        "",
    )
