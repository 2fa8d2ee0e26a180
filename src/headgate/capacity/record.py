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
    GROWING = 9  # promised, and asks for more than that: it keeps what was promised and waits for the rest


HELD: Final = (Standing.ALLOCATED, Standing.RESERVED)
_STAMPS_SHOWN: Final = 7
"""How many stamps before the last the API may still show; no more than one is under way at a time."""
PROMISED: Final = (Standing.RESERVED, Standing.GROWING)
IN_LINE: Final = (Standing.WAITING, Standing.GROWING)
"""Those that a grant would let go on."""
WITHOUT_QUESTION: Final = (Standing.ALLOCATED, Standing.SUCCEEDED, Standing.GONE)
"""Those that need no node any more."""


class Record:
    """``promised_at`` is empty for a pod without a promise; ``promised`` is what was promised. ``queue``: of the
    promise; ``place``: the queue that it counts in. ``counted``: what the ledger and its gang
    have of it; ``wanted``: what it waits for; ``ask``: under what a pod that is a unit by itself waits.
    ``withdrawn``: the times of the last promises that were taken back: their stamps, which the API may still show, are
    no promises any more; ``withdrawal``: why the last one was."""

    __slots__ = (
        "ask",
        "counted",
        "gang",
        "has_no_node",
        "is_bound",
        "is_evicted",
        "is_placed",
        "is_retracting",
        "is_stamped",
        "keeps_promise",
        "place",
        "promised",
        "promised_at",
        "put_off",
        "queue",
        "resting",
        "standing",
        "task",
        "wanted",
        "withdrawal",
        "withdrawn",
    )

    def __init__(self, task: Task) -> None:
        self.task = task
        self.queue = ""
        self.place = ""
        self.gang: Gang | None = None
        self.standing = Standing.GONE
        self.counted: Mapping[str, int] = NOTHING
        self.ask: Ask | None = None
        self.wanted: Mapping[str, int] = NOTHING
        self.promised_at = ""
        self.promised: Mapping[str, int] = NOTHING
        self.withdrawn: tuple[str, ...] = ()
        self.withdrawal = ""
        self.is_bound = False  # the API shows a node
        self.is_placed = False  # we gave it one
        self.is_stamped = False  # the API shows what was promised
        self.is_evicted = False
        self.has_no_node = False  # it was tried for what it was promised, fits nowhere, and was promised no node
        self.is_retracting = False  # the promise is being taken back
        self.keeps_promise = False  # the API server refused to take it back
        self.resting = False
        self.put_off: tuple[float, str] | None = None

    def hear(self, task: Task) -> None:
        """The API shows the pod."""
        before = self.task
        if before.leaving and not task.leaving:
            return  # an old version: nobody comes back from there
        self.task = task
        self.is_bound = self.is_bound or bool(task.node_name)
        if task.stamp is not None and not task.gates and task.stamp.at not in self.withdrawn:
            self.is_stamped = True
            self.promise(task.stamp.queue, task.stamp.requests, task.stamp.at)
            self.put_off = None
        elif self.promised_at and self.is_tentative and not covers(self.promised, task.requests):
            self.promised_at = ""  # what is promised only while the pod is tried is asked for anew

    def promise(self, queue: str, requests: Mapping[str, int], at: str) -> None:
        self.queue, self.promised, self.promised_at = queue, requests, at
        self.withdrawal = ""

    def withdraw(self, why: str) -> None:
        """The promise is taken back: the pod waits like any other, and its stamp proves nothing any more."""
        self.withdrawn, self.withdrawal = (*self.withdrawn[-_STAMPS_SHOWN:], self.promised_at), why
        self.promised_at, self.promised, self.is_stamped = "", NOTHING, False

    @property
    def is_fixed(self) -> bool:
        """Whether a promise says which queue the pod is in. Every other pod is where its words send it now: one on a
        node without a stamp, too, since a restarted engine has nothing else to go by."""
        return bool(self.promised_at) and (self.is_stamped or not self.is_bound)

    @property
    def is_terminating(self) -> bool:
        """Told to go, and still on its node: it holds nothing of its queue any more, and uses it all the same."""
        return self.standing is Standing.GONE and self.is_bound and not self.task.ended

    @property
    def is_idle(self) -> bool:
        """A promise for which there is no node, and which can be taken back."""
        return self.standing in PROMISED and self.has_no_node and self.is_stamped and not self.keeps_promise

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
        return Standing.RESERVED if covers(record.promised, task.requests) else Standing.GROWING
    if task.has_foreign_gate:
        return Standing.FOREIGN
    if task.has_our_gate and not task.opted_in:
        return Standing.NOT_ASKED
    if record.put_off is not None:
        return Standing.PUT_OFF
    return Standing.RESTING if record.resting else Standing.WAITING


def covers(promised: Mapping[str, int], requests: Mapping[str, int]) -> bool:
    return promised is requests or all(amount <= promised.get(name, 0) for name, amount in requests.items())


def beyond(requests: Mapping[str, int], promised: Mapping[str, int]) -> dict[str, int]:
    """What is asked for and was not promised."""
    return {name: more for name, amount in requests.items() if (more := amount - promised.get(name, 0)) > 0}


def ask_of(requests: Mapping[str, int]) -> Ask:
    return tuple(sorted(requests.items()))
