"""Why a pod may not be tried now: the reasons, and a sentence with the numbers for each.

Verdicts are made when somebody asks; nothing is kept. Whether a pod gets a grant is decided in ``admitting.py`` by the
same ledger.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from headgate.kube.amounts import amount_text


class Why(Enum):
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


class Held(msgspec.Struct, frozen=True):
    """``blocker``: the queue, maybe an ancestor, whose limit stops the pod, on ``resource``: so much is ``asked`` for
    where so much is ``used`` (allocated or reserved) of so much (``limit``), in units."""

    why: Why
    queue: str
    blocker: str = ""
    resource: str = ""
    asked: int = 0
    used: int = 0
    limit: int = 0
    message: str = ""


class Shortage(msgspec.Struct, frozen=True):
    """Where it does not fit: the first such queue from the leaf upwards, and the first resource by name."""

    blocker: str
    resource: str
    asked: int
    used: int
    limit: int

    def describe(self, taken: str = "in use or promised to others") -> str:
        asked, used, limit = (amount_text(self.resource, each) for each in (self.asked, self.used, self.limit))
        return f"queue {self.blocker} has no room for {asked} {self.resource}: {used} of {limit} are {taken}"


NOBODY: Final = Shortage("", "", 0, 0, 0)


def held_by(why: Why, queue: str, message: str, shortage: Shortage = NOBODY) -> Held:
    return Held(
        why,
        queue,
        shortage.blocker,
        shortage.resource,
        shortage.asked,
        shortage.used,
        shortage.limit,
        message,
    )
