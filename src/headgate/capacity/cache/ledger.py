"""The ledger: allocated and promised amounts per queue, including all queues below it.

A change costs the depth of its queue; nothing is recounted. ``queue_tree.py`` has the limits; ``pod_record.py`` and
``gang.py`` know which pods hold what. Queues that do not exist have accounts, too: a pod's share remains after its
queue is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

Amounts = Mapping[str, int]


class LedgerColumn(IntEnum):
    ALLOCATED = 0  # by pods on nodes
    RESERVED = 1  # promised to pods that have no node yet
    INQUEUE = 2  # still missing to the minimum of enqueued groups
    ELASTIC = 3  # held by groups beyond their minimum
    WAITING = 4  # requested by waiting pods; the amount of ``PODS`` is their number
    TERMINATING = 5  # used by terminating pods on their nodes, and already available for grants


class QueueAccount:
    """``own``: of the queue's own pods. ``total``: including all queues below."""

    __slots__ = ("own", "total")

    def __init__(self) -> None:
        self.own: tuple[dict[str, int], ...] = tuple({} for _ in LedgerColumn)
        self.total: tuple[dict[str, int], ...] = tuple({} for _ in LedgerColumn)

    @property
    def allocated(self) -> Amounts:
        return self.total[LedgerColumn.ALLOCATED]

    @property
    def reserved(self) -> Amounts:
        return self.total[LedgerColumn.RESERVED]

    def placed(self, resource: str) -> int:
        return self.total[0].get(resource, 0)

    def used(self, resource: str) -> int:
        """Allocated and reserved."""
        total = self.total
        return total[0].get(resource, 0) + total[1].get(resource, 0)

    def all_used(self) -> Amounts:
        """Allocated and reserved, of all resources."""
        allocated, reserved = self.allocated, self.reserved
        return {name: allocated.get(name, 0) + reserved.get(name, 0) for name in {**allocated, **reserved}}

    def committed(self, resource: str) -> int:
        """What counts as used when a group is enqueued: the unmet minimum of enqueued groups counts, amounts beyond a
        minimum do not."""
        return (
            self.used(resource)
            + self.total[LedgerColumn.INQUEUE].get(resource, 0)
            - self.total[LedgerColumn.ELASTIC].get(resource, 0)
        )


_EMPTY = QueueAccount()


class Ledger:
    """``touched``: the queues that changed since a reader last cleared it."""

    def __init__(self) -> None:
        self._accounts: dict[str, QueueAccount] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self.touched: dict[str, None] = {}

    def account(self, queue: str) -> QueueAccount:
        return self._accounts.get(queue, _EMPTY)

    def change(self, queue: str, column: LedgerColumn, amounts: Amounts, sign: int) -> None:
        if not amounts:
            return
        _add(self._open(queue).own[column], amounts, sign)
        for name in self._paths.get(queue, (queue,)):
            _add(self._open(name).total[column], amounts, sign)
            self.touched[name] = None
        if sign < 0:
            self._close_if_empty(queue)

    def move(self, queue: str, path: tuple[str, ...]) -> None:
        """Set the path of a queue: the amounts of its own pods count for the new ancestors."""
        before = self._paths.get(queue, (queue,))
        if len(path) == 1:
            self._paths.pop(queue, None)
        else:
            self._paths[queue] = path
        account = self._accounts.get(queue)
        if before == path or account is None:
            return
        for names, sign in ((before, -1), (path, +1)):
            for name in names:
                self.touched[name] = None
                for column, amounts in enumerate(account.own):
                    _add(self._open(name).total[column], amounts, sign)
        self._close_if_empty(queue)

    def _open(self, queue: str) -> QueueAccount:
        account = self._accounts.get(queue)
        if account is None:
            account = self._accounts[queue] = QueueAccount()
        return account

    def _close_if_empty(self, queue: str) -> None:
        """Pods may name queues that do not exist: their accounts are deleted with the last amount."""
        if queue not in self._paths and not any(self._accounts[queue].total):
            del self._accounts[queue]


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount
        if not total[name]:
            del total[name]
