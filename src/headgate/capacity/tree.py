"""The tree of queues: who is below whom, how much each may use, and which branches cannot be trusted.

Quota is the queue's, not the cluster's: nodes have no say here, and a resource that nobody limits is unlimited. What a
change touches is worked out from there downwards, never from the root, and each branch has a path of its own: no list
is shared between siblings. What is a problem is ``rules.py``'s to say; how much is in use, ``ledger.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headgate.capacity.names import ROOT
from headgate.capacity.queue import OPEN, Amounts, Queue
from headgate.capacity.rules import Problem, climb, find_disorder, find_excess

_NOTHING: Final = Queue("")


class Branch:
    """A queue in its place. ``path``: itself, its parent, and so on; up to the root if all of them exist.

    ``limits`` is Volcano's realCapability: the dimensions that are limited at all. ``queue`` is None for a queue that
    is only named, by its children."""

    __slots__ = ("children", "deserved", "disorder", "guaranteed", "limits", "name", "path", "problem", "queue")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: Queue | None = None
        self.children: set[str] = set()
        self.path: tuple[str, ...] = (name,)
        self.limits: Amounts = {}
        self.deserved: Amounts = {}
        self.guaranteed: dict[str, int] = {}  # to its children together
        self.disorder = ""  # what is wrong with the queue by itself
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


class Tree:
    """``apply`` and ``remove`` answer with the names of all queues for which something may be different now."""

    def __init__(self, has_limits: bool = True) -> None:
        self._has_limits = has_limits
        self.branches: dict[str, Branch] = {ROOT: Branch(ROOT)}

    def get(self, name: str) -> Branch | None:
        """A queue that exists; the root always does."""
        branch = self.branches.get(name)
        return branch if branch is not None and (branch.queue is not None or name == ROOT) else None

    def path(self, name: str) -> tuple[str, ...]:
        branch = self.branches.get(name)
        return (name,) if branch is None else branch.path

    def apply(self, queue: Queue) -> list[str]:
        branch = self.branches.setdefault(queue.name, Branch(queue.name))
        before = branch.queue
        if before == queue:
            return []
        branch.queue = queue
        return self._moved(branch, before)

    def remove(self, name: str) -> list[str]:
        branch = self.branches.get(name)
        if branch is None or branch.queue is None:
            return []
        before, branch.queue = branch.queue, None
        return self._moved(branch, before)

    def _moved(self, branch: Branch, before: Queue | None) -> list[str]:
        """Everything that a change of one queue may reach: what is below it; its siblings if something else is kept
        for it; its parents, which may have become leaves or ceased to be."""
        after = branch.queue
        branch.disorder = _disorder(branch.spec)
        parents: list[str] = []
        siblings: list[str] = []
        for queue, sign in ((before, -1), (after, +1)):
            if queue is None or queue.name == ROOT:
                continue
            parent = self.branches.setdefault(queue.parent, Branch(queue.parent))
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
        branch = self.branches.get(name)
        if branch is not None and branch.queue is None and not branch.children and name != ROOT:
            del self.branches[name]

    def _refresh(self, top: str, others: Iterable[str]) -> list[str]:
        """Work out anew all below ``top``, and below the others where it makes a difference."""
        touched: dict[str, None] = {}
        for name in dict.fromkeys((top, *others)):
            below, seen = [name], {name}  # parents may lead in a circle
            for each in below:
                branch = self.branches[each]
                has_changed = self._work_out(branch)
                if has_changed or each == name or name == top:
                    touched[each] = None
                if has_changed or name == top:
                    below += sorted(branch.children - seen)
                    seen |= branch.children
        return list(touched)

    def _work_out(self, branch: Branch) -> bool:
        before = (branch.path, branch.limits, branch.deserved, branch.problem)
        branch.path, detour = climb(branch.name, self._parent_of)
        parent = self.branches[branch.path[1]] if len(branch.path) > 1 else None
        branch.limits = self._limits(branch, parent)
        branch.deserved = _deserved(branch.spec, branch.limits)
        branch.problem = self._find_problem(branch, parent, detour)
        return before != (branch.path, branch.limits, branch.deserved, branch.problem)

    def _parent_of(self, name: str) -> str | None:
        branch = self.branches.get(name)
        return None if branch is None or branch.queue is None else branch.queue.parent

    def _limits(self, branch: Branch, parent: Branch | None) -> Amounts:
        limits = dict(branch.spec.capability) if self._has_limits else {}
        if parent is None:
            return limits
        for resource, above in parent.limits.items():
            free = max(above - parent.guaranteed.get(resource, 0), 0) + branch.spec.guarantee.get(resource, 0)
            limits[resource] = min(limits.get(resource, free), free)
        return limits

    def _find_problem(self, branch: Branch, parent: Branch | None, detour: str) -> str:
        if branch.queue is None:
            return "" if branch.name == ROOT else detour
        own = branch.disorder or (f"spec.parent: {detour}" if detour else "")
        if not own and parent is not None:
            own = _first(find_excess(branch.queue, (self.branches[name].spec for name in branch.path[1:])))
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
    return queue.problem or _first(find_disorder(queue))


def _first(problems: list[Problem]) -> str:
    return str(problems[0]) if problems else ""
