"""A hollow node dies under a pod in a queue: with failure recovery the pod goes in the end, without it never.

The embedded server, quota, pods in queues, node lifecycle, eviction by taints, hollow kubelets and the scheduler, on a
clock of their own.
"""

from __future__ import annotations

from typing import Any

from headgate.admission.settings import AdmissionSettings
from headgate.cli.demos.virtual_cluster import START_S, ObservedChange, VirtualCluster
from headgate.cli.demos.virtual_engines import VirtualKubelets, VirtualSchedulerEngine
from headgate.cli.wiring.scheduler import default_configuration, installed_plugins, scheduler_factory
from headgate.client import write_requests
from headgate.controllers.framework.reconcile import Controller
from headgate.controllers.node_lifecycle.controller import NodeLifecycleController
from headgate.controllers.node_lifecycle.taint_eviction import TaintEvictionController
from headgate.jobs.failure_recovery import FORCED_AFTER_S, FailureRecovery
from headgate.jobs.names import QUEUE_NAME, SAFE_TO_FORCEFULLY_DELETE
from headgate.jobs.pods.pod_controller import ManagedPodController
from headgate.kube.api_resources import NAMESPACES, NODES, PODS
from headgate.kube.feature_gates import DEFAULTS
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.node_template import NodeTemplate, make_nodes
from headgate.nodes.options import HollowOptions
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS
from kueue_builders import a_cluster_queue, a_flavor, a_local_queue

Object = dict[str, Any]

HOUR_S = 3600.0


class Seen:
    """Pods as they are shown, and when each first looked like that."""

    resources = (PODS,)

    def __init__(self) -> None:
        self.pods: dict[str, Object] = {}
        self.failed_s: dict[str, float] = {}

    def observe(self, told: ObservedChange, now_s: float) -> None:
        name = told.obj["metadata"]["name"]
        self.pods[name] = told.obj
        if told.obj["status"].get("phase") == "Failed":
            self.failed_s.setdefault(name, now_s)
        if told.gone:
            del self.pods[name]

    def due(self, now_s: float) -> list[Any]:
        return []

    def next_deadline_s(self) -> float | None:
        return None

    def runs(self, name: str) -> bool:
        return name in self.pods and self.pods[name]["status"].get("phase") == "Running"


def a_stage(*more: Controller) -> tuple[VirtualCluster, Seen]:
    stage, seen = VirtualCluster(DEFAULTS, AdmissionSettings(frozenset(), suspends_jobs=True)), Seen()
    for name in ("ns", "kube-node-lease"):
        stage.create(NAMESPACES, {"metadata": {"name": name}})
    stage.create(RESOURCE_FLAVORS, _kueue("ResourceFlavor", a_flavor()))
    stage.create(CLUSTER_QUEUES, _kueue("ClusterQueue", a_cluster_queue("cq", {"default": {"cpu": 1}})))
    stage.create(LOCAL_QUEUES, _kueue("LocalQueue", a_local_queue()))
    found = installed_plugins(lambda problem: None)
    make = scheduler_factory(default_configuration(("default-scheduler",), found), found, DEFAULTS, lambda: stage.now_s)
    assert not isinstance(make, str), make
    scheduler = make(lambda problem: None)
    nodes = make_nodes(2, NodeTemplate(resources={"cpu": "1", "memory": "1Gi", "pods": "10"}))
    stage.add(
        QuotaController(QuotaSettings()),
        ManagedPodController(DEFAULTS),
        NodeLifecycleController(),
        TaintEvictionController(),
        *more,
        VirtualSchedulerEngine(scheduler, tuple(scheduler.cluster.watched())),
        VirtualKubelets(HollowKubelets(HollowOptions(controller_manager=True), nodes)),
        seen,
    )
    return stage, seen


def _kueue(kind: str, obj: Object) -> Object:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **obj}


def a_pod(name: str) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    safe = {SAFE_TO_FORCEFULLY_DELETE: "true"}
    metadata = {"name": name, "namespace": "ns", "labels": {QUEUE_NAME: "lq"}, "annotations": safe}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def let_its_node_die(stage: VirtualCluster, seen: Seen, name: str) -> None:
    pod = seen.pods[name]
    silent = {"metadata": {"annotations": {"headgate.dev/silent-after": "0s"}}}
    node = next(each for each in stage.list(NODES) if each["metadata"]["name"] == pod["spec"]["nodeName"])
    stage.send(write_requests.patch(NODES, "", node["metadata"]["name"], node["metadata"]["uid"], silent))


def test_a_pod_on_a_dead_node_fails_a_minute_after_its_deletion_timestamp_and_is_deleted() -> None:
    stage, seen = a_stage(FailureRecovery())
    stage.create(PODS, a_pod("first"))
    assert stage.run(lambda: seen.runs("first"), lambda: None, HOUR_S)
    let_its_node_die(stage, seen, "first")
    due_s: list[float] = []

    def look() -> None:
        told = seen.pods.get("first", {}).get("metadata", {}).get("deletionTimestamp")
        if told and not due_s:
            due_s.append(stage.now_s)

    assert stage.run(lambda: "first" not in seen.pods, look, HOUR_S), "it never went"
    (told_s,) = due_s
    assert told_s - START_S > 300.0, "it tolerated the taint for five minutes"
    assert seen.failed_s["first"] == int(told_s) + 30 + FORCED_AFTER_S


def test_without_recovery_the_pod_stays_forever() -> None:
    stage, seen = a_stage()
    stage.create(PODS, a_pod("first"))
    assert stage.run(lambda: seen.runs("first"), lambda: None, HOUR_S)
    let_its_node_die(stage, seen, "first")
    stage.run(lambda: False, lambda: None, 1200.0)
    assert "deletionTimestamp" in seen.pods["first"]["metadata"]
    assert seen.runs("first")
