"""The units of objects that do not exist yet (``headgate explain -f``): whether they would start, and if not, why.

The present objects are listed once; the objects of the file are added to them, and the replays of estimates are asked
as if they existed. A unit that waits is explained from the state that the engines reach at once (``settle_pods`` and
``settle_workloads``): there, the units before it have what they get.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from headgate.admission.admission_cache import AdmissionCache
from headgate.admission.settings import AdmissionSettings
from headgate.capacity.api.task import ANNOTATIONS
from headgate.capacity.engine import QueueEngine
from headgate.capacity.explanation import PodGate, explain
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.cli.commands.explain_pod import pod_lines
from headgate.cli.commands.explain_quota import description_lines
from headgate.cli.options.cluster_access import perform
from headgate.cli.wiring.estimates import EstimateEngines, make_quota_controller
from headgate.cli.wiring.expected_starts import (
    WORKLOAD_RESOURCES,
    cluster_queues_of,
    missing_reason,
    pod_starts,
    workload_starts,
)
from headgate.estimates.estimator import StartEstimate
from headgate.estimates.present_state import Past, pod_state, workload_state
from headgate.estimates.server_admission import READ, ServerAdmission
from headgate.estimates.starts import settle_pods, settle_workloads
from headgate.estimates.submission import (
    SubmittedObject,
    SubmittedObjects,
    pods_of_template,
    priorities_of,
    with_priority,
)
from headgate.estimates.units import ENDED, group_of
from headgate.estimates.workload_replay import workload_key
from headgate.http.transport import Transport
from headgate.jobs.framework.workload import PriorityClasses, admission_gates_of, new_workload, queue_of
from headgate.jobs.kinds.job_kind import JobKind, has_suspend_set, job_pod_sets, template_of
from headgate.jobs.names import POD_PRIORITY_CLASSES
from headgate.jobs.pods import group_workload
from headgate.jobs.pods.managed_pod import read_managed_pod
from headgate.jobs.pods.pod_cache import GROUP
from headgate.jobs.pods.pod_metadata import group_of as kueue_group_of
from headgate.jobs.pods.pod_metadata import is_managed
from headgate.jobs.pods.pod_unit import PodUnit
from headgate.jobs.settings import JobSettings
from headgate.kube.api_resources import DAEMON_SETS, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS, APIResource
from headgate.kube.lenient_reader import find_object, find_text
from headgate.kube.scheduling_gates import gate_names
from headgate.kube.schema import Schemas
from headgate.nodes.pod_admission import check, counts_of, requests_of
from headgate.quota.explain.description import describe_workload
from headgate.quota.kinds.names import LOCAL_QUEUES, PRIORITY_CLASSES, WORKLOADS
from headgate.runtime.inspection.listed_objects import SCHEDULED, ListedObjects, list_objects
from headgate.runtime.inspection.queues import apply_pod, inspect_queues
from headgate.runtime.inspection.quota import apply_object, inspect_quota
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.scheduling.gates.capacity_objects import counts_in_queue
from headgate.simulate.job_objects import stored_pod

Object = dict[str, Any]
Outcome = Literal["starts", "queued", "refused", "unknown"]
_MAX_PODS: Final = 1000
"""Of one object."""
_MAX_PODS_OF_FILE: Final = 3000
_MAX_EXPLAINED: Final = 100
"""How many waiting units get all lines. Explaining one takes time in proportion to the units that wait."""


class SubmittedUnit(msgspec.Struct, frozen=True, omit_defaults=True):
    """``reason``: in one sentence. ``changes``: what admission would change of its pods. ``lines``: the explanation, as
    ``headgate explain`` prints it for existing objects."""

    title: str
    outcome: Outcome
    reason: str = ""
    changes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    estimate: StartEstimate | None = None


class _Waiting(msgspec.Struct):
    """A unit that is not refused; pods of its gang are added. ``pods``: in Volcano-style queues; ``workload``: in
    Kueue's. ``count``: how many pods its object has, of which ``pods`` may be the first."""

    title: str
    pods: list[Object] = []
    workload: Object | None = None
    changes: tuple[str, ...] = ()
    count: int = 0


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
    in_accounts = await perform(transport, list_objects((SERVICE_ACCOUNTS,)))
    in_quota = await perform(transport, list_objects((*WORKLOAD_RESOURCES, PRIORITY_CLASSES)))
    has_kueue = WORKLOADS not in in_quota.absent
    settings = AdmissionSettings(
        frozenset((*served, *gated)),
        suspends_jobs=has_kueue,
        jobs=JobSettings(kinds=tuple(kinds)),
    )
    cache = _cache(in_pods, in_quota)
    server = ServerAdmission({**_read_of(in_quota), **_read_of(in_pods), **_read_of(in_accounts)})
    reader = SubmittedObjects(schemas, settings, cache, server, kinds, namespace, now_s)
    objects = list(_read_all(reader, documents))
    added = [(each.resource, each.obj) for each in objects if each.role == "cluster" and not each.refusal]
    units = _Units(reader, in_pods, in_quota, added, has_kueue)
    for each in objects:
        units.add(each)
    units.finish()
    explained = units.found
    explained += await _explain_pods(transport, engines, units, in_pods, added, served, gated, now_s)
    explained += await _explain_workloads(transport, units, in_quota, added, namespace, now_s)
    listed = (*in_pods.unavailable, *in_quota.unavailable, *in_accounts.unavailable)
    problems = [*units.notes, *dict.fromkeys(each.line for each in listed)]
    if not explained:
        problems.append("nothing of the file runs or waits in a queue")
    return objects, explained, problems


def _read_all(reader: SubmittedObjects, documents: Iterable[tuple[str, Any]]) -> Iterator[SubmittedObject]:
    """The objects of the file, and after each CronJob the Job that it makes."""
    for where, document in documents:
        found = reader.read(document, where)
        yield found
        job = reader.job_of(found) if found.role == "cron" and not found.refusal else None
        if job is not None:
            yield job


def _read_of(listed: ListedObjects) -> dict[APIResource, Sequence[Object]]:
    """What the API server's admission plugins read, without the lists that were refused."""
    refused = {each.plural for each in listed.unavailable}
    return {
        resource: listed.objects[resource]
        for resource in READ
        if resource in listed.objects and resource.plural not in refused
    }


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
        self.notes: list[str] = []
        self._pods = 0
        self._gangs: dict[tuple[str, str], _Waiting] = {}
        self._groups: dict[tuple[str, str], tuple[list[Object], dict[str, None]]] = {}

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
            refusal = self._refusal_of_pods(kind, job)
            if refusal:
                self.found.append(SubmittedUnit(title, "refused", f"its pods: {refusal}"))
            elif isinstance(made, str):
                self.found.append(SubmittedUnit(title, "refused", f"no Workload would be created for it: {made}"))
            else:
                self.waiting.append(_Waiting(title, workload=_stored(made, job)))
            return
        if has_suspend_set(kind, job):
            reason = "its field suspend is true, and it names no queue that would start it"
            self.found.append(SubmittedUnit(title, "queued", reason))
            return
        pods: list[Object] = []
        count = 0
        for pod_set in job_pod_sets(kind, job):
            count += pod_set.count
            pods += self._pods_of(job, template_of(job, pod_set), pod_set.count, len(pods))
        self._add_new_pods(title, pods, count)

    def _refusal_of_pods(self, kind: JobKind, job: Object) -> str:
        """Why the API server would refuse the pods of a job, of which it checks one for each template."""
        for pod_set in job_pod_sets(kind, job):
            for pod in pods_of_template(job, template_of(job, pod_set), 1, self._priorities):
                if refusal := self._reader.pod_refusal(pod):
                    return refusal
        return ""

    def _add_owner(self, submitted: SubmittedObject) -> None:
        spec = submitted.obj.get("spec") or {}
        if submitted.resource == DAEMON_SETS:
            self.found.append(SubmittedUnit(submitted.title, "unknown", "pods of a DaemonSet are not in queues"))
            return
        count = spec.get("replicas", 1)
        self._add_new_pods(submitted.title, self._pods_of(submitted.obj, spec.get("template") or {}, count), count)

    def _pods_of(self, owner: Object, template: Object, count: int, first: int = 0) -> list[Object]:
        """Their names are made up, and no other pod has them. ``first``: the number of the first pod."""
        made = pods_of_template(owner, template, min(count, _MAX_PODS), self._priorities, first)
        for pod in made:
            metadata = pod["metadata"]
            while (metadata["namespace"], metadata["name"]) in self._present:
                metadata["name"] += "-new"
        return made

    def _add_new_pods(self, title: str, pods: Sequence[Object], count: int) -> None:
        """Pods that a controller would create: they pass admission on their own."""
        if not count:
            self.notes.append(f"{title}: it asks for no pods now")
        admitted, changes = [], dict[str, None]()
        for pod in pods:
            changed, refusal, _, obj = self._reader.admit(PODS, pod)
            if refusal:
                self.found.append(SubmittedUnit(title, "refused", f"its pods: {refusal}"))
                return
            changes.update(dict.fromkeys(f"its pods: {each}" for each in changed))
            admitted.append(obj)
        self._add_pods(title, admitted, tuple(changes), count)

    def _add_pods(self, title: str, pods: Sequence[Object], changes: tuple[str, ...], count: int = 1) -> None:
        self._pods += len(pods)
        if self._pods > _MAX_PODS_OF_FILE:
            reason = f"it is not looked at: with it, the file has more than {_MAX_PODS_OF_FILE} pods"
            self.found.append(SubmittedUnit(title, "unknown", reason))
            return
        plain = []
        for pod in pods:
            metadata = pod["metadata"]
            key = metadata["namespace"], metadata["name"]
            if key in self._present:
                self.found.append(SubmittedUnit(title, "refused", f"pod {metadata['name']} exists already"))
                return
            self._present.add(key)
            stored = with_priority({**pod, "status": {"phase": "Pending"}}, self._priorities)
            if self._has_kueue and is_managed(stored):
                own_title = title if count == 1 else f"{title}, pod {metadata['name']}"
                self._add_managed_pod(own_title, stored, changes)
            else:
                plain.append(stored_pod(stored, metadata["name"], metadata["uid"]))
        if plain:
            self._add_plain_pods(title, plain, changes, count)

    def _add_plain_pods(self, title: str, pods: Sequence[Object], changes: tuple[str, ...], count: int) -> None:
        """The pods of one gang are one unit."""
        group = group_of(pods[0])
        if not group:
            self.waiting.append(_Waiting(title, [*pods], changes=changes, count=count))
            return
        key = pods[0]["metadata"]["namespace"], group
        gang = self._gangs.get(key)
        if gang is None:
            gang = self._gangs[key] = _Waiting("gang {}/{}".format(*key))
            self.waiting.append(gang)
        gang.pods += pods
        gang.changes += tuple(each for each in changes if each not in gang.changes)
        gang.count += count

    def _add_managed_pod(self, title: str, pod: Object, changes: tuple[str, ...]) -> None:
        group, namespace = kueue_group_of(pod), pod["metadata"]["namespace"]
        if not group:
            key = ("pod", namespace, pod["metadata"]["name"])
            self._add_pod_unit(title, PodUnit(key, (read_managed_pod(pod),)), changes)
            return
        members, known = self._groups.setdefault((namespace, group), ([], {}))
        members.append(pod)
        known.update(dict.fromkeys(changes))

    def finish(self) -> None:
        """Makes the units of pod groups, when all their pods are known."""
        for (namespace, group), (members, changes) in self._groups.items():
            unit = PodUnit((GROUP, namespace, group), tuple(map(read_managed_pod, members)))
            problem = group_workload.find_workload_problem(unit)
            if problem:
                self.found.append(SubmittedUnit(f"pod group {namespace}/{group}", "queued", problem))
            else:
                self._add_pod_unit(f"pod group {namespace}/{group}", unit, tuple(changes))

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
    if not waiting:
        return []
    reason = missing_reason(listed)
    if reason:
        return [SubmittedUnit(each.title, "unknown", reason, each.changes) for each in waiting]
    known = (*served, *gated)
    found, waiting = _placed_and_foreign(waiting, listed.objects, known)
    if not waiting:
        return found
    inspection = await perform(transport, inspect_queues(served, gated, now_s))
    present = pod_state(listed.objects, now_s)
    objects = {resource: [*held] for resource, held in listed.objects.items()}
    for resource, obj in added:
        if resource in objects:
            objects[resource].append(obj)
    objects[PODS] += [pod for each in units.waiting for pod in each.pods]
    state = pod_state(objects, now_s, Past(present.ended, present.arrivals))
    estimates = pod_starts(engines, state, _targets(waiting, objects[PODS]))
    settled = {pod["metadata"]["uid"]: pod for pod in settle_pods(engines.scheduler, state)}
    read = _apply_to_queues(inspection.queues, added, settled, known, served, now_s)
    for number, each in enumerate(waiting):
        pods = [settled.get(pod["metadata"]["uid"], pod) for pod in each.pods]
        problem = next((text for pod in pods if isinstance(text := read.get(pod["metadata"]["uid"]), str)), "")
        estimate = estimates[f"{number}"]
        if problem:
            found.append(SubmittedUnit(each.title, "refused", problem, each.changes))
        elif estimate.state == "now":
            found.append(_started(each, estimate))
        elif number >= _MAX_EXPLAINED:
            reason = f"the first {_MAX_EXPLAINED} objects with pods say why"
            found.append(SubmittedUnit(each.title, "queued", reason, each.changes, estimate=estimate))
        else:
            without_node = [pod for pod in pods if not find_text(pod, "spec", "nodeName")]
            pod = (without_node or pods)[0]
            info = read[pod["metadata"]["uid"]]
            assert not isinstance(info, str)
            gates = [PodGate(name) for name in gate_names(pod)]
            explanation = explain(pod, inspection.queues, info.shape.requests, gates, known)
            lines = (*_counts_of(each, len(pods) - len(without_node)), *pod_lines(explanation, now_s))
            found.append(SubmittedUnit(each.title, "queued", "", each.changes, lines, estimate))
    return found


def _started(unit: _Waiting, estimate: StartEstimate) -> SubmittedUnit:
    """A unit whose pods all get a node at once."""
    if unit.count > len(unit.pods):
        reason = f"the first {len(unit.pods)} of its {unit.count} pods would start now; the others are not looked at"
        return SubmittedUnit(unit.title, "unknown", reason, unit.changes)
    reason = f"on node {estimate.place}" if estimate.place else ""
    return SubmittedUnit(unit.title, "starts", reason, unit.changes, estimate=estimate)


def _counts_of(unit: _Waiting, started: int) -> Iterator[str]:
    """How many pods of the unit start, before the first one that does not is explained."""
    if unit.count > len(unit.pods):
        yield f"only the first {len(unit.pods)} of its {unit.count} pods are looked at"
    if started:
        yield f"{started} of its {unit.count} pods would start now; the next one would wait:"


def _placed_and_foreign(
    units: Iterable[_Waiting], objects: Mapping[APIResource, Sequence[Object]], known: Collection[str]
) -> tuple[list[SubmittedUnit], list[_Waiting]]:
    """The units for which no scheduler of queues decides, and the others."""
    found: list[SubmittedUnit] = []
    waiting: list[_Waiting] = []
    nodes = _NodeUsage(objects)
    for each in units:
        if all(find_text(pod, "spec", "nodeName") for pod in each.pods):
            found.append(nodes.place(each))
        elif _scheduler(each.pods[0]) not in known:
            reason = f"its scheduler {_scheduler(each.pods[0])} does not use queues; queues are for {', '.join(known)}"
            found.append(SubmittedUnit(each.title, "unknown", reason, each.changes))
        else:
            waiting.append(each)
    return found, waiting


class _NodeUsage:
    """Whether the kubelet of a node accepts pods that name their node themselves."""

    def __init__(self, objects: Mapping[APIResource, Sequence[Object]]) -> None:
        self._allocatable = {
            each["metadata"]["name"]: counts_of(find_object(each, "status", "allocatable")) for each in objects[NODES]
        }
        self._used: dict[str, Counter[str]] = {}
        self._pods: Counter[str] = Counter()
        for pod in objects[PODS]:
            if find_text(pod, "spec", "nodeName") and find_text(pod, "status", "phase") not in ENDED:
                self._count(pod)

    def _count(self, pod: Object) -> None:
        node = find_text(pod, "spec", "nodeName")
        self._pods[node] += 1
        self._used.setdefault(node, Counter()).update(requests_of(pod))

    def place(self, unit: _Waiting) -> SubmittedUnit:
        for pod in unit.pods:
            node = find_text(pod, "spec", "nodeName")
            if node not in self._allocatable:
                reason = f"its spec.nodeName is {node}, and there is no such node: the pod garbage collector deletes it"
                return SubmittedUnit(unit.title, "refused", reason, unit.changes)
            used = self._used.get(node, Counter())
            rejection = check(requests_of(pod), used, self._pods[node], self._allocatable[node])
            if rejection is not None:
                reason = f"its spec.nodeName is {node}, whose kubelet rejects it: {rejection.message}"
                return SubmittedUnit(unit.title, "refused", reason, unit.changes)
            self._count(pod)
        nodes = ", ".join(dict.fromkeys(find_text(pod, "spec", "nodeName") for pod in unit.pods))
        reason = f"on node {nodes}, which its spec.nodeName names: no scheduler and no queue is asked"
        return SubmittedUnit(unit.title, "starts", reason, unit.changes)


def _targets(units: Sequence[_Waiting], pods: Iterable[Object]) -> dict[str, frozenset[str]]:
    """The pods of each unit that need a node, by its number; of a gang also the pods that exist."""
    by_group: dict[tuple[str, str], set[str]] = {}
    for pod in pods:
        group = group_of(pod)
        if group and not find_text(pod, "spec", "nodeName") and find_text(pod, "status", "phase") not in ENDED:
            by_group.setdefault((find_text(pod, "metadata", "namespace"), group), set()).add(pod["metadata"]["uid"])
    found = {}
    for number, each in enumerate(units):
        first = each.pods[0]
        own = {pod["metadata"]["uid"] for pod in each.pods if not find_text(pod, "spec", "nodeName")}
        found[f"{number}"] = frozenset(by_group.get((find_text(first, "metadata", "namespace"), group_of(first)), own))
    return found


def _apply_to_queues(
    queues: QueueEngine,
    added: Iterable[tuple[APIResource | None, Object]],
    settled: Mapping[str, Object],
    known: Collection[str],
    served: Collection[str],
    now_s: float,
) -> Mapping[str, PodInfo | str]:
    """Brings the queue engine to the state in which the replay leaves the cluster. Returns the pods as the scheduler
    reads them, by uid."""
    for resource, obj in added:
        if resource == QUEUES:
            queues.queue_applied(obj)
        elif resource == NAMESPACES:
            queues.namespace_applied(obj)
        elif resource == POD_GROUPS:
            queues.group_applied(obj)
    shapes, read = ShapeTable(), dict[str, PodInfo | str]()
    for uid, pod in settled.items():
        if _scheduler(pod) not in known:
            continue
        info = read[uid] = read_pod(pod, shapes, ANNOTATIONS)
        if not isinstance(info, str) and (info.scheduler_name in served or counts_in_queue(info)):
            apply_pod(queues, info, served, now_s)
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
    state = workload_state(objects, now_s, Past(present.ended, present.arrivals))
    estimates = workload_starts(state, [workload_key(each) for each in made], objects)
    settled = {workload_key(each): each for each in settle_workloads(make_quota_controller, state)}
    for workload in settled.values():
        quota.engine.workload_applied(workload, now_s)
    cluster_queues = cluster_queues_of(objects)
    found = []
    for number, (each, given) in enumerate(zip(waiting, made, strict=True)):
        workload = settled.get(workload_key(given), given)
        estimate = estimates[workload_key(workload)]
        if estimate.state == "now":
            queue = cluster_queues.get((workload["metadata"]["namespace"], workload["spec"].get("queueName")), "")
            reason = f"with quota in ClusterQueue {queue}: {estimate.place}"
            found.append(SubmittedUnit(each.title, "starts", reason, each.changes, estimate=estimate))
            continue
        if number >= _MAX_EXPLAINED:
            reason = f"the first {_MAX_EXPLAINED} objects with a Workload say why"
            found.append(SubmittedUnit(each.title, "queued", reason, each.changes, estimate=estimate))
            continue
        description = describe_workload(quota.engine, workload, quota.knows_positions, now_s)
        lines = [
            *description_lines(description, now_s, "its workload"),
            *(f"next: {step}" for step in description.next),
        ]
        found.append(SubmittedUnit(each.title, "queued", "", each.changes, tuple(lines), estimate))
    return found
