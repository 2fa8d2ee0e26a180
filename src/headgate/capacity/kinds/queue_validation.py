"""Validation of queues on create, update and delete: reports all problems, each with its field.

It does no I/O; ``admission/`` calls it. An update may keep problems that the queue had before, so that an invalid tree
can be repaired step by step. ``queue_rules.py`` has the rules for existing queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from headgate.capacity.api.lease import read_lease_s
from headgate.capacity.api.queue import Queue, read_queue
from headgate.capacity.kinds import queue_rules
from headgate.capacity.kinds.queue_rules import QueueLister, QueueProblem, amounts_of, field
from headgate.capacity.names import (
    DEFAULT,
    LEASE,
    MAX_DEPTH,
    MAX_PODS_WITHOUT_NODE,
    ROOT,
    STATE,
    WITHOUT_NODE_TIMEOUT,
)
from headgate.kube.lenient_reader import find_object
from headgate.kube.resource_amounts import PODS, amount_text

JobCount = Callable[[str], int]
"""The number of PodGroups and pods without a group in a queue, by its name."""

_SUMMED: Final = ("deserved", "guarantee")
_STATES: Final = ("Open", "Closed")


def find_queue_problems(
    new: Mapping[str, Any], old: Mapping[str, Any] | None, lister: QueueLister, job_count: JobCount
) -> list[QueueProblem]:
    """Why this queue may not be written; empty if it may. ``old``: the object that it replaces; None on create.
    ``lister``: the existing queues; it need not contain this queue yet."""
    queue, before = read_queue(new), None if old is None else read_queue(old)
    found = _field_problems(new, queue)
    after = _QueuesAfterWrite(lister, queue)
    found += _tree_problems(queue, after)
    found += _parent_problems(queue, before, after, job_count)
    found += _descendant_problems(queue, before, after)
    found += _sum_problems(queue, before, after)
    if old is not None and before is not None:
        before_write = _QueuesAfterWrite(lister, before)
        problems_before = {*_field_problems(old, before), *_tree_problems(before, before_write)}
        found = [each for each in found if each not in problems_before]
    return list(dict.fromkeys(found))


def queue_warnings(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[str]:
    """Warnings about valid fields with an effect that users may not expect."""
    queue, before = read_queue(new), read_queue(old or {})
    zeros = [
        f"{field('capability', resource)}: 0 means that the queue may use no {resource} at all; Volcano takes it for "
        f"no limit. For no limit leave {resource} out"
        for resource, amount in sorted(queue.capability.items())
        if not amount and before.capability.get(resource) != 0
    ]
    unused = [
        f"metadata.annotations[{WITHOUT_NODE_TIMEOUT}]: it has no effect without the annotation "
        f"{MAX_PODS_WITHOUT_NODE} on the same queue"
    ]
    return (
        (unused if _has_unused_timeout(new) and not _has_unused_timeout(old or {}) else [])
        + zeros
        + [
            f"{field(kind, resource)}: {_why_uncounted(resource)}"
            for kind, resource in queue.uncounted
            if (kind, resource) not in before.uncounted
        ]
    )


def _has_unused_timeout(obj: Mapping[str, Any]) -> bool:
    annotations = find_object(obj, "metadata", "annotations")
    return WITHOUT_NODE_TIMEOUT in annotations and MAX_PODS_WITHOUT_NODE not in annotations


def _why_uncounted(resource: str) -> str:
    if resource == PODS:
        text = "queues do not count pods, as in Volcano, so this has no effect"
        return f"{text}. Limit the number of pods with a ResourceQuota in each namespace"
    text = f"no container can request {resource}, so queues do not count it and this has no effect"
    prefix, _, rest = resource.partition(".")
    return f"{text}. Name {rest} instead" if prefix in ("requests", "limits") and rest else text


def find_deletion_problems(name: str, lister: QueueLister, job_count: JobCount) -> list[QueueProblem]:
    """Why this queue may not be deleted."""
    if name in (ROOT, DEFAULT):
        return [QueueProblem("metadata.name", f"the queue {name} is always there, and cannot be deleted")]
    below = list(lister.children(name))
    found = []
    if below:
        found.append(QueueProblem("metadata.name", f"{_listed(below)} below it: delete or move them first"))
    count = job_count(name)
    if count:
        found.append(
            QueueProblem("metadata.name", f"{_job_count_text(count)} in it: close it, and wait until it is empty")
        )
    return found


class _QueuesAfterWrite:
    """The existing queues as they will be after the write of this queue."""

    def __init__(self, lister: QueueLister, queue: Queue) -> None:
        self._lister = lister
        self._queue = queue

    def get(self, name: str, /) -> Queue | None:
        return self._queue if name == self._queue.name else self._lister.get(name)

    def children(self, name: str, /) -> Iterable[str]:
        found = {each for each in self._lister.children(name) if each != self._queue.name}
        return sorted(found | {self._queue.name} if name == self._queue.parent else found)


def _field_problems(obj: Mapping[str, Any], queue: Queue) -> list[QueueProblem]:
    spec = find_object(obj, "spec")
    found = [QueueProblem("spec.weight", f"{queue.weight} is less than 1")] if queue.weight < 1 else []
    state = find_object(obj, "metadata", "annotations").get(STATE)
    if state is not None and state not in _STATES:
        found.append(QueueProblem(f"metadata.annotations[{STATE}]", f"{state!r} is neither Open nor Closed"))
    lease_s = read_lease_s(find_object(obj, "metadata", "annotations").get(LEASE))
    if isinstance(lease_s, str):
        found.append(QueueProblem(f"metadata.annotations[{LEASE}]", lease_s))
    if queue.name != ROOT:
        return found
    if spec.get("parent"):
        found.append(QueueProblem("spec.parent", f"the queue {ROOT} is above all others and has no parent"))
    if state == "Closed":
        found.append(
            QueueProblem(f"metadata.annotations[{STATE}]", f"the queue {ROOT} cannot be closed; close those below")
        )
    found += [
        QueueProblem(field(kind, resource), f"the queue {ROOT} has what those below it have together")
        for kind in _SUMMED
        for resource in sorted(amounts_of(queue, kind))
    ]
    return found


def _tree_problems(queue: Queue, lister: QueueLister) -> list[QueueProblem]:
    """Problems that would make the queue invalid, and amounts above the capability of an ancestor."""
    ancestors = queue_rules.ancestors_of(queue, lister)
    return [
        *queue_rules.tree_problems(queue, lister),
        *queue_rules.find_excess_over_ancestors(queue, ancestors, _SUMMED),
    ]


def _parent_problems(queue: Queue, before: Queue | None, after: QueueLister, job_count: JobCount) -> list[QueueProblem]:
    """A queue with jobs must stay a leaf, so it cannot become a parent."""
    if queue.name == ROOT or queue.parent == ROOT or (before is not None and before.parent == queue.parent):
        return []
    count = job_count(queue.parent) if after.get(queue.parent) is not None else 0
    text = f"{_job_count_text(count)} in the queue {queue.parent}, so no queue can be below it"
    return [QueueProblem("spec.parent", text)] if count else []


def _descendant_problems(queue: Queue, before: Queue | None, after: QueueLister) -> list[QueueProblem]:
    """A new parent may move descendants too deep, and a lower limit may be below theirs."""
    found: list[QueueProblem] = []
    lowered = {
        resource: bound
        for resource, bound in queue.capability.items()
        if before is None or resource not in before.capability or bound < before.capability[resource]
    }
    moved = before is None or before.parent != queue.parent
    if not lowered and not moved:
        return []
    path, path_problem = queue_rules.path_to_root(queue.name, lambda name: _parent(after.get(name)))
    if path_problem:
        return []  # reported already
    level: list[tuple[str, Mapping[str, int]]] = [(name, lowered) for name in after.children(queue.name)]
    depth = len(path)
    while level and depth <= queue_rules.MAX_PATH:
        if moved and depth > MAX_DEPTH:
            found.append(
                QueueProblem("spec.parent", f"{_listed(name for name, _ in level)} more than {MAX_DEPTH} levels deep")
            )
            break
        next_level: list[tuple[str, Mapping[str, int]]] = []
        for name, bounds in level:
            below = after.get(name)
            if below is None:
                continue
            found += _excess_problems(name, below, bounds)
            left = {resource: bound for resource, bound in bounds.items() if resource not in below.capability}
            next_level += [(child, left) for child in after.children(name)]
        level, depth = next_level, depth + 1
    return found


def _excess_problems(name: str, below: Queue, bounds: Mapping[str, int]) -> list[QueueProblem]:
    return [
        QueueProblem(
            field("capability", resource),
            f"{amount_text(resource, bounds[resource])} is less than the {kind} of {amount_text(resource, amount)} "
            f"of the queue {name} below it",
        )
        for kind in ("capability", *_SUMMED)
        for resource, amount in sorted(amounts_of(below, kind).items())
        if resource in bounds and amount > bounds[resource]
    ]


def _sum_problems(queue: Queue, before: Queue | None, after: QueueLister) -> list[QueueProblem]:
    """The sums of deserved and guaranteed amounts of siblings must not exceed those of the parent. Only sums that this
    change increases are reported."""
    found: list[QueueProblem] = []
    for kind in _SUMMED:
        parent = after.get(queue.parent) if queue.parent != ROOT else None
        amounts = amounts_of(queue, kind)
        same_parent = before is not None and before.parent == queue.parent
        earlier = amounts_of(before, kind) if before is not None and same_parent else {}
        raised = [resource for resource, amount in amounts.items() if amount > earlier.get(resource, 0)]
        if parent is not None and raised:
            found += _child_sum_problems(parent, kind, raised, after)
        bounds = amounts_of(before, kind) if before is not None else {}
        lowered = [resource for resource, bound in amounts.items() if bound < bounds.get(resource, bound + 1)]
        if queue.name != ROOT and lowered:
            found += _child_sum_problems(queue, kind, lowered, after)
    return found


def _child_sum_problems(parent: Queue, kind: str, resources: Iterable[str], after: QueueLister) -> list[QueueProblem]:
    bounds = amounts_of(parent, kind)
    children = [each for each in map(after.get, after.children(parent.name)) if each is not None]
    sums = queue_rules.total(children, kind)
    return [
        QueueProblem(
            field(kind, resource),
            f"the queues below {parent.name} have {amount_text(resource, sums[resource])} together, "
            f"more than its {kind} of {amount_text(resource, bounds[resource])}",
        )
        for resource in sorted(resources)
        if resource in bounds and sums.get(resource, 0) > bounds[resource]
    ]


def _parent(queue: Queue | None) -> str | None:
    return None if queue is None else queue.parent


def _job_count_text(count: int) -> str:
    return "there is 1 PodGroup or pod" if count == 1 else f"there are {count} PodGroups or pods"


def _listed(names: Iterable[str]) -> str:
    """``queue a is``, ``queues a, b and 3 more are``."""
    all_names = list(names)
    shown = ", ".join(all_names[:3])
    more = f" and {len(all_names) - 3} more" if len(all_names) > 3 else ""
    return f"queue {shown} is" if len(all_names) == 1 else f"queues {shown}{more} are"
