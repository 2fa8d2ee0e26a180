"""The ledger: what is in use and what is promised, per queue and every ancestor of it.

A change costs the depth of its queue, nothing is ever counted again. Limits are ``tree.py``'s; who holds what, and why,
``record.py`` and ``groups.py``. Queues that nobody has heard of have accounts, too: what a pod holds does not vanish
with its queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

Amounts = Mapping[str, int]


class Column(IntEnum):
    ALLOCATED = 0  # by pods on nodes
    RESERVED = 1  # promised to pods that have none yet
    INQUEUE = 2  # wanted by groups that were let in, and hold less than their minimum
    ELASTIC = 3  # held by groups beyond their minimum
    WAITING = 4  # asked for by pods that are held back; how many they are is the amount of :data:`PODS`
    TERMINATING = 5  # by pods that were told to go and are still on their nodes: free to be granted, and in use


class Account:
    """``own``: of the queue's own pods. ``total``: with all queues below."""

    __slots__ = ("own", "total")

    def __init__(self) -> None:
        self.own: tuple[dict[str, int], ...] = tuple({} for _ in Column)
        self.total: tuple[dict[str, int], ...] = tuple({} for _ in Column)

    @property
    def allocated(self) -> Amounts:
        return self.total[Column.ALLOCATED]

    @property
    def reserved(self) -> Amounts:
        return self.total[Column.RESERVED]

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

    def wanted(self, resource: str) -> int:
        """What a group that asks to be let in has to share the queue with."""
        return (
            self.used(resource)
            + self.total[Column.INQUEUE].get(resource, 0)
            - self.total[Column.ELASTIC].get(resource, 0)
        )


_EMPTY = Account()


class Ledger:
    """``touched``: the queues in which something changed since whoever empties it last did."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self.touched: dict[str, None] = {}

    def account(self, queue: str) -> Account:
        return self._accounts.get(queue, _EMPTY)

    def change(self, queue: str, column: Column, amounts: Amounts, sign: int) -> None:
        if not amounts:
            return
        _add(self._open(queue).own[column], amounts, sign)
        for name in self._paths.get(queue, (queue,)):
            _add(self._open(name).total[column], amounts, sign)
            self.touched[name] = None
        if sign < 0:
            self._close_if_empty(queue)

    def move(self, queue: str, path: tuple[str, ...]) -> None:
        """The queue stands elsewhere: what its own pods hold counts for its new ancestors."""
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

    def _open(self, queue: str) -> Account:
        account = self._accounts.get(queue)
        if account is None:
            account = self._accounts[queue] = Account()
        return account

    def _close_if_empty(self, queue: str) -> None:
        """Pods may name any queue: those that do not exist leave nothing behind."""
        if queue not in self._paths and not any(self._accounts[queue].total):
            del self._accounts[queue]


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount
        if not total[name]:
            del total[name]
