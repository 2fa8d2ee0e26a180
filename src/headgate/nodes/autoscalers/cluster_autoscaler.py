"""A model of Cluster Autoscaler: each loop reads all pending pods, and scales up one node group or removes idle nodes.

It covers which pods cause a scale-up (CA-1 to CA-9, CA-11 to CA-14), when (CA-16 to CA-19), the nodes that are already
ordered (CA-20 to CA-22), and the removal of empty nodes (CA-24, CA-25, CA-27). Left out: the drain of nodes that have
pods (CA-10, CA-26), proactive scale-up (CA-15), utilisation. Cluster Autoscaler picks one of several suitable groups at
random; the model takes the group that helps most pods, then the one with the fewest new nodes, then the first by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.kube.conditions import UNSCHEDULABLE
from headgate.nodes.autoscalers.bin_packing import PackingNode, existing_node, place_pod, planned_node
from headgate.nodes.autoscalers.cluster_snapshot import ClusterSnapshot
from headgate.nodes.autoscalers.instance_types import AutoscalerNode, new_machine
from headgate.nodes.autoscalers.model import AddMachine, Effect, EmitAutoscalerEvent, RemoveMachine, TaintNode
from headgate.nodes.autoscalers.node_groups import NodeGroup, NodeGroups, NodeGroupTimeouts
from headgate.nodes.autoscalers.pending_pods import AutoscalerPod
from headgate.nodes.timer_heap import TimerHeap

Object = dict[str, Any]

TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
_SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_FRESH_S: Final = 10.0
_TOO_NEW_S: Final = 2.0
_TOO_NEW_WITH_GPU_S: Final = 30.0
_GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu")
_LOOP: Final = "loop"
_DELETE: Final = "delete"


class ClusterAutoscalerFlags(msgspec.Struct, frozen=True):
    """Named after Cluster Autoscaler's, with its defaults."""

    scan_interval_s: float = 10.0
    frequent_loops_enabled: bool = True
    new_pod_scale_up_delay_s: float = 0.0
    expendable_pods_priority_cutoff: int = -10
    allowed_scheduler_names: frozenset[str] = frozenset()
    bypassed_scheduler_names: frozenset[str] = frozenset()
    enable_provisioning_requests: bool = False
    max_nodes_total: int = 0
    scale_down_unneeded_time_s: float = 600.0
    scale_down_unready_time_s: float = 1200.0
    scale_down_delay_after_add_s: float = 600.0
    node_delete_delay_after_taint_s: float = 5.0
    timeouts: NodeGroupTimeouts = NodeGroupTimeouts()


class ClusterAutoscaler:
    def __init__(self, groups: Iterable[NodeGroup], flags: ClusterAutoscalerFlags | None = None) -> None:
        self._flags = flags or ClusterAutoscalerFlags()
        self._groups = NodeGroups(groups, self._flags.timeouts)
        self._snapshot = ClusterSnapshot()
        self._timers: TimerHeap[tuple[str, str]] = TimerHeap()
        self._unneeded_s: dict[str, float] = {}  # since when
        self._emitted: dict[str, set[str]] = {}  # by pod uid: the reasons of its Events
        self._last_add_s = float("-inf")
        self._synced = False

    # -- events ----------------------------------------------------------------------------------------------------

    def pod_applied(self, pod: Object, now_s: float) -> None:
        _, seen = self._snapshot.pod_applied(pod)
        fresh = self._is_demand(seen) and now_s - seen.since_s < _FRESH_S
        if self._synced and self._flags.frequent_loops_enabled and fresh:
            self._timers.set((_LOOP, ""), now_s)  # CA-18

    def pod_removed(self, uid: str, now_s: float) -> None:
        self._snapshot.pod_removed(uid)
        self._emitted.pop(uid, None)

    def node_applied(self, node: Object, now_s: float) -> None:
        _, seen = self._snapshot.node_applied(node)
        self._groups.node_joined(seen)

    def node_removed(self, name: str, now_s: float) -> None:
        node = self._snapshot.node_removed(name)
        self._unneeded_s.pop(name, None)
        if node is not None:
            self._groups.node_left(node)

    def synced(self, now_s: float) -> None:
        if not self._synced:
            self._synced = True
            self._timers.set((_LOOP, ""), now_s)

    def next_deadline_s(self) -> float | None:
        return self._timers.next_deadline_s()

    def due(self, now_s: float) -> list[Effect]:
        out: list[Effect] = []
        for timer, name in list(self._timers.due(now_s)):
            if timer == _LOOP:
                done = self._run_once(now_s)
                acted = any(isinstance(each, (AddMachine, TaintNode)) for each in done)
                # CA-19: a loop that changed something is followed by the next one at once.
                self._timers.set((_LOOP, ""), now_s if acted else now_s + self._flags.scan_interval_s)
                out += done
            else:
                out += self._remove_tainted_node(name)
        return out

    # -- one loop --------------------------------------------------------------------------------------------------

    def _run_once(self, now_s: float) -> list[Effect]:
        self._groups.expire_orders(now_s)
        candidates = self._nodes_with_free_capacity(now_s)
        # CA-11: highest priority first. CA-12: a placed pod takes capacity and keeps its node.
        waiting = sorted((pod for pod in self._snapshot.pending.values() if self._is_demand(pod)), key=_pod_order)
        unplaced = [
            pod for pod in waiting if not self._is_expendable(pod) and place_pod(pod, candidates.values()) is None
        ]
        helped = [pod for pod in unplaced if self._may_cause_scale_up(pod, now_s)]
        too_new = bool(helped) and self._are_too_new(helped, now_s)
        out = [] if not helped or too_new else self._scale_up(helped, now_s)
        has_scaled_up = any(isinstance(each, AddMachine) for each in out)
        self._update_unneeded(candidates, now_s)
        return out if has_scaled_up or too_new else out + self._scale_down(now_s)

    def _is_demand(self, pod: AutoscalerPod) -> bool:
        flags = self._flags
        if pod.node or pod.terminal or pod.deleting or pod.nominated_node:  # CA-1, CA-2, CA-3
            return False
        if flags.allowed_scheduler_names and pod.scheduler not in flags.allowed_scheduler_names:  # CA-1
            return False
        if pod.status == "False" and pod.reason == UNSCHEDULABLE:  # CA-4, and CA-5 for every other reason
            return True
        unprocessed = not pod.status or (pod.status == "False" and not pod.reason)
        return unprocessed and pod.scheduler in flags.bypassed_scheduler_names  # CA-6

    def _is_expendable(self, pod: AutoscalerPod) -> bool:
        """CA-9."""
        return pod.priority is not None and pod.priority < self._flags.expendable_pods_priority_cutoff

    def _may_cause_scale_up(self, pod: AutoscalerPod, now_s: float) -> bool:
        if pod.owner == "DaemonSet":  # CA-13
            return False
        if self._flags.enable_provisioning_requests and pod.consumes_provisioning_request:  # CA-14
            return False
        wait_s = max(self._flags.new_pod_scale_up_delay_s, pod.delay_s)
        return now_s - pod.created_s >= wait_s  # CA-16: from the creation, gated or not

    def _are_too_new(self, pods: list[AutoscalerPod], now_s: float) -> bool:
        """CA-17: more pods may follow soon. Pods with devices take longer to arrive."""
        oldest_s = min(pod.created_s for pod in pods)
        wait_s = _TOO_NEW_WITH_GPU_S if any(name in pod.requests for pod in pods for name in _GPUS) else _TOO_NEW_S
        return not self._flags.bypassed_scheduler_names and now_s - oldest_s < wait_s

    def _nodes_with_free_capacity(self, now_s: float) -> dict[str, PackingNode]:
        """Ready nodes with their pods, and nodes that are ordered, by name."""
        ready = (node for _, node in sorted(self._snapshot.nodes.items()) if self._takes_pods(node))
        candidates = {node.name: existing_node(node) for node in ready}
        for name, candidate in candidates.items():
            for pod in self._snapshot.running_on(name):
                if not self._is_expendable(pod):
                    candidate.add_pod(pod)
        for pod in self._snapshot.pending.values():
            if pod.nominated_node in candidates and not pod.deleting:  # CA-3
                candidates[pod.nominated_node].add_pod(pod)
        for group in self._groups.all:
            for number in range(self._groups.upcoming(group.name, now_s)):  # CA-21
                name = f"upcoming {number} of {group.name}"
                candidates[name] = planned_node(name, group.name, group.instance_type)
        return candidates

    def _takes_pods(self, node: AutoscalerNode) -> bool:
        return node.counts_as_ready and not node.deleting and not self._groups.is_marked_for_removal(node.name)

    # -- scale-up --------------------------------------------------------------------------------------------------

    def _scale_up(self, pods: list[AutoscalerPod], now_s: float) -> list[Effect]:
        max_nodes = len(pods)
        if self._flags.max_nodes_total:  # CA-20
            target_total = sum(self._groups.target(group.name) for group in self._groups.all)
            ungrouped = sum(not node.group for node in self._snapshot.nodes.values())
            max_nodes = min(max_nodes, max(self._flags.max_nodes_total - target_total - ungrouped, 0))
        plans = [
            (group, _pack(group, pods, min(max_nodes, self._groups.max_increase(group, now_s))))
            for group in self._groups.all
        ]
        group, packed = min(plans, key=_plan_order, default=(None, []))
        out: list[Effect] = []
        if group is not None and packed:
            for node_pods in packed:
                name = self._snapshot.new_name(group.name)
                self._groups.order(group.name, name, now_s)
                out.append(
                    AddMachine(new_machine(name, group.name, group.instance_type), tuple(pod.key for pod in node_pods))
                )
            for pod in (pod for node_pods in packed for pod in node_pods):
                out += self._emit_event(
                    pod, "TriggeredScaleUp", f"pod triggered scale-up: {len(packed)} of {group.name}"
                )
            self._last_add_s = now_s
        elif not any(packed for _, packed in plans):
            for pod in pods:
                out += self._emit_event(pod, "NotTriggerScaleUp", "pod didn't trigger scale-up")
        return out

    def _emit_event(self, pod: AutoscalerPod, reason: str, message: str) -> list[Effect]:
        """CA-23, once for each pod and reason."""
        emitted = self._emitted.setdefault(pod.uid, set())
        if reason in emitted:
            return []
        emitted.add(reason)
        return [EmitAutoscalerEvent(pod.namespace, pod.name, pod.uid, reason, message)]

    # -- scale-down ------------------------------------------------------------------------------------------------

    def _update_unneeded(self, candidates: dict[str, PackingNode], now_s: float) -> None:
        for group in self._groups.all:
            for node in self._groups.staying(group.name):
                candidate = candidates.get(node.name)
                empty = self._snapshot.is_empty(node.name) if candidate is None else not candidate.disruptable_pods
                if empty and node.annotations.get(_SCALE_DOWN_DISABLED) != "true":  # CA-24, for empty nodes
                    self._unneeded_s.setdefault(node.name, now_s)
                else:
                    self._unneeded_s.pop(node.name, None)

    def _scale_down(self, now_s: float) -> list[Effect]:
        out: list[Effect] = []
        if now_s - self._last_add_s < self._flags.scale_down_delay_after_add_s:  # CA-25
            return out
        for group in self._groups.all:
            for node in self._groups.staying(group.name):
                if self._groups.target(group.name) <= group.min_size:
                    break
                if now_s - self._unneeded_s.get(node.name, now_s) > self._unneeded_limit_s(node):
                    self._groups.mark_for_removal(node.name)
                    self._timers.set((_DELETE, node.name), now_s + self._flags.node_delete_delay_after_taint_s)
                    out.append(TaintNode(node.name, node.uid, TO_BE_DELETED))  # CA-27
        return out

    def _unneeded_limit_s(self, node: AutoscalerNode) -> float:
        flags = self._flags
        return flags.scale_down_unneeded_time_s if node.counts_as_ready else flags.scale_down_unready_time_s

    def _remove_tainted_node(self, name: str) -> list[Effect]:
        node = self._snapshot.nodes.get(name)
        if node is None:
            return []
        if self._snapshot.is_empty(name):
            return [RemoveMachine(name, node.uid)]
        self._groups.unmark_for_removal(name)  # a pod was bound before the taint
        self._unneeded_s.pop(name, None)
        return [TaintNode(name, node.uid, TO_BE_DELETED, off=True)]


def _pod_order(pod: AutoscalerPod) -> tuple[int, float, str]:
    return -(pod.priority or 0), pod.created_s, pod.key


def _pack(group: NodeGroup, pods: list[AutoscalerPod], max_nodes: int) -> list[list[AutoscalerPod]]:
    """The pods of each new machine if the group grew for these pods: the largest pod first, first fit."""
    size = group.instance_type.counts

    def share(pod: AutoscalerPod) -> float:
        return sum(amount / size[name] for name, amount in pod.requests.items() if size.get(name))

    candidates: list[PackingNode] = []
    pods_by_node: dict[str, list[AutoscalerPod]] = {}
    for pod in sorted(pods, key=lambda pod: (-share(pod), *_pod_order(pod))):
        candidate = place_pod(pod, candidates)
        if candidate is None and len(candidates) < max_nodes:
            new = planned_node(f"new {len(candidates)}", group.name, group.instance_type)
            candidate = place_pod(pod, [new])
            if candidate is not None:
                candidates.append(new)
        if candidate is not None:
            pods_by_node.setdefault(candidate.name, []).append(pod)
    return list(pods_by_node.values())


def _plan_order(plan: tuple[NodeGroup, list[list[AutoscalerPod]]]) -> tuple[int, int, str]:
    group, packed = plan
    return -sum(map(len, packed)), len(packed), group.name
