"""Rules for one queue and its place in the tree: guarantee <= deserved <= capability, ancestors, depth.

Each rule is a small function from values to problems with their fields. The engine applies them to existing queues
(``capacity/cache/queue_tree.py``: an invalid branch grants nothing); ``queue_validation.py`` applies them and a few
more to writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import msgspec

from headgate.capacity.api.queue import Amounts, Queue
from headgate.capacity.names import MAX_DEPTH, ROOT
from headgate.kube.resource_amounts import amount_text

MAX_PATH: Final = 32
"""Of a chain of parents that is followed at all: hostile chains end somewhere."""
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
        """The names of those that call it their parent, whether it exists or not."""
        ...


def field(kind: str, resource: str) -> str:
    """The path of an amount: ``kind`` is capability, deserved or guarantee."""
    return f"{_PATHS[kind]}.{resource}"


def amounts_of(queue: Queue, kind: str) -> Amounts:
    found: Amounts = getattr(queue, kind)
    return found


def find_invalid_amounts(queue: Queue) -> list[QueueProblem]:
    """What a queue gets wrong by itself."""
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
    queue: Queue, ancestors: Iterable[Queue], kinds: Iterable[str] = ("capability",)
) -> list[QueueProblem]:
    """Where it has more than the nearest of its ``ancestors``, nearest first, that limits the resource."""
    bounds: dict[str, tuple[int, str]] = {}
    for above in ancestors:
        for resource, bound in above.capability.items():
            bounds.setdefault(resource, (bound, above.name))
    return [
        QueueProblem(field(kind, resource), f"{_more(resource, amount, bounds[resource][0])} the capability of {above}")
        for kind in kinds
        for resource, amount in sorted(amounts_of(queue, kind).items())
        if resource in bounds and amount > bounds[resource][0]
        for above in [f"the queue {bounds[resource][1]} above it"]
    ]


def path_to_root(name: str, parent_of: Callable[[str], str | None]) -> tuple[tuple[str, ...], str]:
    """From a queue up to the root: the names on the way that exist, itself first, and what is wrong with the way.

    ``parent_of`` gives None for a queue that does not exist."""
    path = [name]
    while path[-1] != ROOT:
        parent = parent_of(path[-1])
        if parent is None:
            if len(path) == 1:
                return (name,), f"queue {name} does not exist"
            return tuple(path[:-1]), f"queue {path[-1]} does not exist"
        if parent in path:
            ring = [*path[path.index(parent) :], parent]
            return tuple(path), "parents lead in a circle: " + " -> ".join(ring)
        if len(path) == MAX_PATH:
            return tuple(path), f"more than {MAX_DEPTH} levels below {ROOT}"
        path.append(parent)
    depth = len(path) - 1
    return tuple(path), f"{depth} levels below {ROOT}, {MAX_DEPTH} are allowed" if depth > MAX_DEPTH else ""


def ancestors_of(queue: Queue, known: QueueLister) -> list[Queue]:
    """The nearest first."""
    return [each for each in map(known.get, _climb(queue, known)[0][1:]) if each is not None]


def problems_in_place(queue: Queue, known: QueueLister) -> list[QueueProblem]:
    """Why this queue, where it stands, could not be trusted; those of its ancestors are their own."""
    detour = _climb(queue, known)[1]
    found = [read_problem(queue.problem)] if queue.problem else []
    found += [QueueProblem("spec.parent", detour)] if detour else []
    return [*found, *find_invalid_amounts(queue), *find_excess_over_ancestors(queue, ancestors_of(queue, known))]


def read_problem(text: str) -> QueueProblem:
    """From the words of who read the queue: ``spec.capability.cpu: …``."""
    path, _, rest = text.partition(": ")
    return QueueProblem(path, rest)


def _climb(queue: Queue, known: QueueLister) -> tuple[tuple[str, ...], str]:
    return path_to_root(queue.name, lambda name: _parent_of(queue if name == queue.name else known.get(name)))


def find_problems(known: QueueLister, names: Iterable[str]) -> dict[str, str]:
    """The whole tree at once: which of these queues cannot be trusted, and why, themselves or a queue above them."""
    own: dict[str, str] = {}
    paths: dict[str, tuple[str, ...]] = {}
    for name in names:
        queue = known.get(name)
        if queue is None:
            continue
        paths[name], _ = path_to_root(name, lambda each: _parent_of(known.get(each)))
        problems = problems_in_place(queue, known)
        if problems:
            own[name] = str(problems[0])
    found: dict[str, str] = {}
    for name, path in paths.items():
        guilty = next((each for each in path if each in own), None)
        if guilty is not None:
            found[name] = own[name] if guilty == name else f"queue {guilty}: {own[guilty]}"
    return found


def total(queues: Iterable[Queue], kind: str) -> Mapping[str, int]:
    """What they are promised together."""
    found: dict[str, int] = {}
    for queue in queues:
        for resource, amount in amounts_of(queue, kind).items():
            found[resource] = found.get(resource, 0) + amount
    return found


def _parent_of(queue: Queue | None) -> str | None:
    return None if queue is None else queue.parent


def _more(resource: str, amount: int, bound: int) -> str:
    return f"{amount_text(resource, amount)} is more than {amount_text(resource, bound)},"
