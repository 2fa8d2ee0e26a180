"""Views of queues for the admission index: their order, and whether a grant or the enqueueing of a group fits."""

from __future__ import annotations

from typing import Final

from headgate.capacity.cache.ledger import Ledger
from headgate.capacity.cache.pod_record import Ask
from headgate.capacity.cache.queue_tree import QueueNode, QueueTree
from headgate.capacity.names import ROOT
from headgate.capacity.ordering.order_keys import Key, OrderingPolicy

_NO_QUEUE = QueueNode("")
ENQUEUED_MARK: Final = ("", 1)
"""Part of an ask that must also leave capacity for the minimum of enqueued groups. No resource has this name."""


class PlacementView:
    """The order by what is placed. All pods in it have a grant, so every queue admits them."""

    by_placed = True

    def __init__(self, order: OrderingPolicy, tree: QueueTree, ledger: Ledger) -> None:
        self._order = order
        self._tree = tree
        self._ledger = ledger

    def parent(self, queue: str) -> str:
        path = self._tree.path(queue)
        return path[1] if len(path) > 1 and path[-1] == ROOT else ROOT

    def depth(self, queue: str) -> int:
        path = self._tree.path(queue)
        return len(path) - 1 if path[-1] == ROOT else 1

    def key(self, queue: str) -> Key:
        queue_node = self._tree.nodes.get(queue)
        return self._order.queue_key(queue_node or QueueNode(queue), self._ledger.account(queue), placed=self.by_placed)

    def may_admit(self, queue: str) -> bool:
        return True

    def limited_resources(self, queue: str) -> frozenset[str]:
        return frozenset()

    def fits(self, queue: str, ask: Ask) -> bool:
        return True


class GrantView(PlacementView):
    """Whether a grant fits: allocated, reserved and requested amounts, for the requested resources."""

    by_placed = False

    def may_admit(self, queue: str) -> bool:
        return self._tree.nodes.get(queue, _NO_QUEUE).may_grant

    def limited_resources(self, queue: str) -> frozenset[str]:
        limits = self._tree.nodes.get(queue, _NO_QUEUE).limits
        return frozenset((*limits, ENQUEUED_MARK[0])) if limits else frozenset()

    def fits(self, queue: str, ask: Ask) -> bool:
        limits = self._tree.nodes.get(queue, _NO_QUEUE).limits
        if not limits:
            return True
        account = self._ledger.account(queue)
        if ENQUEUED_MARK in ask and any(
            name in limits and account.committed(name) + more > limits[name] for name, more in ask
        ):
            return False
        for resource, amount in ask:
            limit = limits.get(resource)
            if limit is not None and account.used(resource) + amount > limit:
                return False
        return True


class EnqueueView(GrantView):
    """Whether a group can be enqueued: what other enqueued groups do not hold yet counts as used, too."""

    def fits(self, queue: str, ask: Ask) -> bool:
        limits = self._tree.nodes.get(queue, _NO_QUEUE).limits
        account = self._ledger.account(queue)
        return all(account.committed(name) + amount <= limits[name] for name, amount in ask if name in limits)
