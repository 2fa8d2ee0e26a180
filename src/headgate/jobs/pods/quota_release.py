"""When the quota of pods is released (Kueue's KEP-6143): when the last pod begins to terminate, or when it has ended.

A pod with Headgate's gate uses no quota. ``OnTerminating``: a pod with a deletion timestamp uses no quota, in any
phase. ``OnTerminal``: a running pod uses quota until it has ended or its deletion timestamp, which includes the grace
period, has passed: a pod that cannot end on a lost node must not hold quota without end. ``jobs/pods/pod_plan.py`` uses
the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.controllers.ownership.pods import is_finished, seconds
from headgate.jobs.pods.pod_metadata import is_gated
from headgate.jobs.settings import POD, Release
from headgate.kube.feature_gates import FeatureGates

Object = dict[str, Any]

_NO_DEADLINE_S: Final = float("inf")


def release_of_pods(features: FeatureGates, settings: Mapping[str, Release]) -> Release:
    """The setting for pods has precedence over the feature gate."""
    default: Release = "OnTerminating" if features.pod_integration_fast_quota_release else "OnTerminal"
    return settings.get(POD, default)


def quota_in_use(pods: Iterable[Object], release: Release, now_s: float) -> tuple[bool, float | None]:
    """Whether any of the pods may still use quota, and until when. The time is None if only a watch event can end the
    use."""
    end_times_s = [end_s for pod in pods if (end_s := active_until_s(pod, release)) is not None and end_s > now_s]
    if not end_times_s:
        return False, None
    last_s = max(end_times_s)
    return True, None if last_s == _NO_DEADLINE_S else last_s


def active_until_s(pod: Object, release: Release) -> float | None:
    """The time until which the pod uses quota, infinite if it is not being deleted; None if it uses none."""
    if is_finished(pod) or is_gated(pod):
        return None
    deleted_s = seconds(pod["metadata"].get("deletionTimestamp"))
    if deleted_s is None:
        return _NO_DEADLINE_S
    is_placed = bool((pod.get("spec") or {}).get("nodeName"))
    return deleted_s if release == "OnTerminal" and is_placed else None
