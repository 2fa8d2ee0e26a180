"""Counts of the pods of each ReplicaSet, updated as pods change: a change costs one pod, not all of them.

The counts also depend on the owner (its selector and the labels of its template); when those change, or when pods were
observed before their owner, all its pods are counted again. A pod that its owner's selector does not match is not
counted, and waits to be released.
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
    """The counts of one ReplicaSet. Only this module changes them."""

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


class _Share(msgspec.Struct, frozen=True):
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
        self._shares: Final[dict[str, _Share]] = {}
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
        before = self._shares.get(uid)
        known = self._owners.get(owner) if owner is not None else None
        if owner is not None and pod is not None and known is not None:
            now = _share(owner, known, pod, is_terminating)
            if now == before:
                return
            self._shares[uid] = now
        else:
            now = None
            self._shares.pop(uid, None)
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

    def _add(self, share: _Share, sign: int) -> None:
        if share.owner not in self._owners:
            return
        counts = self._counts.setdefault(share.owner, ReplicaSetCounts())
        counts.active += sign * share.active
        counts.labelled += sign * share.labelled
        counts.terminating += sign * share.terminating
        counts.unselected += sign * share.unselected
        if share.ready_since_s is not None:
            if sign > 0:
                insort(counts.ready_since_s, share.ready_since_s)
            else:
                counts.ready_since_s.pop(bisect_right(counts.ready_since_s, share.ready_since_s) - 1)


def _share(owner: str, known: _Owner, pod: Object, is_terminating: bool) -> _Share:
    finished = facts.is_finished(pod)
    labels = pod["metadata"].get("labels") or {}
    if finished or not known.selector.matches(labels):
        return _Share(owner, unselected=not finished and not is_terminating)
    if is_terminating:
        return _Share(owner, terminating=True)
    labelled = all(labels.get(key) == value for key, value in known.labels.items())
    ready_s = (facts.ready_since_s(pod) or 0.0) if facts.is_ready(pod) else None
    return _Share(owner, active=True, labelled=labelled, ready_since_s=ready_s)
