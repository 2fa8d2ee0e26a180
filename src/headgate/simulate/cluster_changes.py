"""Changes of the simulated cluster at given times: nodes, queues, quota and others, as a recording has them.

What simulated pods still use is not taken away from them: a node that was removed takes no more pods and is removed
when its last pod has ended, and a PodGroup when its last member has. Pods of DaemonSets come and go with their node.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

from headgate.capacity.names import POD_GROUPS
from headgate.kube.api_resources import NODES, PODS, APIResource
from headgate.simulate.cluster_state import ClusterState, key_of
from headgate.simulate.job_objects import NewObjects
from headgate.simulate.job_records import SimulatedPod
from headgate.simulate.measurements import Measurements
from headgate.simulate.snapshot import LaterChange

Object = dict[str, Any]


class ChangedCluster(Protocol):
    """What this module uses of ``simulation.py``."""

    now_s: float
    measurements: Measurements
    pods: dict[str, SimulatedPod]

    @property
    def state(self) -> ClusterState: ...

    @property
    def new_objects(self) -> NewObjects: ...

    def create(self, resource: APIResource, obj: Object) -> None: ...

    def log(self, what: str, name: str, job: str = "", node: str = "") -> None: ...

    def remove_bound_pod(self, pod: Object) -> None:
        """Removes a pod that belongs to its node."""


class ClusterChanges:
    """``leaving_nodes``, ``leaving_groups``: what is removed when its last pod has ended. ``members``: the number of
    pods of the trace of each PodGroup."""

    def __init__(self, host: ChangedCluster) -> None:
        self._host = host
        self._leaving_nodes: set[str] = set()
        self._leaving_groups: set[tuple[str, str]] = set()
        self._members: Counter[tuple[str, str]] = Counter()

    def apply(self, change: LaterChange) -> None:
        state, (namespace, name) = self._host.state, key_of(change.obj)
        stored = state.get(change.resource, namespace, name)
        if not change.gone:
            if change.resource == NODES:
                self._leaving_nodes.discard(name)
            elif change.resource == POD_GROUPS:
                self._leaving_groups.discard((namespace, name))
            if stored is None:
                self._add(change)
            else:
                self._replace(change.resource, stored, change.obj)
        elif stored is not None:
            self._remove(change.resource, stored)

    def _add(self, change: LaterChange) -> None:
        if change.resource == PODS and self._host.state.get(NODES, "", change.obj["spec"]["nodeName"]) is None:
            return  # its node is not simulated
        self._host.create(change.resource, change.obj)

    def _replace(self, resource: APIResource, stored: Object, obj: Object) -> None:
        host, metadata = self._host, stored["metadata"]
        kept = {name: metadata[name] for name in ("uid", "creationTimestamp") if name in metadata}
        generation = metadata.get("generation", 1) + (stored.get("spec") != obj.get("spec"))
        new = {**obj, "metadata": {**obj["metadata"], **kept, "generation": generation}}
        if resource not in (NODES, POD_GROUPS) and "status" in stored:
            new["status"] = {**(stored["status"] or {}), **(obj.get("status") or {})}
        if resource == POD_GROUPS:
            new["status"] = stored.get("status") or {}
        new = host.state.put(resource, new)
        host.new_objects.cache.applied(resource, new)
        if resource == NODES:
            host.measurements.machine_changed(new, host.now_s)

    def _remove(self, resource: APIResource, stored: Object) -> None:
        host, (namespace, name) = self._host, key_of(stored)
        if resource == NODES:
            self._leaving_nodes.add(name)
            if not (stored.get("spec") or {}).get("unschedulable"):
                spec = {**(stored.get("spec") or {}), "unschedulable": True}
                host.state.put(NODES, {**stored, "metadata": dict(stored["metadata"]), "spec": spec})
            self.pod_left(name)
        elif resource == POD_GROUPS:
            self._leaving_groups.add((namespace, name))
            self._remove_empty_group((namespace, name))
        elif resource == PODS:
            host.remove_bound_pod(stored)
        else:
            host.state.remove(resource, stored)
            host.new_objects.cache.removed(resource, namespace, name)

    def pod_left(self, node: str) -> None:
        """A pod has left this node."""
        if node not in self._leaving_nodes:
            return
        mine = [uid for uid, pod in self._host.pods.items() if pod.node == node]
        if any(not self._host.pods[uid].is_daemon for uid in mine):
            return
        host = self._host
        for uid in mine:
            daemon = host.pods[uid]
            pod = host.state.get(PODS, daemon.record.job.namespace, daemon.name)
            if pod is not None:
                host.remove_bound_pod(pod)
        self._leaving_nodes.discard(node)
        stored = host.state.get(NODES, "", node)
        if stored is not None:
            host.log("machine-removed", node)
            host.measurements.machine_removed(stored, host.now_s)
            host.state.remove(NODES, stored)

    def member_created(self, group: tuple[str, str]) -> None:
        self._members[group] += 1

    def member_gone(self, group: tuple[str, str]) -> None:
        self._members[group] -= 1
        if not self._members[group]:
            del self._members[group]
            self._remove_empty_group(group)

    def _remove_empty_group(self, group: tuple[str, str]) -> None:
        if group in self._leaving_groups and group not in self._members:
            self._leaving_groups.discard(group)
            stored = self._host.state.get(POD_GROUPS, *group)
            if stored is not None:
                self._host.state.remove(POD_GROUPS, stored)
                self._host.new_objects.cache.removed(POD_GROUPS, *group)
