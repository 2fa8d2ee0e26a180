"""Preemptions under way: who makes room for itself, and which pods are being told to go.

While the victims are being told, their preemptor is not tried again, however many of them go meanwhile: it would look
at a node where only half the room is made, and preempt once more. Victims that were told count as leaving from then on,
even if the API does not show it yet. Kept by ``preempting.py``; the plugin ``DefaultPreemption`` holds the pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class Preemptions:
    def __init__(self) -> None:
        self._victims: dict[str, frozenset[str]] = {}
        self._told: dict[str, frozenset[str]] = {}

    def __len__(self) -> int:
        return len(self._victims)

    def __contains__(self, uid: str) -> bool:
        return uid in self._victims

    def told(self, uid: str) -> Collection[str]:
        """The uids of those that were last told to go for this pod."""
        return self._told.get(uid, ())

    def begin(self, uid: str, victims: Iterable[str]) -> None:
        self._told.pop(uid, None)
        self._victims[uid] = frozenset(victims)

    def end(self, uid: str) -> frozenset[str]:
        """The uids of those that were to be told."""
        return self._victims.pop(uid, frozenset())

    def leave(self, uid: str, told: Collection[str]) -> None:
        if told:
            self._told[uid] = frozenset(told)

    def forget(self, uid: str) -> None:
        """The pod needs no room any more."""
        self._told.pop(uid, None)
