"""A Queue as the queue engine reads it from the API, and an index of queues by name and parent.

:func:`read_queue` never raises: an invalid object gets a problem text, and its queue grants nothing. The rules in
``capacity/kinds/`` read :class:`QueueIndex`. ``capacity/cache/queue_tree.py`` computes what each queue may use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.ignored_annotations import find_ignored_lease
from headgate.capacity.api.lease import read_lease_s
from headgate.capacity.names import DEQUEUE_STRATEGY, LEASE, MAX_PODS_WITHOUT_NODE, ROOT, WITHOUT_NODE_TIMEOUT
from headgate.kube.lenient_reader import find_integer, find_object, find_text
from headgate.kube.resource_amounts import is_requestable, read_amounts
from headgate.kube.timestamps import MAX_DURATION_HOURS, parse_duration, parse_time

OPEN: Final = "Open"
FIFO: Final = "fifo"
BACKFILL: Final = "backfill"
TRAVERSE: Final = "traverse"
STRATEGIES: Final = (FIFO, BACKFILL, TRAVERSE)
"""Which units may pass the first in line: none, those that do not delay it, or all that fit."""
_MAX_DIGITS: Final = 9
_NS: Final = 1e-9
DEFAULT_WITHOUT_NODE_TIMEOUT_S: Final = 600.0
Amounts = Mapping[str, int]


class Queue(msgspec.Struct, frozen=True):
    """Amounts are integers as in ``kube/resource_amounts.py``, of resources that a container can request.
    ``uncounted``: other resources that the spec names (``pods``, ``requests.cpu``), each with the field that names it
    (``capability``); Volcano does not count them either. ``parent`` is empty for the root only.
    ``max_pods_without_node``: how many pods in and below the queue may have a promise and no node; None: no limit.
    ``without_node_timeout_s``: how long a pod counts in that limit. ``lease_s``: the time of leases (``lease.py``);
    None if the queue sets none. ``dequeue_strategy``: one of ``STRATEGIES``; empty if the queue sets none, and then its
    nearest ancestor with one decides. ``problem``: why the object is invalid; empty for a valid one. ``ignored``: an
    annotation that has no effect because of its value."""

    name: str
    parent: str = ROOT
    capability: Amounts = {}
    deserved: Amounts = {}
    guarantee: Amounts = {}
    priority: int = 0
    weight: int = 1
    is_reclaimable: bool = True
    state: str = OPEN
    created_s: float = 0.0
    problem: str = ""
    uncounted: tuple[tuple[str, str], ...] = ()
    max_pods_without_node: int | None = None
    without_node_timeout_s: float = DEFAULT_WITHOUT_NODE_TIMEOUT_S
    lease_s: float | None = None
    dequeue_strategy: str = ""
    ignored: str = ""


def read_queue(obj: Mapping[str, Any]) -> Queue:
    """Read a Queue from decoded JSON."""
    metadata, spec, status = (find_object(obj, part) for part in ("metadata", "spec", "status"))
    name = find_text(metadata, "name")
    listed = {
        "capability": spec.get("capability"),
        "deserved": spec.get("deserved"),
        "guarantee": find_object(spec, "guarantee").get("resource"),
    }
    problem, amounts = "", {}
    uncounted: list[tuple[str, str]] = []
    for path, value in listed.items():
        found = read_amounts(value, f"spec.{path}")
        problem = problem or (found if isinstance(found, str) else "")
        named = {} if isinstance(found, str) else found
        amounts[path] = {resource: amount for resource, amount in named.items() if is_requestable(resource)}
        uncounted += [(path, resource) for resource in sorted(named) if resource not in amounts[path]]
    parent = find_text(spec, "parent") or ROOT
    max_pods, timeout_s = _read_max_pods(metadata), _read_timeout_s(metadata)
    lease_s = read_lease_s(find_object(metadata, "annotations").get(LEASE))
    problem = problem or next((each for each in (max_pods, timeout_s) if isinstance(each, str)), "")
    strategy, strategy_problem = _read_strategy(metadata, spec)
    return Queue(
        name=name,
        parent="" if name == ROOT else parent,
        **amounts,
        priority=find_integer(spec, "priority"),
        weight=find_integer(spec, "weight", 1),
        is_reclaimable=spec.get("reclaimable") is not False,
        state=find_text(status, "state") or OPEN,
        created_s=read_created_s(metadata),
        problem=problem or strategy_problem,
        uncounted=tuple(uncounted),
        max_pods_without_node=None if isinstance(max_pods, str) else max_pods,
        without_node_timeout_s=DEFAULT_WITHOUT_NODE_TIMEOUT_S if isinstance(timeout_s, str) else timeout_s,
        lease_s=None if isinstance(lease_s, str) else lease_s,
        dequeue_strategy=strategy,
        ignored="; ".join(find_ignored_lease(find_object(metadata, "annotations"))),
    )


def _read_strategy(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[str, str]:
    """The dequeue strategy, and why its annotation is invalid. Volcano's definition of the kind sets ``traverse`` where
    a user sets nothing, so that value of the field does not stop a strategy of an ancestor."""
    value = find_object(metadata, "annotations").get(DEQUEUE_STRATEGY)
    if value is None:
        return FIFO if spec.get("dequeueStrategy") == FIFO else "", ""
    if value in STRATEGIES:
        return value, ""
    return "", f"metadata.annotations[{DEQUEUE_STRATEGY}]: must be one of {', '.join(STRATEGIES)}"


def _read_max_pods(metadata: Mapping[str, Any]) -> int | str | None:
    """The limit of pods without a node, None if there is none, or why the annotation is invalid."""
    value = find_object(metadata, "annotations").get(MAX_PODS_WITHOUT_NODE)
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS and int(value):
        return int(value)
    return f"metadata.annotations[{MAX_PODS_WITHOUT_NODE}]: must be a whole number from 1 to {10**_MAX_DIGITS - 1}"


def _read_timeout_s(metadata: Mapping[str, Any]) -> float | str:
    """How long a pod counts in the limit of pods without a node, or why the annotation is invalid."""
    value = find_object(metadata, "annotations").get(WITHOUT_NODE_TIMEOUT)
    if value is None:
        return DEFAULT_WITHOUT_NODE_TIMEOUT_S
    nanoseconds = parse_duration(value) if isinstance(value, str) else ""
    if isinstance(nanoseconds, str) or nanoseconds <= 0:
        return (
            f"metadata.annotations[{WITHOUT_NODE_TIMEOUT}]: must be a duration above 0 and up to {MAX_DURATION_HOURS}, "
            "such as 10m"
        )
    return nanoseconds * _NS


def read_created_s(metadata: Mapping[str, Any]) -> float:
    created = parse_time(find_text(metadata, "creationTimestamp"))
    return 0.0 if isinstance(created, str) else float(created)


class QueueIndex:
    """Implements ``QueueLister`` (``capacity/kinds/queue_rules.py``)."""

    def __init__(self, queues: Iterable[Mapping[str, Any]] = ()) -> None:
        self._queues: dict[str, Queue] = {}
        self._children: dict[str, set[str]] = {}
        for obj in queues:
            self.apply(obj)

    def apply(self, obj: Mapping[str, Any]) -> Queue:
        queue = read_queue(obj)
        self.remove(queue.name)
        self._queues[queue.name] = queue
        if queue.parent:
            self._children.setdefault(queue.parent, set()).add(queue.name)
        return queue

    def remove(self, name: str) -> None:
        queue = self._queues.pop(name, None)
        if queue is None or not queue.parent:
            return
        siblings = self._children[queue.parent]
        siblings.discard(name)
        if not siblings:
            del self._children[queue.parent]

    def get(self, name: str, /) -> Queue | None:
        return self._queues.get(name)

    def children(self, name: str, /) -> Iterable[str]:
        return sorted(self._children.get(name, ()))

    def names(self) -> list[str]:
        return sorted(self._queues)
