"""What the queues know of one pod: what the API showed, and what was promised, placed or taken back since.

What the API has shown once stays known: a watch that is late, or shows two versions in the wrong order, undoes neither
a promise nor a node nor an end. Where a pod stands follows from its record alone (:func:`classify`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from headgate.capacity.task import NOTHING, Task

if TYPE_CHECKING:
    from headgate.capacity.groups import Gang

Ask = tuple[tuple[str, int], ...]
"""What a unit asks for, by resource, sorted. Equal asks wait together."""


class Standing(IntEnum):
    ALLOCATED = 0
    RESERVED = 1
    WAITING = 2
    FOREIGN = 3  # somebody else's gate: none of our business
    NOT_ASKED = 4  # our gate, but nobody asked us to lift it
    PUT_OFF = 5  # its gate could not be lifted; not before a certain time
    RESTING = 6  # gave a tentative grant back, and nobody has asked for it since
    SUCCEEDED = 7
    GONE = 8


HELD: Final = (Standing.ALLOCATED, Standing.RESERVED)


class Record:
    """``promised_at`` is empty for a pod without a promise. ``queue`` is empty until it is fixed;
    ``place`` is the queue that it counts in until then, too. ``counted``: what of
    its requests the ledger and its gang have; ``ask``: under what a pod without a group waits."""

    __slots__ = (
        "ask",
        "counted",
        "gang",
        "is_bound",
        "is_evicted",
        "is_placed",
        "is_stamped",
        "place",
        "promised_at",
        "put_off",
        "queue",
        "resting",
        "standing",
        "task",
    )

    def __init__(self, task: Task) -> None:
        self.task = task
        self.queue = ""
        self.place = ""
        self.gang: Gang | None = None
        self.standing = Standing.GONE
        self.counted: Mapping[str, int] = NOTHING
        self.ask: Ask | None = None
        self.promised_at = ""
        self.is_bound = False  # the API shows a node
        self.is_placed = False  # we gave it one
        self.is_stamped = False  # the API shows what was promised
        self.is_evicted = False
        self.resting = False
        self.put_off: tuple[float, str] | None = None

    def hear(self, task: Task) -> None:
        """The API shows the pod."""
        before = self.task
        if before.leaving and not task.leaving:
            return  # an old version: nobody comes back from there
        self.task = task
        self.is_bound = self.is_bound or bool(task.node_name)
        if task.stamp is not None and not task.gates:
            self.is_stamped = True
            self.promised_at = task.stamp.at
            self.queue = task.stamp.queue
            self.put_off = None

    @property
    def may_move(self) -> bool:
        """Nothing was promised to it yet, so it may still be sent to another queue; a group goes as a whole."""
        return self.gang is None and not self.promised_at and not self.is_bound and not self.is_placed

    @property
    def is_tentative(self) -> bool:
        """Promised only while it is tried: a pod that did not opt in keeps nothing that it does not use."""
        return not self.task.opted_in and not self.is_stamped


def classify(record: Record) -> Standing:
    task = record.task
    if task.leaving:
        return Standing.SUCCEEDED if task.succeeded else Standing.GONE
    if record.is_evicted:
        return Standing.GONE
    if record.is_bound or record.is_placed:
        return Standing.ALLOCATED
    if record.promised_at:
        return Standing.RESERVED
    if task.has_foreign_gate:
        return Standing.FOREIGN
    if task.has_our_gate and not task.opted_in:
        return Standing.NOT_ASKED
    if record.put_off is not None:
        return Standing.PUT_OFF
    return Standing.RESTING if record.resting else Standing.WAITING


def ask_of(requests: Mapping[str, int]) -> Ask:
    return tuple(sorted(requests.items()))
