"""The quota tree: ClusterQueues below Cohorts, the quota of each of them, and its usage.

A *node* in this module is a ClusterQueue or a Cohort in the tree, not a node of the cluster. The arithmetic is Kueue's,
with integers. The part of a node's quota that it may lend (see its lending limit) adds to its parent's quota; usage
beyond the part that it does not lend adds to its parent's usage. A change of usage or quota updates only the nodes on
the path to the root. Cohorts in a cycle are disabled with everything below them. ``quota/api/resource_groups.py`` has
the quotas; ``quota_ledger.py`` knows which workload has which usage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headgate.quota.api.resource_groups import FlavorQuota, FlavorResource, Usage

_NO_QUOTA: Final = FlavorQuota()


class QuotaNode:
    """A ClusterQueue or a Cohort. ``quotas``: its own quotas. ``subtree``: the sum of its own quota and of what its
    children lend. ``usage``: its own usage, and the usage of its children beyond what they keep for themselves."""

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
        """Kueue's local quota: the part that only the nodes below may use, because it is not lent."""
        limit = self.quota(fr).lending_limit
        return 0 if limit is None else max(0, self.subtree.get(fr, 0) - limit)

    def local_available(self, fr: FlavorResource) -> int:
        return max(0, self.local_quota(fr) - self.usage.get(fr, 0))

    def lendable(self, fr: FlavorResource) -> int:
        """The part of its quota that it lends to its parent."""
        return self.subtree.get(fr, 0) - self.local_quota(fr)

    def usage_of_parent(self, fr: FlavorResource) -> int:
        """The part of its usage that its parent counts as usage, too."""
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

    def borrows_with(self, fr: FlavorResource, amount: int = 0) -> bool:
        """Whether its usage plus ``amount`` exceeds its own quota."""
        return self.usage.get(fr, 0) + amount > self.subtree.get(fr, 0)

    def is_within_nominal(self, frs: Iterable[FlavorResource]) -> bool:
        """Whether its usage is within its own quota for all of these resources, so that it borrows none."""
        return not any(self.borrows_with(fr) for fr in frs)

    @property
    def height(self) -> int:
        """The distance to its deepest descendant."""
        if self._height is None:
            self._height = max((child.height + 1 for child in self.children.values()), default=0)
        return self._height

    def forget_heights(self) -> None:
        for each in self.path():
            each._height = None

    def lowest_fitting_height(self, fr: FlavorResource, amount: int) -> tuple[int, bool]:
        """The height of the lowest node whose quota covers ``amount``: 0 for the queue itself, the height of the whole
        tree if no node does. The second value: whether that node is below the root."""
        if self.parent is None or not self.borrows_with(fr, amount):
            return 0, self.parent is not None
        amount -= self.local_available(fr)
        root = self.parent
        for node in self.parent.path():
            if not node.borrows_with(fr, amount):
                return node.height, node.parent is not None
            amount -= node.local_available(fr)
            root = node
        return root.height, False


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
        self._set(self._get_or_create_cohort(name), parent, quotas)

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
        current: str | None = name
        while current:
            if current in path:
                cycle = path[path.index(current) :]
                start = cycle.index(min(cycle))
                return (*cycle[start:], *cycle[:start])
            path.append(current)
            current = self._parents.get(current)
        return ()

    def without_usage(self, node: QuotaNode) -> QuotaTree:
        """A new tree with the node and all nodes below it, and with their quotas."""
        found = QuotaTree()
        nodes = [node]
        while nodes:
            each = nodes.pop()
            parent = "" if each is node or each.parent is None else each.parent.name
            place = found.place_queue if each.is_queue else found.place_cohort
            place(each.name, parent, each.quotas)
            nodes.extend(each.children.values())
        return found

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
            _add_amount(node.subtree, fr, nominal - node.quota(fr).nominal)
        node.quotas = quotas
        if not node.is_queue:
            self._parents.pop(node.name, None)
            if parent:
                self._parents[node.name] = parent
            cycle = (*cycle, *self.cycle_of(node.name))
        for name in dict.fromkeys(cycle):
            self._attach_or_detach(self._get_or_create_cohort(name), self._parents.get(name, ""))
        self._attach_or_detach(node, parent)

    def _attach_or_detach(self, node: QuotaNode, parent: str) -> None:
        """Attaches the node to its parent, or detaches it if it is part of a cycle."""
        if parent and (node.is_queue or node.name not in self.cycle_of(node.name)):
            if node.parent is None:
                self._attach(node, self._get_or_create_cohort(parent))
        else:
            self._detach(node)

    def _attach(self, node: QuotaNode, parent: QuotaNode) -> None:
        """Adds the node to a parent, with its quota and usage."""
        node.parent = parent
        parent.children[_key(node)] = node
        parent.forget_heights()
        for fr in {*node.subtree, *node.usage}:
            self._propagate(parent, fr, node.lendable(fr), node.usage_of_parent(fr))

    def _detach(self, node: QuotaNode) -> None:
        """Removes the node from its parent, with its quota and usage."""
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
        current: QuotaNode | None = node
        while current is not None and (quota_delta or usage_delta):
            lendable, borrowed = current.lendable(fr), current.usage_of_parent(fr)
            _add_amount(current.subtree, fr, quota_delta)
            _add_amount(current.usage, fr, usage_delta)
            quota_delta, usage_delta = current.lendable(fr) - lendable, current.usage_of_parent(fr) - borrowed
            current = current.parent

    def _get_or_create_cohort(self, name: str) -> QuotaNode:
        node = self._cohorts.get(name)
        if node is None:
            node = self._cohorts[name] = QuotaNode(name, False)
        return node

    def _forget_if_empty(self, node: QuotaNode) -> None:
        if not node.is_queue and not node.children and node.name not in self._defined:
            self._cohorts.pop(node.name, None)


def _add_amount(amounts: dict[FlavorResource, int], fr: FlavorResource, amount: int) -> None:
    if not amount:
        return
    total = amounts.get(fr, 0) + amount
    if total:
        amounts[fr] = total
    else:
        del amounts[fr]


def _key(node: QuotaNode) -> str:
    return f"/{node.name}" if node.is_queue else node.name
