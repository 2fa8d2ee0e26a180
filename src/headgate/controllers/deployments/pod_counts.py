"""Counts of the pods of each ReplicaSet: how many have not ended, and how many of these wait in a queue.

The counts are updated as pods change. The Recreate strategy waits until no old pod is left; the progress deadline does
not run while pods wait in a queue.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.controllers.ownership.pods import is_finished, waits_in_queue
from headgate.kube.object_meta import controller_of

Object = dict[str, Any]

FIELDS: Final = frozenset(
    {"metadata.ownerReferences", "metadata.deletionTimestamp", "status.phase", "status.conditions"}
)


class _Pod(msgspec.Struct, frozen=True):
    owner: str
    is_queued: bool


class ReplicaSetPodCounts:
    def __init__(self) -> None:
        self._pods: Final[dict[str, _Pod]] = {}  # those that have not ended
        self._unfinished: Final[dict[str, int]] = {}
        self._queued: Final[dict[str, int]] = {}

    def applied(self, pod: Object) -> list[str]:
        """Returns the uids of ReplicaSets of which a count becomes zero or ceases to be zero: only these changes matter
        to the controller."""
        uid, reference = pod["metadata"]["uid"], controller_of(pod)
        old, new = self._pods.get(uid), None
        if reference is not None and not is_finished(pod):
            is_terminating = "deletionTimestamp" in pod["metadata"]
            new = _Pod(str(reference.get("uid")), waits_in_queue(pod) and not is_terminating)
        if old == new:
            return []
        changed = self.removed(uid)
        if new is not None:
            self._pods[uid] = new
            changed += self._add(new, 1)
        return changed

    def removed(self, uid: str) -> list[str]:
        pod = self._pods.pop(uid, None)
        return [] if pod is None else self._add(pod, -1)

    def unfinished(self, owner: str) -> int:
        return self._unfinished.get(owner, 0)

    def queued(self, owner: str) -> int:
        """How many pods of the ReplicaSet wait in a queue."""
        return self._queued.get(owner, 0)

    def _add(self, pod: _Pod, change: int) -> list[str]:
        changed = _change_count(self._unfinished, pod.owner, change)
        if pod.is_queued:
            changed = _change_count(self._queued, pod.owner, change) or changed
        return [pod.owner] if changed else []


def _change_count(counts: dict[str, int], owner: str, change: int) -> bool:
    """Adds ``change`` to the count. Returns whether the count was zero before or is zero now."""
    before = counts.pop(owner, 0)
    if before + change:
        counts[owner] = before + change
    return before == 0 or before + change == 0
