"""The tree of queues: parents and children, the effective limits of each queue, and invalid branches.

Limits come from queues and not from nodes, and a resource without a limit is unlimited. A change is computed from the
changed queue downwards, never from the root, and each branch has its own path: siblings share no list.
``capacity/kinds/queue_rules.py`` decides what is invalid; ``ledger.py`` has the usage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headgate.capacity.api.queue import OPEN, Amounts, Queue
from headgate.capacity.kinds.queue_rules import (
    QueueProblem,
    find_excess_over_ancestors,
    find_invalid_amounts,
    path_to_root,
)
from headgate.capacity.names import ROOT

_NOTHING: Final = Queue("")


class QueueNode:
    """A queue in the tree. ``path``: itself, its parent, and so on; up to the root if all of them exist.

    ``limits`` is Volcano's realCapability: only the limited resources. ``queue`` is None for a queue that exists only
    as the parent of others."""

    __slots__ = ("children", "deserved", "guaranteed", "invalid_amounts", "limits", "name", "path", "problem", "queue")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: Queue | None = None
        self.children: set[str] = set()
        self.path: tuple[str, ...] = (name,)
        self.limits: Amounts = {}
        self.deserved: Amounts = {}
        self.guaranteed: dict[str, int] = {}  # to its children together
        self.invalid_amounts = ""  # what is wrong with the queue by itself
        self.problem = ""  # what is wrong with the branch

    @property
    def spec(self) -> Queue:
        return self.queue or _NOTHING

    @property
    def is_leaf(self) -> bool:
        return not self.children and self.name != ROOT

    @property
    def is_open(self) -> bool:
        return self.spec.state == OPEN

    @property
    def may_grant(self) -> bool:
        return self.queue is not None and not self.problem and self.is_leaf and self.is_open


class QueueTree:
    """``apply`` and ``remove`` return the names of all queues that may have changed."""

    def __init__(self, has_limits: bool = True) -> None:
        self._has_limits = has_limits
        self.nodes: dict[str, QueueNode] = {ROOT: QueueNode(ROOT)}

    def get(self, name: str) -> QueueNode | None:
        """A queue that exists; the root always does."""
        branch = self.nodes.get(name)
        return branch if branch is not None and (branch.queue is not None or name == ROOT) else None

    def path(self, name: str) -> tuple[str, ...]:
        branch = self.nodes.get(name)
        return (name,) if branch is None else branch.path

    def apply(self, queue: Queue) -> list[str]:
        branch = self.nodes.setdefault(queue.name, QueueNode(queue.name))
        before = branch.queue
        if before == queue:
            return []
        branch.queue = queue
        return self._moved(branch, before)

    def remove(self, name: str) -> list[str]:
        branch = self.nodes.get(name)
        if branch is None or branch.queue is None:
            return []
        before, branch.queue = branch.queue, None
        return self._moved(branch, before)

    def _moved(self, branch: QueueNode, before: Queue | None) -> list[str]:
        """Everything that a change of one queue may reach: what is below it; its siblings if something else is kept
        for it; its parents, which may have become leaves or ceased to be."""
        after = branch.queue
        branch.invalid_amounts = _disorder(branch.spec)
        parents: list[str] = []
        siblings: list[str] = []
        for queue, sign in ((before, -1), (after, +1)):
            if queue is None or queue.name == ROOT:
                continue
            parent = self.nodes.setdefault(queue.parent, QueueNode(queue.parent))
            parents.append(parent.name)
            (parent.children.add if sign > 0 else parent.children.discard)(branch.name)
            kept = {} if _disorder(queue) else queue.guarantee
            _add(parent.guaranteed, kept, sign)
            if any(resource in parent.limits for resource in kept) and _guarantee(before) != _guarantee(after):
                siblings += parent.children
        touched = self._refresh(branch.name, [*parents, *sorted(siblings)])
        for name in (branch.name, *parents):
            self._forget_if_empty(name)
        return touched

    def _forget_if_empty(self, name: str) -> None:
        branch = self.nodes.get(name)
        if branch is not None and branch.queue is None and not branch.children and name != ROOT:
            del self.nodes[name]

    def _refresh(self, top: str, others: Iterable[str]) -> list[str]:
        """Work out anew all below ``top``, and below the others where it makes a difference."""
        touched: dict[str, None] = {}
        for name in dict.fromkeys((top, *others)):
            below, seen = [name], {name}  # parents may lead in a circle
            for each in below:
                branch = self.nodes[each]
                has_changed = self._work_out(branch)
                if has_changed or each == name or name == top:
                    touched[each] = None
                if has_changed or name == top:
                    below += sorted(branch.children - seen)
                    seen |= branch.children
        return list(touched)

    def _work_out(self, branch: QueueNode) -> bool:
        before = (branch.path, branch.limits, branch.deserved, branch.problem)
        branch.path, detour = path_to_root(branch.name, self._parent_of)
        parent = self.nodes[branch.path[1]] if len(branch.path) > 1 else None
        branch.limits = self._limits(branch, parent)
        branch.deserved = _deserved(branch.spec, branch.limits)
        branch.problem = self._find_problem(branch, parent, detour)
        return before != (branch.path, branch.limits, branch.deserved, branch.problem)

    def _parent_of(self, name: str) -> str | None:
        branch = self.nodes.get(name)
        return None if branch is None or branch.queue is None else branch.queue.parent

    def _limits(self, branch: QueueNode, parent: QueueNode | None) -> Amounts:
        limits = dict(branch.spec.capability) if self._has_limits else {}
        if parent is None:
            return limits
        for resource, above in parent.limits.items():
            free = max(above - parent.guaranteed.get(resource, 0), 0) + branch.spec.guarantee.get(resource, 0)
            limits[resource] = min(limits.get(resource, free), free)
        return limits

    def _find_problem(self, branch: QueueNode, parent: QueueNode | None, detour: str) -> str:
        if branch.queue is None:
            return "" if branch.name == ROOT else detour
        own = branch.invalid_amounts or (f"spec.parent: {detour}" if detour else "")
        if not own and parent is not None:
            own = _first(find_excess_over_ancestors(branch.queue, (self.nodes[name].spec for name in branch.path[1:])))
        if own or parent is None or not parent.problem:
            return own
        return parent.problem if parent.problem.startswith("queue ") else f"queue {parent.name}: {parent.problem}"


def _guarantee(queue: Queue | None) -> tuple[str, Amounts] | None:
    return None if queue is None else (queue.parent, queue.guarantee)


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount


def _deserved(queue: Queue, limits: Amounts) -> Amounts:
    found = {name: min(amount, limits.get(name, amount)) for name, amount in queue.deserved.items()}
    for name, amount in queue.guarantee.items():
        found[name] = max(found.get(name, 0), amount)
    return found


def _disorder(queue: Queue) -> str:
    return queue.problem or _first(find_invalid_amounts(queue))


def _first(problems: list[QueueProblem]) -> str:
    return str(problems[0]) if problems else ""
