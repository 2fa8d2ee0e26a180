"""Why a pod may not be tried now: the reasons, and a message with amounts for each.

Wait reasons are computed on request and not kept. ``capacity/grants/grants.py`` decides about grants with the same
ledger.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from headgate.kube.resource_amounts import amount_text


class WaitReason(Enum):
    FULL = "QueueFull"
    NO_QUEUE = "QueueNotFound"
    CLOSED = "QueueClosed"
    NOT_LEAF = "QueueNotLeaf"
    INVALID = "QueueInvalid"
    NO_GROUP = "PodGroupNotFound"
    GANG_SHORT = "NotEnoughTasks"
    NOT_INQUEUE = "PodGroupNotInqueue"
    FOREIGN_GATE = "ForeignGate"
    NOT_ASKED = "GateWithoutAnnotation"
    LOST_TURN = "LostTurn"
    TAKEN_BACK = "PromiseTakenBack"
    PUT_OFF = "GateRemovalRefused"
    WAITING_TURN = "WaitingForTurn"


class QueueWait(msgspec.Struct, frozen=True):
    """``blocker``: the queue, maybe an ancestor, whose limit on ``resource`` stops the pod: ``asked`` is requested
    while ``used`` (allocated or reserved) of ``limit`` is in use, in units."""

    why: WaitReason
    queue: str
    blocker: str = ""
    resource: str = ""
    asked: int = 0
    used: int = 0
    limit: int = 0
    message: str = ""


class QueueShortage(msgspec.Struct, frozen=True):
    """The first queue without capacity from the leaf upwards, and its first such resource by name."""

    blocker: str
    resource: str
    asked: int
    used: int
    limit: int

    def describe(self, taken: str = "in use or promised to others") -> str:
        asked, used, limit = (amount_text(self.resource, each) for each in (self.asked, self.used, self.limit))
        return f"queue {self.blocker} has no room for {asked} {self.resource}: {used} of {limit} are {taken}"


NO_SHORTAGE: Final = QueueShortage("", "", 0, 0, 0)


def queue_wait(why: WaitReason, queue: str, message: str, shortage: QueueShortage = NO_SHORTAGE) -> QueueWait:
    return QueueWait(
        why,
        queue,
        shortage.blocker,
        shortage.resource,
        shortage.asked,
        shortage.used,
        shortage.limit,
        message,
    )
