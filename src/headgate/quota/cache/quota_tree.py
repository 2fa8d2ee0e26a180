"""The quota tree: ClusterQueues below Cohorts, the quota of each node, and its usage.

The arithmetic is Kueue's, with integers. The part of a node's quota that it lends (see its lending limit) adds to its
parent's quota; usage beyond what it keeps adds to its parent's usage. A change of usage costs the depth of the tree,
and a change of quotas the nodes on the path to the root. Cohorts in a cycle are disabled with everything below them.
``quota/api/cohort.py`` has the quotas; ``quota_ledger.py`` knows which workload uses what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headgate.quota.api.cohort import FlavorQuota, FlavorResource, Usage

_NO_QUOTA: Final = FlavorQuota()


class QuotaNode:
    """A ClusterQueue or a Cohort. ``subtree``: the quota of the node and those below it, less what they do not lend."""

    __slots__ = ("_height", "children", "is_queue", "name", "parent", "quotas", "subtree", "usage")

    def __init__(self, name: str, is_queue: bool) -> None:
        self.name = name
        self.is_queue = is_queue
        self.parent: QuotaNode | None = None
        self.children: dict[str, QuotaNode] = {}  # cohorts under their name, queues under /name
        self.quotas: Mapping[FlavorResource, FlavorQuota] = {}
        self.subtree: dict[FlavorResource, int] = {}
        self.usage: dict[FlavorResource, int] = {}
        self._height: int | None = None

    def path(self) -> Iterator[QuotaNode]:
        """Itself, its parent, and so on up to the root."""
        node: QuotaNode | None = self
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> QuotaNode:
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def quota(self, fr: FlavorResource) -> FlavorQuota:
        return self.quotas.get(fr, _NO_QUOTA)

    def local_quota(self, fr: FlavorResource) -> int:
        """Kueue's local quota: what only those below may use, because it is not lent."""
        limit = self.quota(fr).lending_limit
        return 0 if limit is None else max(0, self.subtree.get(fr, 0) - limit)

    def local_available(self, fr: FlavorResource) -> int:
        return max(0, self.local_quota(fr) - self.usage.get(fr, 0))

    def lendable(self, fr: FlavorResource) -> int:
        return self.subtree.get(fr, 0) - self.local_quota(fr)

    def usage_of_parent(self, fr: FlavorResource) -> int:
        """The usage that counts in its parent."""
        return max(0, self.usage.get(fr, 0) - self.local_quota(fr))

    def available(self, fr: FlavorResource) -> int:
        """How much more it may use now; negative if limits were lowered below the usage."""
        if self.parent is None:
            return self.subtree.get(fr, 0) - self.usage.get(fr, 0)
        above = self.parent.available(fr)
        limit = self.quota(fr).borrowing_limit
        if limit is not None:
            above = min(above, self.lendable(fr) - self.usage_of_parent(fr) + limit)
        return self.local_available(fr) + above

    def potential_available(self, fr: FlavorResource) -> int:
        """How much it may use if nothing else is in use."""
        if self.parent is None:
            return self.subtree.get(fr, 0)
        found = self.local_quota(fr) + self.parent.potential_available(fr)
        limit = self.quota(fr).borrowing_limit
        return found if limit is None else min(found, self.subtree.get(fr, 0) + limit)

    def borrows_with(self, fr: FlavorResource, more: int = 0) -> bool:
        """Whether its usage plus ``more`` exceeds its own quota."""
        return self.usage.get(fr, 0) + more > self.subtree.get(fr, 0)

    def is_within(self, frs: Iterable[FlavorResource]) -> bool:
        return not any(self.borrows_with(fr) for fr in frs)

    @property
    def height(self) -> int:
        """The distance to the farthest leaf."""
        if self._height is None:
            self._height = max((child.height + 1 for child in self.children.values()), default=0)
        return self._height

    def forget_heights(self) -> None:
        for each in self.path():
            each._height = None

    def lowest_fitting_height(self, fr: FlavorResource, more: int) -> tuple[int, bool]:
        """The height of the lowest node whose quota covers ``more``: 0 for the queue itself, the height of the whole
        tree if no node does. The second value: whether that node is below the root."""
        if self.parent is None or not self.borrows_with(fr, more):
            return 0, self.parent is not None
        more -= self.local_available(fr)
        top = self.parent
        for node in self.parent.path():
            if not node.borrows_with(fr, more):
                return node.height, node.parent is not None
            more -= node.local_available(fr)
            top = node
        return top.height, False


class QuotaTree:
    """Nodes by name. ``place_…`` and ``remove_…`` move a node with its usage; ``add`` counts usage."""

    def __init__(self) -> None:
        self._queues: dict[str, QuotaNode] = {}
        self._cohorts: dict[str, QuotaNode] = {}
        self._parents: dict[str, str] = {}
        self._defined: set[str] = set()

    def queue(self, name: str) -> QuotaNode | None:
        return self._queues.get(name)

    def cohort(self, name: str) -> QuotaNode | None:
        return self._cohorts.get(name)

    def cohorts(self) -> list[QuotaNode]:
        """By name."""
        return [self._cohorts[name] for name in sorted(self._cohorts)]

    def place_queue(self, name: str, cohort: str, quotas: Mapping[FlavorResource, FlavorQuota]) -> None:
        node = self._queues.get(name)
        if node is None:
            node = self._queues[name] = QuotaNode(name, True)
        self._set(node, cohort, quotas)

    def remove_queue(self, name: str) -> None:
        node = self._queues.get(name)
        if node is not None:
            self._set(node, "", {})
            del self._queues[name]

    def place_cohort(self, name: str, parent: str, quotas: Mapping[FlavorResource, FlavorQuota]) -> None:
        self._defined.add(name)
        self._set(self._cohort(name), parent, quotas)

    def remove_cohort(self, name: str) -> None:
        """Nodes below it stay: a cohort without an API object has no quota of its own and no parent."""
        self._defined.discard(name)
        node = self._cohorts.get(name)
        if node is not None:
            self._set(node, "", {})
            self._forget_if_empty(node)

    def add(self, node: QuotaNode, usage: Usage, sign: int = 1) -> None:
        for fr, amount in usage.items():
            self._propagate(node, fr, 0, sign * amount)

    def cycle_of(self, name: str) -> tuple[str, ...]:
        """The cohorts of the cycle above this cohort; empty if its path leads to a root."""
        path: list[str] = []
        at: str | None = name
        while at:
            if at in path:
                cycle = path[path.index(at) :]
                start = cycle.index(min(cycle))
                return (*cycle[start:], *cycle[:start])
            path.append(at)
            at = self._parents.get(at)
        return ()

    def queues_below(self, node: QuotaNode) -> Iterator[QuotaNode]:
        """The queues below a node, itself included; in the order of their names, cohort by cohort."""
        if node.is_queue:
            yield node
        for key in sorted(node.children):
            yield from self.queues_below(node.children[key])

    def _set(self, node: QuotaNode, parent: str, quotas: Mapping[FlavorResource, FlavorQuota]) -> None:
        """Detaches the node, changes its quotas and parent, and attaches it again with its usage."""
        cycle = () if node.is_queue else self.cycle_of(node.name)
        self._detach(node)
        for fr in {*node.quotas, *quotas}:
            nominal = quotas[fr].nominal if fr in quotas else 0
            _add(node.subtree, fr, nominal - node.quota(fr).nominal)
        node.quotas = quotas
        if not node.is_queue:
            self._parents.pop(node.name, None)
            if parent:
                self._parents[node.name] = parent
            cycle = (*cycle, *self.cycle_of(node.name))
        for name in dict.fromkeys(cycle):
            self._attach_or_detach(self._cohort(name), self._parents.get(name, ""))
        self._attach_or_detach(node, parent)

    def _attach_or_detach(self, node: QuotaNode, parent: str) -> None:
        """Attaches the node to its parent, or detaches it if it is part of a cycle."""
        if parent and (node.is_queue or node.name not in self.cycle_of(node.name)):
            if node.parent is None:
                self._attach(node, self._cohort(parent))
        else:
            self._detach(node)

    def _attach(self, node: QuotaNode, parent: QuotaNode) -> None:
        node.parent = parent
        parent.children[_key(node)] = node
        parent.forget_heights()
        for fr in {*node.subtree, *node.usage}:
            self._propagate(parent, fr, node.lendable(fr), node.usage_of_parent(fr))

    def _detach(self, node: QuotaNode) -> None:
        parent = node.parent
        if parent is None:
            return
        del parent.children[_key(node)]
        node.parent = None
        parent.forget_heights()
        for fr in {*node.subtree, *node.usage}:
            self._propagate(parent, fr, -node.lendable(fr), -node.usage_of_parent(fr))
        self._forget_if_empty(parent)

    def _propagate(self, node: QuotaNode, fr: FlavorResource, quota_delta: int, usage_delta: int) -> None:
        """Adds changes of quota and usage to a node, and what follows from them to the nodes above it."""
        at: QuotaNode | None = node
        while at is not None and (quota_delta or usage_delta):
            lendable, borrowed = at.lendable(fr), at.usage_of_parent(fr)
            _add(at.subtree, fr, quota_delta)
            _add(at.usage, fr, usage_delta)
            quota_delta, usage_delta = at.lendable(fr) - lendable, at.usage_of_parent(fr) - borrowed
            at = at.parent

    def _cohort(self, name: str) -> QuotaNode:
        node = self._cohorts.get(name)
        if node is None:
            node = self._cohorts[name] = QuotaNode(name, False)
        return node

    def _forget_if_empty(self, node: QuotaNode) -> None:
        if not node.is_queue and not node.children and node.name not in self._defined:
            self._cohorts.pop(node.name, None)


def _add(amounts: dict[FlavorResource, int], fr: FlavorResource, more: int) -> None:
    if not more:
        return
    total = amounts.get(fr, 0) + more
    if total:
        amounts[fr] = total
    else:
        del amounts[fr]


def _key(node: QuotaNode) -> str:
    return f"/{node.name}" if node.is_queue else node.name
