"""What the engine knows of one pod: the state from the API, and the promises, placements and revocations since.

A state that the API has shown is not undone: a late watch, or one that shows two versions in the wrong order, reverts
neither a promise nor a node nor the pod's end. :func:`classify` derives the pod's allocation state from its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from headgate.capacity.api.task import NOTHING, TaskInfo

if TYPE_CHECKING:
    from headgate.capacity.cache.gang import Gang

Ask = tuple[tuple[str, int], ...]
"""The requests of a unit, sorted by resource. Units with equal asks wait in one heap."""


class AllocationState(IntEnum):
    ALLOCATED = 0
    RESERVED = 1
    WAITING = 2
    FOREIGN = 3  # a gate of another component holds it
    NOT_ASKED = 4  # it has the queue gate and did not opt in
    PUT_OFF = 5  # the removal of its gate was refused; it is retried after a time
    RESTING = 6  # gave a tentative grant back, and has not requested another since
    SUCCEEDED = 7
    GONE = 8
    GROWING = 9  # requests more than it was promised: it keeps the promise and waits for the rest


HOLDING: Final = (AllocationState.ALLOCATED, AllocationState.RESERVED)
_MAX_WITHDRAWN_STAMPS: Final = 7
"""How many withdrawn stamps before the last are remembered, because a late watch may still show them."""
PROMISED: Final = (AllocationState.RESERVED, AllocationState.GROWING)
WAITING_FOR_GRANT: Final = (AllocationState.WAITING, AllocationState.GROWING)
"""States of pods that wait for a grant."""
NEEDS_NO_NODE: Final = (AllocationState.ALLOCATED, AllocationState.SUCCEEDED, AllocationState.GONE)
"""States of pods that need no node any more."""


class PodRecord:
    """``promised_at`` is empty for a pod without a promise; ``promised`` is the promised amount. ``queue``: of the
    promise; ``counted_queue``: the queue that it counts in. ``counted``: what the ledger and its gang count for it;
    ``wanted``: what it waits for; ``ask``: the requests under which a pod that is a unit by itself waits.
    ``withdrawn``: the times of the last withdrawn promises: their stamps, which the API may still show, no longer
    count; ``withdrawal``: the reason of the last one."""

    __slots__ = (
        "ask",
        "counted",
        "counted_queue",
        "gang",
        "gave_grant_back",
        "has_no_node",
        "is_bound",
        "is_evicted",
        "is_placed",
        "is_retracting",
        "is_stamped",
        "keeps_promise",
        "promised",
        "promised_at",
        "put_off",
        "queue",
        "state",
        "task",
        "wanted",
        "withdrawal",
        "withdrawn",
    )

    def __init__(self, task: TaskInfo) -> None:
        self.task = task
        self.queue = ""
        self.counted_queue = ""
        self.gang: Gang | None = None
        self.state = AllocationState.GONE
        self.counted: Mapping[str, int] = NOTHING
        self.ask: Ask | None = None
        self.wanted: Mapping[str, int] = NOTHING
        self.promised_at = ""
        self.promised: Mapping[str, int] = NOTHING
        self.withdrawn: tuple[str, ...] = ()
        self.withdrawal = ""
        self.is_bound = False  # the API shows a node
        self.is_placed = False  # the scheduler chose a node
        self.is_stamped = False  # the API shows the stamp of its promise
        self.is_evicted = False
        self.has_no_node = False  # it was tried, fits no node, and has no nominated node
        self.is_retracting = False  # the promise is being revoked
        self.keeps_promise = False  # the API server refused to revoke it
        self.gave_grant_back = False
        self.put_off: tuple[float, str] | None = None

    def update(self, task: TaskInfo) -> None:
        """The API shows the pod."""
        before = self.task
        if before.leaving and not task.leaving:
            return  # an old version: this state is final
        self.task = task
        self.is_bound = self.is_bound or bool(task.node_name)
        if task.stamp is not None and not task.gates and task.stamp.at not in self.withdrawn:
            self.is_stamped = True
            self.promise(task.stamp.queue, task.stamp.requests, task.stamp.at)
            self.put_off = None
        elif self.promised_at and self.is_tentative and not covers(self.promised, task.requests):
            self.promised_at = ""  # a tentative promise that is too small is requested again

    def promise(self, queue: str, requests: Mapping[str, int], at: str) -> None:
        self.queue, self.promised, self.promised_at = queue, requests, at
        self.withdrawal = ""

    def withdraw(self, reason: str) -> None:
        """End the promise: the pod waits again, and its stamp no longer counts."""
        self.withdrawn, self.withdrawal = (*self.withdrawn[-_MAX_WITHDRAWN_STAMPS:], self.promised_at), reason
        self.promised_at, self.promised, self.is_stamped = "", NOTHING, False

    @property
    def has_fixed_queue(self) -> bool:
        """Whether a promise fixes the queue of the pod. Otherwise the pod's current annotations decide, also for a pod
        on a node without a stamp: a restarted engine knows nothing else about it."""
        return bool(self.promised_at) and (self.is_stamped or not self.is_bound)

    @property
    def is_terminating(self) -> bool:
        """Whether it is terminating and still on its node: its quota is released, but still in use."""
        return self.state is AllocationState.GONE and self.is_bound and not self.task.ended

    @property
    def is_idle(self) -> bool:
        """Whether it has a promise without a node that can be revoked."""
        return self.state in PROMISED and self.has_no_node and self.is_stamped and not self.keeps_promise

    @property
    def is_tentative(self) -> bool:
        """Whether its promise holds only while it is tried: so it is for pods that did not opt in."""
        return not self.task.opted_in and not self.is_stamped


def classify(record: PodRecord) -> AllocationState:
    task = record.task
    if task.leaving:
        return AllocationState.SUCCEEDED if task.succeeded else AllocationState.GONE
    if record.is_evicted:
        return AllocationState.GONE
    if record.is_bound or record.is_placed:
        return AllocationState.ALLOCATED
    if record.promised_at:
        return AllocationState.RESERVED if covers(record.promised, task.requests) else AllocationState.GROWING
    if task.has_foreign_gate:
        return AllocationState.FOREIGN
    if task.has_our_gate and not task.opted_in:
        return AllocationState.NOT_ASKED
    if record.put_off is not None:
        return AllocationState.PUT_OFF
    return AllocationState.RESTING if record.gave_grant_back else AllocationState.WAITING


def covers(promised: Mapping[str, int], requests: Mapping[str, int]) -> bool:
    return promised is requests or all(amount <= promised.get(name, 0) for name, amount in requests.items())


def excess_over(requests: Mapping[str, int], promised: Mapping[str, int]) -> dict[str, int]:
    """The part of the requests that was not promised."""
    return {name: more for name, amount in requests.items() if (more := amount - promised.get(name, 0)) > 0}


def ask_of(requests: Mapping[str, int]) -> Ask:
    return tuple(sorted(requests.items()))
