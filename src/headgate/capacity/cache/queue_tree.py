"""The tree of queues: parents and children, the effective limits of each queue, and invalid branches.

Limits come from queues and not from nodes, and a resource without a limit is unlimited. A change is computed from the
changed queue downwards, never from the root, and each queue has its own path: siblings share no list.
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
        self.problem = ""  # what is wrong with the queue or its ancestors

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
        queue_node = self.nodes.get(name)
        return queue_node if queue_node is not None and (queue_node.queue is not None or name == ROOT) else None

    def path(self, name: str) -> tuple[str, ...]:
        queue_node = self.nodes.get(name)
        return (name,) if queue_node is None else queue_node.path

    def apply(self, queue: Queue) -> list[str]:
        queue_node = self.nodes.setdefault(queue.name, QueueNode(queue.name))
        before = queue_node.queue
        if before == queue:
            return []
        queue_node.queue = queue
        return self._queue_changed(queue_node, before)

    def remove(self, name: str) -> list[str]:
        queue_node = self.nodes.get(name)
        if queue_node is None or queue_node.queue is None:
            return []
        before, queue_node.queue = queue_node.queue, None
        return self._queue_changed(queue_node, before)

    def _queue_changed(self, queue_node: QueueNode, before: Queue | None) -> list[str]:
        """Returns all queues that a change of one queue may affect: those below it, its siblings if its guarantee
        changed, and its old and new parent, which may have become a leaf or an inner queue."""
        after = queue_node.queue
        queue_node.invalid_amounts = _own_problem(queue_node.spec)
        parents: list[str] = []
        siblings: list[str] = []
        for queue, sign in ((before, -1), (after, +1)):
            if queue is None or queue.name == ROOT:
                continue
            parent = self.nodes.setdefault(queue.parent, QueueNode(queue.parent))
            parents.append(parent.name)
            (parent.children.add if sign > 0 else parent.children.discard)(queue_node.name)
            guarantee = {} if _own_problem(queue) else queue.guarantee
            _add(parent.guaranteed, guarantee, sign)
            if any(resource in parent.limits for resource in guarantee) and _guarantee(before) != _guarantee(after):
                siblings += parent.children
        touched = self._refresh(queue_node.name, [*parents, *sorted(siblings)])
        for name in (queue_node.name, *parents):
            self._forget_if_empty(name)
        return touched

    def _forget_if_empty(self, name: str) -> None:
        queue_node = self.nodes.get(name)
        if queue_node is not None and queue_node.queue is None and not queue_node.children and name != ROOT:
            del self.nodes[name]

    def _refresh(self, top: str, others: Iterable[str]) -> list[str]:
        """Compute all queues below ``top`` again, and those below ``others`` where something changed."""
        touched: dict[str, None] = {}
        for name in dict.fromkeys((top, *others)):
            below, seen = [name], {name}  # parents may lead in a circle
            for each in below:
                queue_node = self.nodes[each]
                has_changed = self._compute(queue_node)
                if has_changed or each == name or name == top:
                    touched[each] = None
                if has_changed or name == top:
                    below += sorted(queue_node.children - seen)
                    seen |= queue_node.children
        return list(touched)

    def _compute(self, queue_node: QueueNode) -> bool:
        before = (queue_node.path, queue_node.limits, queue_node.deserved, queue_node.problem)
        queue_node.path, path_problem = path_to_root(queue_node.name, self._parent_of)
        parent = self.nodes[queue_node.path[1]] if len(queue_node.path) > 1 else None
        queue_node.limits = self._limits(queue_node, parent)
        queue_node.deserved = _deserved(queue_node.spec, queue_node.limits)
        queue_node.problem = self._find_problem(queue_node, parent, path_problem)
        return before != (queue_node.path, queue_node.limits, queue_node.deserved, queue_node.problem)

    def _parent_of(self, name: str) -> str | None:
        queue_node = self.nodes.get(name)
        return None if queue_node is None or queue_node.queue is None else queue_node.queue.parent

    def _limits(self, queue_node: QueueNode, parent: QueueNode | None) -> Amounts:
        limits = dict(queue_node.spec.capability) if self._has_limits else {}
        if parent is None:
            return limits
        for resource, above in parent.limits.items():
            free = max(above - parent.guaranteed.get(resource, 0), 0) + queue_node.spec.guarantee.get(resource, 0)
            limits[resource] = min(limits.get(resource, free), free)
        return limits

    def _find_problem(self, queue_node: QueueNode, parent: QueueNode | None, path_problem: str) -> str:
        if queue_node.queue is None:
            return "" if queue_node.name == ROOT else path_problem
        problem = queue_node.invalid_amounts or (f"spec.parent: {path_problem}" if path_problem else "")
        if not problem and parent is not None:
            problem = _first(
                find_excess_over_ancestors(queue_node.queue, (self.nodes[name].spec for name in queue_node.path[1:]))
            )
        if problem or parent is None or not parent.problem:
            return problem
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


def _own_problem(queue: Queue) -> str:
    return queue.problem or _first(find_invalid_amounts(queue))


def _first(problems: list[QueueProblem]) -> str:
    return str(problems[0]) if problems else ""
