"""Preemptions under way: who makes room for itself, and which pods are being told to go.

While the victims are being deleted their preemptor is not tried again, however many of them go meanwhile: it would look
at a node where only half the room is made, and preempt once more. Began by ``scheduling/scheduler.py``; the plugin
``DefaultPreemption`` holds the pod.
"""

from __future__ import annotations

from collections.abc import Iterable


class Preemptions:
    def __init__(self) -> None:
        self._victims: dict[str, frozenset[str]] = {}

    def __len__(self) -> int:
        return len(self._victims)

    def __contains__(self, uid: str) -> bool:
        return uid in self._victims

    def begin(self, uid: str, victims: Iterable[str]) -> None:
        self._victims[uid] = frozenset(victims)

    def end(self, uid: str) -> frozenset[str]:
        """The uids of those that were told to go."""
        return self._victims.pop(uid, frozenset())
