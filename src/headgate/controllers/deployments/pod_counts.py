"""Pods of each ReplicaSet that a Deployment needs to know: how many have not ended, and how many wait in a queue.

The counts are updated as pods change. The Recreate strategy waits until no old pod is left; the progress deadline does
not run while pods wait in a queue.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.controllers.ownership.pods import is_finished, is_held_by_queue
from headgate.kube.object_meta import controller_of

Object = dict[str, Any]

FIELDS: Final = frozenset(
    {"metadata.ownerReferences", "metadata.deletionTimestamp", "status.phase", "status.conditions"}
)


class _Pod(msgspec.Struct, frozen=True):
    owner: str
    held: bool


class ReplicaSetPodCounts:
    def __init__(self) -> None:
        self._pods: Final[dict[str, _Pod]] = {}  # those that have not ended
        self._unfinished: Final[dict[str, int]] = {}
        self._held: Final[dict[str, int]] = {}

    def applied(self, pod: Object) -> list[str]:
        """Returns the uids of ReplicaSets whose count of unfinished or held pods becomes zero or ceases to be zero."""
        uid, reference = pod["metadata"]["uid"], controller_of(pod)
        before, now = self._pods.get(uid), None
        if reference is not None and not is_finished(pod):
            is_terminating = "deletionTimestamp" in pod["metadata"]
            now = _Pod(str(reference.get("uid")), is_held_by_queue(pod) and not is_terminating)
        if before == now:
            return []
        changed = self.removed(uid)
        if now is not None:
            self._pods[uid] = now
            changed += self._add(now, 1)
        return changed

    def removed(self, uid: str) -> list[str]:
        before = self._pods.pop(uid, None)
        return [] if before is None else self._add(before, -1)

    def unfinished(self, owner: str) -> int:
        return self._unfinished.get(owner, 0)

    def held(self, owner: str) -> int:
        return self._held.get(owner, 0)

    def _add(self, pod: _Pod, change: int) -> list[str]:
        changed = _crosses_zero(self._unfinished, pod.owner, change)
        if pod.held:
            changed = _crosses_zero(self._held, pod.owner, change) or changed
        return [pod.owner] if changed else []


def _crosses_zero(counts: dict[str, int], owner: str, change: int) -> bool:
    """Whether the count was zero, or is zero now."""
    before = counts.pop(owner, 0)
    if before + change:
        counts[owner] = before + change
    return before == 0 or before + change == 0
