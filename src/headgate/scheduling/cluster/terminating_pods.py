"""Terminating pods: capacity that becomes free soon, so that no preemption and no new node is needed for it.

The capacity that a pod holds in its queue, and its quota with Kueue's KEP-6143, is free as soon as the pod begins to
terminate. The next pod is then admitted before a node has capacity for it. :meth:`TerminatingPods.find_node` nominates
the node where it fits after the terminating pods, beside the pods nominated there before; the pod is not reported as
Unschedulable until those pods are overdue. This applies to pods of profiles with queues, to pods with certain labels,
and, by option, to all pods; other pods behave as in kube-scheduler. ``scheduling/schedule_one.py`` sets the pod's
condition. Pods with equal cycle state (the inputs of the filters) and equal priority share their candidate nodes, so a
search costs only the nodes that changed since the last search for such a pod.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from typing import Final

import msgspec

from headgate.kube import conditions
from headgate.kube.pods.termination import OVERDUE_AFTER_S
from headgate.scheduling.cache.change_log import ChangeLog
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.interface import Handle
from headgate.waiting.heap import Heap

WAITING_FOR_TERMINATING_PODS: Final = conditions.WAITING_FOR_TERMINATING_PODS
"""The reason that hides a pod from autoscalers while pods terminate on a node where it will fit."""

_MAX_CACHES: Final = 64
_NEVER_READ: Final = -1  # a position before the beginning of each log


class NodeAfterTermination(msgspec.Struct, frozen=True):
    """A node where a pod fits after termination. ``last``: the terminating pod that may take longest. ``until_s``: when
    the first of the terminating pods is overdue, and the scheduler has to check whether the others are enough."""

    node_name: str
    until_s: float
    last: PodInfo


class _TerminatingPod(msgspec.Struct, frozen=True):
    """``until_s``: when the pod is overdue."""

    pod: PodInfo
    until_s: float


class _Candidates:
    """The nodes where pods with one key may fit, ordered by the end of their first terminating pod. The other
    attributes are the positions in three change logs up to which this is current."""

    __slots__ = ("changes", "nodes", "nominations", "terminations")

    def __init__(self) -> None:
        self.nodes: Heap[str] = Heap()
        self.changes = self.nominations = self.terminations = _NEVER_READ


class TerminatingPods:
    def __init__(self, labels: Collection[str] = (), schedulers: Collection[str] = ()) -> None:
        """Pods that have one of these labels, or name one of these schedulers, wait for terminating pods."""
        self._labels = tuple(labels)
        self._schedulers = frozenset(schedulers)
        self._by_node: dict[str, dict[str, _TerminatingPod]] = {}
        self._node_of: dict[str, str] = {}
        self._log: ChangeLog[str] = ChangeLog()
        self._by_key: OrderedDict[Hashable, _Candidates] = OrderedDict()

    def applied(self, pod: PodInfo, until_s: float) -> None:
        """A pod on a node terminates and has to be gone at ``until_s``."""
        if pod.is_daemon:
            return  # the next pod of the DaemonSet uses the capacity
        self.removed(pod.uid)
        self._by_node.setdefault(pod.node_name, {})[pod.uid] = _TerminatingPod(pod, until_s + OVERDUE_AFTER_S)
        self._node_of[pod.uid] = pod.node_name
        self._log.add(pod.node_name)

    def removed(self, uid: str) -> None:
        node = self._node_of.pop(uid, None)
        if node is not None:
            terminating = self._by_node[node]
            del terminating[uid]
            if not terminating:
                del self._by_node[node]
            self._log.add(node)

    def until_s(self, uid: str) -> float | None:
        """When a terminating pod is overdue; ``None`` for other pods."""
        node = self._node_of.get(uid)
        return None if node is None else self._by_node[node][uid].until_s

    @property
    def has_waiters(self) -> bool:
        """Whether any pod can wait for terminating pods with this configuration."""
        return bool(self._schedulers or self._labels)

    def waits_for_termination(self, pod: PodInfo) -> bool:
        """Whether the pod is one that waits for terminating pods."""
        return pod.scheduler_name in self._schedulers or any(name in pod.labels for name in self._labels)

    def find_node(self, pod: PodInfo, handle: Handle, now_s: float) -> NodeAfterTermination | None:
        """A node where an unschedulable pod fits after termination: its nominated node, otherwise the node where the
        first pod ends."""
        if not self._by_node or not self.waits_for_termination(pod):
            return None
        nominated = handle.nominated_node(pod)
        found = self._check_node(pod, nominated, self._not_overdue(nominated, now_s), handle)
        if found is not None:
            return found
        nodes = self._candidates(pod, handle).nodes
        while (first := nodes.first()) is not None:
            (until_s, _), name = first
            terminating = self._not_overdue(name, now_s)
            if terminating and terminating[0].until_s != until_s:  # earlier ones are overdue
                nodes.put(name, (terminating[0].until_s, name))
                continue
            found = None if name == nominated else self._check_node(pod, name, terminating, handle)
            if found is not None:
                return found
            nodes.discard(name)
        return None

    def _check_node(
        self, pod: PodInfo, node: str, terminating: Sequence[_TerminatingPod], handle: Handle
    ) -> NodeAfterTermination | None:
        row = handle.matrix.row_of(node) if terminating else None
        last = None if row is None else _last_to_end(pod, row, terminating, handle)
        return None if last is None else NodeAfterTermination(node, terminating[0].until_s, last.pod)

    def _not_overdue(self, node: str, now_s: float) -> Sequence[_TerminatingPod]:
        """The terminating pods of a node that are not overdue, by their deadline."""
        terminating = (each for each in self._by_node.get(node, {}).values() if each.until_s > now_s)
        return sorted(terminating, key=lambda each: (each.until_s, each.pod.key))

    def _candidates(self, pod: PodInfo, handle: Handle) -> _Candidates:
        state_key, depends_on_other_nodes = handle.cycle_state_key(pod)
        key = state_key, pod.priority
        found = self._by_key.setdefault(key, _Candidates())
        self._by_key.move_to_end(key)
        if len(self._by_key) > _MAX_CACHES:
            self._by_key.popitem(last=False)
        for name in self._changed_nodes(found, handle, depends_on_other_nodes):
            terminating = self._by_node.get(name)
            if terminating is None:
                found.nodes.discard(name)
            else:
                found.nodes.put(name, (min(each.until_s for each in terminating.values()), name))
        return found

    def _changed_nodes(self, found: _Candidates, handle: Handle, depends_on_other_nodes: bool) -> Collection[str]:
        """The nodes that changed since the last call; all nodes with terminating pods if the logs do not reach back."""
        matrix, nomination_log = handle.matrix, handle.nomination_log
        terminations, nominations = self._log.since(found.terminations), nomination_log.since(found.nominations)
        changes = matrix.log.since(found.changes)
        all_changed = depends_on_other_nodes and found.changes != matrix.log.position
        found.terminations, found.nominations, found.changes = (
            self._log.position,
            nomination_log.position,
            matrix.log.position,
        )
        if terminations is None or nominations is None or changes is None or all_changed:
            return tuple(self._by_node)
        rows = (matrix.name(each.row) for each in changes)
        # A pod that got a node does not count any more on its nominated node.
        freed = (handle.nominated_node(each.pod) for each in changes if each.pod is not None)
        return dict.fromkeys((*terminations, *nominations, *rows, *freed)).keys()


def _last_to_end(
    pod: PodInfo, row: int, terminating: Sequence[_TerminatingPod], handle: Handle
) -> _TerminatingPod | None:
    """The last terminating pod that has to end so that the pod fits; ``None`` if it does not fit even without all of
    them."""
    with handle.dry_run(pod, row) as dry_run:
        pods_on_node = handle.matrix.pods_on(row)
        on_node = [each for each in terminating if each.pod.uid in pods_on_node]
        for each in on_node:
            dry_run.take(each.pod)
        if not on_node or dry_run.reasons():
            return None
        for each in reversed(on_node):
            dry_run.put(each.pod)
            if dry_run.reasons():
                return each
    return on_node[0]
