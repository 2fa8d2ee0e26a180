"""Recorded histories of Headgate's engines: a virtual cluster with scheduler, quota, kubelets and an autoscaler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from headgate.admission.settings import AdmissionSettings
from headgate.capacity.kinds.definitions import DEFINITIONS
from headgate.capacity.names import OPT_IN, POD_GROUPS, QUEUE_NAME, QUEUES
from headgate.cli.demos.virtual_cluster import EngineWrite, ObservedChange, VirtualCluster
from headgate.cli.demos.virtual_engines import VirtualAutoscaler, VirtualKubelets, VirtualSchedulerEngine
from headgate.cli.embedded.autoscalers import make_autoscaler
from headgate.cli.embedded.credentials import SYSTEM
from headgate.cli.wiring.scheduler import default_configuration, installed_plugins, scheduler_factory
from headgate.client import write_requests
from headgate.http.transport import HTTPResponse
from headgate.jobs.pods.pod_controller import ManagedPodController
from headgate.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES, PODS
from headgate.kube.feature_gates import DEFAULTS
from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.node_template import NodeTemplate, make_nodes
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS
from headgate.recording.changes import RecordedChange
from headgate.recording.pruning import prune
from headgate.recording.resources import resource_key
from headgate.runtime.scheduler.effect_patches import gate_patch, stamp_removal_patch
from headgate.scheduling.framework.effects import Effect, RemoveSchedulingGate, RemoveStamp, WriteResult

Object = dict[str, Any]
ONE_CPU = {"cpu": "1", "memory": "4Gi", "pods": "110"}
MACHINE = InstanceType("one-cpu", ONE_CPU, annotations={"headgate.dev/boot-after": "30s"})


class GateRemovingEngine(VirtualSchedulerEngine):
    """Removes queue gates and stamps, too."""

    def _writes(self, wanted: Sequence[Effect]) -> list[EngineWrite]:
        found = super()._writes(wanted)
        for each in wanted:
            if isinstance(each, RemoveSchedulingGate):
                pod = each.pod
                request = write_requests.patch(PODS, pod.namespace, pod.name, pod.uid, gate_patch(each), "strategic")
                found.append(EngineWrite(request, partial(self._gate_answered, pod.uid)))
            elif isinstance(each, RemoveStamp):
                body = stamp_removal_patch(each)
                request = write_requests.json_patch(PODS, each.pod.namespace, each.pod.name, each.pod.uid, body)
                found.append(EngineWrite(request, partial(self._stamp_answered, each.pod.uid, each.stamp)))
        return found

    def _gate_answered(self, uid: str, response: HTTPResponse) -> None:
        assert response.ok, response
        self._pending += self._scheduler.gate_removed(uid, WriteResult.DONE, "", self._now_s)

    def _stamp_answered(self, uid: str, stamp: str, response: HTTPResponse) -> None:
        assert response.ok, response
        self._pending += self._scheduler.stamp_removed(uid, stamp, WriteResult.DONE, self._now_s)


class HistoryObserver:
    """Records every change that the cluster shows."""

    resources = (NAMESPACES, NODES, PODS, QUEUES, POD_GROUPS, CLUSTER_QUEUES, RESOURCE_FLAVORS, WORKLOADS, LOCAL_QUEUES)

    def __init__(self) -> None:
        self.changes: list[RecordedChange] = []

    def observe(self, change: ObservedChange, now_s: float) -> None:
        name = resource_key(change.resource)
        revision = int(change.obj["metadata"]["resourceVersion"])
        self.changes.append(RecordedChange(name, prune(name, change.obj), now_s, revision, change.gone, True, now_s))

    def due(self, now_s: float) -> list[Any]:
        return []

    def next_deadline_s(self) -> float | None:
        return None

    def ordered(self) -> list[RecordedChange]:
        """In the order of revisions; a deletion has the revision of the last state in its object."""
        found, now_s = [], 0.0
        for each in sorted(self.changes, key=lambda each: each.revision):
            now_s = max(now_s, each.at_s)
            found.append(msgspec.structs.replace(each, at_s=now_s))
        return found


class RecordedCluster:
    """``nodes``: how many nodes there are at the start; ``autoscaler``: whether machines are added."""

    def __init__(self, nodes: int = 0, *, autoscaler: bool = False) -> None:
        self.cluster = VirtualCluster(
            DEFAULTS, AdmissionSettings(frozenset({"headgate"}), frozenset({SYSTEM.name}), suspends_jobs=True)
        )
        for each in DEFINITIONS:
            self.cluster.create(CUSTOM_RESOURCE_DEFINITIONS, each)
        self.cluster.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
        plugins = installed_plugins(lambda problem: None)
        make = scheduler_factory(
            default_configuration(("headgate", "default-scheduler"), plugins),
            plugins,
            DEFAULTS,
            lambda: self.cluster.now_s,
        )
        assert not isinstance(make, str), make
        scheduler = make(lambda problem: None)
        self.observer = HistoryObserver()
        self.autoscaler = VirtualAutoscaler(make_autoscaler("cluster-autoscaler", MACHINE))
        made = make_nodes(nodes, NodeTemplate(resources=ONE_CPU))
        self.cluster.add(
            self.observer,
            QuotaController(QuotaSettings(DEFAULTS.admission_gated_by, None, DEFAULTS.start_after_terminating_pods)),
            ManagedPodController(DEFAULTS),
            GateRemovingEngine(scheduler, tuple(scheduler.cluster.watched())),
            VirtualKubelets(HollowKubelets(initial_nodes=made)),
        )
        if autoscaler:
            self.cluster.add(self.autoscaler)

    def queue(self, name: str, cpu: str, **spec: Any) -> None:
        body = {"weight": 1, "capability": {"cpu": cpu}, **spec}
        obj = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": body}
        self.cluster.create(QUEUES, obj)

    def pod(self, name: str, queue: str, *, gated: bool, run_s: int = 0) -> None:
        annotations = {QUEUE_NAME: queue} | ({OPT_IN: "true"} if gated else {})
        annotations |= {"headgate.dev/run-for": f"{run_s}s"} if run_s else {}
        container = {"name": "main", "image": "spark", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": "headgate", "restartPolicy": "Never", "containers": [container]}
        metadata = {"name": name, "namespace": "default", "annotations": annotations}
        self.cluster.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def delete_pod(self, name: str) -> None:
        self.cluster.send(write_requests.delete(PODS, "default", name, ""))

    def run(self, seconds: float) -> None:
        end_s = self.cluster.now_s + seconds
        self.cluster.run(lambda: self.cluster.now_s >= end_s, lambda: None, seconds)
        self.cluster.now_s = max(self.cluster.now_s, end_s)
