"""A scheduler and the few steps that stories about it are made of; time moves only when a story says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from clusters import a_node, a_pod
from headgate.capacity.conf import SchedulerConf
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.config.plugin_registry import PluginEntry, points_served, with_plugins
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.framework.effects import Bind, Effect, EmitPodEvent, SetStatus, WriteResult
from headgate.scheduling.gates.queue_admission import ENABLED, QueueAdmissionSettings
from headgate.scheduling.plugins.registry import IN_TREE_PLUGINS, PluginFactory
from headgate.scheduling.pod_lifecycle import PodState
from headgate.scheduling.scheduler import Scheduler

Object = dict[str, Any]

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def configured(
    plugins: Iterable[Any], known: Iterable[Any] = (), **document: Any
) -> tuple[KubeSchedulerConfiguration, dict[str, PluginFactory]]:
    """The default profile with these plugins at the points they serve; ``known`` ones run where the document says."""
    every = [*plugins, *known]
    registry = with_plugins([PluginEntry(each.name, points_served(each)) for each in every])
    assert not isinstance(registry, str)
    enabled = {"multiPoint": {"enabled": [{"name": each.name} for each in plugins]}}
    read = parse_configuration({**HEADER, "profiles": [{"plugins": enabled}], **document}, registry)
    assert isinstance(read, KubeSchedulerConfiguration), [str(each) for each in read]
    return read, {**IN_TREE_PLUGINS, **{each.name: _given(each) for each in every}}


def _given(plugin: Any) -> PluginFactory:
    def make(args: Any, cluster: Cluster) -> Any:
        return plugin

    return make


class World:
    """``effects`` are those of the last step."""

    def __init__(
        self,
        *plugins: Any,
        nodes: Iterable[Object] = (),
        known: Iterable[Any] = (),
        queues: SchedulerConf | None = None,
        queueing: QueueAdmissionSettings = ENABLED,
        **document: Any,
    ) -> None:
        self.problems: list[str] = []
        self.now_s = 1000.0
        read, makers = configured(plugins, known, **document)
        profiles = tuple(msgspec.structs.replace(each, queues=queues) for each in read.profiles)
        read = msgspec.structs.replace(read, profiles=profiles)
        self.scheduler = Scheduler(read, makers, report=self.problems.append, queueing=queueing)
        self.effects: list[Effect] = []
        for node in nodes or (a_node("a"), a_node("b")):
            self.scheduler.node_applied(node, self.now_s)

    def show(self, *pods: Object) -> None:
        for pod in pods:
            self.scheduler.pod_applied(pod, self.now_s)

    def show_bound(self, pod: Object, node: str) -> None:
        self.show({**pod, "spec": {**pod["spec"], "nodeName": node}})

    def remove(self, name: str) -> None:
        self.scheduler.pod_removed(f"uid-{name}", self.now_s)

    def step(self, after_s: float = 0.0, most: int = 100) -> list[Effect]:
        self.now_s += after_s
        self.effects = self.scheduler.step(self.now_s, most)
        return self.effects

    def answer(self, name: str, result: WriteResult, message: str = "") -> list[Effect]:
        self.effects = self.scheduler.bound(f"uid-{name}", result, message, self.now_s)
        return self.effects

    @property
    def binds(self) -> dict[str, str]:
        return {each.pod.name: each.node_name for each in self.effects if isinstance(each, Bind)}

    @property
    def statuses(self) -> dict[str, str]:
        """What conditions say, by pod: reason and message."""
        return {
            each.pod.name: f"{each.condition['reason']}: {each.condition['message']}"
            for each in self.effects
            if isinstance(each, SetStatus) and each.condition is not None
        }

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(each.pod.name, each.reason) for each in self.effects if isinstance(each, EmitPodEvent)]

    def where(self, name: str) -> PodState | None:
        queued = self.scheduler.queue.get(f"uid-{name}")
        return None if queued is None else queued.state

    def taken(self, node: str) -> int:
        """Pods that count on a node, assumed ones included."""
        row = self.scheduler.cluster.matrix.row_of(node)
        assert row is not None
        return len(self.scheduler.cluster.matrix.pods_on(row))


def with_status(pod: Object, **condition: Any) -> Object:
    said = {"type": "PodScheduled", "status": "False", **condition}
    return {**pod, "status": {"conditions": [said]}}


def encoded(effects: Iterable[Effect]) -> bytes:
    """Effects byte for byte, but for the shapes, which are numbered as they come."""
    return msgspec.json.encode([[type(each).__name__, repr(each)] for each in effects])


__all__ = ["World", "a_node", "a_pod", "encoded", "with_status"]
