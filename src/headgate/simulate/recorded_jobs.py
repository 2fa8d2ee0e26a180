"""Jobs of a trace from the pods and Workloads of a recording, and what the recording does not say about them.

In Volcano's queues each pod is a job of the trace; pods of a gang name their PodGroup, which the simulation creates
when it was created. In Kueue's queues each Workload is a job. Pods outside of queues are jobs without a queue. Remarks
name what is left out and what is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from statistics import median
from typing import Any, Final

import msgspec

from headgate.audit.pod_facts import PodFacts
from headgate.capacity.api.task import ANNOTATIONS
from headgate.capacity.names import GROUP_NAMES, LAPSED, QUEUE_NAME, STAMP
from headgate.jobs.names import POD_SET_LABEL
from headgate.kube.pods.requests import pod_requests
from headgate.kube.resource_amounts import as_text, as_units
from headgate.recording.changes import Object
from headgate.simulate.job_objects import Queueing
from headgate.simulate.pod_objects import RUN_FOR
from headgate.simulate.recorded_pods import PodHistory
from headgate.simulate.recorded_workloads import WorkloadHistory
from headgate.simulate.trace import TraceJob

_KEPT: Final = ANNOTATIONS - {STAMP, LAPSED, QUEUE_NAME}
_NAMED: Final = 10
_CLAIM: Final = "persistentVolumeClaim"


class RecordedWindow(msgspec.Struct, frozen=True):
    """What the jobs are read for. ``queue_of``: the queue of a pod; empty for a pod outside of queues. ``queues``: by
    namespace (empty for Volcano's) and name. ``groups``: the PodGroups of the recording, by namespace and name."""

    start_s: float
    end_s: float
    queueing: Queueing
    queue_of: Callable[[PodFacts], str]
    queues: Collection[tuple[str, str]]
    groups: Collection[tuple[str, str]]


class RecordedJobs(msgspec.Struct, frozen=True):
    """``jobs``: by submission. ``running``: pods that are bound at the start; the annotation ``headgate.dev/run-for``
    says how long they run from their binding on; without it they run until the end."""

    jobs: tuple[TraceJob, ...]
    running: tuple[Object, ...]
    remarks: tuple[str, ...]


class Remarks:
    """Collects names under texts. A text has ``{}`` for the number of the names."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}

    def add(self, text: str, name: str) -> None:
        self._names.setdefault(text, []).append(name)

    def texts(self) -> tuple[str, ...]:
        return tuple(f"{text.format(len(names))}: {_shown(names)}" for text, names in self._names.items())


def _shown(names: list[str]) -> str:
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


def recorded_jobs(
    pods: Iterable[PodHistory], workloads: Iterable[WorkloadHistory], window: RecordedWindow
) -> RecordedJobs:
    return _JobReader(list(pods), list(workloads), window).read()


class _JobReader:
    def __init__(self, pods: list[PodHistory], workloads: list[WorkloadHistory], window: RecordedWindow) -> None:
        self._pods = pods
        self._workloads = workloads if window.queueing == "kueue" else []
        self._window = window
        self._remarks = Remarks()
        self._requests: dict[tuple[tuple[str, int], ...], dict[str, str]] = {}
        self._jobs: list[TraceJob] = []
        self._running: list[Object] = []
        self._run_times: dict[str, list[float]] = {}  # of ended jobs, by queue
        self._unknown: list[int] = []  # jobs that had not started at the end

    def read(self) -> RecordedJobs:
        managed = frozenset[str]().union(*(each.owners for each in self._workloads))
        for pod in self._pods:
            if pod.replaces is None and not pod.facts.is_daemon and not self._is_managed(pod, managed):
                self._read_pod(_alive_at(pod, self._window.start_s))
        bindings: dict[str, list[float]] = {}
        for pod in self._pods:
            if pod.bound_s is not None:
                for uid in {pod.facts.owner, pod.facts.uid} & managed:
                    bindings.setdefault(uid, []).append(pod.bound_s)
        for workload in self._workloads:
            self._read_workload(workload, bindings)
        self._assume_run_times()
        first_s = min((each.submit for each in self._jobs), default=0.0)
        jobs = [
            msgspec.structs.replace(each, submit=min(first_s, 0.0)) if each.started else each for each in self._jobs
        ]
        jobs.sort(key=lambda each: (each.submit, not each.started))
        return RecordedJobs(tuple(jobs), tuple(self._running), self._remarks.texts())

    def _is_managed(self, pod: PodHistory, managed: Collection[str]) -> bool:
        if self._window.queueing != "kueue":
            return False
        facts = pod.facts
        if facts.owner in managed or facts.uid in managed:
            return True
        labels = pod.obj["metadata"].get("labels") or {}
        is_managed = bool(facts.kueue_queue or facts.kueue_group or facts.is_kueue_managed or POD_SET_LABEL in labels)
        if is_managed and pod.bound_s is not None and not self._workloads:
            self._remarks.add("{} pods belong to Kueue and have no Workload in the recording: left out", _name(facts))
        return is_managed

    # Pods

    def _read_pod(self, pod: PodHistory | None) -> None:
        if pod is None:
            return  # it had ended before the start
        facts, window, last = pod.facts, self._window, pod.last
        queue = window.queue_of(facts) if window.queueing == "volcano" else ""
        problem = self._problem_of(queue, last)
        if problem:
            self._remarks.add(f"{{}} pods {problem}: left out", _name(facts))
            return
        self._remark_on(pod, last)
        is_endless = last.bound_s is not None and last.ended_s is None
        run_s = round(last.run_s(window.end_s), 3)
        if pod.bound_s is not None and pod.bound_s <= window.start_s:
            self._running.append(_running_pod(pod, None if is_endless else run_s, queue))
            return
        if last.bound_s is None:
            self._unknown.append(len(self._jobs))
        elif not is_endless:
            self._run_times.setdefault(queue, []).append(run_s)
        self._jobs.append(self._job_of_pod(pod, queue, run_s, is_endless))

    def _problem_of(self, queue: str, last: PodHistory) -> str:
        if queue and ("", queue) not in self._window.queues:
            return f"are in the queue {queue}, which does not exist"
        if last.bound_s is None and last.ended_s is not None:
            return "were deleted before they ran"
        if last.bound_s is None and last.is_held:
            return "were behind a gate of another component until the end"
        return ""

    def _remark_on(self, pod: PodHistory, last: PodHistory) -> None:
        name = _name(pod.facts)
        if last.bound_s is not None and last.ended_s is None:
            self._remarks.add(
                "{} pods still ran at the end of the recording, so their run time is unknown: they run until the end",
                name,
            )
        if last.is_interrupted:
            self._remarks.add("{} pods were interrupted and not created again: their run time is what they ran", name)
        if any(_CLAIM in each for each in pod.obj["spec"].get("volumes") or ()):
            self._remarks.add("{} pods have volume claims, which are not simulated", name)
        if any(each.get("hostPort") for container in _containers(pod.obj) for each in container.get("ports") or ()):
            self._remarks.add("{} pods have host ports, which are not simulated", name)

    def _job_of_pod(self, pod: PodHistory, queue: str, run_s: float, is_endless: bool) -> TraceJob:
        facts, spec, metadata = pod.facts, pod.obj["spec"], pod.obj["metadata"]
        annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key in _KEPT}
        if not queue or (facts.group and (facts.namespace, facts.group) not in self._window.groups):
            if queue:
                self._remarks.add(
                    "{} pods name a PodGroup that is not in the recording: each runs on its own", facts.name
                )
            annotations = {key: text for key, text in annotations.items() if key not in GROUP_NAMES}
        return TraceJob(
            submit=round(pod.arrived_s - self._window.start_s, 3),
            run=run_s,
            queue=queue,
            requests=self._requests_of(facts.requests),
            name=facts.name if pod.number == 1 else f"{facts.name}-{pod.number}",
            namespace=facts.namespace,
            priority=facts.priority,
            class_=pod.kind,
            user=facts.owner,
            node_selector=spec.get("nodeSelector") or {},
            tolerations=tuple(_own_tolerations(spec)),
            annotations=annotations,
            labels=metadata.get("labels") or {},
            affinity=spec.get("affinity") or {},
            topology_spread_constraints=tuple(spec.get("topologySpreadConstraints") or ()),
            preemption_policy="Never" if spec.get("preemptionPolicy") == "Never" else "",
            endless=is_endless,
        )

    def _requests_of(self, amounts: Mapping[str, int]) -> dict[str, str]:
        """Jobs with equal requests share them: a recording may have a million."""
        key = tuple(sorted(amounts.items()))
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = {name: as_text(name, amount) for name, amount in key}
        return found

    def _assume_run_times(self) -> None:
        """Gives the jobs that had not started at the end the median of their queue."""
        everything = [each for values in self._run_times.values() for each in values]
        for index in self._unknown:
            job = self._jobs[index]
            known = self._run_times.get(job.queue) or everything
            if known:
                self._remarks.add(
                    "{} jobs had not started at the end, so their run time is unknown: they run for the median of the"
                    " jobs that ended in their queue, or in all queues",
                    f"{job.namespace}/{job.name}",
                )
            else:
                self._remarks.add(
                    "{} jobs had not started at the end, and no job ended: they run until the end",
                    f"{job.namespace}/{job.name}",
                )
            run_s = round(median(known), 3) if known else 0.0
            self._jobs[index] = msgspec.structs.replace(job, run=run_s, endless=not known)

    # Workloads

    def _read_workload(self, workload: WorkloadHistory, bindings: Mapping[str, list[float]]) -> None:
        window, metadata, spec = self._window, workload.obj["metadata"], workload.obj.get("spec") or {}
        if workload.ended_s is not None and workload.ended_s <= window.start_s:
            return
        namespace, queue = str(metadata.get("namespace") or ""), str(spec.get("queueName") or "")
        name = f"{namespace}/{metadata['name']}"
        problem = ""
        if (namespace, queue) not in window.queues:
            problem = f"are in the LocalQueue {queue}, which does not exist"
        elif len(workload.pod_sets) != 1:
            problem = "have several pod sets, which are not simulated"
        elif workload.ended_s is not None and not workload.was_admitted:
            problem = "ended before they were admitted"
        if problem:
            self._remarks.add(f"{{}} Workloads {problem}: left out", name)
            return
        is_endless = workload.was_admitted and workload.ended_s is None
        if is_endless:
            self._remarks.add(
                "{} Workloads were not finished at the end of the recording, so their run time is unknown: they run"
                " until the end",
                name,
            )
        from_s = _started_s(workload, bindings)
        is_started = from_s is not None and from_s <= window.start_s
        until_s = window.end_s if workload.ended_s is None else workload.ended_s
        begin_s = window.start_s if is_started else from_s
        run_s = 0.0 if begin_s is None else round(max(until_s - begin_s, 0.0), 3)
        if begin_s is None:
            self._unknown.append(len(self._jobs))
        elif not is_endless and not is_started:
            self._run_times.setdefault(queue, []).append(run_s)
        self._jobs.append(self._job_of_workload(workload, queue, run_s, is_endless, is_started))

    def _job_of_workload(
        self, workload: WorkloadHistory, queue: str, run_s: float, is_endless: bool, is_started: bool
    ) -> TraceJob:
        metadata, (pod_set,) = workload.obj["metadata"], workload.pod_sets
        spec = (pod_set.get("template") or {}).get("spec") or {}
        requests = {name: amount for name, amount in as_units(pod_requests({"spec": spec})).items() if amount}
        return TraceJob(
            submit=round(workload.arrived_s - self._window.start_s, 3),
            run=run_s,
            queue=queue,
            requests=self._requests_of(requests),
            name=str(metadata["name"]),
            namespace=str(metadata.get("namespace") or ""),
            pods=max(int(pod_set.get("count") or 1), 1),
            priority=int((workload.obj.get("spec") or {}).get("priority") or 0),
            class_=workload.kind,
            user=workload.owner,
            node_selector=spec.get("nodeSelector") or {},
            tolerations=tuple(spec.get("tolerations") or ()),
            affinity=spec.get("affinity") or {},
            topology_spread_constraints=tuple(spec.get("topologySpreadConstraints") or ()),
            endless=is_endless,
            started=is_started,
        )


def _started_s(workload: WorkloadHistory, bindings: Mapping[str, list[float]]) -> float | None:
    """When the last pod of the present admission got its node, or the admission, if no pod is known."""
    if workload.admitted_s is None:
        return None
    until_s = workload.ended_s
    bound = [
        at_s
        for uid in workload.owners
        for at_s in bindings.get(uid, ())
        if at_s >= workload.admitted_s and (until_s is None or at_s <= until_s)
    ]
    count = int(workload.pod_sets[0].get("count") or 1)
    return sorted(bound)[min(count, len(bound)) - 1] if bound else workload.admitted_s


def _alive_at(pod: PodHistory, start_s: float) -> PodHistory | None:
    """The attempt that exists at the start, or the first one after it."""
    found: PodHistory | None = pod
    while found is not None and found.ended_s is not None and found.ended_s <= start_s:
        found = found.successor
    return found


def _running_pod(pod: PodHistory, run_s: float | None, queue: str) -> Object:
    metadata = pod.obj["metadata"]
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key in ANNOTATIONS}
    if queue:
        annotations[QUEUE_NAME] = queue
    if run_s is not None:
        annotations[RUN_FOR] = f"{run_s:.3f}s"
    return {**pod.obj, "kind": "Pod", "apiVersion": "v1", "metadata": {**metadata, "annotations": annotations}}


def _own_tolerations(spec: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Without those that the API server adds to every pod."""
    for each in spec.get("tolerations") or ():
        if each.get("tolerationSeconds") is None:
            yield each


def _containers(obj: Object) -> Iterable[Mapping[str, Any]]:
    for field in ("containers", "initContainers"):
        yield from obj["spec"].get(field) or ()


def _name(facts: PodFacts) -> str:
    return f"{facts.namespace}/{facts.name}"
