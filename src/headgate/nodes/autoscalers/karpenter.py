"""A model of Karpenter: it creates node claims for batches of pending pods, and removes empty nodes.

It covers which pods are provisionable (KP-1 to KP-3), batches (KP-4), existing and starting nodes before new ones
(KP-5), nominations, which keep a node from disruption (KP-6), emptiness (KP-8) and machines that never start (KP-9).
Left out: consolidation on fewer or cheaper nodes (KP-7), drift, expiry, and capacity buffers (KP-11).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.kube.conditions import UNSCHEDULABLE
from headgate.nodes.autoscalers.bin_packing import PackingNode, existing_node, place_pod, planned_node
from headgate.nodes.autoscalers.cluster_snapshot import ClusterSnapshot
from headgate.nodes.autoscalers.instance_types import EPHEMERAL_TAINTS, AutoscalerNode, InstanceType, new_machine
from headgate.nodes.autoscalers.model import AddMachine, Effect, EmitAutoscalerEvent, RemoveMachine
from headgate.nodes.autoscalers.node_claims import NodeClaimPlan, NodePool, within_limits
from headgate.nodes.autoscalers.pending_pods import AutoscalerPod
from headgate.nodes.timer_heap import TimerHeap

Object = dict[str, Any]

_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
_REQUEUE: Final = "again"
_BATCH: Final = "batch"
_DISRUPT: Final = "disrupt"
_VALIDATE: Final = "validate"
_REGISTER: Final = "late"


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
    instance_type: InstanceType


class Karpenter:
    def __init__(self, pools: Iterable[NodePool], settings: KarpenterSettings | None = None) -> None:
        self._pools = {pool.name: pool for pool in pools}
        self._settings = settings or KarpenterSettings()
        self._snapshot = ClusterSnapshot()
        self._timers: TimerHeap[tuple[str, str]] = TimerHeap()
        self._batch_since_s: float | None = None  # since when the present batch is open
        self._launched: dict[str, LaunchedMachine] = {}  # machines that have not joined yet
        self._nominated_s: dict[str, float] = {}  # by node: until when
        self._last_pod_event_s: dict[str, float] = {}  # by node: when a pod was last added or removed
        self._disruption_candidates: list[str] = []
        self._emitted: dict[str, str] = {}  # by pod uid: the reason of its last Event
        self._synced = False

    # -- events ----------------------------------------------------------------------------------------------------

    def pod_applied(self, pod: Object, now_s: float) -> None:
        old, seen = self._snapshot.pod_applied(pod)
        if seen.node and (old is None or not old.node or (seen.terminal and not old.terminal)):
            self._last_pod_event_s[seen.node] = now_s
        was_provisionable = old is not None and is_provisionable(old)
        if is_provisionable(seen):
            if not was_provisionable:
                self._trigger(now_s)
            self._timers.set((_REQUEUE, seen.uid), now_s + self._settings.requeue_s)
        elif was_provisionable:
            self._timers.cancel((_REQUEUE, seen.uid))

    def pod_removed(self, uid: str, now_s: float) -> None:
        old = self._snapshot.pod_removed(uid)
        self._timers.cancel((_REQUEUE, uid))
        self._emitted.pop(uid, None)
        if old is not None and old.node:
            self._last_pod_event_s[old.node] = now_s

    def node_applied(self, node: Object, now_s: float) -> None:
        old, seen = self._snapshot.node_applied(node)
        self._launched.pop(seen.name, None)
        self._timers.cancel((_REGISTER, seen.name))
        if seen.is_initialized and (old is None or not old.is_initialized):
            self._last_pod_event_s.setdefault(seen.name, now_s)

    def node_removed(self, name: str, now_s: float) -> None:
        self._snapshot.node_removed(name)
        for times_s in (self._nominated_s, self._last_pod_event_s):
            times_s.pop(name, None)

    def synced(self, now_s: float) -> None:
        if not self._synced:
            self._synced = True
            self._timers.set((_DISRUPT, ""), now_s + self._settings.poll_s)
            if any(map(is_provisionable, self._snapshot.pending.values())):
                self._trigger(now_s)

    def next_deadline_s(self) -> float | None:
        return self._timers.next_deadline_s() if self._synced else None

    def due(self, now_s: float) -> list[Effect]:
        if not self._synced:
            return []
        out: list[Effect] = []
        for timer, name in list(self._timers.due(now_s)):
            if timer == _REQUEUE:
                self._timers.set((_REQUEUE, name), now_s + self._settings.requeue_s)
                self._trigger(now_s)
            elif timer == _BATCH:
                self._batch_since_s = None
                out += self._provision(now_s)
            elif timer == _DISRUPT:
                self._timers.set((_DISRUPT, ""), now_s + self._settings.poll_s)
                self._mark_for_disruption(now_s)
            elif timer == _VALIDATE:
                out += self._disrupt(now_s)
            else:
                self._launched.pop(name, None)  # KP-9: its pods are in the next batch again
        return out

    # -- scale-up --------------------------------------------------------------------------------------------------

    def _trigger(self, now_s: float) -> None:
        """KP-4: a batch ends after an idle time without a new pod, and at the latest after the maximum duration."""
        if self._batch_since_s is None:
            self._batch_since_s = now_s
        end_s = min(now_s + self._settings.batch_idle_s, self._batch_since_s + self._settings.batch_max_s)
        self._timers.set((_BATCH, ""), end_s)

    def _provision(self, now_s: float) -> list[Effect]:
        """KP-5: plans all pending pods, not only those that opened the batch."""
        pods = [pod for pod in self._snapshot.pending.values() if is_provisionable(pod)]
        for node in self._snapshot.nodes.values():
            if node.deleting:
                pods += [pod for pod in self._snapshot.running_on(node.name) if not pod.stays_with_its_node]
        candidates = self._nodes_with_free_capacity()
        plan, out = NodeClaimPlan(list(self._pools.values())), list[Effect]()
        for pod in sorted(pods, key=_size):
            candidate = place_pod(pod, candidates)
            if candidate is not None:
                self._nominated_s[candidate.name] = now_s + self._settings.nomination_s  # KP-6
                out += self._emit_event(pod, "Nominated", f"Pod should schedule on: node/{candidate.name}")
            elif not plan.add(pod):
                out += self._emit_event(
                    pod, "FailedScheduling", "Failed to schedule pod, no node pool has a machine for it"
                )
        return out + self._launch(plan, now_s)

    def _launch(self, plan: NodeClaimPlan, now_s: float) -> list[Effect]:
        out: list[Effect] = []
        for claim in plan.claims:
            if not within_limits(claim.pool, self._used(claim.pool), claim.instance_type):
                for pod in claim.pods:
                    out += self._emit_event(
                        pod,
                        "FailedScheduling",
                        f"all available instance types exceed limits for nodepool {claim.pool.name}",
                    )
                continue
            name = self._snapshot.new_name(claim.pool.name)
            self._launched[name] = LaunchedMachine(claim.pool, claim.instance_type)
            self._nominated_s[name] = now_s + self._settings.nomination_s
            self._timers.set((_REGISTER, name), now_s + self._settings.registration_s)
            out.append(
                AddMachine(
                    new_machine(name, claim.pool.name, claim.instance_type), tuple(pod.key for pod in claim.pods)
                )
            )
            for pod in claim.pods:
                out += self._emit_event(pod, "Nominated", f"Pod should schedule on: nodeclaim/{name}")
        return out

    def _nodes_with_free_capacity(self) -> list[PackingNode]:
        """Initialized nodes, starting nodes, and machines that have not joined, each with the pods on it."""
        nodes = sorted(self._snapshot.nodes.values(), key=lambda node: (not node.is_initialized, node.name))
        candidates = [self._candidate_of(node) for node in nodes if not node.deleting]
        return candidates + [
            planned_node(name, each.pool.name, each.instance_type) for name, each in sorted(self._launched.items())
        ]

    def _candidate_of(self, node: AutoscalerNode) -> PackingNode:
        starting = node.group in self._pools and not node.is_initialized
        candidate = existing_node(node, ignored_taints=EPHEMERAL_TAINTS if starting else frozenset())
        for pod in self._snapshot.running_on(node.name):
            candidate.add_pod(pod)
        return candidate

    def _used(self, pool: NodePool) -> dict[str, int]:
        sizes = [node.capacity for node in self._snapshot.nodes.values() if node.group == pool.name]
        sizes += [each.instance_type.counts for each in self._launched.values() if each.pool.name == pool.name]
        return {name: sum(size.get(name, 0) for size in sizes) for name in pool.limits}

    def _emit_event(self, pod: AutoscalerPod, reason: str, message: str) -> list[Effect]:
        """KP-10. A pending pod is planned every few seconds, so an Event is emitted only if its reason changed."""
        if self._emitted.get(pod.uid) == reason:
            return []
        self._emitted[pod.uid] = reason
        return [EmitAutoscalerEvent(pod.namespace, pod.name, pod.uid, reason, message)]

    # -- scale-down ------------------------------------------------------------------------------------------------

    def _mark_for_disruption(self, now_s: float) -> None:
        if self._disruption_candidates:
            return  # one command at a time
        self._disruption_candidates = [
            name for name, node in sorted(self._snapshot.nodes.items()) if self._is_idle(node, now_s)
        ]
        if self._disruption_candidates:
            self._timers.set((_VALIDATE, ""), now_s + self._settings.validation_s)

    def _disrupt(self, now_s: float) -> list[Effect]:
        marked, self._disruption_candidates = self._disruption_candidates, []
        nodes = [self._snapshot.nodes[name] for name in marked if name in self._snapshot.nodes]
        return [RemoveMachine(node.name, node.uid) for node in nodes if self._is_idle(node, now_s)]

    def _is_idle(self, node: AutoscalerNode, now_s: float) -> bool:
        """KP-8: the node is empty, and it is not nominated for a pod (KP-6)."""
        pool = self._pools.get(node.group)
        if pool is None or pool.consolidate_after_s is None or not node.is_initialized or node.deleting:
            return False
        consolidatable = now_s - self._last_pod_event_s.get(node.name, now_s) >= pool.consolidate_after_s
        nominated = self._nominated_s.get(node.name, 0.0) > now_s
        do_not_disrupt = node.annotations.get(_DO_NOT_DISRUPT) == "true"
        return consolidatable and not nominated and not do_not_disrupt and self._snapshot.is_empty(node.name)


def is_provisionable(pod: AutoscalerPod) -> bool:
    """KP-1, KP-2: only the reason counts, not the scheduler, the age or the priority (KP-3)."""
    return (
        pod.reason == UNSCHEDULABLE
        and not pod.node
        and not pod.nominated_node
        and pod.owner not in ("DaemonSet", "Node")
    )


def _size(pod: AutoscalerPod) -> tuple[int, int, float, str]:
    return -pod.requests.get("cpu", 0), -pod.requests.get("memory", 0), pod.created_s, pod.uid
