"""Admission without preemption as a slow, obvious reference: one workload of each queue at a time, as Kueue does it.

A cycle looks at the first workload of each queue. Each is assigned the first flavor with free quota in the state at the
start of the cycle. Then they are admitted in order: less borrowing first (by the height in the tree), then higher
priority, then the older one. A workload that no longer fits because of an earlier one continues with the next flavor in
the next cycle, or with the first if the others have nothing. A workload that does not fit at all is set aside, with all
workloads of its queue that have the same priority and requests; in a strict queue it blocks the queue. The quota that
its queue could use stays reserved for it until the cycle ends. When a cycle changes nothing, the workloads that were
passed over are set aside, too; when there is none left, it ends. For ``test_quota_order.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.quota.api.resource_groups import FlavorResource
from property.reference_quota import Held, SlowQuota


class Asking(NamedTuple):
    """A workload that requests this number of thousandths of a CPU. ``came``: its order of creation."""

    name: str
    queue: str
    cpu: int
    priority: int
    came: int


class Queue(NamedTuple):
    flavors: Sequence[str]
    is_strict: bool


class SlowAdmission:
    def __init__(self, quota: SlowQuota, queues: Mapping[str, Queue], waiting: Sequence[Asking]) -> None:
        self._quota, self._queues = quota, queues
        self._waiting = sorted(waiting, key=lambda each: (-each.priority, each.came))
        self._aside: set[str] = set()
        self._blocked: set[str] = set()
        self._first: dict[str, int] = {}
        self._passed: dict[str, tuple[int, int]] = {}
        self.admitted: list[tuple[str, str]] = []

    def run(self) -> list[tuple[str, str]]:
        """Names and flavors, in the order in which they are admitted."""
        while self._cycle():
            pass
        return self.admitted

    def _cycle(self) -> bool:
        """Whether anything changed."""
        before, has_moved = self._done(), False
        passed: list[Asking] = []
        heads = [head for name in self._queues if (head := self._head(name)) is not None]
        firsts = {head: self._first.pop(head.name, 0) for head in heads}
        nominated = {head: self._nominate(head, firsts[head]) for head in heads}
        reserved: list[Held] = []
        for head in sorted(heads, key=lambda each: (nominated[each][1], -each.priority, each.came)):
            flavor, _, could_ever = nominated[head]
            if flavor:
                usage = {(flavor, "cpu"): head.cpu}
                if self._with(reserved).fits(head.queue, usage):
                    self._quota.held.append((head.queue, usage))
                    self._waiting.remove(head)
                    self.admitted.append((head.name, flavor))
                    continue
                passed.append(head)
                if self._passed.get(head.name) != self._done():
                    self._passed[head.name] = self._done()
                    self._first[head.name] = self._after(head, flavor)
                    has_moved = True
                continue
            if could_ever:
                reserved.append((head.queue, self._kept(head, could_ever, reserved)))
            if firsts[head]:
                has_moved = True
                continue
            self._set_aside(head)
        if not has_moved and self._done() == before:
            for head in passed:
                self._set_aside(head)
        return has_moved or self._done() != before

    def _set_aside(self, head: Asking) -> None:
        if self._queues[head.queue].is_strict:
            self._blocked.add(head.name)
        else:
            shape = (head.queue, head.cpu, head.priority)
            self._aside |= {each.name for each in self._waiting if (each.queue, each.cpu, each.priority) == shape}

    def _done(self) -> tuple[int, int]:
        return len(self.admitted), len(self._aside) + len(self._blocked)

    def _after(self, asking: Asking, flavor: str) -> int:
        flavors = self._queues[asking.queue].flavors
        return (flavors.index(flavor) + 1) % len(flavors)

    def _head(self, queue: str) -> Asking | None:
        return next((each for each in self._waiting if each.queue == queue and each.name not in self._aside), None)

    def _nominate(self, asking: Asking, first: int) -> tuple[str, int, str]:
        """The flavor that has free quota, or none; the height of that quota in the tree; and if none, the flavor that
        could have it."""
        could: list[tuple[int, int, str]] = []
        node = f"queue/{asking.queue}"
        for at, flavor in list(enumerate(self._queues[asking.queue].flavors))[first:]:
            fr = (flavor, "cpu")
            if asking.cpu <= self._quota.available(node, fr):
                return flavor, self._height(asking.queue, fr, asking.cpu)[0], ""
            height, is_part = self._height(asking.queue, fr, asking.cpu)
            if asking.cpu <= self._quota.potential(node, fr) and (
                is_part or asking.cpu <= self._quota.quota(node, fr).nominal
            ):
                could.append((height, at, flavor))
        height, _, flavor = min(could, default=(0, 0, ""))
        return "", height, flavor

    def _height(self, queue: str, fr: FlavorResource, more: int) -> tuple[int, bool]:
        """The lowest subtree that has this additional quota, and whether it is less than the whole tree."""
        node: str | None = f"queue/{queue}"
        last = node
        while node is not None:
            if self._quota.usage(node, fr) + more <= self._quota.subtree(node, fr):
                return self._depth(node), self._quota.parent(node) is not None
            more -= max(0, self._quota.local(node, fr) - self._quota.usage(node, fr))
            last, node = node, self._quota.parent(node)
        assert last is not None
        return self._depth(last), False

    def _depth(self, node: str) -> int:
        """The distance to the farthest leaf."""
        return max((self._depth(each) + 1 for each in self._quota.children(node)), default=0)

    def _kept(self, asking: Asking, flavor: str, reserved: Sequence[Held]) -> dict[FlavorResource, int]:
        fr, node = (flavor, "cpu"), f"queue/{asking.queue}"
        quota, borrows = self._quota.quota(node, fr), self._height(asking.queue, fr, asking.cpu)[0] > 0
        limit: int | None = quota.nominal
        if borrows:
            limit = None if quota.borrowing_limit is None else quota.nominal + quota.borrowing_limit
        used = self._with(reserved).usage(node, fr)
        return {fr: asking.cpu if limit is None else max(0, min(asking.cpu, limit - used))}

    def _with(self, reserved: Sequence[Held]) -> SlowQuota:
        return SlowQuota(self._quota.queues, self._quota.cohorts, [*self._quota.held, *reserved])
