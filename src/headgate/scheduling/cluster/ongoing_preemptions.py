"""Preemptions in progress: the preemptors, and the victims whose deletion was requested.

Until all victims have been requested to terminate, the preemptor is not tried again, even if some of them are gone: it
would see a node with only part of the capacity freed, and preempt once more. Victims count as terminating from the
request on, even before the API server shows it. ``scheduling/preemption/executor.py`` updates this state; the plugin
``DefaultPreemption`` holds the pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class OngoingPreemptions:
    """By the uid of the preemptor. A preemptor is contained while the deletion of its victims is being requested."""

    def __init__(self) -> None:
        self._pending: dict[str, frozenset[str]] = {}  # victims whose deletion is being requested
        self._deleted: dict[str, frozenset[str]] = {}  # victims whose deletion was requested

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pending

    def victims_of(self, uid: str) -> Collection[str]:
        """The uids of the victims whose deletion was last requested for this pod."""
        return self._deleted.get(uid, ())

    def begin(self, uid: str, victims: Iterable[str]) -> None:
        self._deleted.pop(uid, None)
        self._pending[uid] = frozenset(victims)

    def end(self, uid: str) -> frozenset[str]:
        """The preemptor is not held any more. Returns the uids of the victims whose deletion was being requested."""
        return self._pending.pop(uid, frozenset())

    def victims_deleted(self, uid: str, deleted: Collection[str]) -> None:
        if deleted:
            self._deleted[uid] = frozenset(deleted)

    def forget(self, uid: str) -> None:
        """The pod needs no preemption any more."""
        self._deleted.pop(uid, None)
