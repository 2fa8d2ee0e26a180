"""When the quota of pods is released (KEP-6143): when the last pod begins to terminate, or when it has ended.

A pod behind Headgate's gate uses nothing. ``OnTerminating``: neither does a pod with a deletion timestamp, in any
phase. ``OnTerminal``: a running pod uses quota until it has ended or its deletion timestamp, which includes the grace
period, has passed: a stuck pod on a lost node must not hold quota forever. ``jobs/pods/pod_plan.py`` uses the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.controllers.ownership.pods import is_finished, seconds
from headgate.jobs.pods.pod_metadata import is_gated
from headgate.jobs.settings import POD, Release
from headgate.kube.feature_gates import FeatureGates

Object = dict[str, Any]

_NO_END_S: Final = float("inf")


def release_of_pods(features: FeatureGates, settings: Mapping[str, Release]) -> Release:
    """The setting for pods has precedence over the feature gate."""
    default: Release = "OnTerminating" if features.pod_integration_fast_quota_release else "OnTerminal"
    return settings.get(POD, default)


def quota_in_use(pods: Iterable[Object], release: Release, now_s: float) -> tuple[bool, float | None]:
    """Whether any of the pods may still use quota, and the time at which that ends without an event, if any."""
    until_s = [each for pod in pods if (each := active_until_s(pod, release)) is not None and each > now_s]
    if not until_s:
        return False, None
    last_s = max(until_s)
    return True, None if last_s == _NO_END_S else last_s


def active_until_s(pod: Object, release: Release) -> float | None:
    """Until when the pod uses quota; None if it uses none."""
    if is_finished(pod) or is_gated(pod):
        return None
    deleted_s = seconds(pod["metadata"].get("deletionTimestamp"))
    if deleted_s is None:
        return _NO_END_S
    is_placed = bool((pod.get("spec") or {}).get("nodeName"))
    return deleted_s if release == "OnTerminal" and is_placed else None
