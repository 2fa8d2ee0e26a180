"""Present states for tests of estimates: small clusters whose objects are built by hand, and their replays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, POD_GROUPS, QUEUE_NAME, QUEUES
from headgate.cli.wiring.estimates import EstimateEngines, make_quota_controller
from headgate.estimates.estimator import EstimateSettings, StartEstimate
from headgate.estimates.present_state import pod_state, workload_state
from headgate.estimates.starts import estimate_pods, estimate_workloads
from headgate.kube.api_resources import NAMESPACES, NODES, PODS, APIResource
from headgate.kube.timestamps import format_time
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.simulate.autoscaler_driver import ready_node
from simulated_clusters import any_flavor, kueue_queue, machines, volcano_queue

Object = dict[str, Any]

NOW_S = 1_700_000_000.0
SETTINGS = EstimateSettings(9)


def pod(
    name: str,
    cpu: int = 1,
    *,
    queue: str = "q",
    run_s: float | None = None,
    started_s: float | None = None,
    ended_s: float | None = None,
    created_s: float = NOW_S - 3600,
    group: str = "",
    limit_s: int | None = None,
    owner: Object | None = None,
    priority: int = 0,
) -> Object:
    """``run_s``: declared. It runs if ``started_s`` is given, has ended if ``ended_s`` is, and otherwise waits behind
    the queue gate."""
    annotations = {QUEUE_NAME: queue, OPT_IN: "true"}
    if run_s is not None:
        annotations["headgate.dev/run-for"] = f"{run_s:g}s"
    if group:
        annotations[GROUP_NAMES[0]] = group
    spec: Object = {
        "schedulerName": "headgate",
        "priority": priority,
        "containers": [{"name": "main", "image": "job", "resources": {"requests": {"cpu": str(cpu)}}}],
    }
    if limit_s is not None:
        spec["activeDeadlineSeconds"] = limit_s
    status: Object = {"phase": "Pending"}
    if started_s is not None:
        spec["nodeName"] = "node-0"
        status = {"phase": "Running", "startTime": format_time(started_s)}
    else:
        spec["schedulingGates"] = [{"name": GATE}]
    if ended_s is not None:
        terminated = {"terminated": {"exitCode": 0, "finishedAt": format_time(ended_s)}}
        status |= {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": terminated}]}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": format_time(created_s),
        "annotations": annotations,
        **({"ownerReferences": [owner]} if owner else {}),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def pod_group(name: str, members: int, queue: str = "q") -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"group-{name}"}
    return {"kind": "PodGroup", "metadata": metadata, "spec": {"minMember": members, "queue": queue}, "status": {}}


def cluster(
    pods: Sequence[Object], cpu: int = 2, groups: Sequence[Object] = (), node_cpu: int = 16
) -> dict[APIResource, list[Object]]:
    """One large node, and a queue ``q`` with ``cpu`` CPUs."""
    return {
        NODES: [ready_node(_stored(each), NOW_S) for each in machines(1, cpu=node_cpu)],
        NAMESPACES: [{"kind": "Namespace", "metadata": {"name": "default", "uid": "default"}}],
        QUEUES: [_stored({**volcano_queue("q", cpu=cpu), "status": {"state": "Open"}})],
        POD_GROUPS: list(groups),
        PODS: list(pods),
    }


def _stored(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "uid": f"uid-{obj['metadata']['name']}"}}


def start_of(pods: Sequence[Object], target: str, **more: Any) -> StartEstimate:
    """The estimate for one pod of the cluster."""
    state = pod_state(cluster(pods, **more), NOW_S)
    engines = EstimateEngines(("headgate",))
    return estimate_pods(engines.scheduler, state, {"target": frozenset((f"uid-{target}",))}, SETTINGS)["target"]


def workload(
    name: str,
    cpu: int = 1,
    *,
    run_s: float | None = None,
    admitted_s: float | None = None,
    finished_s: float | None = None,
    created_s: float = NOW_S - 3600,
    priority: int = 0,
    limit_s: int | None = None,
    queue: str = "q",
) -> Object:
    annotations = {"annotations": {"headgate.dev/run-for": f"{run_s:g}s"}} if run_s is not None else {}
    template = {
        "metadata": annotations,
        "spec": {"containers": [{"name": "main", "image": "job", "resources": {"requests": {"cpu": str(cpu)}}}]},
    }
    status: Object = {"conditions": []}
    if admitted_s is not None:
        assignment = {"name": "main", "flavors": {"cpu": "any"}, "resourceUsage": {"cpu": str(cpu)}, "count": 1}
        status["admission"] = {"clusterQueue": queue, "podSetAssignments": [assignment]}
        status["conditions"] = [_condition("QuotaReserved", admitted_s), _condition("Admitted", admitted_s)]
    if finished_s is not None:
        status["conditions"] = [*status["conditions"], _condition("Finished", finished_s)]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": format_time(created_s),
            "generation": 1,
            "resourceVersion": "1",
        },
        "spec": {
            "queueName": queue,
            "priority": priority,
            "podSets": [{"name": "main", "count": 1, "template": template}],
            **({"maximumExecutionTimeSeconds": limit_s} if limit_s is not None else {}),
        },
        "status": status,
    }


def _condition(type_: str, at_s: float) -> Object:
    return {"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": format_time(at_s)}


def quota_cluster(workloads: Sequence[Object], cpu: int = 2, **spec: Any) -> dict[APIResource, list[Object]]:
    cluster_queue, local_queue = kueue_queue("q", cpu, **spec)
    return {
        NAMESPACES: [{"kind": "Namespace", "metadata": {"name": "default", "uid": "default", "labels": {}}}],
        RESOURCE_FLAVORS: [_stored(any_flavor())],
        CLUSTER_QUEUES: [_stored(cluster_queue)],
        LOCAL_QUEUES: [_stored(local_queue)],
        WORKLOADS: list(workloads),
    }


def workload_start_of(workloads: Sequence[Object], target: str, **more: Any) -> StartEstimate:
    state = workload_state(quota_cluster(workloads, **more), NOW_S)
    key = f"default/{target}"
    return estimate_workloads(make_quota_controller, state, [key], SETTINGS)[key]
