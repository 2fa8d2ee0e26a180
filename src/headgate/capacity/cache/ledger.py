"""The ledger: the amounts that count in each queue, by resource, and the sum for each queue with all queues below it.

A change updates the queue and its ancestors, so its cost is proportional to the depth of the queue; nothing is
recounted. ``queue_tree.py`` has the limits; ``pod_record.py`` and ``gang.py`` have the amounts of each pod and gang.
Queues that do not exist have accounts, too: a pod still holds its amounts after its queue is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from headgate.capacity.cache.usage_triggers import UsageTriggers
from headgate.kube.resource_amounts import PODS

Amounts = Mapping[str, int]


class LedgerColumn(IntEnum):
    """What an amount is counted as."""

    ALLOCATED = 0  # used by pods on nodes
    RESERVED = 1  # promised to pods that have no node yet
    INQUEUE = 2  # the part of ``minResources`` that enqueued PodGroups do not hold yet
    ELASTIC = 3  # what PodGroups hold beyond their ``minResources``
    WAITING = 4  # requested by waiting pods; the pseudo-resource ``PODS`` is the number of these pods
    TERMINATING = 5  # still used by terminating pods on their nodes, and already available for grants
    LEAVING = 6  # the part of TERMINATING that delays the start of other pods (``capacity/grants/delayed_starts.py``)
    DELAYED = 7  # the part of RESERVED that is promised to pods whose start is delayed
    WITHOUT_NODE = 8  # the number of pods with a promise and no node, as the pseudo-resource ``PODS``


class QueueAccount:
    """The amounts of one queue, by column. ``own``: of the pods in this queue itself; ``total``: of the pods in this
    queue and in all queues below it. All methods read ``total``. ``version``: another number after each change of what
    :meth:`committed` adds up."""

    __slots__ = ("own", "total", "version")

    def __init__(self) -> None:
        self.own: tuple[dict[str, int], ...] = tuple({} for _ in LedgerColumn)
        self.total: tuple[dict[str, int], ...] = tuple({} for _ in LedgerColumn)
        self.version = 0

    @property
    def allocated(self) -> Amounts:
        return self.total[LedgerColumn.ALLOCATED]

    @property
    def reserved(self) -> Amounts:
        return self.total[LedgerColumn.RESERVED]

    def allocated_amount(self, resource: str) -> int:
        return self.total[0].get(resource, 0)

    def allocated_plus_reserved(self, resource: str) -> int:
        """What a grant must fit beside: the amounts on nodes and the promised amounts."""
        total = self.total
        return total[0].get(resource, 0) + total[1].get(resource, 0)

    def all_allocated_plus_reserved(self) -> Amounts:
        """As :meth:`allocated_plus_reserved`, for all resources."""
        allocated, reserved = self.allocated, self.reserved
        return {name: allocated.get(name, 0) + reserved.get(name, 0) for name in {**allocated, **reserved}}

    def occupied(self, resource: str) -> int:
        """What pods may use on nodes now: as :meth:`allocated_plus_reserved`, without pods whose start is delayed, and
        with the terminating pods that delay it."""
        total = self.total
        return (
            self.allocated_plus_reserved(resource)
            - total[LedgerColumn.DELAYED].get(resource, 0)
            + total[LedgerColumn.LEAVING].get(resource, 0)
        )

    @property
    def pods_without_node(self) -> int:
        """The number of pods that have a promise and no node."""
        return self.total[LedgerColumn.WITHOUT_NODE].get(PODS, 0)

    def set_aside(self, resource: str) -> int:
        """The part of ``minResources`` that enqueued groups do not hold yet."""
        return self.total[LedgerColumn.INQUEUE].get(resource, 0)

    def committed(self, resource: str) -> int:
        """What the enqueue action counts as used: allocated and reserved amounts, plus the part of ``minResources``
        that enqueued groups do not hold yet, minus what groups hold beyond their ``minResources``."""
        return (
            self.allocated_plus_reserved(resource)
            + self.set_aside(resource)
            - self.total[LedgerColumn.ELASTIC].get(resource, 0)
        )


_COMMITTED: Final = (LedgerColumn.ALLOCATED, LedgerColumn.RESERVED, LedgerColumn.INQUEUE, LedgerColumn.ELASTIC)
_EMPTY = QueueAccount()


class Ledger:
    """The accounts of all queues. ``touched``: the queues whose amounts changed since ``QueueCache.process_changes``
    last cleared it. ``triggers``: the queues to look at again after these changes."""

    def __init__(self) -> None:
        self._accounts: dict[str, QueueAccount] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self.touched: dict[str, None] = {}
        self.triggers = UsageTriggers()
        self._version = 0

    def account(self, queue: str) -> QueueAccount:
        return self._accounts.get(queue, _EMPTY)

    def change(self, queue: str, column: LedgerColumn, amounts: Amounts, sign: int) -> None:
        """Add the amounts to a column of the queue and its ancestors (+1), or subtract them (-1)."""
        if not amounts:
            return
        _add_amounts(self._get_or_create(queue).own[column], amounts, sign)
        for name in self._paths.get(queue, (queue,)):
            _add_amounts(self._get_or_create(name).total[column], amounts, sign)
            self.touched[name] = None
            self._usage_changed(name, column, amounts)
        if sign < 0:
            self._delete_if_empty(queue)

    def set_path(self, queue: str, path: tuple[str, ...]) -> None:
        """Set the path of a queue (itself, its parent, and so on): the amounts of its own pods then count in the new
        ancestors and no longer in the former ones."""
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
                    _add_amounts(self._get_or_create(name).total[column], amounts, sign)
                    self._usage_changed(name, column, amounts)
        self._delete_if_empty(queue)

    def _usage_changed(self, name: str, column: int, amounts: Amounts) -> None:
        if column in _COMMITTED:
            self._version += 1
            self._accounts[name].version = self._version
            if self.triggers:
                self.triggers.count(name, amounts)

    def _get_or_create(self, queue: str) -> QueueAccount:
        account = self._accounts.get(queue)
        if account is None:
            account = self._accounts[queue] = QueueAccount()
        return account

    def _delete_if_empty(self, queue: str) -> None:
        """Delete the account of a queue that does not exist and has no amounts any more. Otherwise the number of
        accounts would grow without a bound, because a pod can name any queue."""
        if queue not in self._paths and not any(self._accounts[queue].total):
            del self._accounts[queue]


def _add_amounts(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount
        if not total[name]:
            del total[name]
