"""The views of queues that the admission index uses (``QueueView`` in ``admission_index.py``).

A view gives the order of the queues and decides whether a unit fits in a queue. There is one view for each use: pods
that have a grant and wait for a node, units that wait for a grant, and groups that wait for the enqueue action.
"""

from __future__ import annotations

from typing import Final

from headgate.capacity.api.queue import BACKFILL, TRAVERSE
from headgate.capacity.cache.ledger import Ledger
from headgate.capacity.cache.pod_record import Ask
from headgate.capacity.cache.pseudo_resources import PseudoResource
from headgate.capacity.cache.queue_tree import QueueTree, TreeQueue
from headgate.capacity.cache.run_times import RUN_TIME
from headgate.capacity.names import ROOT
from headgate.capacity.ordering.grant_windows import WINDOW, GrantWindows, pods_in_window
from headgate.capacity.ordering.held_units import HeldUnits, names_that_decide
from headgate.capacity.ordering.order_keys import Key, OrderingPolicy

_NO_TREE_QUEUE = TreeQueue("")
ENQUEUE_CHECK: Final = (PseudoResource("enqueue-check"), 1)
"""In the ask of a pod without a group. It says that the grant must also pass the check of the enqueue action
(``QueueAccount.committed``)."""


class PlacementView:
    """For pods that have a grant and need a node: orders queues by the amounts on nodes. Every queue admits these
    pods."""

    by_placed = True  # the order counts allocated amounts only, not promised ones

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
        tree_queue = self._tree.queues.get(queue)
        return self._order.queue_key(tree_queue or TreeQueue(queue), self._ledger.account(queue), placed=self.by_placed)

    def may_admit(self, queue: str) -> bool:
        return True

    def limited_resources(self, queue: str) -> frozenset[str]:
        return frozenset()

    def fits(self, queue: str, ask: Ask) -> bool:
        return True


class GrantView(PlacementView):
    """For pods that wait for a grant: allocated, reserved and requested amounts must fit in the limits."""

    by_placed = False

    def __init__(
        self, order: OrderingPolicy, tree: QueueTree, ledger: Ledger, windows: GrantWindows, held: HeldUnits
    ) -> None:
        super().__init__(order, tree, ledger)
        self._windows = windows
        self._held = held

    def may_admit(self, queue: str) -> bool:
        return self._tree.queues.get(queue, _NO_TREE_QUEUE).may_grant

    def limited_resources(self, queue: str) -> frozenset[str]:
        tree_queue = self._tree.queues.get(queue, _NO_TREE_QUEUE)
        limits = tree_queue.limits
        found = frozenset((*limits, ENQUEUE_CHECK[0])) if limits else frozenset[str]()
        if limits and tree_queue.is_leaf and (tree_queue.dequeue_strategy == BACKFILL or self._order.has_sla):
            found |= {RUN_TIME}
        if tree_queue.is_leaf and (tree_queue.dequeue_strategy != TRAVERSE or self._order.has_sla):
            found |= names_that_decide(limits)
        return found | {WINDOW} if tree_queue.has_window else found

    def fits(self, queue: str, ask: Ask) -> bool:
        if pods_in_window(ask) and not self._windows.is_open(queue):
            return False
        if self._held.is_held(queue, ask):
            return False
        limits = self._tree.queues.get(queue, _NO_TREE_QUEUE).limits
        if not limits:
            return True
        account = self._ledger.account(queue)
        if ENQUEUE_CHECK in ask and any(
            name in limits and account.committed(name) + amount > limits[name] for name, amount in ask
        ):
            return False
        for resource, amount in ask:
            limit = limits.get(resource)
            if limit is not None and account.allocated_plus_reserved(resource) + amount > limit:
                return False
        return True


class EnqueueView(GrantView):
    """For groups that wait to be enqueued: the part of ``minResources`` that other enqueued groups do not hold yet
    counts as used, too."""

    def fits(self, queue: str, ask: Ask) -> bool:
        if self._held.is_enqueue_held(queue, ask):
            return False
        limits = self._tree.queues.get(queue, _NO_TREE_QUEUE).limits
        account = self._ledger.account(queue)
        return all(account.committed(name) + amount <= limits[name] for name, amount in ask if name in limits)
