"""Why a pod may not be tried now: the reasons, and a message with amounts for each.

``capacity/grants/wait_reasons.py`` finds the reason of a pod on request, from the same ledger of used amounts
(``capacity/cache/ledger.py``) with which ``capacity/grants/grants.py`` decides grants. Reasons are not kept.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from headgate.kube.resource_amounts import amount_text


class WaitReason(Enum):
    """The values are the reasons that users and clients see."""

    FULL = "QueueFull"
    NO_QUEUE = "QueueNotFound"
    CLOSED = "QueueClosed"
    NOT_LEAF = "QueueNotLeaf"
    INVALID = "QueueInvalid"
    NO_GROUP = "PodGroupNotFound"
    NOT_ENOUGH_PODS = "NotEnoughTasks"  # of its gang
    NOT_INQUEUE = "PodGroupNotInqueue"  # the enqueue action has not admitted its group
    FOREIGN_GATE = "ForeignGate"  # it has a scheduling gate of another component
    NOT_OPTED_IN = "GateWithoutAnnotation"
    LOST_TURN = "LostTurn"  # its promise was revoked, for example because a limit was lowered
    REVOKED = "PromiseTakenBack"  # its promise is being revoked, for example for a pod of higher priority
    LAPSED = "ReservationLapsed"  # no node was found for it in the time of its lease
    GATE_REMOVAL_REFUSED = "GateRemovalRefused"
    WAITING_TURN = "WaitingForTurn"  # its queue has capacity; the next admission step grants it
    WINDOW_FULL = "TooManyPodsWithoutNode"  # its queue has capacity, and too many of its pods wait for a node
    PLUGIN = "QueueAdmissionRejected"  # its queue has capacity, and a plugin of another package holds it
    NOT_SUPPORTED = "PodGroupNotSupported"  # its group asks for something that is not supported
    BEHIND_FIRST = "FirstInLineProtected"  # its queue has capacity, and it would delay the first unit in line
    TERMINATING_PODS = "WaitingForTerminatingPods"  # its queue has capacity that terminating pods still use on nodes


class QueueWait(msgspec.Struct, frozen=True):
    """Why one pod waits. ``queue``: the queue of the pod. ``blocker``: that queue or an ancestor, whose limit on
    ``resource`` stops the pod: ``asked`` is requested, and ``used`` (allocated or reserved) of ``limit`` is in use
    (integers as in ``kube/resource_amounts.py``). The last five are empty or 0 if the pod waits for another reason."""

    why: WaitReason
    queue: str
    blocker: str = ""
    resource: str = ""
    asked: int = 0
    used: int = 0
    limit: int = 0
    message: str = ""


class QueueShortage(msgspec.Struct, frozen=True):
    """The first queue without capacity from the leaf upwards, and the first resource by name that it lacks."""

    blocker: str
    resource: str
    asked: int
    used: int
    limit: int

    def describe_delay(self) -> str:
        """The shortage as the reason to wait for terminating pods. ``used`` includes what these still use."""
        asked, used, limit = (amount_text(self.resource, each) for each in (self.asked, self.used, self.limit))
        return (
            f"queue {self.blocker} has capacity for {asked} {self.resource} when terminating pods have left their "
            f"nodes: with them, {used} of {limit} are in use"
        )

    def describe(self, taken: str = "in use or promised to others") -> str:
        """The shortage as a sentence. ``taken``: the words for the amounts that other pods hold."""
        asked, used, limit = (amount_text(self.resource, each) for each in (self.asked, self.used, self.limit))
        return f"queue {self.blocker} has no capacity for {asked} {self.resource}: {used} of {limit} are {taken}"


NO_SHORTAGE: Final = QueueShortage("", "", 0, 0, 0)


def queue_wait(why: WaitReason, queue: str, message: str, shortage: QueueShortage = NO_SHORTAGE) -> QueueWait:
    """A wait with the amounts of the shortage."""
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
