"""The API objects of a job of a trace: pods and their PodGroup in Volcano's queues, or a Job in Kueue's queues.

New objects pass Headgate's admission handlers (``admission/steps.py``), as they do in a cluster: these add the queue
gate to pods and suspend jobs. Equal pods are admitted once; their handlers read nothing but the pod, its queue and its
namespace.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from headgate.admission.admission_cache import AdmissionCache
from headgate.admission.admission_review import AdmissionRequest
from headgate.admission.settings import AdmissionSettings
from headgate.admission.steps import AdmissionStep, enabled_steps
from headgate.apimachinery.patch.json_patch import apply_json_patch
from headgate.apimachinery.patch.result import PatchResult
from headgate.capacity.names import GROUP_NAMES, POD_GROUPS, QUEUE_NAME
from headgate.jobs.names import PRIORITY_CLASS
from headgate.jobs.names import QUEUE_NAME as KUEUE_QUEUE_NAME
from headgate.kube import conditions, scheduling_gates
from headgate.kube.api_resources import APIResource
from headgate.kube.timestamps import format_time
from headgate.quota.kinds.names import API_VERSION as KUEUE_API_VERSION
from headgate.simulate.trace import TraceJob

Object = dict[str, Any]

Queueing = Literal["volcano", "kueue"]
_IMAGE: Final = "simulated"
_GRACE_S: Final = 30
_USER: Final = "simulation"
_BACKOFF_LIMIT: Final = 1_000_000
"""Pods of a trace do not fail, so a Job must not fail because its pods are preempted often."""


class AdmissionRefused(ValueError):
    """An admission handler refused an object."""


class NewObjects:
    """Passes new objects through the admission handlers."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self.cache: Final = AdmissionCache()
        self._settings: Final = settings
        self._steps: Final[dict[APIResource, list[AdmissionStep]]] = {}
        for step in enabled_steps(settings):
            if "CREATE" in step.operations and not step.subresource:
                self._steps.setdefault(step.resource, []).append(step)
        for steps in self._steps.values():
            steps.sort(key=lambda each: not each.mutates)

    def admit(self, resource: APIResource, obj: Object, now_s: float) -> Object:
        """The object as it is stored. It raises :class:`AdmissionRefused`."""
        metadata = obj["metadata"]
        for step in self._steps.get(resource, ()):
            request = AdmissionRequest(
                operation="CREATE",
                resource=resource.plural,
                namespace=metadata.get("namespace") or "",
                name=metadata["name"],
                user=_USER,
                obj=obj,
                now_s=now_s,
            )
            response = step.handle(request, self._settings, self.cache)
            if response.refusal:
                raise AdmissionRefused(f"{obj.get('kind')} {metadata['name']} is refused: {response.refusal}")
            if response.patch:
                patched = apply_json_patch(obj, list(response.patch), strict_decoding=False)
                assert isinstance(patched, PatchResult), patched
                obj = patched.value
        return obj


def pod_template(job: TraceJob, scheduler_name: str, priority: int, group: str, now_s: float) -> Object:
    """A pod of the job in Volcano's queues, without its name. ``group``: its PodGroup; empty if it has none."""
    annotations = dict(job.annotations)
    if job.queue:
        annotations[QUEUE_NAME] = job.queue
    if group:
        annotations[GROUP_NAMES[0]] = group
    spec = _pod_spec(job, priority)
    spec["schedulerName"] = scheduler_name
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "creationTimestamp": format_time(now_s),
            "generation": 1,
            **({"labels": dict(job.labels)} if job.labels else {}),
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _pod_spec(job: TraceJob, priority: int) -> Object:
    spec: Object = {
        "containers": [{"name": "main", "image": _IMAGE, "resources": {"requests": dict(job.requests)}}],
        "priority": priority,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE_S,
    }
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if job.node_selector:
        spec["nodeSelector"] = dict(job.node_selector)
    if job.tolerations:
        spec["tolerations"] = [dict(each) for each in job.tolerations]
    if job.affinity:
        spec["affinity"] = dict(job.affinity)
    if job.topology_spread_constraints:
        spec["topologySpreadConstraints"] = [dict(each) for each in job.topology_spread_constraints]
    if job.preemption_policy:
        spec["preemptionPolicy"] = job.preemption_policy
    return spec


def stored_pod(template: Object, name: str, uid: str) -> Object:
    """A new pod as the API server stores it: gated pods have the condition that says so."""
    status = template["status"]
    if template["spec"].get("schedulingGates"):
        gated = {
            "type": conditions.POD_SCHEDULED,
            "status": "False",
            "reason": scheduling_gates.SCHEDULING_GATED,
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": template["metadata"]["creationTimestamp"],
        }
        status = {**status, "conditions": [gated]}
    metadata = {**template["metadata"], "name": name, "uid": uid}
    return {**template, "metadata": metadata, "status": status}


def pod_group(job: TraceJob, priority_class: str, uid: str, now_s: float) -> Object:
    spec: Object = {"minMember": job.min_pods, "queue": job.queue}
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {
        "apiVersion": f"{POD_GROUPS.group}/{POD_GROUPS.version}",
        "kind": "PodGroup",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "uid": uid,
            "creationTimestamp": format_time(now_s),
        },
        "spec": spec,
        "status": {},
    }


def workload_priority_class(priority: int) -> Object:
    """The class of jobs that the trace gives a number as their priority."""
    return {
        "apiVersion": KUEUE_API_VERSION,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": f"priority-{priority}"},
        "value": priority,
    }


def kueue_job(job: TraceJob, scheduler_name: str, priority: int) -> Object:
    """A Job in Kueue's queues, as its user writes it, with the defaults of the API server."""
    labels = {**job.labels, KUEUE_QUEUE_NAME: job.queue}
    if priority and not job.priority_class:
        labels[PRIORITY_CLASS] = f"priority-{priority}"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "labels": labels,
            **({"annotations": dict(job.annotations)} if job.annotations else {}),
        },
        "spec": {
            "parallelism": job.pods,
            "completions": job.pods,
            "completionMode": "NonIndexed",
            "backoffLimit": _BACKOFF_LIMIT,
            "podReplacementPolicy": "TerminatingOrFailed",
            "suspend": False,
            "template": {"metadata": {}, "spec": {**_pod_spec(job, priority), "schedulerName": scheduler_name}},
        },
        "status": {},
    }


def queue_kind(queueing: Queueing) -> str:
    return "LocalQueue" if queueing == "kueue" else "Queue"
