"""Jobs of a trace in Kueue's queues: they are Jobs of Kubernetes, with the controllers of quota, of managed jobs and of
Jobs.

The controllers create the Workload and the pods and start and stop them; this module does what users, kubelets and the
garbage collector do: it creates the Job, ends its pods, and removes a finished Job with its pods and its Workload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from headgate.controllers.framework.reconcile import Controller
from headgate.jobs.names import POD_PRIORITY_CLASSES
from headgate.kube import conditions
from headgate.kube.api_resources import JOBS, NAMESPACES, PODS, APIResource
from headgate.kube.timestamps import format_time
from headgate.quota.kinds.names import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    PRIORITY_CLASSES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)
from headgate.quota.names import ADMITTED, FINISHED
from headgate.simulate import job_objects
from headgate.simulate.cluster_state import Change, ClusterState
from headgate.simulate.controller_driver import ControllerDriver, VirtualAPI
from headgate.simulate.job_objects import NewObjects
from headgate.simulate.job_records import JobRecord, SimulatedPod
from headgate.simulate.measurements import Measurements
from headgate.simulate.trace import TraceError

Object = dict[str, Any]

_SERVED: Final = (
    (JOBS, "Job"),
    (PODS, "Pod"),
    (NAMESPACES, "Namespace"),
    (POD_PRIORITY_CLASSES, "PriorityClass"),
    (RESOURCE_FLAVORS, "ResourceFlavor"),
    (CLUSTER_QUEUES, "ClusterQueue"),
    (COHORTS, "Cohort"),
    (LOCAL_QUEUES, "LocalQueue"),
    (WORKLOADS, "Workload"),
    (PRIORITY_CLASSES, "WorkloadPriorityClass"),
)


class SimulatedCluster(Protocol):
    """What this module uses of ``simulation.py``. ``pods``: the records of pods by uid."""

    now_s: float
    measurements: Measurements
    pods: dict[str, SimulatedPod]

    @property
    def state(self) -> ClusterState: ...

    @property
    def new_objects(self) -> NewObjects: ...

    def log(self, what: str, name: str, job: str = "", node: str = "") -> None: ...

    def stop_pod(self, pod: Object) -> None: ...

    def job_ended(self, record: JobRecord) -> None: ...

    def create(self, resource: APIResource, obj: Object) -> None: ...


class KueueJobs:
    """Implements ``RequestHooks`` of ``controller_driver.py``."""

    def __init__(self, host: SimulatedCluster, controllers: Iterable[Controller], now_s: Callable[[], float]) -> None:
        self._host = host
        self._jobs: dict[str, JobRecord] = {}  # by namespace/name
        self._admitted: dict[str, str] = {}  # by Workload: since when
        self._pods_of: dict[str, list[str]] = {}  # by Job
        self.api = VirtualAPI(host.state, self, now_s)
        self.controllers = ControllerDriver(controllers, host.state, self.api, _SERVED, now_s)
        host.state.watch(JOBS, self._observe_job)
        host.state.watch(WORKLOADS, self._observe_workload)

    def submit(self, record: JobRecord, scheduler_name: str, priority: int) -> None:
        """A user creates the Job."""
        job, host = record.job, self._host
        if priority and not job.priority_class and not host.state.get(PRIORITY_CLASSES, "", f"priority-{priority}"):
            host.create(PRIORITY_CLASSES, job_objects.workload_priority_class(priority))
        if host.state.get(JOBS, job.namespace, job.name) is not None:
            raise TraceError(f"job {job.name}: a Job {job.namespace}/{job.name} exists already: rename the job")
        self._jobs[f"{job.namespace}/{job.name}"] = record
        response = self.api.create(JOBS, job.namespace, job_objects.kueue_job(job, scheduler_name, priority))
        if not response.ok:
            raise TraceError(f"job {job.name}: {response.message}")

    def created(self, resource: APIResource, obj: Object) -> Object:
        """A controller or a user creates an object."""
        if resource == JOBS:
            return _with_job_labels(self._host.new_objects.admit(JOBS, obj, self._host.now_s))
        if resource == PODS:
            stored = self._host.new_objects.admit(PODS, obj, self._host.now_s)
            metadata = stored["metadata"]
            owner = metadata["ownerReferences"][0]["name"]
            record = self._jobs[f"{metadata['namespace']}/{owner}"]
            self._host.pods[metadata["uid"]] = SimulatedPod(record, metadata["name"], 0, 0)
            self._pods_of.setdefault(f"{metadata['namespace']}/{owner}", []).append(metadata["name"])
            return job_objects.stored_pod({**stored, "status": {"phase": "Pending"}}, metadata["name"], metadata["uid"])
        return {"status": {}, **self._dated(resource, obj)}

    def _dated(self, resource: APIResource, obj: Object) -> Object:
        """The Workload of a job that was submitted before the start is as old as its job: queues are in that order."""
        if resource != WORKLOADS:
            return obj
        metadata = obj["metadata"]
        owner = (metadata.get("ownerReferences") or [{}])[0].get("name", "")
        record = self._jobs.get(f"{metadata['namespace']}/{owner}")
        if record is None or record.submit_s >= self._host.now_s:
            return obj
        return {**obj, "metadata": {**metadata, "creationTimestamp": format_time(record.submit_s)}}

    def delete_pod(self, pod: Object) -> None:
        """A controller deletes a pod: its workload was evicted."""
        record = self._host.pods.get(pod["metadata"]["uid"])
        if record is None or pod["status"].get("phase") in ("Succeeded", "Failed"):
            self._host.state.remove(PODS, pod)
            self._host.pods.pop(pod["metadata"]["uid"], None)
            return
        if not record.is_stopping:
            self._host.measurements.evictions += 1
            self._host.log("evicted", pod["metadata"]["name"], record.record.job.name, record.node)
        self._host.stop_pod(pod)

    def succeed(self, pod: Object) -> None:
        """The pod has run as long as the trace says."""
        status = {**pod["status"], "phase": "Succeeded", "containerStatuses": [_terminated(pod, self._host.now_s, 0)]}
        self._host.state.put(PODS, {**pod, "metadata": dict(pod["metadata"]), "status": status})

    def fail(self, pod: Object) -> None:
        """A deleted pod has stopped: it is removed when its finalizers are."""
        metadata = {**pod["metadata"]}
        metadata.setdefault("deletionTimestamp", format_time(self._host.now_s))
        status = {**pod["status"], "phase": "Failed", "containerStatuses": [_terminated(pod, self._host.now_s, 137)]}
        stored = self._host.state.put(PODS, {**pod, "metadata": metadata, "status": status})
        self.api.remove_if_released(PODS, stored)

    def _observe_job(self, change: Change) -> None:
        """A finished job is counted."""
        if change.gone:
            return
        metadata = change.obj["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        record = self._jobs.get(key)
        if record is not None and conditions.is_true(change.obj["status"].get("conditions"), "Complete"):
            self._host.job_ended(record)
            del self._jobs[key]

    def _observe_workload(self, change: Change) -> None:
        if change.gone:
            return
        listed = change.obj.get("status", {}).get("conditions")
        owner = (change.obj["metadata"].get("ownerReferences") or [{}])[0].get("name", "")
        if conditions.is_true(listed, FINISHED):
            self._remove_finished(change.obj, owner)
        elif conditions.is_true(listed, ADMITTED) and owner:
            self._workload_admitted(change.obj, owner)

    def _workload_admitted(self, workload: Object, owner: str) -> None:
        since = conditions.find(workload["status"]["conditions"], ADMITTED)
        assert since is not None
        name = workload["metadata"]["name"]
        if self._admitted.get(name) != since.get("lastTransitionTime"):
            self._admitted[name] = since.get("lastTransitionTime") or ""
            self._host.measurements.admissions += 1
            self._host.log("admitted", owner, owner)

    def _remove_finished(self, workload: Object, owner: str) -> None:
        """The user, or the TTL controller, deletes a finished job; its pods and its Workload go with it."""
        namespace = workload["metadata"]["namespace"]
        job = self._host.state.get(JOBS, namespace, owner)
        if job is None or not conditions.is_true(job["status"].get("conditions"), "Complete"):
            return
        self._admitted.pop(workload["metadata"]["name"], None)
        for name in self._pods_of.pop(f"{namespace}/{owner}", ()):
            pod = self._host.state.get(PODS, namespace, name)
            if pod is not None:
                self._host.pods.pop(pod["metadata"]["uid"], None)
                self._host.state.remove(PODS, pod)
        self._host.state.remove(WORKLOADS, workload)
        self._host.state.remove(JOBS, job)


def _with_job_labels(job: Object) -> Object:
    """The selector and the labels that the API server adds to a Job."""
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    added = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    spec = job["spec"]
    template = spec["template"]
    metadata = {**template["metadata"], "labels": {**template["metadata"].get("labels", {}), **added}}
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    return {**job, "spec": {**spec, "selector": selector, "template": {**template, "metadata": metadata}}}


def _terminated(pod: Object, now_s: float, exit_code: int) -> Mapping[str, Any]:
    finished = {"exitCode": exit_code, "finishedAt": format_time(now_s)}
    return {"name": pod["spec"]["containers"][0]["name"], "state": {"terminated": finished}}
