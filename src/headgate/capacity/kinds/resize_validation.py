"""Validation of an in-place resize of a pod on a node: its queue and all ancestors need capacity for the increase.

It does no I/O; ``admission/`` calls it before the API server writes. The usage comes from the status of the queues,
which may be seconds old, plus the resizes that were just allowed (``admission/assumed_resizes.py``). A resize that is
allowed with an old status may exceed a limit; the queue engine counts it at once, and the queue reports the excess
(``status_fields.capability_condition``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate.capacity.api.queue import Amounts, Queue
from headgate.capacity.kinds.queue_rules import QueueLister, find_invalid_amounts, path_to_root, total
from headgate.capacity.names import ROOT
from headgate.capacity.queue_wait import QueueShortage
from headgate.kube.resource_amounts import read_amounts

UsageOf = Callable[[str], Amounts]
"""Returns what is in use or promised in a queue, for at least the added resources."""


def find_resize_shortage(name: str, added: Amounts, lister: QueueLister, usage_of: UsageOf) -> QueueShortage | None:
    """The shortage in the first queue without capacity for the ``added`` amounts, from the queue ``name`` upwards; None
    if they fit."""
    if not added:
        return None
    for each, bounds in limits_of(name, lister).items():
        if not bounds:
            continue
        usage = usage_of(each)
        for resource, amount in sorted(added.items()):
            used = usage.get(resource, 0)
            if amount > 0 and resource in bounds and used + amount > bounds[resource]:
                return QueueShortage(each, resource, amount, used, bounds[resource])
    return None


def read_usage(status: Mapping[str, Any]) -> dict[str, int]:
    """What is in use or promised, as the status of a queue reports it."""
    found: dict[str, int] = {}
    for column in ("allocated", "reserved"):
        for resource, amount in _read(status.get(column)).items():
            found[resource] = found.get(resource, 0) + amount
    return found


def limits_of(name: str, lister: QueueLister) -> dict[str, Amounts]:
    """The effective limits of the queue and its ancestors, itself first: the capability, limited by the parent's limit
    minus the guarantees of siblings (``capacity/cache/queue_tree.py`` computes the same for all queues)."""

    def parent_of(queue: str) -> str | None:
        found = lister.get(queue)
        return None if found is None else found.parent

    path, _ = path_to_root(name, parent_of)
    found: dict[str, Amounts] = {}
    above: Amounts = {}
    for parent, each in zip((None, *reversed(path)), reversed(path), strict=False):
        queue = lister.get(each) or Queue(each, parent="" if each == ROOT else ROOT)
        limits = dict(queue.capability)
        if parent is not None and above:
            children = [child for sibling in lister.children(parent) if (child := lister.get(sibling)) is not None]
            guaranteed = total((child for child in children if not _is_invalid(child)), "guarantee")
            for resource, bound in above.items():
                free = max(bound - guaranteed.get(resource, 0), 0) + queue.guarantee.get(resource, 0)
                limits[resource] = min(limits.get(resource, free), free)
        found[each] = above = limits
    return dict(reversed(found.items()))


def _is_invalid(queue: Queue) -> bool:
    """The guarantee of an invalid queue does not reduce the limits of its siblings."""
    return bool(queue.problem or find_invalid_amounts(queue))


def _read(listed: Any) -> Amounts:
    """Invalid amounts count as nothing, so that they do not block resizes."""
    found = read_amounts(listed, "status")
    return {} if isinstance(found, str) else found
