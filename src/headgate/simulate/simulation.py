"""Runs one trace through the engines on a virtual clock.

Events (a job arrives, a pod ends, a terminating pod is gone, a machine is Ready) are in a heap. All events of one
moment are applied to the cluster state; then the engines decide until none of them has anything left to do; then the
clock is set to the next event or to the next deadline of an engine. The engines are those of ``headgate up``; the
drivers (``scheduler_driver.py``, ``autoscaler_driver.py``, ``controller_driver.py``) perform their writes. Nodes,
kubelets and the users are models: a bound pod runs for the time that the trace says, and the owner of a preempted pod
creates it again.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

import msgspec

from headgate.admission.settings import AdmissionSettings
from headgate.capacity.names import OPT_IN, POD_GROUPS, QUEUE_NAME, QUEUES
from headgate.controllers.framework.reconcile import Controller
from headgate.jobs.names import POD_PRIORITY_CLASSES
from headgate.kube import conditions, quantity
from headgate.kube.api_resources import JOBS, NAMESPACES, NODES, PODS, APIResource
from headgate.kube.pods.requests import pod_requests
from headgate.kube.resource_amounts import as_units, units
from headgate.kube.timestamps import format_time
from headgate.quota.kinds.names import LOCAL_QUEUES, WORKLOADS
from headgate.scheduling.scheduler import Scheduler
from headgate.simulate import job_objects, pod_objects
from headgate.simulate.autoscaler_driver import AutoscalerDriver, ready_node
from headgate.simulate.cluster_changes import ClusterChanges
from headgate.simulate.cluster_state import ClusterState
from headgate.simulate.job_objects import AdmissionRefused, NewObjects, Queueing
from headgate.simulate.job_records import JobRecord, SimulatedPod
from headgate.simulate.kueue_jobs import KueueJobs
from headgate.simulate.measurements import Measurements, amounts_of, measured_resources
from headgate.simulate.scheduler_driver import SchedulerDriver
from headgate.simulate.settings import Settings, make_autoscaler, prices_of
from headgate.simulate.snapshot import Snapshot, SnapshotError
from headgate.simulate.trace import TraceError, TraceJob

Object = dict[str, Any]

START_S: Final = 1_700_006_400.0
"""The start of a simulation in seconds since 1970: a midnight, since loads follow the time of day. That of a recording
starts when the recording did."""
OUTSIDE_QUEUES: Final = "default-scheduler"
"""The scheduler of pods outside of queues."""
_SAMPLE_S: Final = 60.0
_IDLE_LIMIT_S: Final = 7200.0
"""How long a simulation goes on after the last event of its own. Longer than any back-off of an engine or a model."""
_MIN_STEP_S: Final = 0.001
_MAX_TEMPLATES: Final = 4096
_END, _GONE, _READY, _CHANGE, _ARRIVAL = range(5)
"""The kinds of events, in the order in which events of one moment are applied."""


class SimulationStopped(Exception):
    """The caller stopped the simulation."""


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One thing that happened, ``at`` seconds after the start. ``what``: submitted, admitted, bound, preempted,
    evicted, ended, machine-added, machine-ready or machine-removed."""

    at: float
    what: str
    name: str
    job: str = ""
    node: str = ""


class Engines(Protocol):
    """Makes the engines of one simulation. ``now_s`` returns the virtual time."""

    def scheduler(self, now_s: Callable[[], float], report: Callable[[str], None]) -> Scheduler: ...

    def controllers(self, random_suffix: Callable[[], str]) -> Iterable[Controller]:
        """The controllers of Kueue's queues and of Jobs."""


class SimulationInput(msgspec.Struct, frozen=True):
    """``scheduler_name``: of all pods of the trace. ``queueing``: which kind of queues the trace names. ``end_s``: stop
    at this time, although jobs run or wait; ``None``: when all jobs have ended."""

    snapshot: Snapshot
    settings: Settings
    policy: AdmissionSettings
    engines: Engines
    scheduler_name: str
    queueing: Queueing
    end_s: float | None = None

    def scheduler_of(self, queue: str) -> str:
        """The scheduler of pods in this queue. Pods outside of queues have one that knows no queues."""
        return self.scheduler_name if queue else OUTSIDE_QUEUES


def _queue_keys(snapshot: Snapshot) -> set[tuple[str, str]]:
    """Volcano's Queues by name, LocalQueues by namespace and name; those that exist later, too."""
    found = {("", obj["metadata"]["name"]) for obj in snapshot.ever(QUEUES)}
    return found | {(obj["metadata"]["namespace"], obj["metadata"]["name"]) for obj in snapshot.ever(LOCAL_QUEUES)}


class Simulation:
    """``journal``: receives everything that happens, in order. ``problems``: messages of the engines, without
    repetitions."""

    def __init__(self, given: SimulationInput, journal: Callable[[JournalEntry], None] | None = None) -> None:
        self.start_s = given.snapshot.recorded_from_s or START_S
        self.now_s = self.start_s
        self.problems: dict[str, None] = {}
        self.submitted_jobs = 0
        self.ended_jobs = 0
        self.endless_jobs = 0
        self._given = given
        self._settings = given.settings
        self._journal = journal
        self.state = state = ClusterState()
        self.new_objects = NewObjects(given.policy)
        self.pods: dict[str, SimulatedPod] = {}  # by uid
        self._events: list[tuple[float, int, int, Any]] = []
        self._numbers = itertools.count(1)
        self._last_own_event_s = self.start_s
        self._are_all_submitted = False
        self._templates: dict[Any, Object] = {}
        self._not_ready: dict[str, None] = {}
        self._priorities: dict[str, int] = {}
        self._later = iter(given.snapshot.later)
        self._queue_keys = _queue_keys(given.snapshot)
        self._namespaces: set[str] = set()
        self.measurements = Measurements(
            measured_resources(list(self._all_resources())), prices_of(given.settings), self.start_s, _SAMPLE_S
        )
        self._changes = ClusterChanges(self)
        now_s = self._now
        self._kueue: KueueJobs | None = None
        if given.queueing == "kueue":
            self._kueue = KueueJobs(self, given.engines.controllers(self._random_suffix), now_s)
        self._scheduler = SchedulerDriver(given.engines.scheduler(now_s, self._report), state, self, now_s)
        model = make_autoscaler(given.settings)
        self._autoscaler = None if model is None else AutoscalerDriver(model, state, self, now_s)
        self._create_snapshot()

    @property
    def elapsed_s(self) -> float:
        """Virtual time since the start."""
        return self.now_s - self.start_s

    def live_objects(self) -> int:
        """The number of pods, groups, Jobs and Workloads of the trace that exist."""
        return sum(len(self.state.objects(each)) for each in (PODS, POD_GROUPS, JOBS, WORKLOADS))

    def _now(self) -> float:
        return self.now_s

    def _report(self, problem: str) -> None:
        self.problems.setdefault(problem)

    def _random_suffix(self) -> str:
        """Names of pods of Jobs end in a number instead of random letters."""
        return f"{next(self._numbers):05d}"

    def _all_resources(self) -> Iterator[str]:
        for node in self._given.snapshot.ever(NODES):
            yield from amounts_of(node)
        if self._settings.autoscaler is not None:
            for group in self._settings.autoscaler.groups:
                for each in group.machine_types:
                    yield from each.resources

    # Start

    def _create_snapshot(self) -> None:
        snapshot = self._given.snapshot
        named = {obj["metadata"].get("namespace") for _, obj in snapshot.objects} - {None}
        declared = {obj["metadata"]["name"] for obj in snapshot.of(NAMESPACES)}
        for name in sorted({"default", *named} - declared):
            self._create_namespace(name)
        for resource, obj in snapshot.objects:
            self.create(resource, obj)
        self.state.deliver()
        if self._autoscaler is not None:
            self._autoscaler.start()

    def _create_namespace(self, name: str) -> None:
        labels = {"kubernetes.io/metadata.name": name}
        self.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})

    def create(self, resource: APIResource, obj: Object) -> None:
        metadata = {**obj["metadata"], "uid": f"{resource.plural}-{next(self._numbers)}"}
        metadata.setdefault("creationTimestamp", format_time(self.now_s))
        metadata.setdefault("generation", 1)
        try:
            stored = self.new_objects.admit(resource, {**obj, "metadata": metadata}, self.now_s)
        except AdmissionRefused as refused:
            raise SnapshotError(str(refused)) from refused
        is_recorded = self._given.snapshot.recorded_from_s is not None
        if resource == NODES and not is_recorded:
            stored = ready_node(stored, self.now_s)
        elif resource == PODS:
            stored = {"status": {"phase": "Running"}, **stored}
            if is_recorded and self.state.get(NODES, "", obj["spec"]["nodeName"]) is None:
                self._create_without_node(stored)
                return
        elif resource == POD_PRIORITY_CLASSES:
            self._priorities[metadata["name"]] = int(obj.get("value") or 0)
        elif resource == NAMESPACES:
            self._namespaces.add(metadata["name"])
        stored = self.state.put(resource, stored)
        self.new_objects.cache.applied(resource, stored)
        if resource == NODES:
            self._machine_added(stored, is_bought=self.now_s > self.start_s)
            if conditions.is_true(stored["status"]["conditions"], "Ready"):
                self._machine_ready(stored)
        elif resource == PODS:
            self._adopt_pod(stored)

    def _adopt_pod(self, pod: Object) -> None:
        """A pod of the snapshot holds its node for as long as it says, or until the end."""
        node = pod["spec"]["nodeName"]
        if self.state.get(NODES, "", node) is None:
            raise SnapshotError(f"Pod {pod['metadata']['name']} is on node {node}, which is not in the snapshot")
        record = self._record_of(pod)
        found = self.pods[pod["metadata"]["uid"]] = SimulatedPod(record, record.job.name, 0, 0)
        group = pod_objects.group_of(pod)
        if group is not None:
            self._changes.member_created(group)
        found.node, found.bound_s = node, min(pod_objects.started_s(pod) or self.now_s, self.now_s)
        found.is_daemon = pod_objects.belongs_to_node(pod)
        record.placed = 1
        self.measurements.pod_bound(record.job.queue, node, record.vector, self.now_s)
        if not record.job.endless:
            self._push(max(found.bound_s + record.job.run, self.now_s), _END, pod["metadata"]["uid"])

    def _create_without_node(self, pod: Object) -> None:
        """A recorded pod whose node is not simulated waits for another one. Pods that belong to their node do not."""
        if not pod_objects.belongs_to_node(pod):
            record = self._record_of(pod)
            self._create_pod(record, record.job.name, 0, 0)

    def _record_of(self, pod: Object) -> JobRecord:
        """A job that consists of a pod of the snapshot."""
        metadata, requests = pod["metadata"], as_units(pod_requests(pod))
        run_s = pod_objects.run_seconds(pod)
        job = TraceJob(
            submit=0.0,
            run=run_s or 0.0,
            queue=(metadata.get("annotations") or {}).get(QUEUE_NAME, ""),
            requests={},
            name=metadata["name"],
            namespace=metadata["namespace"],
            endless=run_s is None,
            started=True,
        )
        record = JobRecord(job, self.measurements.vector_of(requests), self.now_s)
        created = pod_objects.without_node(pod, self._given.scheduler_of(job.queue))
        if self._settings.gates is False:
            created["metadata"]["annotations"].pop(OPT_IN, None)
        record.template = self.new_objects.admit(PODS, created, self.now_s)
        return record

    def remove_bound_pod(self, pod: Object) -> None:
        record = self.pods.pop(pod["metadata"]["uid"], None)
        if record is not None:
            self._leaves_node(record)
        self.state.remove(PODS, pod)

    # The loop

    def run(
        self,
        jobs: Iterable[TraceJob],
        on_progress: Callable[[Simulation], bool] = lambda simulation: True,
    ) -> None:
        """Runs the whole trace. ``on_progress`` is called after each batch of events; if it returns False, the
        simulation stops with :class:`SimulationStopped`."""
        arrivals = iter(jobs)
        self._push_arrival(arrivals)
        self._push_change()
        next_sample_s, end_s = self.start_s, self._given.end_s
        limit_s = math.inf if end_s is None else self.start_s + end_s
        self._settle()
        while True:
            at_s = self._next_s()
            if at_s is None:
                break
            if at_s > limit_s:
                self.now_s = limit_s
                break
            while next_sample_s <= at_s:
                self.measurements.sample(next_sample_s)
                next_sample_s += self.measurements.sample_s
            self.now_s = at_s
            events = self._events
            while events and events[0][0] <= at_s:
                _, kind, _, payload = heapq.heappop(events)
                self._last_own_event_s = at_s
                if kind == _END:
                    self._pod_ends(payload)
                elif kind == _GONE:
                    self._pod_gone(payload)
                elif kind == _READY:
                    self._booted(payload)
                elif kind == _CHANGE:
                    self._changes.apply(payload)
                    self._push_change()
                else:
                    self._job_arrives(payload)
                    self._push_arrival(arrivals)
            self._settle()
            if not on_progress(self):
                raise SimulationStopped
            if self._are_all_submitted and self.ended_jobs + self.endless_jobs == self.submitted_jobs:
                break
        if not self.measurements.capacity_until_last_arrival:
            self.measurements.arrivals_ended(self.now_s)
        self.measurements.sample(self.now_s)
        self.measurements.ended(self.now_s)

    def _next_s(self) -> float | None:
        """The next event, or the next deadline of an engine. Deadlines of engines alone do not keep a simulation going
        for ever: an autoscaler has one every few seconds."""
        engines = [self._scheduler.next_deadline_s()]
        if self._autoscaler is not None:
            engines.append(self._autoscaler.next_deadline_s())
        if self._kueue is not None:
            engines.append(self._kueue.controllers.next_deadline_s())
        deadline_s = min((each for each in engines if each is not None), default=None)
        if deadline_s is not None:
            deadline_s = max(deadline_s, self.now_s + _MIN_STEP_S)
        if self._events:
            return self._events[0][0] if deadline_s is None else min(self._events[0][0], deadline_s)
        if deadline_s is None or deadline_s > self._last_own_event_s + _IDLE_LIMIT_S:
            return None
        return deadline_s

    def _settle(self) -> None:
        """Lets the engines decide until nothing changes."""
        state, busy = self.state, True
        while busy:
            busy = state.deliver()
            if self._kueue is not None:
                busy |= self._kueue.controllers.step()
                state.deliver()
            busy |= self._scheduler.step()
            state.deliver()
            if self._autoscaler is not None:
                busy |= self._autoscaler.step()

    def _push(self, at_s: float, kind: int, payload: Any) -> None:
        heapq.heappush(self._events, (at_s, kind, next(self._numbers), payload))

    def _push_arrival(self, arrivals: Iterator[TraceJob]) -> None:
        job = next(arrivals, None)
        if job is not None:
            self._push(max(self.start_s + job.submit, self.now_s), _ARRIVAL, job)
        else:
            self._are_all_submitted = True
            self.measurements.arrivals_ended(self.now_s)

    def _push_change(self) -> None:
        change = next(self._later, None)
        if change is not None:
            self._push(self.start_s + change.at_s, _CHANGE, change)

    def log(self, what: str, name: str, job: str = "", node: str = "") -> None:
        if self._journal is not None:
            self._journal(JournalEntry(round(self.elapsed_s, 3), what, name, job, node))

    # Jobs

    def _job_arrives(self, job: TraceJob) -> None:
        is_kueue = self._kueue is not None
        if job.queue and ((job.namespace if is_kueue else ""), job.queue) not in self._queue_keys:
            kind = job_objects.queue_kind(self._given.queueing)
            raise TraceError(f"job {job.name}: its {kind} {job.queue!r} is not in the snapshot")
        if job.namespace not in self._namespaces:
            self._create_namespace(job.namespace)
        if not job.started:
            self.submitted_jobs += 1
            self.endless_jobs += job.endless
        is_plain = not is_kueue or not job.queue
        requests = {name: units(name, quantity.amount(text)) for name, text in job.requests.items()}
        submit_s = min(self.start_s + job.submit, self.now_s)
        record = JobRecord(job, self.measurements.vector_of(requests), submit_s, is_plain=is_plain)
        if not job.started:
            self.measurements.job_submitted(job.queue, job.class_, job.pods, record.vector, self.now_s)
            self.log("submitted", job.name, job.name)
        if self._kueue is not None and not is_plain:
            self._kueue.submit(record, self._given.scheduler_name, self._priority_of(job))
        else:
            self._create_pods(record)

    def _priority_of(self, job: TraceJob) -> int:
        if not job.priority_class:
            return job.priority
        found = self._priorities.get(job.priority_class)
        if found is None:
            raise TraceError(f"job {job.name}: PriorityClass {job.priority_class!r} is not in the snapshot")
        return found

    def _create_pods(self, record: JobRecord) -> None:
        job, priority = record.job, self._priority_of(record.job)
        if job.min_pods:
            uid = f"group-{next(self._numbers)}"
            self._require_new(job, POD_GROUPS, "PodGroup", job.name)
            group = job_objects.pod_group(job, job.priority_class, uid, self.now_s)
            record.group = self.state.put(POD_GROUPS, self.new_objects.admit(POD_GROUPS, group, self.now_s))
            self.new_objects.cache.applied(POD_GROUPS, record.group)
        record.template = self._template(record, priority)
        width = len(str(job.pods - 1))
        for number in range(job.pods):
            name = job.name if job.pods == 1 else f"{job.name}-{number:0{width}d}"
            self._create_pod(record, name, number, 0)

    def _template(self, record: JobRecord, priority: int) -> Object:
        job = record.job
        scheduler_name = self._given.scheduler_of(job.queue)
        if self._given.settings.gates is False and OPT_IN in job.annotations:
            annotations = {key: text for key, text in job.annotations.items() if key != OPT_IN}
            job = msgspec.structs.replace(job, annotations=annotations)
        if record.group is not None:
            made = job_objects.pod_template(job, scheduler_name, priority, job.name, self.now_s)
            return self.new_objects.admit(PODS, made, self.now_s)
        key = (
            *(job.queue, job.namespace, priority, job.priority_class, tuple(job.requests.items())),
            *(tuple(each.items()) for each in (job.annotations, job.labels, job.node_selector)),
            msgspec.json.encode((job.tolerations, job.affinity, job.topology_spread_constraints, job.preemption_policy))
            if job.tolerations or job.affinity or job.topology_spread_constraints or job.preemption_policy
            else b"",
        )
        found = self._templates.get(key)
        if found is None:
            if len(self._templates) >= _MAX_TEMPLATES:
                del self._templates[next(iter(self._templates))]
            made = job_objects.pod_template(job, scheduler_name, priority, "", self.now_s)
            found = self._templates[key] = self.new_objects.admit(PODS, made, self.now_s)
        return found

    def _require_new(self, job: TraceJob, resource: APIResource, kind: str, name: str) -> None:
        if self.state.get(resource, job.namespace, name) is not None:
            raise TraceError(f"job {job.name}: a {kind} {job.namespace}/{name} exists already: rename the job")

    def _create_pod(self, record: JobRecord, name: str, number: int, attempt: int) -> None:
        template = record.template
        assert template is not None
        uid = f"pod-{next(self._numbers)}"
        shown_name = f"{name}-r{attempt}" if attempt else name
        created_s = self.now_s if attempt else min(record.submit_s, self.now_s)
        dated = {**template["metadata"], "creationTimestamp": format_time(created_s)}
        self._require_new(record.job, PODS, "Pod", shown_name)
        self.pods[uid] = SimulatedPod(record, name, number, attempt)
        stored = self.state.put(PODS, job_objects.stored_pod({**template, "metadata": dated}, shown_name, uid))
        group = pod_objects.group_of(stored)
        if group is not None:
            self._changes.member_created(group)

    # Pods: called by the scheduler's driver

    def pod_admitted(self, pod: Object, now_s: float) -> None:
        self.measurements.admissions += 1
        record = self.pods[pod["metadata"]["uid"]]
        self.log("admitted", pod["metadata"]["name"], record.record.job.name)

    def pod_bound(self, pod: Object, node_name: str, now_s: float) -> None:
        metadata = pod["metadata"]
        record = self.pods[metadata["uid"]]
        job = record.record
        record.node, record.bound_s = node_name, now_s
        self.measurements.pod_bound(job.job.queue, node_name, job.vector, now_s)
        self.log("bound", metadata["name"], job.job.name, node_name)
        if not job.job.endless:
            self._push(now_s + self._settings.start_seconds + job.job.run, _END, metadata["uid"])
        job.placed += 1
        if job.placed == job.job.pods and not job.has_started:
            job.has_started = True
            self.measurements.job_started(job.job.queue, job.job.class_, now_s - job.submit_s)

    def pod_evicted(self, pod: Object, now_s: float) -> None:
        """The scheduler preempts the pod."""
        self.measurements.preemptions += 1
        record = self.pods[pod["metadata"]["uid"]]
        self.log("preempted", pod["metadata"]["name"], record.record.job.name, record.node)
        self.stop_pod(pod, preempted=True)

    def stop_pod(self, pod: Object, *, preempted: bool = False) -> None:
        """Begins to terminate a pod. A pod without a node is gone at once."""
        uid = pod["metadata"]["uid"]
        record = self.pods[uid]
        if record.is_stopping:
            return
        record.is_stopping = True
        if not record.node:
            self._push(self.now_s, _GONE, uid)
            return
        grace_s = float(pod["spec"].get("terminationGracePeriodSeconds") or 0)
        run_from_s = record.bound_s + self._settings.start_seconds
        self.measurements.lost_run_s += max(self.now_s - run_from_s, 0.0)
        stopped = pod_objects.terminating(pod, self.now_s + grace_s, grace_s, self.now_s, preempted=preempted)
        self.state.put(PODS, stopped)
        self._push(self.now_s + min(self._settings.stop_seconds, grace_s), _GONE, uid)

    def _current(self, uid: str) -> Object:
        record = self.pods[uid]
        name = f"{record.name}-r{record.attempt}" if record.attempt else record.name
        found = self.state.get(PODS, record.record.job.namespace, name)
        assert found is not None, name
        return found

    def _pod_ends(self, uid: str) -> None:
        record = self.pods.get(uid)
        if record is None or record.is_stopping:
            return  # it was preempted before its end
        job, pod = record.record, self._current(uid)
        self._leaves_node(record)
        self.measurements.pods_ended += 1
        job.ended += 1
        self.log("ended", pod["metadata"]["name"], job.job.name, record.node)
        if self._kueue is not None and not job.is_plain:
            self._kueue.succeed(pod)
            self._changes.pod_left(record.node)
            return
        del self.pods[uid]
        self._remove_pod(pod)
        self._changes.pod_left(record.node)
        if job.ended == job.job.pods:
            if job.group is not None:
                self.state.remove(POD_GROUPS, job.group)
                self.new_objects.cache.removed(POD_GROUPS, job.job.namespace, job.job.name)
            self.job_ended(job)

    def _leaves_node(self, record: SimulatedPod) -> None:
        job = record.record
        self.measurements.pod_gone(job.job.queue, record.node, job.vector, self.now_s)

    def _remove_pod(self, pod: Object) -> None:
        self.state.remove(PODS, pod)
        group = pod_objects.group_of(pod)
        if group is not None:
            self._changes.member_gone(group)

    def job_ended(self, record: JobRecord) -> None:
        job = record.job
        if record.is_background:
            return
        self.ended_jobs += 1
        self.measurements.job_ended(job.queue, job.class_, self.now_s - record.submit_s, job.run)

    def _pod_gone(self, uid: str) -> None:
        """A terminating pod has stopped. Its owner creates it again."""
        pod = self._current(uid)
        record = self.pods.pop(uid)
        if record.node:
            self._leaves_node(record)
            record.record.placed -= 1
        if self._kueue is not None and not record.record.is_plain:
            self._kueue.fail(pod)
        elif record.is_daemon:
            self.state.remove(PODS, pod)
        else:
            self._create_pod(record.record, record.name, record.number, record.attempt + 1)
            self._remove_pod(pod)
        self._changes.pod_left(record.node)

    # Machines: called by the autoscaler's driver

    def machine_ordered(self, node: Object, now_s: float) -> None:
        autoscaler = self._settings.autoscaler
        assert autoscaler is not None
        self._machine_added(node, is_bought=True)
        self._not_ready[node["metadata"]["name"]] = None
        self._push(now_s + autoscaler.boot_seconds, _READY, node["metadata"]["name"])

    def machine_deleted(self, node: Object, now_s: float) -> None:
        name = node["metadata"]["name"]
        self._not_ready.pop(name, None)
        self.log("machine-removed", name)
        self.measurements.machine_removed(node, now_s)
        self.state.remove(NODES, node)

    def _booted(self, name: str) -> None:
        node = self.state.get(NODES, "", name)
        if node is None or name not in self._not_ready:
            return
        del self._not_ready[name]
        self._machine_ready(self.state.put(NODES, ready_node(node, self.now_s)))

    def _machine_added(self, node: Object, *, is_bought: bool) -> None:
        self.measurements.machine_added(node, self.now_s, is_bought=is_bought)
        self.log("machine-added", node["metadata"]["name"], node="bought" if is_bought else "")

    def _machine_ready(self, node: Object) -> None:
        self.measurements.machine_ready(node, self.now_s)
        self.log("machine-ready", node["metadata"]["name"])
