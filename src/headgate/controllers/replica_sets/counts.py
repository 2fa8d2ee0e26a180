"""Counts of the pods of each ReplicaSet. A change of one pod updates the counts without a look at the other pods.

The counts also depend on the selector of the ReplicaSet and on the labels of its template. If these change, or if pods
were observed before their ReplicaSet, all pods of the ReplicaSet are counted again. A pod that the selector does not
match is only counted in ``unselected``: the controller has to release it.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.controllers.ownership import pods as facts
from headgate.kube.labels import Selector, from_label_selector

Object = dict[str, Any]


class ReplicaSetCounts(msgspec.Struct):
    """The counts of one ReplicaSet. Only this module changes them. ``labelled``: active pods with all labels of the
    template. ``unselected``: active pods that the selector does not match."""

    active: int = 0
    labelled: int = 0
    terminating: int = 0
    unselected: int = 0
    ready_since_s: list[float] = msgspec.field(default_factory=list)
    """When each ready pod became ready, ascending."""

    @property
    def ready(self) -> int:
        return len(self.ready_since_s)

    def available(self, min_ready_s: float, now_s: float) -> int:
        return self.ready if min_ready_s <= 0 else bisect_right(self.ready_since_s, now_s - min_ready_s)

    def next_available_s(self, min_ready_s: float, now_s: float) -> float | None:
        """How long until the next pod becomes available."""
        index = self.available(min_ready_s, now_s)
        return None if index >= self.ready else self.ready_since_s[index] + min_ready_s - now_s


class _Owner(msgspec.Struct, frozen=True):
    selector: Selector
    labels: Mapping[str, str]


class _PodCounts(msgspec.Struct, frozen=True):
    """What one pod adds to the counts of its owner."""

    owner: str
    active: bool = False
    labelled: bool = False
    terminating: bool = False
    unselected: bool = False
    ready_since_s: float | None = None


class ReplicaSetCounter:
    def __init__(self) -> None:
        self._owners: Final[dict[str, _Owner]] = {}
        self._counts: Final[dict[str, ReplicaSetCounts]] = {}
        self._counts_by_pod: Final[dict[str, _PodCounts]] = {}
        self._stale: Final[set[str]] = set()

    def owner_applied(self, obj: Object) -> None:
        spec, uid = obj["spec"], obj["metadata"]["uid"]
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        now = _Owner(from_label_selector(spec.get("selector")), labels)
        if self._owners.get(uid) != now:
            self._owners[uid] = now
            self._stale.add(uid)

    def owner_removed(self, uid: str) -> None:
        self._owners.pop(uid, None)
        self._counts.pop(uid, None)
        self._stale.discard(uid)

    def pod(self, uid: str, owner: str | None, pod: Object | None, is_terminating: bool) -> None:
        """A pod changed, got another owner, or was deleted."""
        before = self._counts_by_pod.get(uid)
        known = self._owners.get(owner) if owner is not None else None
        if owner is not None and pod is not None and known is not None:
            now = _counts_of_pod(owner, known, pod, is_terminating)
            if now == before:
                return
            self._counts_by_pod[uid] = now
        else:
            now = None
            self._counts_by_pod.pop(uid, None)
        if before is not None:
            self._add(before, -1)
        if now is not None:
            self._add(now, 1)

    def counts(self, owner: str, pods: Mapping[str, Object], is_terminating: Callable[[str], bool]) -> ReplicaSetCounts:
        """``pods``: all that the owner controls. They are counted again only if the counts are stale."""
        if owner in self._stale:
            self._stale.discard(owner)
            for uid, pod in pods.items():
                self.pod(uid, owner, pod, is_terminating(uid))
        return self._counts.setdefault(owner, ReplicaSetCounts())

    def _add(self, pod_counts: _PodCounts, sign: int) -> None:
        if pod_counts.owner not in self._owners:
            return
        counts = self._counts.setdefault(pod_counts.owner, ReplicaSetCounts())
        counts.active += sign * pod_counts.active
        counts.labelled += sign * pod_counts.labelled
        counts.terminating += sign * pod_counts.terminating
        counts.unselected += sign * pod_counts.unselected
        if pod_counts.ready_since_s is not None:
            if sign > 0:
                insort(counts.ready_since_s, pod_counts.ready_since_s)
            else:
                counts.ready_since_s.pop(bisect_right(counts.ready_since_s, pod_counts.ready_since_s) - 1)


def _counts_of_pod(owner: str, known: _Owner, pod: Object, is_terminating: bool) -> _PodCounts:
    finished = facts.is_finished(pod)
    labels = pod["metadata"].get("labels") or {}
    if finished or not known.selector.matches(labels):
        return _PodCounts(owner, unselected=not finished and not is_terminating)
    if is_terminating:
        return _PodCounts(owner, terminating=True)
    labelled = all(labels.get(key) == value for key, value in known.labels.items())
    ready_s = (facts.ready_since_s(pod) or 0.0) if facts.is_ready(pod) else None
    return _PodCounts(owner, active=True, labelled=labelled, ready_since_s=ready_s)
