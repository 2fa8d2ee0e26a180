"""The tree of queues: parents and children, the effective limits of each queue, and which queues are invalid.

A queue may use its capability, and at most what its parent leaves after the guarantees of its siblings. The size of the
cluster does not limit it, and a resource without a limit is unlimited. A change of a queue is computed for that queue
and the queues below it, not for the whole tree. ``capacity/kinds/queue_rules.py`` decides what is invalid;
``ledger.py`` has the usage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headgate.capacity.api.queue import OPEN, TRAVERSE, Amounts, Queue
from headgate.capacity.kinds.queue_rules import (
    QueueProblem,
    find_excess_over_ancestors,
    find_invalid_amounts,
    path_to_root,
)
from headgate.capacity.names import ROOT

_NO_SPEC: Final = Queue("")


class TreeQueue:
    """A queue in the tree. ``queue``: its object as read from the API; None for a queue without an object that others
    name as their parent. ``path``: itself, its parent, and so on; up to the root if all of them exist. ``limits``:
    the most that the queue may use (Volcano's realCapability), for the limited resources only. ``has_window``: whether
    this queue or an ancestor limits the number of pods without a node. ``dequeue_strategy``: that of the queue, or of
    its nearest ancestor with one."""

    __slots__ = (
        "children",
        "dequeue_strategy",
        "deserved",
        "guaranteed",
        "has_window",
        "invalid_amounts",
        "limits",
        "name",
        "path",
        "problem",
        "queue",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: Queue | None = None
        self.children: set[str] = set()
        self.path: tuple[str, ...] = (name,)
        self.limits: Amounts = {}
        self.deserved: Amounts = {}
        self.has_window = False
        self.dequeue_strategy = TRAVERSE
        self.guaranteed: dict[str, int] = {}  # the sum of the guarantees of its children
        self.invalid_amounts = ""  # what is wrong with the object of the queue by itself
        self.problem = (
            ""  # what is wrong with the queue, its place in the tree, or its ancestors; then it grants nothing
        )

    @property
    def spec(self) -> Queue:
        return self.queue or _NO_SPEC

    @property
    def is_leaf(self) -> bool:
        return not self.children and self.name != ROOT

    @property
    def is_open(self) -> bool:
        return self.spec.state == OPEN

    @property
    def may_grant(self) -> bool:
        """Whether pods of this queue can be granted capacity at all."""
        return self.queue is not None and not self.problem and self.is_leaf and self.is_open


class QueueTree:
    """``queues``: all queues in the tree, by name. ``has_limits``: False if no plugin limits queues. ``apply`` and
    ``remove`` return the names of all queues that may have changed."""

    def __init__(self, has_limits: bool = True) -> None:
        self._has_limits = has_limits
        self.queues: dict[str, TreeQueue] = {ROOT: TreeQueue(ROOT)}

    def get(self, name: str) -> TreeQueue | None:
        """The queue, if its object exists; the root always counts as existing."""
        tree_queue = self.queues.get(name)
        return tree_queue if tree_queue is not None and (tree_queue.queue is not None or name == ROOT) else None

    def path(self, name: str) -> tuple[str, ...]:
        """The queue, its parent, and so on."""
        tree_queue = self.queues.get(name)
        return (name,) if tree_queue is None else tree_queue.path

    def apply(self, queue: Queue) -> list[str]:
        tree_queue = self.queues.setdefault(queue.name, TreeQueue(queue.name))
        before = tree_queue.queue
        if before == queue:
            return []
        tree_queue.queue = queue
        return self._queue_changed(tree_queue, before)

    def remove(self, name: str) -> list[str]:
        tree_queue = self.queues.get(name)
        if tree_queue is None or tree_queue.queue is None:
            return []
        before, tree_queue.queue = tree_queue.queue, None
        return self._queue_changed(tree_queue, before)

    def _queue_changed(self, tree_queue: TreeQueue, before: Queue | None) -> list[str]:
        """Returns all queues that a change of one queue may affect: those below it, its siblings if its guarantee
        changed, and its old and new parent, which may have become a leaf or an inner queue."""
        after = tree_queue.queue
        tree_queue.invalid_amounts = _problem_of_object(tree_queue.spec)
        parents: list[str] = []
        siblings: list[str] = []
        for queue, sign in ((before, -1), (after, +1)):
            if queue is None or queue.name == ROOT:
                continue
            parent = self.queues.setdefault(queue.parent, TreeQueue(queue.parent))
            parents.append(parent.name)
            (parent.children.add if sign > 0 else parent.children.discard)(tree_queue.name)
            guarantee = {} if _problem_of_object(queue) else queue.guarantee
            _add(parent.guaranteed, guarantee, sign)
            if any(resource in parent.limits for resource in guarantee) and _parent_and_guarantee(
                before
            ) != _parent_and_guarantee(after):
                siblings += parent.children
        touched = self._refresh(tree_queue.name, [*parents, *sorted(siblings)])
        for name in (tree_queue.name, *parents):
            self._forget_if_empty(name)
        return touched

    def _forget_if_empty(self, name: str) -> None:
        tree_queue = self.queues.get(name)
        if tree_queue is not None and tree_queue.queue is None and not tree_queue.children and name != ROOT:
            del self.queues[name]

    def _refresh(self, changed_queue: str, others: Iterable[str]) -> list[str]:
        """Compute the changed queue and all queues below it again. Compute the ``others`` again, too, and continue
        below each of them only while a result changes. Returns the queues that may have changed."""
        touched: dict[str, None] = {}
        for name in dict.fromkeys((changed_queue, *others)):
            to_compute, seen = [name], {name}  # the parents of invalid queues may form a cycle
            for each in to_compute:
                tree_queue = self.queues[each]
                has_changed = self._compute(tree_queue)
                if has_changed or each == name or name == changed_queue:
                    touched[each] = None
                if has_changed or name == changed_queue:
                    to_compute += sorted(tree_queue.children - seen)
                    seen |= tree_queue.children
        return list(touched)

    def _compute(self, tree_queue: TreeQueue) -> bool:
        """Computes again the fields that depend on ancestors. Returns whether one of them has changed."""
        before = _computed(tree_queue)
        tree_queue.path, path_problem = path_to_root(tree_queue.name, self._parent_of)
        parent = self.queues[tree_queue.path[1]] if len(tree_queue.path) > 1 else None
        tree_queue.limits = self._limits(tree_queue, parent)
        tree_queue.deserved = _deserved(tree_queue.spec, tree_queue.limits)
        tree_queue.problem = self._find_problem(tree_queue, parent, path_problem)
        has_limit = tree_queue.spec.max_pods_without_node is not None
        tree_queue.has_window = has_limit or (parent is not None and parent.has_window)
        inherited = TRAVERSE if parent is None else parent.dequeue_strategy
        tree_queue.dequeue_strategy = tree_queue.spec.dequeue_strategy or inherited
        return before != _computed(tree_queue)

    def _parent_of(self, name: str) -> str | None:
        tree_queue = self.queues.get(name)
        return None if tree_queue is None or tree_queue.queue is None else tree_queue.queue.parent

    def _limits(self, tree_queue: TreeQueue, parent: TreeQueue | None) -> Amounts:
        limits = dict(tree_queue.spec.capability) if self._has_limits else {}
        if parent is None:
            return limits
        for resource, parent_limit in parent.limits.items():
            free = max(parent_limit - parent.guaranteed.get(resource, 0), 0) + tree_queue.spec.guarantee.get(
                resource, 0
            )
            limits[resource] = min(limits.get(resource, free), free)
        return limits

    def _find_problem(self, tree_queue: TreeQueue, parent: TreeQueue | None, path_problem: str) -> str:
        if tree_queue.queue is None:
            return "" if tree_queue.name == ROOT else path_problem
        problem = tree_queue.invalid_amounts or (f"spec.parent: {path_problem}" if path_problem else "")
        if not problem and parent is not None:
            problem = _first(
                find_excess_over_ancestors(tree_queue.queue, (self.queues[name].spec for name in tree_queue.path[1:]))
            )
        if problem or parent is None or not parent.problem:
            return problem
        return parent.problem if parent.problem.startswith("queue ") else f"queue {parent.name}: {parent.problem}"


def _computed(tree_queue: TreeQueue) -> tuple[object, ...]:
    return (
        tree_queue.path,
        tree_queue.limits,
        tree_queue.deserved,
        tree_queue.problem,
        tree_queue.has_window,
        tree_queue.dequeue_strategy,
    )


def _parent_and_guarantee(queue: Queue | None) -> tuple[str, Amounts] | None:
    return None if queue is None else (queue.parent, queue.guarantee)


def _add(total: dict[str, int], amounts: Amounts, sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount


def _deserved(queue: Queue, limits: Amounts) -> Amounts:
    found = {name: min(amount, limits.get(name, amount)) for name, amount in queue.deserved.items()}
    for name, amount in queue.guarantee.items():
        found[name] = max(found.get(name, 0), amount)
    return found


def _problem_of_object(queue: Queue) -> str:
    return queue.problem or _first(find_invalid_amounts(queue))


def _first(problems: list[QueueProblem]) -> str:
    return str(problems[0]) if problems else ""
