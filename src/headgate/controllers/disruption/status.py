"""The status of a budget: how many pods must stay healthy, how many are, and how many disruptions are allowed.

A pod counts as disrupted for two minutes after the eviction API has granted its eviction. After that time it is being
deleted, or its client has given up. If the pods cannot be counted, no disruption is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.controllers.disruption.budget_pods import BudgetedPod, BudgetPodCounts
from headgate.controllers.ownership.pods import seconds
from headgate.kube import conditions
from headgate.kube.integers import scaled_int_or_percent

Object = dict[str, Any]

ErrorText = str
"""Why a number is not known, for a condition and an Event."""

DELETION_S: Final = 120.0
"""How long a pod counts as disrupted after its eviction was granted."""
ALLOWED: Final = "DisruptionAllowed"
_INVALID_PERCENTAGE: Final = "invalid value for IntOrString: invalid type: string is not a percentage"


class DisruptedPods(msgspec.Struct, frozen=True):
    """Pods whose eviction was granted and that are not being deleted yet. ``since``: the time of the grant, by pod
    name. ``overdue``: pods that were not deleted within ``DELETION_S``; they are not in ``since``. ``next_overdue_s``:
    when the next eviction becomes overdue."""

    since: Mapping[str, str]
    overdue: tuple[BudgetedPod, ...]
    next_overdue_s: float | None
    healthy: int
    """How many of the pods in ``since`` are healthy."""


def needs_scale(spec: Mapping[str, Any]) -> bool:
    """Whether the number of pods that the controllers request is needed. With ``minAvailable`` as a number, only the
    existing pods are counted."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def desired_healthy(spec: Mapping[str, Any], expected: int) -> int | ErrorText:
    """How many of the expected pods must stay healthy, or why this is not known."""
    max_unavailable = spec.get("maxUnavailable")
    share = scaled_int_or_percent(
        spec.get("minAvailable") if max_unavailable is None else max_unavailable, expected, round_up=True
    )
    if share is None:
        return _INVALID_PERCENTAGE
    return share if max_unavailable is None else max(0, expected - share)


def disrupted_pods(
    budget: Object, pod_counts: BudgetPodCounts, find_pod: Callable[[str], BudgetedPod | None], now_s: float
) -> DisruptedPods:
    """The granted evictions in the status of the budget. ``find_pod``: finds a pod of its namespace by name."""
    since: dict[str, str] = {}
    overdue: list[BudgetedPod] = []
    ends_s: list[float] = []
    healthy = 0
    disrupted: Mapping[str, str] = (budget.get("status") or {}).get("disruptedPods") or {}
    for name, at in disrupted.items():
        pod = find_pod(name)
        if pod is None or pod.uid not in pod_counts.pods or pod.is_terminating:
            continue
        end_s = (seconds(at) or 0.0) + DELETION_S
        if end_s < now_s:
            overdue.append(pod)
            continue
        since[name] = at
        ends_s.append(end_s)
        healthy += pod.is_healthy and end_s > now_s
    return DisruptedPods(since, tuple(overdue), min(ends_s, default=None), healthy)


def counted_status(
    budget: Object, disrupted: DisruptedPods, healthy: int, expected: int, desired: int, now: str
) -> Object:
    """The status of a budget whose pods were counted."""
    current = healthy - disrupted.healthy
    allowed = max(0, current - desired) if expected > 0 else 0
    generation = budget["metadata"].get("generation", 0)
    condition = {
        "type": ALLOWED,
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": generation,
    }
    status: Object = {
        "conditions": _with(budget, condition, now),
        "currentHealthy": current,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": generation,
    }
    return {**status, "disruptedPods": dict(disrupted.since)} if disrupted.since else status


def failed_status(budget: Object, reason: str, now: str) -> Object:
    """The status of a budget whose pods could not be counted."""
    stored: Object = budget.get("status") or {}
    condition = {
        "type": ALLOWED,
        "status": "False",
        "reason": "SyncFailed",
        "message": reason,
        "observedGeneration": stored.get("observedGeneration", 0),
    }
    numbers = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    return {**numbers, **stored, "disruptionsAllowed": 0, "conditions": _with(budget, condition, now)}


def _with(budget: Object, condition: Object, now: str) -> list[Object]:
    return conditions.with_condition((budget.get("status") or {}).get("conditions"), condition, now)
