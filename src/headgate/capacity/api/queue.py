"""A Queue as the engine reads it from the API, and an index of queues by name and parent.

:func:`read_queue` never raises: an invalid object gets a problem text, and its queue grants nothing.
:class:`QueueIndex` costs O(1) per queue; the rules of ``capacity/kinds/`` read it. ``capacity/cache/queue_tree.py``
computes what each queue may use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.names import ROOT
from headgate.kube.lenient_reader import find_integer, find_object, find_text
from headgate.kube.resource_amounts import is_requestable, read_amounts
from headgate.kube.timestamps import parse_time

OPEN: Final = "Open"
Amounts = Mapping[str, int]


class Queue(msgspec.Struct, frozen=True):
    """Amounts in units (``kube/resource_amounts.py``), of resources that a container can request. ``uncounted``: other
    resources that the spec names (``pods``, ``requests.cpu``), as kind and resource; Volcano does not count them
    either. ``parent`` is empty for the root only."""

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


def read_queue(wire: Mapping[str, Any]) -> Queue:
    """From its JSON value."""
    metadata, spec, status = (find_object(wire, part) for part in ("metadata", "spec", "status"))
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
    return Queue(
        name=name,
        parent="" if name == ROOT else parent,
        **amounts,
        priority=find_integer(spec, "priority"),
        weight=find_integer(spec, "weight", 1),
        is_reclaimable=spec.get("reclaimable") is not False,
        state=find_text(status, "state") or OPEN,
        created_s=read_created_s(metadata),
        problem=problem,
        uncounted=tuple(uncounted),
    )


def read_created_s(metadata: Mapping[str, Any]) -> float:
    created = parse_time(find_text(metadata, "creationTimestamp"))
    return 0.0 if isinstance(created, str) else float(created)


class QueueIndex:
    """Implements ``QueueLister`` (``capacity/kinds/queue_rules.py``)."""

    def __init__(self, queues: Iterable[Mapping[str, Any]] = ()) -> None:
        self._queues: dict[str, Queue] = {}
        self._children: dict[str, set[str]] = {}
        for wire in queues:
            self.apply(wire)

    def apply(self, wire: Mapping[str, Any]) -> Queue:
        queue = read_queue(wire)
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
