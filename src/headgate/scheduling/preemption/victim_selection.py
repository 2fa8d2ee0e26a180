"""Selects the victims on one node, and the node with the least costly victims, by kube-scheduler's rules.

:func:`select_victims` removes all eligible pods (``scheduling/cluster/victim_rules.py``) in a dry run. If the pod fits,
it reprieves them one by one as long as the pod still fits: first those whose eviction would violate a disruption
budget, then the others, the more important first. :func:`pick_one_node` compares nodes by a list of rules, each used
only where nodes are equal by the rules before it. kube-scheduler breaks the last tie at random; here the name decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

import msgspec

from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cluster.disruption_budgets import DisruptionBudgets
from headgate.scheduling.framework.interface import DryRun

NO_VICTIMS: Final = "No preemption victims found for incoming pod"


class Victims(msgspec.Struct, frozen=True):
    """``pods``: the most important first. ``violations``: how many of them violate a disruption budget.

    ``eligible``: all eligible pods in order. ``violates_budget``: for each of them, whether it violates a budget."""

    pods: tuple[PodInfo, ...]
    violations: int
    eligible: tuple[PodInfo, ...]
    violates_budget: tuple[bool, ...]


FailureReasons = tuple[str, ...]
"""Why preemption on the node does not help."""


def importance(pod: PodInfo) -> tuple[int, float, str]:
    """The least key is the most important pod. A pod that has not started counts as the newest."""
    return -pod.priority, inf if pod.started_s is None else pod.started_s, pod.key


def select_victims(
    eligible: Iterable[PodInfo], dry_run: DryRun, budgets: DisruptionBudgets
) -> Victims | FailureReasons:
    """The victims among the eligible pods on the node of the dry run, or why preemption on that node does not help."""
    in_order = tuple(sorted(eligible, key=importance))
    if not in_order:
        return (NO_VICTIMS,)
    for each in in_order:
        dry_run.take(each)
    if reasons := dry_run.reasons():
        return tuple(each.text for each in reasons)
    violations_of = budgets.violations(in_order)
    victims: list[PodInfo] = []
    violations = 0
    for violating in (True, False):
        for each, violates in zip(in_order, violations_of, strict=True):
            if violates is violating and not _can_be_reprieved(each, dry_run):
                victims.append(each)
                violations += violating
    return Victims(tuple(sorted(victims, key=importance)), violations, in_order, violations_of)


def _can_be_reprieved(pod: PodInfo, dry_run: DryRun) -> bool:
    dry_run.put(pod)
    if not dry_run.reasons():
        return True
    dry_run.take(pod)
    return False


_PRIORITY_OFFSET: Final = 1 << 31
"""Makes every priority positive, so that one more victim always increases the sum."""

Key = tuple[int, int, int, int, float, str]


def pick_one_node(candidates: Mapping[str, Victims]) -> str:
    """The best node. ``candidates`` is by node name and not empty."""
    return min(candidates, key=lambda name: _candidate_key(name, candidates[name]))


def _candidate_key(name: str, victims: Victims) -> Key:
    """The sort key of a node with its victims: kube-scheduler's criteria in their order, then the name."""
    highest = victims.pods[0].priority
    started = min(
        inf if each.started_s is None else each.started_s for each in victims.pods if each.priority == highest
    )
    return (
        victims.violations,
        highest,
        sum(each.priority + _PRIORITY_OFFSET for each in victims.pods),
        len(victims.pods),
        -started,
        name,
    )
