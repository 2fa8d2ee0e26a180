"""Whether a pod on a node may be resized: its queue, and every queue above it, has to have room for what is added.

Pure; ``admission/`` asks before the API server writes. Use is what the queues' statuses say, which may be seconds old,
so two resizes at the same time can pass together. What came in all the same is counted at once by the engine, and the
queue says so (``reports.over_capability``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate.capacity.names import ROOT
from headgate.capacity.queue import Amounts, Queue
from headgate.capacity.rules import Known, climb, find_disorder, total
from headgate.capacity.verdict import Shortage
from headgate.kube.amounts import read_amounts

StatusOf = Callable[[str], Mapping[str, Any]]


def find_shortage(name: str, added: Amounts, known: Known, status_of: StatusOf) -> Shortage | None:
    """The first queue from ``name`` upwards without room for what is ``added``."""
    if not added:
        return None
    limits = limits_of(name, known)
    for each, bounds in limits.items():
        status = status_of(each)
        allocated, reserved = (_read(status.get(column)) for column in ("allocated", "reserved"))
        for resource, amount in sorted(added.items()):
            used = allocated.get(resource, 0) + reserved.get(resource, 0)
            if amount > 0 and resource in bounds and used + amount > bounds[resource]:
                return Shortage(each, resource, amount, used, bounds[resource])
    return None


def limits_of(name: str, known: Known) -> dict[str, Amounts]:
    """What the queue and those above it may use, itself first: capability, within what is above and not guaranteed to
    others (``tree.py`` keeps the same for all queues)."""

    def parent_of(queue: str) -> str | None:
        found = known.get(queue)
        return None if found is None else found.parent

    path, _ = climb(name, parent_of)
    found: dict[str, Amounts] = {}
    above: Amounts = {}
    for parent, each in zip((None, *reversed(path)), reversed(path), strict=False):
        queue = known.get(each) or Queue(each, parent="" if each == ROOT else ROOT)
        limits = dict(queue.capability)
        if parent is not None and above:
            children = [child for sibling in known.children(parent) if (child := known.get(sibling)) is not None]
            guaranteed = total((child for child in children if not _is_disordered(child)), "guarantee")
            for resource, bound in above.items():
                free = max(bound - guaranteed.get(resource, 0), 0) + queue.guarantee.get(resource, 0)
                limits[resource] = min(limits.get(resource, free), free)
        found[each] = above = limits
    return dict(reversed(found.items()))


def _is_disordered(queue: Queue) -> bool:
    """What such a queue is guaranteed is kept from nobody."""
    return bool(queue.problem or find_disorder(queue))


def _read(listed: Any) -> Amounts:
    """What cannot be read stands in no resize's way."""
    found = read_amounts(listed, "status")
    return {} if isinstance(found, str) else found
