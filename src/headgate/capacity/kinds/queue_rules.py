"""Rules for one queue and its place in the tree: guarantee <= deserved <= capability, ancestors, depth.

Each rule is a small function that returns problems, each with its field. ``capacity/cache/queue_tree.py`` applies the
rules to existing queues: an invalid queue and the queues below it grant nothing. ``queue_validation.py`` applies them,
and a few more, to writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import msgspec

from headgate.capacity.api.queue import Amounts, Queue
from headgate.capacity.names import MAX_DEPTH, ROOT
from headgate.kube.resource_amounts import amount_text

MAX_PATH: Final = 32
"""The maximum length of a chain of parents that is followed, so that objects which form an endless chain cannot stop
the queue engine."""
_PATHS: Final = {
    "capability": "spec.capability",
    "deserved": "spec.deserved",
    "guarantee": "spec.guarantee.resource",
}
_ORDER: Final = (("guarantee", "deserved"), ("guarantee", "capability"), ("deserved", "capability"))


class QueueProblem(msgspec.Struct, frozen=True):
    """``path``: the field, as in ``spec.deserved.cpu``."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


class QueueLister(Protocol):
    """Read access to the existing queues."""

    def get(self, name: str, /) -> Queue | None: ...

    def children(self, name: str, /) -> Iterable[str]:
        """The names of the queues with this parent, whether the parent exists or not."""
        ...


def field(amount_kind: str, resource: str) -> str:
    """The field path of an amount. ``amount_kind``: capability, deserved or guarantee."""
    return f"{_PATHS[amount_kind]}.{resource}"


def amounts_of(queue: Queue, amount_kind: str) -> Amounts:
    """The capability, deserved or guarantee of the queue."""
    found: Amounts = getattr(queue, amount_kind)
    return found


def find_invalid_amounts(queue: Queue) -> list[QueueProblem]:
    """Problems within the amounts of one queue."""
    problems: dict[str, QueueProblem] = {}
    for lower, upper in _ORDER:
        bounds = amounts_of(queue, upper)
        for resource, amount in sorted(amounts_of(queue, lower).items()):
            bound = bounds.get(resource)
            path = field(lower, resource)
            if bound is not None and amount > bound and path not in problems:
                problems[path] = QueueProblem(path, f"{_more(resource, amount, bound)} its {upper}")
    return list(problems.values())


def find_excess_over_ancestors(
    queue: Queue, ancestors: Iterable[Queue], amount_kinds: Iterable[str] = ("capability",)
) -> list[QueueProblem]:
    """Amounts above the capability of the nearest ancestor that limits the resource. ``ancestors``: nearest first."""
    bounds: dict[str, tuple[int, str]] = {}
    for above in ancestors:
        for resource, bound in above.capability.items():
            bounds.setdefault(resource, (bound, above.name))
    return [
        QueueProblem(field(kind, resource), f"{_more(resource, amount, bounds[resource][0])} the capability of {above}")
        for kind in amount_kinds
        for resource, amount in sorted(amounts_of(queue, kind).items())
        if resource in bounds and amount > bounds[resource][0]
        for above in [f"the queue {bounds[resource][1]} above it"]
    ]


def path_to_root(name: str, parent_of: Callable[[str], str | None]) -> tuple[tuple[str, ...], str]:
    """The path from a queue to the root: the names of existing queues, itself first, and the problem of the path.

    ``parent_of`` gives None for a queue that does not exist."""
    path = [name]
    while path[-1] != ROOT:
        parent = parent_of(path[-1])
        if parent is None:
            if len(path) == 1:
                return (name,), f"queue {name} does not exist"
            return tuple(path[:-1]), f"queue {path[-1]} does not exist"
        if parent in path:
            cycle = [*path[path.index(parent) :], parent]
            return tuple(path), "parents lead in a circle: " + " -> ".join(cycle)
        if len(path) == MAX_PATH:
            return tuple(path), f"more than {MAX_DEPTH} levels below {ROOT}"
        path.append(parent)
    depth = len(path) - 1
    return tuple(path), f"{depth} levels below {ROOT}, {MAX_DEPTH} are allowed" if depth > MAX_DEPTH else ""


def ancestors_of(queue: Queue, lister: QueueLister) -> list[Queue]:
    """The existing ancestors of the queue, the nearest first."""
    return [each for each in map(lister.get, _path_of(queue, lister)[0][1:]) if each is not None]


def tree_problems(queue: Queue, lister: QueueLister) -> list[QueueProblem]:
    """Problems of this queue at its place in the tree, without those of its ancestors."""
    path_problem = _path_of(queue, lister)[1]
    found = [parse_problem(queue.problem)] if queue.problem else []
    found += [QueueProblem("spec.parent", path_problem)] if path_problem else []
    return [*found, *find_invalid_amounts(queue), *find_excess_over_ancestors(queue, ancestors_of(queue, lister))]


def parse_problem(text: str) -> QueueProblem:
    """From the problem text of ``read_queue``: ``spec.capability.cpu: …``."""
    path, _, rest = text.partition(": ")
    return QueueProblem(path, rest)


def _path_of(queue: Queue, lister: QueueLister) -> tuple[tuple[str, ...], str]:
    return path_to_root(queue.name, lambda name: _parent_of(queue if name == queue.name else lister.get(name)))


def find_problems(lister: QueueLister, names: Iterable[str]) -> dict[str, str]:
    """The invalid queues among these, each with its problem_by_queue problem or that of an ancestor."""
    problem_by_queue: dict[str, str] = {}
    paths: dict[str, tuple[str, ...]] = {}
    for name in names:
        queue = lister.get(name)
        if queue is None:
            continue
        paths[name], _ = path_to_root(name, lambda each: _parent_of(lister.get(each)))
        problems = tree_problems(queue, lister)
        if problems:
            problem_by_queue[name] = str(problems[0])
    found: dict[str, str] = {}
    for name, path in paths.items():
        invalid_queue = next((each for each in path if each in problem_by_queue), None)
        if invalid_queue is not None:
            found[name] = (
                problem_by_queue[name]
                if invalid_queue == name
                else f"queue {invalid_queue}: {problem_by_queue[invalid_queue]}"
            )
    return found


def total(queues: Iterable[Queue], amount_kind: str) -> Mapping[str, int]:
    """The sum of ``deserved`` or ``guarantee`` over these queues."""
    found: dict[str, int] = {}
    for queue in queues:
        for resource, amount in amounts_of(queue, amount_kind).items():
            found[resource] = found.get(resource, 0) + amount
    return found


def _parent_of(queue: Queue | None) -> str | None:
    return None if queue is None else queue.parent


def _more(resource: str, amount: int, bound: int) -> str:
    return f"{amount_text(resource, amount)} is more than {amount_text(resource, bound)},"
