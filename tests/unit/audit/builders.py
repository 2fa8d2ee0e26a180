"""Short forms of objects and changes for the tests of single rules."""

from __future__ import annotations

import json
from typing import Any

from headgate.audit.auditor import AuditResult, AuditSettings, audit
from headgate.capacity.names import GATE, OPT_IN, QUEUE_NAME, STAMP
from headgate.jobs.names import ADMISSION_GATE, MANAGED
from headgate.jobs.names import QUEUE_NAME as LOCAL_QUEUE
from headgate.kube.timestamps import format_micro_time, format_time
from headgate.recording.changes import RecordedChange

Object = dict[str, Any]

START_S = 1_700_000_000.0
HOUR_S = 3600.0
PODS, NODES, QUEUES = "pods", "nodes", "queues.scheduling.volcano.sh"
POD_GROUPS = "podgroups.scheduling.volcano.sh"
WORKLOADS, CLUSTER_QUEUES = "workloads.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io"
FLAVORS, JOBS, CLAIMS = "resourceflavors.kueue.x-k8s.io", "jobs.batch", "nodeclaims.karpenter.sh"


class Told:
    """A history that is told change by change."""

    def __init__(self) -> None:
        self.changes: list[RecordedChange] = []
        self.now_s = START_S
        self.revision = 100

    def put(self, resource: str, obj: Object, *, observed: bool = True, deleted: bool = False) -> Object:
        self.revision += 1
        copy: Object = json.loads(json.dumps(obj))
        copy["metadata"]["resourceVersion"] = str(self.revision)
        self.changes.append(RecordedChange(resource, copy, self.now_s, self.revision, deleted, observed, self.now_s))
        return obj

    def delete(self, resource: str, obj: Object) -> None:
        self.put(resource, obj, deleted=True)

    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    def audit(self, settings: AuditSettings | None = None) -> AuditResult:
        result = audit(self.changes, settings or AuditSettings(), self.now_s)
        assert result.unreadable == ()
        return result

    def rules(self) -> list[str]:
        return [each.rule for each in self.audit().certain]


def a_pod(name: str = "a", cpu: str = "1", *gates: str, queue: str = "team", node: str = "", **status: Any) -> Object:
    annotations = {OPT_IN: "true", QUEUE_NAME: queue} if queue else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "creationTimestamp": format_time(START_S),
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": "headgate",
            "nodeName": node,
            "schedulingGates": [{"name": each} for each in gates],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": "Pending", **status},
    }


def a_kueue_pod(name: str = "a", *gates: str, node: str = "") -> Object:
    pod = a_pod(name, "1", *(gates or (ADMISSION_GATE,)), queue="", node=node)
    pod["metadata"] |= {"labels": {LOCAL_QUEUE: "lq", MANAGED: "true"}, "finalizers": [MANAGED]}
    return pod


def promise(pod: Object, at_s: float = START_S) -> Object:
    """Removes the gate and adds the stamp."""
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    queue = pod["metadata"]["annotations"][QUEUE_NAME]
    stamp = {"uid": pod["metadata"]["uid"], "queue": queue, "requests": requests, "at": format_micro_time(at_s)}
    pod["metadata"]["annotations"][STAMP] = json.dumps(stamp)
    pod["spec"]["schedulingGates"] = [each for each in pod["spec"]["schedulingGates"] if each["name"] != GATE]
    return pod


def scheduled(reason: str) -> list[Object]:
    return [{"type": "PodScheduled", "status": "False", "reason": reason}]


def a_queue(name: str, cpu: str = "", parent: str = "root") -> Object:
    spec = {"parent": parent} | ({"capability": {"cpu": cpu}} if cpu else {})
    return {"metadata": {"name": name, "uid": f"uid-q-{name}"}, "spec": spec}


def a_node(name: str, cpu: str = "4", **labels: str) -> Object:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    named = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
    return {
        "metadata": {"name": name, "uid": f"uid-n-{name}", "labels": named, "creationTimestamp": format_time(START_S)},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def a_workload(name: str, owner: Object, kind: str = "Pod", *, holds: bool = False, count: int = 1) -> Object:
    reference = {"kind": kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
    status: Object = {}
    if holds:
        assignment = {"name": "main", "count": count, "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": str(count)}}
        told = [
            {"type": each, "status": "True", "lastTransitionTime": format_time(START_S)}
            for each in ("QuotaReserved", "Admitted")
        ]
        status = {"admission": {"clusterQueue": "cq", "podSetAssignments": [assignment]}, "conditions": told}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-w-{name}", "ownerReferences": [reference]},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": count, "template": {}}]},
        "status": status,
    }


def a_cluster_queue(name: str = "cq", cpu: str = "10", **metadata: Any) -> Object:
    rows = [{"name": "cpu", "nominalQuota": cpu}]
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": rows}]}]}
    return {"metadata": {"name": name, "uid": f"uid-{name}", **metadata}, "spec": spec}


def a_job(name: str = "j", *, suspend: bool = True, done: bool = False) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-j-{name}", "labels": {LOCAL_QUEUE: "lq"}}
    told = [{"type": "Complete", "status": "True"}] if done else []
    return {"metadata": metadata, "spec": {"suspend": suspend}, "status": {"conditions": told}}
