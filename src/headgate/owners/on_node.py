"""Which pods are on which node, by uid: for whoever has to look at all pods of a node when something happens to it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final


class OnNode:
    def __init__(self) -> None:
        self._uids: Final[dict[str, set[str]]] = {}

    def add(self, node: str, uid: str) -> None:
        self._uids.setdefault(node, set()).add(uid)

    def drop(self, node: str, uid: str) -> None:
        there = self._uids[node]
        there.discard(uid)
        if not there:
            del self._uids[node]

    def of(self, node: str) -> Collection[str]:
        """In no order."""
        return self._uids.get(node, ())
