"""Pods that are of use only together: a node for each of them, or none for any.

Each is counted in before the next is looked at, and all are counted out again if one finds no node. Which pods belong
together is ``capacity/``'s to say.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headgate.scheduling.contract import Placement, Unplaced
from headgate.scheduling.cycle import Cycle
from headgate.scheduling.nodes import NodeIndex
from headgate.scheduling.pod import Pod


def place_together(cycle: Cycle, pods: Sequence[Pod]) -> list[Placement] | Unplaced:
    """Counted in where they go. Room that others would have to make is not looked for: it is made for a whole or not
    at all."""
    found: list[Placement] = []
    for pod in pods:
        outcome = cycle.decide(pod)
        if isinstance(outcome, Unplaced):
            for each in pods[: len(found)]:
                cycle.matrix.forget(each.uid)
            left = len(pods) - len(found)
            message = f"{left}/{len(pods)} tasks in gang unschedulable: {outcome.message}"
            return msgspec.structs.replace(outcome, message=message)
        cycle.matrix.assume(pod, NodeIndex(outcome.row))
        found.append(outcome)
    return found
