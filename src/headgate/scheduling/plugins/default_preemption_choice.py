"""Which of several nodes to make room on: the one where the least is lost, by kube-scheduler's rules in their order.

Every rule is a key, and the node with the least wins; only where nodes are equal by one rule does the next one count.
kube-scheduler leaves nodes that are equal by all of them to chance; here the name decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

from headgate.scheduling.plugins.default_preemption_victims import Victims

_LIFT: Final = 1 << 31
"""Makes every priority positive, so that one victim more is never a gain however low its priority."""

Key = tuple[int, int, int, int, float, str]


def choose(candidates: Mapping[str, Victims]) -> str:
    """By node name; there is at least one."""
    return min(candidates, key=lambda name: _key(name, candidates[name]))


def _key(name: str, victims: Victims) -> Key:
    highest = victims.pods[0].priority
    started = min(
        inf if each.started_s is None else each.started_s for each in victims.pods if each.priority == highest
    )
    return (
        victims.violations,
        highest,
        sum(each.priority + _LIFT for each in victims.pods),
        len(victims.pods),
        -started,
        name,
    )
