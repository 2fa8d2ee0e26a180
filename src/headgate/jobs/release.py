"""When the quota of pods is free (KEP-6143): as soon as the last of them was told to end, or when it has ended.

A pod that waits behind our gate uses nothing. ``OnTerminating``: neither does one with a deletion timestamp, whatever
its phase. ``OnTerminal``: one that runs does until it has ended, or until its deletion timestamp is past, which is
where its grace ends already: a pod that is stuck (a node that was lost) must not hold quota for ever. What is done
with the answer is ``pods/plan.py``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.jobs.pods.shape import is_gated
from headgate.jobs.settings import POD, Release
from headgate.kube.features import Features
from headgate.owners.families.pods import is_finished, seconds

Object = dict[str, Any]

_NO_END_S: Final = float("inf")


def release_of_pods(features: Features, told: Mapping[str, Release]) -> Release:
    """What the installation says of pods wins over the feature gate."""
    otherwise: Release = "OnTerminating" if features.pod_integration_fast_quota_release else "OnTerminal"
    return told.get(POD, otherwise)


def is_active(pods: Iterable[Object], rule: Release, now_s: float) -> tuple[bool, float | None]:
    """Whether any of them may still use what was given; and when that will have changed though nobody says so."""
    until_s = [each for pod in pods if (each := active_until_s(pod, rule)) is not None and each > now_s]
    if not until_s:
        return False, None
    last_s = max(until_s)
    return True, None if last_s == _NO_END_S else last_s


def active_until_s(pod: Object, rule: Release) -> float | None:
    """None: it uses nothing."""
    if is_finished(pod) or is_gated(pod):
        return None
    deleted_s = seconds(pod["metadata"].get("deletionTimestamp"))
    if deleted_s is None:
        return _NO_END_S
    is_placed = bool((pod.get("spec") or {}).get("nodeName"))
    return deleted_s if rule == "OnTerminal" and is_placed else None
