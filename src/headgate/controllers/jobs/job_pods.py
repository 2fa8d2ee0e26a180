"""A pod of a Job: its completion index, whether it still counts, when it ended.

While a pod has the finalizer :data:`TRACKING`, it is *tracked*: it has not been counted yet, and cannot be removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.jobs.spec import JobSpec
from headgate.controllers.ownership.cache import OwnershipCache
from headgate.controllers.ownership.pods import is_ready, phase_of, seconds
from headgate.kube import conditions
from headgate.kube.labels import parse_int64
from headgate.kube.pods.requests import is_sidecar

Object = dict[str, Any]

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"

UNKNOWN: Final = -1
"""The index of a pod that has none."""

_FINISHED: Final = ("Succeeded", "Failed")
_MAX_INT32: Final = (1 << 31) - 1


class JobPod(msgspec.Struct, frozen=True):
    pod: Object
    uid: str
    name: str
    phase: str
    is_being_deleted: bool
    """Whether a client has deleted it; its deletion may not be complete."""
    is_tracked: bool
    index: int
    is_active: bool
    """Whether it has neither ended nor been deleted."""
    is_ready: bool

    @property
    def is_terminating(self) -> bool:
        return self.is_being_deleted and self.phase not in _FINISHED

    def has_failed(self, spec: JobSpec) -> bool:
        """A pod that is deleted before it ends counts as failed: it may never report its phase."""
        if self.phase == "Failed":
            return True
        return not spec.replaces_only_failed and self.is_being_deleted and self.phase != "Succeeded"

    def is_valid(self, spec: JobSpec) -> bool:
        return not spec.is_indexed or 0 <= self.index < spec.indexes

    @property
    def failures_before(self) -> int:
        """How many pods of the same index had failed when this pod was created, by its annotation."""
        return _count(self.pod, INDEX_FAILURES)

    @property
    def ignored_before(self) -> int:
        return _count(self.pod, INDEX_IGNORED)

    @property
    def restarts(self) -> int:
        status = self.pod.get("status") or {}
        lists = (status.get("initContainerStatuses"), status.get("containerStatuses"))
        return sum(each.get("restartCount", 0) for statuses in lists for each in statuses or ())

    @property
    def finished_s(self) -> float:
        """When the pod ended. The first available source is used: the end of its containers, its Ready condition, its
        deletion, its creation."""
        for source in (_containers_ended_s, _unready_since_s, _deleted_s):
            time_s = source(self.pod)
            if time_s is not None:
                return time_s
        return seconds(self.pod["metadata"].get("creationTimestamp")) or 0.0


def job_pod_of(pod: Object, is_being_deleted: bool) -> JobPod:
    """``is_being_deleted``: it was deleted, even if the cached pod does not show it yet."""
    metadata, phase = pod["metadata"], phase_of(pod)
    index = parse_int64((metadata.get("annotations") or {}).get(INDEX, ""))
    is_deleted = is_being_deleted or "deletionTimestamp" in metadata
    return JobPod(
        pod,
        metadata["uid"],
        metadata["name"],
        phase,
        is_deleted,
        is_tracked(pod),
        UNKNOWN if index is None or index < 0 else index,
        not is_deleted and phase not in _FINISHED,
        is_ready(pod),
    )


class JobPodCache:
    """The parsed pods of jobs. A pod is parsed again only after it has changed, because large jobs have many pods."""

    def __init__(self, cache: OwnershipCache) -> None:
        self._cache: Final = cache
        self._read: Final[dict[str, JobPod]] = {}

    def of(self, job_uid: str) -> list[JobPod]:
        """The pods of a job, by name."""
        found = [self._job_pod(uid, pod) for uid, pod in self._cache.dependents(job_uid).items()]
        found.sort(key=lambda each: each.name)
        return found

    def drop(self, uid: str) -> None:
        self._read.pop(uid, None)

    def _job_pod(self, uid: str, pod: Object) -> JobPod:
        known, is_being_deleted = self._read.get(uid), self._cache.is_terminating(uid)
        if known is None or known.pod is not pod or known.is_being_deleted != is_being_deleted:
            known = self._read[uid] = job_pod_of(pod, is_being_deleted)
        return known


def is_tracked(pod: Object) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def sidecars(pod: Object) -> frozenset[str]:
    """The names of restartable init containers."""
    initial = (pod.get("spec") or {}).get("initContainers") or ()
    return frozenset(each["name"] for each in initial if is_sidecar(each))


def _count(pod: Object, annotation: str) -> int:
    count = parse_int64((pod["metadata"].get("annotations") or {}).get(annotation, ""))
    return count if count is not None and 0 <= count <= _MAX_INT32 else 0


def _containers_ended_s(pod: Object) -> float | None:
    """When the last container or sidecar ended; None if one still runs."""
    status = pod.get("status") or {}
    sidecar_names = sidecars(pod)
    statuses = [*(status.get("containerStatuses") or ())]
    statuses += [each for each in status.get("initContainerStatuses") or () if each.get("name") in sidecar_names]
    ended = [seconds(((each.get("state") or {}).get("terminated") or {}).get("finishedAt")) for each in statuses]
    return _latest(ended)


def _latest(times_s: Iterable[float | None]) -> float | None:
    latest: float | None = None
    for each in times_s:
        if each is None:
            return None
        latest = each if latest is None else max(latest, each)
    return latest


def _unready_since_s(pod: Object) -> float | None:
    ready = conditions.find((pod.get("status") or {}).get("conditions"), conditions.POD_READY)
    if ready is None or ready.get("status") != "False":
        return None
    return seconds(ready.get("lastTransitionTime"))


def _deleted_s(pod: Object) -> float | None:
    """When the deletion was requested: the deletion timestamp minus the grace period."""
    until_s = seconds(pod["metadata"].get("deletionTimestamp"))
    return None if until_s is None else until_s - (pod["metadata"].get("deletionGracePeriodSeconds") or 0)
