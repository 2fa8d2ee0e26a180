"""Runs plugins in Headgate's scheduler without a cluster: no API server, no network, and a virtual clock.

:class:`VirtualScheduler` is the scheduler of ``headgate run`` with a profile that enables the plugins at every
extension point they serve, as ``multiPoint`` does. If one of them serves an extension point of queues, the profile has
queues. Objects have the form of the Kubernetes API, bindings succeed at once, and writes are kept for the test to
check. docs/plugins.md shows examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.capacity.conf import DEFAULT_TIERS, SchedulerConf
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, POD_GROUPS, QUEUE_NAME, QUEUES, STAMP
from headgate.kube.api_resources import APIResource
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.config.plugin_registry import (
    QUEUE_METHODS,
    PluginEntry,
    Registry,
    points_served,
    with_plugins,
)
from headgate.scheduling.config.queue_profile import queue_profile
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import DEFAULT_SCHEDULER, KubeSchedulerConfiguration
from headgate.scheduling.config.volcano_conf import VolcanoConfiguration, parse_volcano_conf
from headgate.scheduling.framework import signature_checks
from headgate.scheduling.framework.effects import (
    Bind,
    Effect,
    EmitPodEvent,
    ObjectPatch,
    PreBindWrites,
    Preempt,
    RemoveSchedulingGate,
    RemoveStamp,
    SetStatus,
    WriteResult,
)
from headgate.scheduling.gates.queue_admission import QueueAdmissionSettings
from headgate.scheduling.plugins.registry import IN_TREE_PLUGINS, PluginFactory
from headgate.scheduling.scheduler import Scheduler

__all__ = ["Clock", "VirtualScheduler", "a_node", "a_pod", "a_pod_group", "a_queue"]

Object = Mapping[str, Any]

_HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
_BATCH_SIZE = 1000
_MAX_ROUNDS = 10_000


class Clock:
    """Seconds since 1970, advanced only by the test. A plugin that needs the time gets it in place of time.time."""

    def __init__(self, now_s: float = 1_800_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def a_pod(name: str, *, namespace: str = "default", annotations: Object | None = None, **more: Any) -> dict[str, Any]:
    """A pod as decoded JSON. ``labels`` and ``requests`` are keywords, too. ``queue`` and ``group`` name its queue and
    its PodGroup, and with ``gated`` it opts in to the queue gate and has it. Other keywords are fields of its spec."""
    named = {QUEUE_NAME: more.pop("queue", ""), GROUP_NAMES[0]: more.pop("group", "")}
    if more.pop("gated", False):
        named[OPT_IN] = "true"
        more["schedulingGates"] = [{"name": GATE}]
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "labels": dict(more.pop("labels", {})),
        "annotations": {**{key: value for key, value in named.items() if value}, **(annotations or {})},
    }
    container = {"name": "main", "image": "app", "resources": {"requests": dict(more.pop("requests", {}))}}
    return {"metadata": metadata, "spec": {"containers": [container], **more}, "status": {}}


def a_node(name: str, *, labels: Object | None = None, **amounts: str) -> dict[str, Any]:
    """A node as decoded JSON; by default with 8 CPUs, 32Gi of memory and 110 pods."""
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110", **amounts}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": dict(labels or {})}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": allocatable}}


def a_queue(name: str, *, annotations: Object | None = None, **spec: Any) -> dict[str, Any]:
    """A Queue of Volcano as decoded JSON. Other keywords are fields of its spec, such as ``capability``."""
    metadata = {"name": name, "uid": f"uid-queue-{name}", "annotations": dict(annotations or {})}
    return {"metadata": metadata, "spec": spec, "status": {"state": "Open"}}


def a_pod_group(name: str, min_member: int, *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """A PodGroup of Volcano as decoded JSON. Other keywords are fields of its spec, such as ``queue``."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-group-{namespace}-{name}"}
    return {"metadata": metadata, "spec": {"minMember": min_member, **spec}, "status": {}}


class VirtualScheduler:
    """``disabled``: built-in plugins that do not run, for example ``DefaultBinder``, or ``PrioritySort`` where a plugin
    of the test orders the queue. A profile with queues has no such plugins: it has the defaults of
    ``docs/queue-profiles.md``."""

    def __init__(self, *plugins: Any, clock: Clock | None = None, disabled: Iterable[str] = ()) -> None:
        self.clock = clock or Clock()
        self.writes: list[ObjectPatch] = []
        """The writes of plugins (``pre_bind``, ``bind``, ``post_bind``), in order."""
        self.log: list[str] = []
        """The log messages of the scheduler."""
        self.preempted: list[str] = []
        """Keys (``namespace/name``) of preempted pods."""
        self._nodes: dict[str, Object] = {}
        self._objects: dict[tuple[APIResource, str, str], Object] = {}
        self._pods: dict[str, dict[str, Any]] = {}
        self._events: dict[str, list[str]] = {}
        configuration, factories = _configure(plugins, tuple(disabled))
        self.scheduler = Scheduler(
            configuration,
            factories,
            self.log.append,
            queueing=QueueAdmissionSettings(time_of_day=self.clock),
            gated_events_per_hour=0,
        )

    # Changes of the cluster

    def apply_node(self, *nodes: Object) -> None:
        """Create or update nodes."""
        for each in nodes:
            self._nodes[each["metadata"]["name"]] = each
            self.scheduler.node_applied(each, self.clock.now_s)

    def apply_pod(self, *pods: Object) -> None:
        """Create or update pods."""
        for each in pods:
            wire = {**each, "status": dict(each.get("status") or {})}
            self._pods[_key(wire)] = wire
            self.scheduler.pod_applied(wire, self.clock.now_s)

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        wire = self._pods.pop(f"{namespace}/{name}")
        self.scheduler.pod_removed(wire["metadata"]["uid"], self.clock.now_s)

    def apply(self, resource: APIResource, wire: Object) -> None:
        """Create or update an object of a kind that a plugin has in ``watched``, or a Queue or a PodGroup."""
        metadata = wire["metadata"]
        self._objects[resource, metadata.get("namespace", ""), metadata["name"]] = wire
        self.scheduler.object_applied(resource, wire, self.clock.now_s)

    def delete(self, resource: APIResource, name: str, namespace: str = "") -> None:
        self._objects.pop((resource, namespace, name), None)
        self.scheduler.object_removed(resource, namespace, name, self.clock.now_s)

    def apply_queue(self, *queues: Object) -> None:
        for each in queues:
            self.apply(QUEUES, each)

    def apply_pod_group(self, *groups: Object) -> None:
        for each in groups:
            self.apply(POD_GROUPS, each)

    def restarted(self, *plugins: Any) -> VirtualScheduler:
        """A new process with these plugins, which are new as well: it knows only the objects of the cluster."""
        new = VirtualScheduler(*plugins, clock=self.clock)
        for (resource, _, _), each in self._objects.items():
            new.apply(resource, each)
        new.apply_node(*self._nodes.values())
        new.apply_pod(*self._pods.values())
        return new

    # Time

    def run(self) -> None:
        """Run the scheduler until it has no more work at this time; all its effects are performed."""
        for _ in range(_MAX_ROUNDS):
            effects = self.scheduler.step(self.clock.now_s, _BATCH_SIZE)
            due_s = self.scheduler.next_deadline_s()
            if not effects and (due_s is None or due_s > self.clock.now_s):
                return
            self._perform(effects)
        raise RuntimeError("the scheduler never becomes idle: a plugin causes new work in every cycle")

    def advance(self, seconds: float) -> None:
        """Advance the clock from one deadline of the scheduler to the next, and run the scheduler at each."""
        until_s = self.clock.now_s + seconds
        self.run()
        for _ in range(_MAX_ROUNDS):
            due_s = self.scheduler.next_deadline_s()
            if due_s is None or due_s > until_s:
                break
            self.clock.now_s = max(self.clock.now_s, due_s)
            self.run()
        self.clock.now_s = until_s
        self.run()

    # Results

    def node_of(self, name: str, namespace: str = "default") -> str | None:
        """The node that the pod is bound to; ``None`` if it waits."""
        found: str | None = self._pods[f"{namespace}/{name}"]["spec"].get("nodeName")
        return found

    def condition(self, name: str, namespace: str = "default") -> Object | None:
        """The condition ``PodScheduled`` of the pod, with ``reason`` and ``message``; ``None`` if it has none."""
        found: list[Object] = self._pods[f"{namespace}/{name}"]["status"].get("conditions") or []
        return next((each for each in found if each["type"] == "PodScheduled"), None)

    def events(self, name: str, namespace: str = "default") -> list[str]:
        """The Events about the pod, each as ``Reason: message``."""
        return self._events.get(f"{namespace}/{name}", [])

    # Effects

    def _perform(self, effects: Iterable[Effect]) -> None:
        for each in effects:
            self._perform(self._perform_one(each))

    def _perform_one(self, effect: Effect) -> list[Effect]:
        now_s = self.clock.now_s
        match effect:
            case Bind(pod, node_name, instead):
                if instead is not None:
                    self.writes.append(instead)
                wire = self._pods[pod.key]
                wire = self._pods[pod.key] = {**wire, "spec": {**wire["spec"], "nodeName": node_name}}
                found = self.scheduler.bound(pod.uid, WriteResult.DONE, "", now_s)
                self.scheduler.pod_applied(wire, now_s)
                return found
            case RemoveSchedulingGate(pod, stamp):
                self._change_pod(pod.key, stamp)
                found = self.scheduler.gate_removed(pod.uid, WriteResult.DONE, "", now_s)
                self.scheduler.pod_applied(self._pods[pod.key], now_s)
                return found
            case RemoveStamp(pod, stamp):
                self._change_pod(pod.key, "")
                found = self.scheduler.stamp_removed(pod.uid, stamp, WriteResult.DONE, now_s)
                self.scheduler.pod_applied(self._pods[pod.key], now_s)
                return found
            case PreBindWrites(pod, writes):
                self.writes += writes
                return self.scheduler.prepared(pod.uid, "", now_s)
            case ObjectPatch():
                self.writes.append(effect)
            case SetStatus(pod, condition, nominated_node):
                self._set_status(pod.key, condition, nominated_node)
            case Preempt(victims=victims):
                found = self.scheduler.preempted(effect, [each.uid for each in victims], now_s, ok=True)
                for each in victims:
                    self.preempted.append(each.key)
                    self.delete_pod(each.name, each.namespace)
                return found
            case EmitPodEvent(pod=pod, reason=reason, message=message):
                self._events.setdefault(pod.key, []).append(f"{reason}: {message}")
        return []

    def _change_pod(self, key: str, stamp: str) -> None:
        """The pod loses its queue gate, and has this stamp."""
        wire = self._pods[key]
        metadata, spec = wire["metadata"], wire["spec"]
        annotations = {name: value for name, value in metadata["annotations"].items() if name != STAMP}
        metadata = {**metadata, "annotations": {**annotations, **({STAMP: stamp} if stamp else {})}}
        gates = [each for each in spec.get("schedulingGates") or () if each["name"] != GATE]
        self._pods[key] = {**wire, "metadata": metadata, "spec": {**spec, "schedulingGates": gates}}

    def _set_status(self, key: str, condition: Object | None, nominated_node: str | None) -> None:
        wire = self._pods.get(key)
        if wire is None:
            return
        status = dict(wire["status"])
        if condition is not None:
            status["conditions"] = [dict(condition)]
        if nominated_node is not None:
            status["nominatedNodeName"] = nominated_node
        self._pods[key] = {**wire, "status": status}
        self.scheduler.pod_applied(self._pods[key], self.clock.now_s)


def _key(wire: Object) -> str:
    return f"{wire['metadata'].get('namespace', '')}/{wire['metadata']['name']}"


def _configure(
    plugins: tuple[Any, ...], disabled: tuple[str, ...]
) -> tuple[KubeSchedulerConfiguration, Mapping[str, PluginFactory]]:
    """The configuration and the plugin factories. Raises for errors that ``headgate config check`` reports."""
    for each in plugins:
        problems = signature_checks.problems(each, each.name)
        if problems:
            raise ValueError(f"plugin {each.name}: {'; '.join(problems)}")
    registry = with_plugins([PluginEntry(each.name, points_served(each)) for each in plugins])
    if isinstance(registry, str):
        raise ValueError(registry)
    factories = {**IN_TREE_PLUGINS, **{each.name: _factory_of(each) for each in plugins}}
    if any(not entry.points.isdisjoint(QUEUE_METHODS) for entry in registry.values()):
        return _configure_queues(plugins, registry), factories
    multi_point = {
        "enabled": [{"name": each.name} for each in plugins],
        "disabled": [{"name": each} for each in disabled],
    }
    document = {**_HEADER, "profiles": [{"plugins": {"multiPoint": multi_point}}]}
    configuration = parse_configuration(document, registry)
    if not isinstance(configuration, KubeSchedulerConfiguration):
        raise ValueError("; ".join(map(str, configuration)))
    return configuration, factories


def _configure_queues(plugins: tuple[Any, ...], registry: Registry) -> KubeSchedulerConfiguration:
    """A profile with queues, and the plugins in a tier before the default ones."""
    tier = {"plugins": [{"name": each.name} for each in plugins]}
    parsed = parse_volcano_conf({"actions": "allocate", "tiers": [tier]}, registry)
    if not isinstance(parsed, VolcanoConfiguration):
        raise ValueError("; ".join(map(str, parsed)))
    conf = SchedulerConf(tiers=(*parsed.conf.tiers, *DEFAULT_TIERS))
    return KubeSchedulerConfiguration((queue_profile(DEFAULT_SCHEDULER, conf),))


def _factory_of(plugin: Any) -> PluginFactory:
    def make(args: Any, cluster: Cluster) -> Any:
        return plugin

    return make
