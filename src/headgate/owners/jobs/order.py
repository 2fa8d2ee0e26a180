"""Which of a Job's active pods goes first when there are too many: the one that is least far.

Without a node before with one, pending before running, not ready before ready, ready for a short time before long,
often restarted before seldom, young before old. Where all of that is the same, by name.
"""

from __future__ import annotations

import math
from typing import Any, Final

from headgate.owners.families import pods
from headgate.owners.jobs.members import Member, sidecars

Object = dict[str, Any]
Rank = tuple[bool, int, bool, float, int, int, float, str]

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def rank(member: Member) -> Rank:
    """The smallest goes first."""
    pod = member.pod
    return (
        bool((pod.get("spec") or {}).get("nodeName")),
        _PHASES.get(member.phase, 0),
        member.is_ready,
        _youngest_first(pods.ready_since_s(pod)) if member.is_ready else 0.0,
        *_restarts(pod),
        _youngest_first(pods.seconds(pod["metadata"].get("creationTimestamp"))),
        member.name,
    )


def _youngest_first(time_s: float | None) -> float:
    return -math.inf if time_s is None else -time_s


def _restarts(pod: Object) -> tuple[int, int]:
    """Of its containers, and of its sidecars: the most that any of them has, below nought so that more comes first."""
    status = pod.get("status") or {}
    beside = sidecars(pod)
    initial = (each for each in status.get("initContainerStatuses") or () if each.get("name") in beside)
    lists = (status.get("containerStatuses") or (), initial)
    most, most_beside = (max((each.get("restartCount", 0) for each in statuses), default=0) for statuses in lists)
    return -most, -most_beside
