"""Names and counts of evictions in a Workload's status, with Kueue's reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.quota import names

Object = dict[str, Any]


def reason_with_cause(reason: str, cause: str) -> str:
    """The reason of the condition Evicted: a deactivation names what led to it."""
    return f"{reason}DueTo{cause}" if reason == names.DEACTIVATED and cause else reason


def is_deactivation(reason: str) -> bool:
    """Whether the reason of a condition is a deactivation, whatever led to it."""
    return reason == names.DEACTIVATED or reason.startswith(f"{names.DEACTIVATED}DueTo")


def evictions_of(workload: Mapping[str, Any]) -> list[Object]:
    """``status.schedulingStats.evictions``: how often it was evicted, by reason and underlying cause."""
    return ((workload.get("status") or {}).get("schedulingStats") or {}).get("evictions") or []


def has_eviction(workload: Mapping[str, Any], reason: str, cause: str) -> bool:
    return any(_is_for(each, reason, cause) for each in evictions_of(workload))


def with_eviction(workload: Mapping[str, Any], reason: str, cause: str) -> list[Object]:
    """The list with one more eviction."""
    known = evictions_of(workload)
    if not has_eviction(workload, reason, cause):
        return [*known, {"reason": reason, "underlyingCause": cause, "count": 1}]
    return [{**each, "count": each.get("count", 0) + 1} if _is_for(each, reason, cause) else each for each in known]


def _is_for(eviction: Mapping[str, Any], reason: str, cause: str) -> bool:
    return eviction.get("reason") == reason and (eviction.get("underlyingCause") or "") == cause
