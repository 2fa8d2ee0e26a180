"""A model of Karpenter: batches of pending pods become node claims; nodes with nothing on them go.

It covers who is provisioned for (KP-1 to KP-3), batching (KP-4), planning on existing and starting nodes before new
ones (KP-5), nominations and what they keep from going (KP-6), emptiness (KP-8) and machines that never start (KP-9).
Left out: moving pods to fewer or cheaper nodes (KP-7), drift, expiry, and capacity buffers (KP-11).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.kube.conditions import UNSCHEDULABLE
from headgate.nodes.autoscalers.bin_packing import PackingNode, existing_node, place_pod, planned_node
from headgate.nodes.autoscalers.cluster_snapshot import ClusterSnapshot
from headgate.nodes.autoscalers.instance_types import PASSING_TAINTS, AutoscalerNode, InstanceType, new_machine
from headgate.nodes.autoscalers.model import AddMachine, Effect, EmitAutoscalerEvent, RemoveMachine
from headgate.nodes.autoscalers.node_claims import NodeClaimPlan, NodePool, within_limits
from headgate.nodes.autoscalers.pending_pods import AutoscalerPod
from headgate.nodes.timer_heap import TimerHeap

Object = dict[str, Any]

_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
_AGAIN: Final = "again"
_BATCH: Final = "batch"
_IDLE: Final = "disrupt"
_CHECK: Final = "validate"
_LATE: Final = "late"


class KarpenterSettings(msgspec.Struct, frozen=True):
    batch_idle_s: float = 1.0
    batch_max_s: float = 10.0
    requeue_s: float = 10.0
    poll_s: float = 10.0
    validation_s: float = 15.0
    registration_s: float = 900.0

    @property
    def nomination_s(self) -> float:
        return max(2 * self.batch_max_s, 10.0)


class LaunchedMachine(msgspec.Struct, frozen=True):
    pool: NodePool
    shape: InstanceType


class Karpenter:
    def __init__(self, pools: Iterable[NodePool], settings: KarpenterSettings | None = None) -> None:
        self._pools = {pool.name: pool for pool in pools}
        self._settings = settings or KarpenterSettings()
        self._picture = ClusterSnapshot()
        self._timers: TimerHeap[tuple[str, str]] = TimerHeap()
        self._opened_s: float | None = None  # the batch
        self._launched: dict[str, LaunchedMachine] = {}  # machines that have not joined yet
        self._nominated_s: dict[str, float] = {}  # nodes, until when
        self._moved_s: dict[str, float] = {}  # nodes, when a pod last came or went
        self._condemned: list[str] = []
        self._told: dict[str, str] = {}  # by uid, the last reason
        self._synced = False

    # -- facts -----------------------------------------------------------------------------------------------------

    def pod_applied(self, pod: Object, now_s: float) -> None:
        old, seen = self._picture.pod_applied(pod)
        if seen.node and (old is None or not old.node or (seen.terminal and not old.terminal)):
            self._moved_s[seen.node] = now_s
        was_wanted = old is not None and is_provisionable(old)
        if is_provisionable(seen):
            if not was_wanted:
                self._trigger(now_s)
            self._timers.set((_AGAIN, seen.uid), now_s + self._settings.requeue_s)
        elif was_wanted:
            self._timers.cancel((_AGAIN, seen.uid))

    def pod_removed(self, uid: str, now_s: float) -> None:
        old = self._picture.pod_removed(uid)
        self._timers.cancel((_AGAIN, uid))
        self._told.pop(uid, None)
        if old is not None and old.node:
            self._moved_s[old.node] = now_s

    def node_applied(self, node: Object, now_s: float) -> None:
        old, seen = self._picture.node_applied(node)
        self._launched.pop(seen.name, None)
        self._timers.cancel((_LATE, seen.name))
        if seen.is_initialized and (old is None or not old.is_initialized):
            self._moved_s.setdefault(seen.name, now_s)

    def node_removed(self, name: str, now_s: float) -> None:
        self._picture.node_removed(name)
        for book in (self._nominated_s, self._moved_s):
            book.pop(name, None)

    def synced(self, now_s: float) -> None:
        if not self._synced:
            self._synced = True
            self._timers.set((_IDLE, ""), now_s + self._settings.poll_s)
            if any(map(is_provisionable, self._picture.pending.values())):
                self._trigger(now_s)

    def next_deadline_s(self) -> float | None:
        return self._timers.next_deadline_s() if self._synced else None

    def due(self, now_s: float) -> list[Effect]:
        if not self._synced:
            return []
        out: list[Effect] = []
        for bell, name in list(self._timers.due(now_s)):
            if bell == _AGAIN:
                self._timers.set((_AGAIN, name), now_s + self._settings.requeue_s)
                self._trigger(now_s)
            elif bell == _BATCH:
                self._opened_s = None
                out += self._provision(now_s)
            elif bell == _IDLE:
                self._timers.set((_IDLE, ""), now_s + self._settings.poll_s)
                self._mark_for_disruption(now_s)
            elif bell == _CHECK:
                out += self._disrupt(now_s)
            else:
                self._launched.pop(name, None)  # KP-9: its pods are asked about again with everybody's next batch
        return out

    # -- more ------------------------------------------------------------------------------------------------------

    def _trigger(self, now_s: float) -> None:
        """KP-4: a batch ends when nothing came for a while, and in any case after the longest time."""
        if self._opened_s is None:
            self._opened_s = now_s
        ends_s = min(now_s + self._settings.batch_idle_s, self._opened_s + self._settings.batch_max_s)
        self._timers.set((_BATCH, ""), ends_s)

    def _provision(self, now_s: float) -> list[Effect]:
        """KP-5: all pods that wait, not just those that opened the batch."""
        pods = [pod for pod in self._picture.pending.values() if is_provisionable(pod)]
        for node in self._picture.nodes.values():
            if node.deleting:
                pods += [pod for pod in self._picture.running_on(node.name) if not pod.stays_with_its_node]
        spots = self._nodes_with_free_capacity()
        plan, out = NodeClaimPlan(list(self._pools.values())), list[Effect]()
        for pod in sorted(pods, key=_size):
            spot = place_pod(pod, spots)
            if spot is not None:
                self._nominated_s[spot.name] = now_s + self._settings.nomination_s  # KP-6
                out += self._emit_event(pod, "Nominated", f"Pod should schedule on: node/{spot.name}")
            elif not plan.add(pod):
                out += self._emit_event(
                    pod, "FailedScheduling", "Failed to schedule pod, no node pool has a machine for it"
                )
        return out + self._launch(plan, now_s)

    def _launch(self, plan: NodeClaimPlan, now_s: float) -> list[Effect]:
        out: list[Effect] = []
        for claim in plan.claims:
            if not within_limits(claim.pool, self._used(claim.pool), claim.shape):
                for pod in claim.pods:
                    out += self._emit_event(
                        pod,
                        "FailedScheduling",
                        f"all available instance types exceed limits for nodepool {claim.pool.name}",
                    )
                continue
            name = self._picture.new_name(claim.pool.name)
            self._launched[name] = LaunchedMachine(claim.pool, claim.shape)
            self._nominated_s[name] = now_s + self._settings.nomination_s
            self._timers.set((_LATE, name), now_s + self._settings.registration_s)
            out.append(
                AddMachine(new_machine(name, claim.pool.name, claim.shape), tuple(pod.key for pod in claim.pods))
            )
            for pod in claim.pods:
                out += self._emit_event(pod, "Nominated", f"Pod should schedule on: nodeclaim/{name}")
        return out

    def _nodes_with_free_capacity(self) -> list[PackingNode]:
        """Nodes that started, nodes that start, machines that have not joined: each with the pods on it."""
        nodes = sorted(self._picture.nodes.values(), key=lambda node: (not node.is_initialized, node.name))
        spots = [self._existing_nodes(node) for node in nodes if not node.deleting]
        return spots + [planned_node(name, each.pool.name, each.shape) for name, each in sorted(self._launched.items())]

    def _existing_nodes(self, node: AutoscalerNode) -> PackingNode:
        starts = node.group in self._pools and not node.is_initialized
        spot = existing_node(node, ignored_taints=PASSING_TAINTS if starts else frozenset())
        for pod in self._picture.running_on(node.name):
            spot.add_pod(pod)
        return spot

    def _used(self, pool: NodePool) -> dict[str, int]:
        sizes = [node.capacity for node in self._picture.nodes.values() if node.group == pool.name]
        sizes += [each.shape.counts for each in self._launched.values() if each.pool.name == pool.name]
        return {name: sum(size.get(name, 0) for size in sizes) for name in pool.limits}

    def _emit_event(self, pod: AutoscalerPod, reason: str, message: str) -> list[Effect]:
        """KP-10. A pod that waits is planned again every few seconds; it is told what is new."""
        if self._told.get(pod.uid) == reason:
            return []
        self._told[pod.uid] = reason
        return [EmitAutoscalerEvent(pod.namespace, pod.name, pod.uid, reason, message)]

    # -- less ------------------------------------------------------------------------------------------------------

    def _mark_for_disruption(self, now_s: float) -> None:
        if self._condemned:
            return  # one command at a time
        self._condemned = [name for name, node in sorted(self._picture.nodes.items()) if self._is_idle(node, now_s)]
        if self._condemned:
            self._timers.set((_CHECK, ""), now_s + self._settings.validation_s)

    def _disrupt(self, now_s: float) -> list[Effect]:
        condemned, self._condemned = self._condemned, []
        nodes = [self._picture.nodes[name] for name in condemned if name in self._picture.nodes]
        return [RemoveMachine(node.name, node.uid) for node in nodes if self._is_idle(node, now_s)]

    def _is_idle(self, node: AutoscalerNode, now_s: float) -> bool:
        """KP-8, unless it is nominated for a pod (KP-6)."""
        pool = self._pools.get(node.group)
        if pool is None or pool.consolidate_after_s is None or not node.is_initialized or node.deleting:
            return False
        rested = now_s - self._moved_s.get(node.name, now_s) >= pool.consolidate_after_s
        promised = self._nominated_s.get(node.name, 0.0) > now_s
        kept = node.annotations.get(_DO_NOT_DISRUPT) == "true"
        return rested and not promised and not kept and self._picture.is_empty(node.name)


def is_provisionable(pod: AutoscalerPod) -> bool:
    """KP-1, KP-2: by the reason alone; who schedules it, its age and its priority do not count (KP-3)."""
    return pod.reason == UNSCHEDULABLE and not pod.node and not pod.nominated and pod.owner not in ("DaemonSet", "Node")


def _size(pod: AutoscalerPod) -> tuple[int, int, float, str]:
    return -pod.requests.get("cpu", 0), -pod.requests.get("memory", 0), pod.created_s, pod.uid
