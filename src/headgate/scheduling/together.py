"""Pods that are of use only together: nodes for enough of them, or none for any.

Each is counted in before the next is looked at, and all are counted out again if too few find a node. As soon as they
are enough, the others are not looked at: another group may come before them. Which pods belong together, and how many
are enough, is ``capacity/``'s to say.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headgate.capacity.queues import Company
from headgate.scheduling.contract import Unplaced
from headgate.scheduling.cycle import Cycle
from headgate.scheduling.nodes import NodeIndex
from headgate.scheduling.pod import Pod


class Together(msgspec.Struct, frozen=True):
    """The nodes of those that got one, by uid."""

    nodes: dict[str, str]


def place_together(cycle: Cycle, pods: Iterator[Pod], company: Company) -> Together | Unplaced | None:
    """``pods``: those of the company that may be tried, asked for one by one. ``None``: there were too few. Room that
    others would have to make is not looked for: it is made for a whole or not at all."""
    found: dict[str, str] = {}
    total, tried, first = len(company.uids), 0, None
    for pod in pods:
        tried += 1
        outcome = cycle.decide(pod)
        if isinstance(outcome, Unplaced):
            first = first or outcome
            if len(found) + total - tried < company.least:
                break
            continue
        cycle.matrix.assume(pod, NodeIndex(outcome.row))
        found[pod.uid] = outcome.node_name
        if company.is_enough(found):
            return Together(found)
    for uid in found:
        cycle.matrix.forget(uid)
    if first is None:
        return None
    message = f"{total - len(found)}/{total} tasks in gang unschedulable: {first.message}"
    return msgspec.structs.replace(first, message=message)
