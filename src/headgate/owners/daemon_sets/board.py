"""All nodes of one DaemonSet: its pods by node, what each node counts for, and the sums, kept as nodes change.

A node is looked at when it, or a pod on it, has changed, or when a pod there has been ready for long enough; the others
keep their place in the sums. A new template is a new question to every node. Who decides what is done is ``spots.py``
for one node and ``rolling.py`` for all.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.owners.daemon_sets.placement import Fit, Node
from headgate.owners.daemon_sets.spots import Pod, Rules, Spot, Turn, look

Object = dict[str, Any]
Group = tuple[Turn, bool]
"""Where nodes stand in a rolling update, and whether a pod is wanted there."""

_BACKOFF_S: Final = 1.0
_LONGEST_BACKOFF_S: Final = 900.0


class Counts(msgspec.Struct):
    """Of nodes, as the status tells them."""

    desired: int = 0
    current: int = 0
    misscheduled: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0
    serving: int = 0
    """Nodes with an old pod that is available or, without an old one, such a new one."""

    def add(self, spot: Spot, sign: int) -> None:
        if spot.turn in (Turn.NEW, Turn.OLD) or spot.old_is_available:
            self.serving += sign
        if spot.fit != Fit.WANTED:
            if spot.is_scheduled and spot.fit != Fit.GONE:
                self.misscheduled += sign
            return
        self.desired += sign
        self.current += sign * spot.is_scheduled
        self.ready += sign * spot.is_ready
        self.updated += sign * spot.is_updated
        self.available += sign * spot.is_available


class _Delay(msgspec.Struct, frozen=True):
    generation: int
    delay_s: float
    since_s: float


class Board:
    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes: Final = nodes
        self._pods: Final[dict[str, dict[str, Pod]]] = {}
        self._spots: Final[dict[str, Spot]] = {}
        self._rules: Rules | None = None
        self._unseen: Final[set[str]] = set()  # nodes whose spot has to be looked at
        self._due: Final[list[tuple[float, str]]] = []
        self._delays: Final[dict[str, _Delay]] = {}
        self.groups: Final[dict[Group, set[str]]] = {}
        self.counts: Final = Counts()
        self.unclaimed: Final[set[str]] = set()
        """Pods of which nobody has looked yet whether the selector means them."""
        self.open: Final[set[str]] = set()
        """Nodes that may need something."""

    def __bool__(self) -> bool:
        return bool(self._pods)

    def put(self, node: str, uid: str, pod: Pod) -> None:
        self._pods.setdefault(node, {})[uid] = pod
        self.unclaimed.add(uid)
        self._unseen.add(node)

    def drop(self, node: str, uid: str) -> None:
        there = self._pods[node]
        del there[uid]
        if not there:
            del self._pods[node]
        self.unclaimed.discard(uid)
        self._unseen.add(node)

    def there(self, node: str) -> list[Pod]:
        return list(self._pods.get(node, {}).values())

    def everybody(self) -> list[Pod]:
        return [pod for there in self._pods.values() for pod in there.values()]

    def node_changed(self, name: str) -> bool:
        """Whether that makes a difference."""
        if self._rules is None:
            return True
        spot = self._spots.get(name)
        before = Fit.GONE if spot is None else spot.fit
        after = self._fit(name, self._rules)
        if before == after:
            return False
        self._unseen.add(name)
        return name in self._pods or Fit.WANTED in (before, after)

    def refresh(self, rules: Rules, now_s: float) -> None:
        """Look at all that changed since."""
        if rules != self._rules:
            self._rules = rules
            self._unseen.update(self._nodes, self._pods, self._spots)
        while self._due and self._due[0][0] <= now_s:
            self._unseen.add(heapq.heappop(self._due)[1])
        for name in self._unseen:
            self._look(name, rules, now_s)
        self.open.update(self._unseen)
        self._unseen.clear()

    def fit(self, name: str) -> Fit:
        spot = self._spots.get(name)
        return Fit.GONE if spot is None else spot.fit

    def next_s(self) -> float:
        """When a node counts otherwise although nothing happens to it."""
        return self._due[0][0] if self._due else math.inf

    def _fit(self, name: str, rules: Rules) -> Fit:
        return rules.placement.fit(self._nodes.get(name))

    def _look(self, name: str, rules: Rules, now_s: float) -> None:
        before = self._spots.pop(name, None)
        if before is not None:
            self.counts.add(before, -1)
            self._leave((before.turn, before.fit == Fit.WANTED), name)
        spot = look(self._fit(name, rules), self.there(name), rules, now_s)
        if spot.fit == Fit.GONE and not spot.is_scheduled:
            self._delays.pop(name, None)
            return
        self._spots[name] = spot
        self.counts.add(spot, 1)
        if spot.turn != Turn.NONE:
            self.groups.setdefault((spot.turn, spot.fit == Fit.WANTED), set()).add(name)
        if spot.until_s < math.inf:
            heapq.heappush(self._due, (spot.until_s, name))

    def _leave(self, group: Group, name: str) -> None:
        there = self.groups.get(group)
        if there is not None:
            there.discard(name)
            if not there:
                del self.groups[group]

    # -- failed pods -----------------------------------------------------------------------------------------------

    def wait_s(self, node: str, generation: int, now_s: float) -> float:
        """How long a failed pod stays for others not to fail in a tight loop: twice as long each time."""
        last = self._delays.get(node)
        if last is None or last.generation != generation or now_s - last.since_s > 2 * _LONGEST_BACKOFF_S:
            return 0.0
        return max(last.since_s + last.delay_s - now_s, 0.0)

    def ended_failed(self, node: str, generation: int, now_s: float) -> None:
        last = self._delays.get(node)
        delay_s = _BACKOFF_S
        if last is not None and last.generation == generation and now_s - last.since_s <= 2 * _LONGEST_BACKOFF_S:
            delay_s = min(2 * last.delay_s, _LONGEST_BACKOFF_S)
        self._delays[node] = _Delay(generation, delay_s, now_s)
