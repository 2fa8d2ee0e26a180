"""Nominated pods: pods with a nominated node where preemption frees capacity for them.

A nomination is ``status.nominatedNodeName``, or a decision of this scheduler that is not written yet. Such a decision
is kept when a watch event shows a version of the pod from before the decision. Filters count nominated pods of equal or
higher priority as if they ran on the node. ``scheduling/preemption/`` makes nominations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic

from headgate.scheduling.cache.change_log import ChangeLog
from headgate.scheduling.queue.queued_pod_info import P


class Nominator(Generic[P]):
    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, P]] = {}
        self._node_of: dict[str, str] = {}
        self.log: ChangeLog[str] = ChangeLog()
        """The nodes whose nominations changed, in order: one entry per nomination that is set or cleared."""

    def __len__(self) -> int:
        return len(self._node_of)

    def on_node(self, node: str) -> Sequence[P]:
        """The pods that are nominated to the node, in the order of their nomination."""
        return tuple(self._by_node.get(node, {}).values())

    def nodes(self) -> Sequence[str]:
        """Nodes with nominated pods."""
        return tuple(self._by_node)

    def node_of(self, uid: str) -> str | None:
        return self._node_of.get(uid)

    def nominate(self, pod: P, node: str) -> None:
        """Sets the nomination of the pod, in place of an earlier one; an empty node clears it."""
        self.forget(pod.uid)
        if node:
            self.log.add(node)
            self._node_of[pod.uid] = node
            self._by_node.setdefault(node, {})[pod.uid] = pod

    def clear(self, uids: Iterable[str]) -> dict[str, tuple[P, str]]:
        """Clears the nominations of these pods; returns them by uid, so that they can be restored."""
        found = {uid: (self._by_node[node][uid], node) for uid in uids if (node := self._node_of.get(uid)) is not None}
        for uid in found:
            self.forget(uid)
        return found

    def updated(self, old: P, new: P) -> None:
        """The pod changed. A nomination that ``status.nominatedNodeName`` has never shown is kept: it may not be
        written yet."""
        before = self._node_of.get(new.uid, "")
        node = new.nominated_node or ("" if old.nominated_node else before)
        if node and node == before and old.shape is new.shape and old.priority == new.priority:
            self._by_node[node][new.uid] = new  # the filter results do not change
        else:
            self.nominate(new, node)

    def forget(self, uid: str) -> None:
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        self.log.add(node)
        nominated_pods = self._by_node[node]
        del nominated_pods[uid]
        if not nominated_pods:
            del self._by_node[node]
