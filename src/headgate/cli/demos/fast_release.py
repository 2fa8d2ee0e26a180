"""The scenario of Kueue's KEP-6143: pods of higher priority wait for quota of pods that take a minute to terminate.

The scenario runs three times on a virtual clock (``virtual_cluster.py``): with quota that is released when a pod has
ended; with quota that is released when a pod begins to terminate; and the second again, with a scheduler that does not
wait for terminating pods, like kube-scheduler. The controllers of queues and pods, the scheduler and the hollow
kubelets are the same code as in ``headgate up``; Cluster Autoscaler is a model with its default flags.
``cli/commands/demo.py`` prints the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from headgate.admission.settings import AdmissionSettings
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
_INSTANCE_TYPE: Final = InstanceType("one-cpu", _ONE_CPU, annotations={"headgate.dev/boot-after": "30s"})
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})


class ReleaseVariant(msgspec.Struct, frozen=True):
    """The settings of one run. ``fast_release``: the feature gate PodIntegrationFastQuotaRelease is on.
    ``waits_for_terminating``: the scheduler binds a pod only after the terminating pods have left the node.
    ``starts_after_terminating``: the feature gate StartAfterTerminatingPods is on."""

    name: str
    fast_release: bool
    waits_for_terminating: bool
    starts_after_terminating: bool = True


LATE_RELEASE: Final = ReleaseVariant("gate off", fast_release=False, waits_for_terminating=True)
FAST_RELEASE: Final = ReleaseVariant("gate on", fast_release=True, waits_for_terminating=True)
OTHER_SCHEDULER: Final = ReleaseVariant("gate on, other scheduler", fast_release=True, waits_for_terminating=False)
STARTED_EARLY: Final = ReleaseVariant(
    "gate on, other scheduler, started early",
    fast_release=True,
    waits_for_terminating=False,
    starts_after_terminating=False,
)
"""Pods of admitted workloads are started while the pods before them still terminate. It is not part of the demo."""
VARIANTS: Final = (LATE_RELEASE, FAST_RELEASE, OTHER_SCHEDULER)


class ReleaseMeasurements(msgspec.Struct, frozen=True):
    """The result of one run. ``admitted_s`` and ``running_s``: the seconds from the creation of the first preemptor
    until all preemptors are admitted, and until all run. ``nodes_added``: how many nodes the autoscaler has added."""

    admitted_s: float
    running_s: float
    nodes_added: int
    excess_cpus: int
    """The maximum number of CPUs by which the requests of pods with quota and of terminating pods exceeded the CPUs of
    the nodes."""


class ReleaseScenario(msgspec.Struct, frozen=True):
    """``nodes``: how many nodes of one CPU there are. ``cluster_queue_spec``: fields of the spec of all ClusterQueues.
    ``queues``: the names of the queues and their CPUs. ``victim_queue``: at the start its pods run on all nodes.
    ``waves``: a queue, and a number of preemptors that are created together when the previous wave has been
    admitted."""

    title: str
    nodes: int
    cluster_queue_spec: Object
    queues: tuple[tuple[str, int], ...]
    victim_queue: str
    waves: tuple[tuple[str, int], ...]


def one_victim_each(count: int) -> ReleaseScenario:
    """All preemptors are created together, and each preempts one pod of lower priority in the same queue."""
    return ReleaseScenario(
        title=f"{count} preemptors, each with a victim",
        nodes=count,
        cluster_queue_spec={"preemption": {"withinClusterQueue": "LowerPriority"}},
        queues=(("team", count),),
        victim_queue="team",
        waves=(("team", count),),
    )


def one_after_another(count: int) -> ReleaseScenario:
    """One queue after the other reclaims quota that another queue of its cohort has borrowed."""
    names = tuple((f"queue-{number:02}", 1) for number in range(count))
    return ReleaseScenario(
        title=f"{count} queues reclaim one after another",
        nodes=count,
        cluster_queue_spec={"cohortName": "all", "preemption": {"reclaimWithinCohort": "Any"}},
        queues=(("borrower", 0), *names),
        victim_queue="borrower",
        waves=names,
    )


SCENARIOS: Final = (one_victim_each(PREEMPTORS), one_after_another(QUEUES))


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
        """The requests to send now: an observer sends none."""
        return []

    def next_deadline_s(self) -> float | None:
        return None

    def has_admitted(self, prefix: str, count: int) -> bool:
        """Whether ``count`` pods whose names begin with the prefix are admitted."""
        return sum(pod["metadata"]["uid"] in self._admitted for pod in self._of(prefix)) == count

    def has_running(self, prefix: str, count: int) -> bool:
        """Whether there are exactly ``count`` pods whose names begin with the prefix, and all run."""
        return [pod["status"].get("phase") for pod in self._of(prefix)] == ["Running"] * count

    def excess_cpus(self) -> int:
        """By how many CPUs the requests of pods with quota and of terminating pods exceed the CPUs of the nodes. Each
        pod requests one CPU, and each node has one."""
        unfinished = (pod for pod in self._pods.values() if pod["status"].get("phase") not in _TERMINAL)
        with_quota = (
            not scheduling_gates.gate_names(pod) or pod["metadata"]["uid"] in self._admitted for pod in unfinished
        )
        return sum(with_quota) - len(self._nodes)

    def _of(self, prefix: str) -> Iterable[Object]:
        return (pod for name, pod in self._pods.items() if name.startswith(prefix))


RUNS: Final = len(SCENARIOS) * len(VARIANTS)


def run_release_demo(
    report: Callable[[ReleaseScenario, tuple[ReleaseMeasurements, ...]], None],
    progress: Callable[[int], None] = lambda done: None,
) -> None:
    """Runs each scenario with each variant, and reports the results of a scenario together. ``progress`` is called with
    the number of runs that have ended."""
    ended = 0
    progress(ended)
    for scenario in SCENARIOS:
        found = []
        for variant in VARIANTS:
            found.append(run_scenario(scenario, variant))
            ended += 1
            progress(ended)
        report(scenario, tuple(found))


def run_scenario(scenario: ReleaseScenario, variant: ReleaseVariant) -> ReleaseMeasurements:
    features = msgspec.structs.replace(
        DEFAULTS,
        pod_integration_fast_quota_release=variant.fast_release,
        start_after_terminating_pods=variant.starts_after_terminating,
    )
    cluster = VirtualCluster(features, AdmissionSettings(frozenset(), suspends_jobs=True, features=features))
    plugins = installed_plugins(lambda problem: None)
    labels_to_wait_for = QUOTA_LABELS if variant.waits_for_terminating else ()
    configuration = default_configuration(("default-scheduler",), plugins)
    make = scheduler_factory(configuration, plugins, features, lambda: cluster.now_s, labels_to_wait_for)
    if isinstance(make, str):
        raise StartupError(make)
    scheduler = make(lambda problem: None)
    autoscaler, observer = VirtualAutoscaler(make_autoscaler("cluster-autoscaler", _INSTANCE_TYPE)), ReleaseObserver()
    nodes = make_nodes(scenario.nodes, NodeTemplate(resources=_ONE_CPU))
    _create_fixtures(cluster, scenario)
    cluster.add(
        QuotaController(QuotaSettings(features.admission_gated_by, None, features.start_after_terminating_pods)),
        ManagedPodController(features),
        VirtualSchedulerEngine(scheduler, tuple(scheduler.cluster.watched())),
        VirtualKubelets(HollowKubelets(initial_nodes=nodes)),
        observer,
        autoscaler,
    )
    for number in range(scenario.nodes):
        cluster.create(PODS, _pod(f"victim-{number:03}", scenario.victim_queue, "low"))
    _run_until(cluster, partial(observer.has_running, "victim", scenario.nodes), lambda: None)
    return _measure_preemption(cluster, scenario, observer, autoscaler)


def _measure_preemption(
    cluster: VirtualCluster, scenario: ReleaseScenario, observer: ReleaseObserver, autoscaler: VirtualAutoscaler
) -> ReleaseMeasurements:
    """Creates the preemptors, wave by wave, and runs the cluster until all of them run."""
    started_s, max_excess_cpus = cluster.now_s, 0

    def measure() -> None:
        nonlocal max_excess_cpus
        max_excess_cpus = max(max_excess_cpus, observer.excess_cpus())

    created = 0
    for queue, count in scenario.waves:
        for number in range(count):
            cluster.create(PODS, _pod(f"preemptor-{queue}-{number:03}", queue, "high"))
        created += count
        _run_until(cluster, partial(observer.has_admitted, "preemptor", created), measure)
    admitted_s = cluster.now_s - started_s
    _run_until(cluster, partial(observer.has_running, "preemptor", created), measure)
    return ReleaseMeasurements(admitted_s, cluster.now_s - started_s, len(autoscaler.added), max_excess_cpus)


def _run_until(cluster: VirtualCluster, is_done: Callable[[], bool], measure: Callable[[], None]) -> None:
    if not cluster.run(is_done, measure, _MAX_S):
        raise StartupError("the demo did not finish in time")


def _create_fixtures(cluster: VirtualCluster, scenario: ReleaseScenario) -> None:
    cluster.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
    cluster.create(RESOURCE_FLAVORS, _kueue_object("ResourceFlavor", "any-node", {}))
    for name, value in (("low", 1), ("high", 100)):
        cluster.create(PRIORITY_CLASSES, {**_kueue_object("WorkloadPriorityClass", name), "value": value})
    for name, cpus in scenario.queues:
        quota = [{"name": "cpu", "nominalQuota": str(cpus)}]
        groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "any-node", "resources": quota}]}]
        spec = {"namespaceSelector": {}, "resourceGroups": groups, **scenario.cluster_queue_spec}
        cluster.create(CLUSTER_QUEUES, _kueue_object("ClusterQueue", name, spec))
        local = _kueue_object("LocalQueue", name, {"clusterQueue": name})
        local["metadata"]["namespace"] = _NAMESPACE
        cluster.create(LOCAL_QUEUES, local)


def _kueue_object(kind: str, name: str, spec: Object | None = None) -> Object:
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
