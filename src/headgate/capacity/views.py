"""What the lineups ask about queues: their order, and whether they have room for a grant, or for letting a group in."""

from __future__ import annotations

from typing import Final

from headgate.capacity.ledger import Ledger
from headgate.capacity.names import ROOT
from headgate.capacity.order import Key, Order
from headgate.capacity.record import Ask
from headgate.capacity.tree import Branch, Tree

_NOWHERE = Branch("")
ENQUEUED: Final = ("", 1)
"""Part of an ask that has to leave room for groups which were let in, too. No resource has this name."""


class PlainViews:
    """The order alone, by what is placed: whoever stands here was granted what they ask for, and may be taken."""

    by_placed = True

    def __init__(self, order: Order, tree: Tree, ledger: Ledger) -> None:
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
        branch = self._tree.branches.get(queue)
        return self._order.queue_key(branch or Branch(queue), self._ledger.account(queue), placed=self.by_placed)

    def may_take(self, queue: str) -> bool:
        return True

    def limited(self, queue: str) -> frozenset[str]:
        return frozenset()

    def fits(self, queue: str, ask: Ask) -> bool:
        return True


class GrantViews(PlainViews):
    """Room for a grant: allocated and reserved and asked for, on the dimensions that are asked for."""

    by_placed = False

    def may_take(self, queue: str) -> bool:
        return self._tree.branches.get(queue, _NOWHERE).may_grant

    def limited(self, queue: str) -> frozenset[str]:
        limits = self._tree.branches.get(queue, _NOWHERE).limits
        return frozenset((*limits, ENQUEUED[0])) if limits else frozenset()

    def fits(self, queue: str, ask: Ask) -> bool:
        limits = self._tree.branches.get(queue, _NOWHERE).limits
        if not limits:
            return True
        account = self._ledger.account(queue)
        if ENQUEUED in ask and any(name in limits and account.wanted(name) + more > limits[name] for name, more in ask):
            return False
        for resource, amount in ask:
            limit = limits.get(resource)
            if limit is not None and account.used(resource) + amount > limit:
                return False
        return True


class EnqueueViews(GrantViews):
    """Room to let a group in: what others were let in for, and do not hold yet, is taken, too."""

    def fits(self, queue: str, ask: Ask) -> bool:
        limits = self._tree.branches.get(queue, _NOWHERE).limits
        account = self._ledger.account(queue)
        return all(account.wanted(name) + amount <= limits[name] for name, amount in ask if name in limits)
