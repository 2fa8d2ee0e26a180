"""Objects of the built-in job kinds, their definitions, and a scripted operator that writes their status in a World.

No program of these kinds runs here. The operator follows the field that suspends an object, as the real ones do: it
reports pods while the object runs, and an end for objects with the annotation ``ENDS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from embedded import Embedded
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import ALL_FIELDS, Controller, Done, Enqueue, ReconcileSteps, WatchSpec
from headgate.jobs.kinds.framework_kinds import FRAMEWORK_KINDS
from headgate.jobs.kinds.job_kind import JobKind, has_suspend_set
from headgate.jobs.settings import DEFAULT_FRAMEWORKS, JobSettings, managed_kinds
from headgate.kube.api_resources import APIResource

Object = dict[str, Any]
ENDS = "example.com/ends"
"""The condition or the status that an object gets after it has run."""
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def a_template(cpu: str = "1", **spec: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}


def _job_set(pods: int) -> Object:
    job = {"template": {"spec": {"template": a_template(), "parallelism": pods - 1, "completions": pods - 1}}}
    leader = {"template": {"spec": {"template": a_template()}}}
    return {"replicatedJobs": [{"name": "Leader", **leader}, {"name": "workers", "replicas": 1, **job}]}


def _ray_cluster(pods: int) -> Object:
    group = {"groupName": "small", "replicas": pods - 1, "numOfHosts": 1, "template": a_template()}
    return {"headGroupSpec": {"rayStartParams": {}, "template": a_template()}, "workerGroupSpecs": [group]}


def _ray_job(pods: int) -> Object:
    cluster = _ray_cluster(pods)
    return {"rayClusterSpec": cluster, "shutdownAfterJobFinishes": True, "submissionMode": "HTTPMode"}


def _training_job(replica_specs: str, leader: str) -> Callable[[int], Object]:
    def spec(pods: int) -> Object:
        workers = {"replicas": pods - 1, "template": a_template()}
        return {replica_specs: {"Worker": workers, leader: {"template": a_template()}}}

    return spec


TRAINING_JOBS: dict[str, tuple[str, str]] = {
    "PyTorchJob": ("pytorchReplicaSpecs", "Master"),
    "TFJob": ("tfReplicaSpecs", "Chief"),
    "XGBoostJob": ("xgbReplicaSpecs", "Master"),
    "PaddleJob": ("paddleReplicaSpecs", "Master"),
    "JAXJob": ("jaxReplicaSpecs", "Leader"),
    "MPIJob": ("mpiReplicaSpecs", "Launcher"),
}
SPECS: dict[str, Callable[[int], Object]] = {
    "JobSet": _job_set,
    "RayJob": _ray_job,
    "RayCluster": _ray_cluster,
    **{name: _training_job(*how) for name, how in TRAINING_JOBS.items()},
}
"""By kind: the spec of an object with so many pods of one CPU each, at least two."""


def _job_set_status(obj: Object, end: str) -> Object:
    ended = {"status": "True", "reason": "AllJobsEnded", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    done = [{"type": end, "message": f"it said {end}", **ended}] if end else []
    is_active = not has_suspend_set(kind_of("JobSet"), obj) and not end
    jobs = [
        {
            "name": each["name"],
            "active": int(is_active),
            "ready": int(is_active),
            "succeeded": 0,
            "failed": 0,
            "suspended": 0,
        }
        for each in obj["spec"]["replicatedJobs"]
    ]
    return {"replicatedJobsStatus": jobs, **({"conditions": done} if done else {})}


def _ray_job_status(obj: Object, end: str) -> Object:
    if end:
        result = {"jobStatus": end, "message": f"it said {end}"}
        return {"jobDeploymentStatus": "Complete" if end == "SUCCEEDED" else "Failed", **result}
    if obj["spec"].get("suspend"):
        return {"jobDeploymentStatus": "Suspended"}
    return {"jobDeploymentStatus": "Running", "rayClusterStatus": {"state": "ready"}}


def _ray_cluster_status(obj: Object, end: str) -> Object:
    return {"state": "suspended" if obj["spec"].get("suspend") else "ready"}


def _training_job_status(name: str) -> Callable[[Object, str], Object]:
    def status(obj: Object, end: str) -> Object:
        is_active = not has_suspend_set(kind_of(name), obj) and not end
        replicas = {each: {"active": int(is_active)} for each in obj["spec"][TRAINING_JOBS[name][0]]}
        running = {"type": "Running", "status": str(is_active)}
        ended = [{"type": end, "status": "True", "message": f"it said {end}"}] if end else []
        return {"replicaStatuses": replicas, "conditions": [running, *ended]}

    return status


STATUS: dict[str, Callable[[Object, str], Object]] = {
    "JobSet": _job_set_status,
    "RayJob": _ray_job_status,
    "RayCluster": _ray_cluster_status,
    **{name: _training_job_status(name) for name in TRAINING_JOBS},
}
"""By kind: the status of an object, and what it says if the object has ended."""
SUCCESS = {"JobSet": "Completed", "RayJob": "SUCCEEDED", **dict.fromkeys(TRAINING_JOBS, "Succeeded")}
FAILURE = {"JobSet": "Failed", "RayJob": "FAILED", **dict.fromkeys(TRAINING_JOBS, "Failed")}


def kind_of(name: str) -> JobKind:
    return next(each for each in FRAMEWORK_KINDS if each.kind.kind == name)


def path_of(name: str) -> str:
    return kind_of(name).resource.collection_path("ns")


def definition(name: str) -> Object:
    """The CustomResourceDefinition of a kind, with any fields."""
    kind = kind_of(name)
    group, version, plural = kind.kind.group, kind.kind.version, kind.resource.plural
    schema = {"type": "object", "properties": {"spec": _ANYTHING, "status": _ANYTHING}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": name.lower(), "kind": name},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def an_object(name: str, of: str, pods: int = 2, priority: str = "", queue: str = "lq", end: str = "") -> Object:
    """``of``: the kind."""
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    metadata: Object = {"name": name, "labels": labels, "annotations": {ENDS: end} if end else {}}
    return {"apiVersion": kind_of(of).kind.api_version, "kind": of, "metadata": metadata, "spec": SPECS[of](pods)}


def settings(*names: str, **more: Any) -> JobSettings:
    """The settings with these kinds turned on."""
    frameworks = (*DEFAULT_FRAMEWORKS, *(kind_of(each).integration for each in names))
    return JobSettings(kinds=managed_kinds(frameworks, ()), frameworks=frozenset(frameworks), **more)


class ScriptedOperator(Controller):
    """Writes straight to the server: it is a process of its own, and not under test."""

    name = "scripted operator"

    def __init__(self, server: Embedded, kind: str) -> None:
        self._server = server
        self._kind = kind_of(kind)
        self._objects: dict[tuple[str, str], Object] = {}
        self._is_served = False

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._is_served = self._kind.resource in {row.resource for row in served.by_name.values()}
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        return (WatchSpec(self._kind.resource, ALL_FIELDS),) if self._is_served else ()

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        place = obj["metadata"]["namespace"], obj["metadata"]["name"]
        self._objects[place] = obj
        return (Enqueue(place),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        self._objects.pop((namespace, name), None)
        return ()

    def reconcile(self, key: tuple[str, str], now_s: float) -> ReconcileSteps:
        obj = self._objects.get(key)
        if obj is not None:
            before = obj.get("status") or {}
            has_run = not has_suspend_set(self._kind, obj) or _has_ended(before)
            end = (obj["metadata"].get("annotations") or {}).get(ENDS, "") if has_run else ""
            status = STATUS[self._kind.kind.kind](obj, end)
            if status != before:
                body = {"status": {**dict.fromkeys(before), **status}}
                self._server.patch(self._kind.resource.object_path(*key, "status"), body)
        yield from ()
        return Done()


def _has_ended(status: Object) -> bool:
    ends = (*SUCCESS.values(), *FAILURE.values())
    has_condition = any(each["type"] in ends for each in status.get("conditions") or ())
    return has_condition or status.get("jobDeploymentStatus") in ("Complete", "Failed")


def operator_of(kind: str) -> Callable[[Embedded], Controller]:
    return lambda server: ScriptedOperator(server, kind)


def encoded(obj: Any) -> bytes:
    """The bytes of a value, for comparisons that no conversion hides."""
    return msgspec.json.encode(obj, order="deterministic")
