"""The scenario of KEP-6143: pods that take a minute to terminate hold quota that a higher priority waits for.

It runs three times on a virtual clock (``virtual_cluster.py``): quota is released when a pod has ended; when it begins
to terminate; and the latter with a scheduler that does not wait for terminating pods, like kube-scheduler. Queues,
pods, scheduler and kubelets are the real ones; Cluster Autoscaler is a model with its default flags.
``cli/commands/demo.py`` prints the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from headgate.admission.policy import AdmissionPolicy
from headgate.cli.demos.virtual_cluster import ObservedChange, VirtualCluster
from headgate.cli.demos.virtual_engines import VirtualAutoscaler, VirtualKubelets, VirtualSchedulerEngine
from headgate.cli.embedded.autoscalers import make_autoscaler
from headgate.cli.embedded.cluster_options import StartupError
from headgate.cli.wiring.scheduler import QUOTA_LABELS, default_configuration, installed_plugins, scheduler_factory
from headgate.jobs.names import PRIORITY_CLASS, QUEUE_NAME
from headgate.jobs.pods.pod_controller import ManagedPodController
from headgate.kube import conditions, scheduling_gates
from headgate.kube.api_resources import NAMESPACES, NODES, PODS
from headgate.kube.feature_gates import DEFAULTS
from headgate.kube.object_meta import owner_references
from headgate.nodes.autoscalers.instance_types import InstanceType
from headgate.nodes.hollow_kubelets import HollowKubelets
from headgate.nodes.node_template import NodeTemplate, make_nodes
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from headgate.quota.kinds.names import CLUSTER_QUEUES, LOCAL_QUEUES, PRIORITY_CLASSES, RESOURCE_FLAVORS, WORKLOADS
from headgate.quota.names import ADMITTED

Object = dict[str, Any]

GRACE_S: Final = 60
PREEMPTORS: Final = 100
QUEUES: Final = 10
_NAMESPACE: Final = "demo"
_MAX_S: Final = 4 * 3600.0
_ONE_CPU: Final = {"cpu": "1", "memory": "4Gi", "pods": "110"}
_MACHINE: Final = InstanceType("one-cpu", _ONE_CPU, annotations={"headgate.dev/boot-after": "30s"})
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})


class ReleaseVariant(msgspec.Struct, frozen=True):
    """One side of the comparison. ``waits_for_terminating``: whether the scheduler waits for terminating pods.
    ``starts_after_terminating``: the feature gate StartAfterTerminatingPods."""

    name: str
    fast: bool
    waits_for_terminating: bool
    starts_after_terminating: bool = True


OFF: Final = ReleaseVariant("gate off", fast=False, waits_for_terminating=True)
ON: Final = ReleaseVariant("gate on", fast=True, waits_for_terminating=True)
UNAWARE: Final = ReleaseVariant("gate on, any scheduler", fast=True, waits_for_terminating=False)
EARLY: Final = ReleaseVariant(
    "gate on, any scheduler, started early", fast=True, waits_for_terminating=False, starts_after_terminating=False
)
VARIANTS: Final = (OFF, ON, UNAWARE)


class ReleaseMeasurements(msgspec.Struct, frozen=True):
    """Seconds from the first preemptor's submission, machines, and CPUs."""

    admitted_s: float
    running_s: float
    bought: int
    ahead: int
    """The maximum by which pods with quota and terminating pods together exceeded the capacity of the machines."""


class ReleaseScenario(msgspec.Struct, frozen=True):
    """``queues``: names and CPUs. ``victims``: the queue whose pods run on all machines, of one CPU each, at the start.
    ``waves``: queues and numbers of pods; a wave is submitted together, when the previous wave has been admitted."""

    title: str
    machines: int
    spec: Object
    queues: tuple[tuple[str, int], ...]
    victims: str
    waves: tuple[tuple[str, int], ...]


def one_each(count: int) -> ReleaseScenario:
    return ReleaseScenario(
        title=f"{count} preemptors, each with a victim",
        machines=count,
        spec={"preemption": {"withinClusterQueue": "LowerPriority"}},
        queues=(("team", count),),
        victims="team",
        waves=(("team", count),),
    )


def one_after_another(count: int) -> ReleaseScenario:
    names = tuple((f"queue-{number:02}", 1) for number in range(count))
    return ReleaseScenario(
        title=f"{count} queues reclaim one after another",
        machines=count,
        spec={"cohortName": "all", "preemption": {"reclaimWithinCohort": "Any"}},
        queues=(("borrower", 0), *names),
        victims="borrower",
        waves=names,
    )


SCENARIOS: Final = (one_each(PREEMPTORS), one_after_another(QUEUES))


class ReleaseObserver:
    """Counts pods and nodes from watch events."""

    resources = (PODS, NODES, WORKLOADS)

    def __init__(self) -> None:
        self._pods: dict[str, Object] = {}
        self._nodes: set[str] = set()
        self._admitted: set[str] = set()  # uids of pods

    def observe(self, change: ObservedChange, now_s: float) -> None:
        name = change.obj["metadata"]["name"]
        if change.resource == NODES:
            self._nodes.add(name)
        elif change.resource == WORKLOADS:
            is_admitted = conditions.is_true((change.obj.get("status") or {}).get("conditions"), ADMITTED)
            owners = {str(each["uid"]) for each in owner_references(change.obj)}
            self._admitted = self._admitted | owners if is_admitted and not change.gone else self._admitted - owners
        elif change.gone:
            self._pods.pop(name, None)
        else:
            self._pods[name] = change.obj

    def due(self, now_s: float) -> list[Any]:
        return []

    def next_deadline_s(self) -> float | None:
        return None

    def has_admitted(self, prefix: str, count: int) -> bool:
        return sum(pod["metadata"]["uid"] in self._admitted for pod in self._of(prefix)) == count

    def runs(self, prefix: str, count: int) -> bool:
        return [pod["status"].get("phase") for pod in self._of(prefix)] == ["Running"] * count

    def ahead(self) -> int:
        alive = (pod for pod in self._pods.values() if pod["status"].get("phase") not in _TERMINAL)
        uses = (not scheduling_gates.gate_names(pod) or pod["metadata"]["uid"] in self._admitted for pod in alive)
        return sum(uses) - len(self._nodes)

    def _of(self, prefix: str) -> Iterable[Object]:
        return (pod for name, pod in self._pods.items() if name.startswith(prefix))


def run_release_demo(report: Callable[[ReleaseScenario, tuple[ReleaseMeasurements, ...]], None]) -> None:
    """Runs each scenario in each variant."""
    for scenario in SCENARIOS:
        report(scenario, tuple(run_scenario(scenario, variant) for variant in VARIANTS))


def run_scenario(scenario: ReleaseScenario, variant: ReleaseVariant) -> ReleaseMeasurements:
    features = msgspec.structs.replace(
        DEFAULTS,
        pod_integration_fast_quota_release=variant.fast,
        start_after_terminating_pods=variant.starts_after_terminating,
    )
    cluster = VirtualCluster(features, AdmissionPolicy(frozenset(), suspends_jobs=True, features=features))
    plugins = installed_plugins(lambda problem: None)
    waiting_labels = QUOTA_LABELS if variant.waits_for_terminating else ()
    configuration = default_configuration(("default-scheduler",), plugins)
    make = scheduler_factory(configuration, plugins, features, lambda: cluster.now_s, waiting_labels)
    if isinstance(make, str):
        raise StartupError(make)
    scheduler = make(lambda problem: None)
    autoscaler, observer = VirtualAutoscaler(make_autoscaler("cluster-autoscaler", _MACHINE)), ReleaseObserver()
    nodes = make_nodes(scenario.machines, NodeTemplate(resources=_ONE_CPU))
    _create_fixtures(cluster, scenario)
    cluster.add(
        QuotaController(QuotaSettings(features.admission_gated_by, None, features.start_after_terminating_pods)),
        ManagedPodController(features),
        VirtualSchedulerEngine(scheduler, tuple(scheduler.cluster.watched())),
        VirtualKubelets(HollowKubelets(wanted=nodes)),
        observer,
        autoscaler,
    )
    for number in range(scenario.machines):
        cluster.create(PODS, _pod(f"victim-{number:03}", scenario.victims, "low"))
    _until(cluster, partial(observer.runs, "victim", scenario.machines), lambda: None)
    return _reclaim(cluster, scenario, observer, autoscaler)


def _reclaim(
    cluster: VirtualCluster, scenario: ReleaseScenario, observer: ReleaseObserver, autoscaler: VirtualAutoscaler
) -> ReleaseMeasurements:
    started_s, ahead = cluster.now_s, 0

    def measure() -> None:
        nonlocal ahead
        ahead = max(ahead, observer.ahead())

    wanted = 0
    for queue, count in scenario.waves:
        for number in range(count):
            cluster.create(PODS, _pod(f"preemptor-{queue}-{number:03}", queue, "high"))
        wanted += count
        _until(cluster, partial(observer.has_admitted, "preemptor", wanted), measure)
    admitted_s = cluster.now_s - started_s
    _until(cluster, partial(observer.runs, "preemptor", wanted), measure)
    return ReleaseMeasurements(admitted_s, cluster.now_s - started_s, len(autoscaler.bought), ahead)


def _until(cluster: VirtualCluster, is_done: Callable[[], bool], measure: Callable[[], None]) -> None:
    if not cluster.run(is_done, measure, _MAX_S):
        raise StartupError("the demo did not finish in time")


def _create_fixtures(cluster: VirtualCluster, scenario: ReleaseScenario) -> None:
    cluster.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
    cluster.create(RESOURCE_FLAVORS, _kueue("ResourceFlavor", "any-node", {}))
    for name, value in (("low", 1), ("high", 100)):
        cluster.create(PRIORITY_CLASSES, {**_kueue("WorkloadPriorityClass", name), "value": value})
    for name, cpus in scenario.queues:
        quota = [{"name": "cpu", "nominalQuota": str(cpus)}]
        groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "any-node", "resources": quota}]}]
        spec = {"namespaceSelector": {}, "resourceGroups": groups, **scenario.spec}
        cluster.create(CLUSTER_QUEUES, _kueue("ClusterQueue", name, spec))
        local = _kueue("LocalQueue", name, {"clusterQueue": name})
        local["metadata"]["namespace"] = _NAMESPACE
        cluster.create(LOCAL_QUEUES, local)


def _kueue(kind: str, name: str, spec: Object | None = None) -> Object:
    spec_field = {} if spec is None else {"spec": spec}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, **spec_field}


def _pod(name: str, queue: str, priority: str) -> Object:
    """A pod that uses its whole grace period to terminate."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": _NAMESPACE,
            "labels": {QUEUE_NAME: queue, PRIORITY_CLASS: priority},
            "annotations": {"headgate.dev/stop-after": f"{GRACE_S}s"},
        },
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE_S, "containers": [container]},
    }
