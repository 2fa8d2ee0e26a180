"""Runs plugins in Headgate's scheduler without a cluster: no API server, no network, and a virtual clock.

:class:`VirtualScheduler` is the scheduler of ``headgate run`` with a profile that enables the plugins at every
extension point they serve, as ``multiPoint`` does. Objects have the form of the Kubernetes API, bindings succeed at
once, and writes are kept for the test to check. docs/plugins.md shows an example.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headgate.kube.api_resources import APIResource
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.config.plugin_registry import PluginEntry, points_served, with_plugins
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.framework import signature_checks
from headgate.scheduling.framework.effects import (
    Bind,
    Effect,
    EmitPodEvent,
    ObjectPatch,
    PreBindWrites,
    Preempt,
    SetStatus,
    WriteResult,
)
from headgate.scheduling.gates.queue_admission import QueueAdmissionSettings
from headgate.scheduling.plugins.registry import IN_TREE_PLUGINS, PluginFactory
from headgate.scheduling.scheduler import Scheduler

__all__ = ["Clock", "VirtualScheduler", "a_node", "a_pod"]

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
    """A pod as the API server shows it. Keywords other than ``labels`` and ``requests`` are fields of its spec."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "labels": dict(more.pop("labels", {})),
        "annotations": dict(annotations or {}),
    }
    container = {"name": "main", "image": "app", "resources": {"requests": dict(more.pop("requests", {}))}}
    return {"metadata": metadata, "spec": {"containers": [container], **more}, "status": {}}


def a_node(name: str, *, labels: Object | None = None, **amounts: str) -> dict[str, Any]:
    """A node as the API server shows it; by default with 8 CPUs, 32Gi of memory and 110 pods."""
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110", **amounts}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": dict(labels or {})}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": allocatable}}


class VirtualScheduler:
    """``disabled``: built-in plugins that do not run, for example ``DefaultBinder``, or ``PrioritySort`` where a plugin
    of the test orders the queue."""

    def __init__(self, *plugins: Any, clock: Clock | None = None, disabled: Iterable[str] = ()) -> None:
        self.clock = clock or Clock()
        self.writes: list[ObjectPatch] = []
        """The writes of plugins (``pre_bind``, ``bind``, ``post_bind``), in order."""
        self.log: list[str] = []
        """The log messages of the scheduler."""
        self.preempted: list[str] = []
        """Keys (``namespace/name``) of preempted pods."""
        self._pods: dict[str, dict[str, Any]] = {}
        self._events: dict[str, list[str]] = {}
        configuration, factories = _configure(plugins, tuple(disabled))
        self.scheduler = Scheduler(
            configuration, factories, self.log.append, queueing=QueueAdmissionSettings(day=self.clock), gated_events=0
        )

    # Changes of the cluster

    def apply_node(self, *nodes: Object) -> None:
        """Create or update nodes."""
        for each in nodes:
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
        """Create or update an object of a kind that a plugin has in ``watched``."""
        self.scheduler.object_applied(resource, wire, self.clock.now_s)

    def delete(self, resource: APIResource, name: str, namespace: str = "") -> None:
        self.scheduler.object_removed(resource, namespace, name, self.clock.now_s)

    # Time

    def run(self) -> None:
        """Run the scheduler until it has no more work at this time; all its effects are performed."""
        for _ in range(_MAX_ROUNDS):
            effects = self.scheduler.step(self.clock.now_s, _BATCH_SIZE)
            if not effects:
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
    multi_point = {
        "enabled": [{"name": each.name} for each in plugins],
        "disabled": [{"name": each} for each in disabled],
    }
    document = {**_HEADER, "profiles": [{"plugins": {"multiPoint": multi_point}}]}
    configuration = parse_configuration(document, registry)
    if not isinstance(configuration, KubeSchedulerConfiguration):
        raise ValueError("; ".join(map(str, configuration)))
    return configuration, {**IN_TREE_PLUGINS, **{each.name: _factory_of(each) for each in plugins}}


def _factory_of(plugin: Any) -> PluginFactory:
    def make(args: Any, cluster: Cluster) -> Any:
        return plugin

    return make
