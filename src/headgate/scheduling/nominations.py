"""Pods that were promised a node where room is being made for them.

A promise is what ``status.nominatedNodeName`` says, or what this scheduler decided and has not written yet; the latter
must not be lost to an update of the pod that was under way. Filters count promised pods of equal or higher priority as
if they ran there. Making room, and writing the promise down, is preemption's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic

from headgate.scheduling.changes import ChangeLog
from headgate.scheduling.queued import P


class Nominations(Generic[P]):
    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, P]] = {}
        self._node_of: dict[str, str] = {}
        self.log: ChangeLog[str] = ChangeLog()
        """The nodes whose promises changed, in order: one entry per promise that is made or taken back."""

    def __len__(self) -> int:
        return len(self._node_of)

    @property
    def moves(self) -> int:
        """Moves with every promise that is made or taken back."""
        return self.log.position

    def on_node(self, node: str) -> Sequence[P]:
        """In the order in which they were promised it."""
        return tuple(self._by_node.get(node, {}).values())

    def nodes(self) -> Sequence[str]:
        """Nodes that are promised to somebody."""
        return tuple(self._by_node)

    def node_of(self, uid: str) -> str | None:
        return self._node_of.get(uid)

    def promise(self, pod: P, node: str) -> None:
        """Instead of any earlier promise; an empty node takes it back."""
        self.forget(pod.uid)
        if node:
            self.log.add(node)
            self._node_of[pod.uid] = node
            self._by_node.setdefault(node, {})[pod.uid] = pod

    def set_aside(self, uids: Iterable[str]) -> dict[str, tuple[P, str]]:
        """Take back what these were promised; returns it by uid, so that it can be promised again."""
        found = {uid: (self._by_node[node][uid], node) for uid in uids if (node := self._node_of.get(uid)) is not None}
        for uid in found:
            self.forget(uid)
        return found

    def updated(self, old: P, new: P) -> None:
        """A pod that never named a node keeps what it was promised here: the promise may not be written yet."""
        before = self._node_of.get(new.uid, "")
        node = new.nominated_node or ("" if old.nominated_node else before)
        if node and node == before and old.shape is new.shape and old.priority == new.priority:
            self._by_node[node][new.uid] = new  # counts as it did
        else:
            self.promise(new, node)

    def forget(self, uid: str) -> None:
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        self.log.add(node)
        there = self._by_node[node]
        del there[uid]
        if not there:
            del self._by_node[node]
