"""The record of one pod in the queue engine (``capacity/engine.py``).

The record has the newest version of the pod that the API has shown. It also has what the queue engine has decided and
the API does not show yet: a promise, a chosen node, or a revoked promise. A state that the API has shown is not undone:
a late watch, or a watch that shows two versions in the wrong order, cannot remove a promise or a node, and cannot make
a finished pod live again. :func:`classify` derives the pod's allocation state from its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from headgate.capacity.api.lease import Lapse
from headgate.capacity.api.task import NOTHING, TaskInfo

if TYPE_CHECKING:
    from headgate.capacity.cache.gang import Gang

Ask = tuple[tuple[str, int], ...]
"""The requests of a unit (a pod, or the pods of a gang that are granted together) as resource and amount, sorted by
resource. Units with equal asks wait in one heap."""
NO_ORDER_KEYS: Final[Mapping[str, tuple[Any, ...]]] = MappingProxyType({})


class AllocationState(IntEnum):
    """The state of a pod in its queue."""

    ALLOCATED = 0  # is on a node, or the scheduler has chosen one
    RESERVED = 1  # has a promise for all that it requests, and no node yet
    WAITING = 2  # waits for a grant
    FOREIGN_GATE = 3  # has a scheduling gate of another component
    NOT_OPTED_IN = 4  # has the queue gate and did not opt in
    GATE_REMOVAL_REFUSED = 5  # the API server refused to remove its gate; it waits for a grant again after a time
    RETURNED_GRANT = 6  # returned a tentative grant, and has not requested another since
    SUCCEEDED = 7
    GONE = 8  # failed, terminating or evicted
    RESIZED = 9  # requests more than it was promised: it keeps the promise and waits for the rest
    LAPSED = 10  # its promise lapsed; it waits for a grant again after a time


HOLDING: Final = (AllocationState.ALLOCATED, AllocationState.RESERVED)
"""States of pods that have a node or a promise for all that they request."""
_MAX_OLDER_REVOKED_STAMP_TIMES: Final = 7
"""How many revoked promises, besides the last one, a record remembers, because a late watch may still show their
stamps."""
PROMISED: Final = (AllocationState.RESERVED, AllocationState.RESIZED)
"""States of pods that have a promise."""
NEEDS_NO_NODE: Final = (AllocationState.ALLOCATED, AllocationState.SUCCEEDED, AllocationState.GONE)
"""States of pods that already have a node or never need one again."""


class PodRecord:
    """``promised_at``: the time of the promise; empty for a pod without a promise. ``promised_amounts``: what was
    promised; ``promise_queue``: the queue that promised it. ``queue``: the queue in which the pod counts; a promise can
    fix it (:attr:`has_fixed_queue`). ``counted_amounts``: the amounts that the ledger (``ledger.py``: usage per queue)
    and the gang count for this pod. ``waiting_amounts``: the amounts that it waits for. ``ask``: the ask under which a
    pod that is a unit by itself waits in ``QueueCache.grant_index``, the index of units that wait for a grant; None if
    it is not there. ``revoked_stamp_times``: the times of the last revoked promises. The API may still show their
    stamps, which no longer count. ``revocation_reason``: why the last one was revoked. ``gate_refusal``: when to retry
    the removal of the gate, and why the API server refused it. ``delayed_unit``: the number of its unit in
    ``capacity/grants/delayed_starts.py``; 0 if its start is not delayed. ``is_in_window``: the ledger counts it among
    the pods without a node. ``lapse``: the last lapse of a promise to it; ``pending_lapse``: the one whose stamp is
    being removed. ``pending_revocation``: why its queue ends the promise, while the stamp is being removed; otherwise
    empty. ``superseded_stamp_times``: the times of promises that a larger one replaced; the API may still show their
    stamps. ``order_keys``: the parts of its sort key that plugins of other packages returned, by plugin."""

    __slots__ = (
        "ask",
        "counted_amounts",
        "delayed_unit",
        "gang",
        "gate_refusal",
        "has_returned_grant",
        "is_being_revoked",
        "is_bound",
        "is_committed",
        "is_evicted",
        "is_in_window",
        "is_irrevocable",
        "is_lapsed",
        "is_leaving",
        "is_placed",
        "is_stamp_sent",
        "is_stamped",
        "is_unplaceable",
        "lapse",
        "order_keys",
        "pending_lapse",
        "pending_revocation",
        "promise_queue",
        "promised_amounts",
        "promised_at",
        "queue",
        "revocation_reason",
        "revoked_stamp_times",
        "state",
        "superseded_stamp_times",
        "task",
        "waiting_amounts",
    )

    def __init__(self, task: TaskInfo) -> None:
        self.task = task
        self.promise_queue = ""
        self.queue = ""
        self.gang: Gang | None = None
        self.state = AllocationState.GONE
        self.counted_amounts: Mapping[str, int] = NOTHING
        self.ask: Ask | None = None
        self.waiting_amounts: Mapping[str, int] = NOTHING
        self.promised_at = ""
        self.promised_amounts: Mapping[str, int] = NOTHING
        self.revoked_stamp_times: tuple[str, ...] = ()
        self.superseded_stamp_times: tuple[str, ...] = ()
        self.revocation_reason = ""
        self.is_bound = False  # the API shows a node
        self.is_placed = False  # the scheduler chose a node; the API may not show it yet
        self.is_stamp_sent = False  # the stamp of its promise was sent, so the API may show it at any time
        self.is_stamped = False  # the API shows the stamp of its promise
        self.is_evicted = False  # its deletion was requested, for a preemptor
        self.is_unplaceable = False  # no node fits it, and none is nominated for it
        self.is_being_revoked = False  # the removal of its stamp is requested, or follows the patch that writes it
        self.pending_revocation = ""
        self.is_irrevocable = False  # the API server refused to remove its stamp, for a preemptor or a lapse
        self.is_committed = False  # another scheduler may bind it at any time, so its promise is never revoked
        self.is_lapsed = False  # it waits for the time at which it asks for a grant again
        self.lapse: Lapse | None = None
        self.pending_lapse: Lapse | None = None
        self.is_leaving = False  # it terminates, and delays the start of pods that get its capacity
        self.is_in_window = False
        self.delayed_unit = 0
        self.has_returned_grant = False  # it returned a tentative grant, because no node fit it
        self.gate_refusal: tuple[float, str] | None = None
        self.order_keys: Mapping[str, tuple[Any, ...]] = NO_ORDER_KEYS

    def update(self, task: TaskInfo) -> None:
        """Take over a version of the pod that the API shows, unless the version is older than the one in the record."""
        before = self.task
        if before.is_terminal_or_terminating and not task.is_terminal_or_terminating:
            return  # an old version: a pod that is finished or terminating never leaves that state
        self.task = task
        self.is_bound = self.is_bound or bool(task.node_name)
        outdated = (*self.revoked_stamp_times, *self.superseded_stamp_times)
        if task.stamp is not None and not task.gates and task.stamp.at not in outdated:
            self.is_stamped = True
            self.promise(task.stamp.queue, task.stamp.requests, task.stamp.at)
            self.gate_refusal = None
        elif self.promised_at and self.is_tentative and not covers(self.promised_amounts, task.requests):
            self.promised_at = ""  # a tentative promise that is too small ends; the pod requests a new one

    def promise(self, queue: str, requests: Mapping[str, int], at: str) -> None:
        self.promise_queue, self.promised_amounts, self.promised_at = queue, requests, at
        self.superseded_stamp_times = tuple(each for each in self.superseded_stamp_times if each != at)
        self.revoked_stamp_times = tuple(each for each in self.revoked_stamp_times if each != at)
        self.revocation_reason = ""

    def supersede(self) -> None:
        """A larger promise replaces this one: a version of the pod that still shows its stamp does not bring it
        back."""
        if self.may_be_stamped:
            older = self.superseded_stamp_times[-_MAX_OLDER_REVOKED_STAMP_TIMES:]
            self.superseded_stamp_times = (*older, self.promised_at)

    def revoke(self, reason: str) -> None:
        """End the promise: the pod waits again, and its stamp no longer counts."""
        self.revoked_stamp_times, self.revocation_reason = (
            (
                *self.revoked_stamp_times[-_MAX_OLDER_REVOKED_STAMP_TIMES:],
                *self.superseded_stamp_times,
                self.promised_at,
            ),
            reason,
        )
        self.end_promise()
        self.is_stamped, self.delayed_unit = False, 0

    def end_promise(self) -> None:
        """Forget the promise, and that it was being revoked."""
        self.promised_at, self.promised_amounts, self.superseded_stamp_times = "", NOTHING, ()
        self.is_stamp_sent = self.is_committed = self.is_irrevocable = False
        self.is_being_revoked, self.pending_revocation, self.pending_lapse = False, "", None

    def set_lapse(self, lapse: Lapse) -> None:
        self.lapse, self.is_lapsed = lapse, True
        if self.gang is not None:
            self.gang.lapsed_s = max(self.gang.lapsed_s, lapse.at_s)

    def correct_lapse(self, at_s: float) -> None:
        """Sets an earlier time of the lapse."""
        if self.lapse is not None:
            self.lapse = Lapse(self.lapse.count, at_s)
        if self.gang is not None:
            self.gang.lapsed_s = min(self.gang.lapsed_s, at_s)

    @property
    def new_lapse(self) -> Lapse | None:
        """A lapse that the API shows and that the record does not have yet; each lapse of a pod counts one more."""
        shown = self.task.lapse
        return None if shown is None or (self.lapse is not None and shown.count <= self.lapse.count) else shown

    @property
    def queued_s(self) -> float:
        """The time that decides its place among pods of its priority: its creation, or its last lapse."""
        return self.task.created_s if self.lapse is None else max(self.task.created_s, self.lapse.at_s)

    @property
    def waits_for_grant(self) -> bool:
        """Whether the pod waits for a grant. A resized pod whose promise is being revoked does not: a larger promise
        would end when the removal of the smaller one's stamp is confirmed, while its own stamp is written."""
        return self.state is AllocationState.WAITING or (
            self.state is AllocationState.RESIZED and not self.is_being_revoked
        )

    @property
    def has_fixed_queue(self) -> bool:
        """Whether a promise fixes the queue of the pod. Otherwise the current annotations of the pod, its group and its
        namespace decide. They also decide for a pod on a node without a stamp, because a restarted engine does not know
        whether that pod had a promise."""
        return bool(self.promised_at) and (self.is_stamped or not self.is_bound)

    @property
    def is_terminating(self) -> bool:
        """Whether the pod is being deleted and still runs on its node. Its queue may already grant its capacity to
        other pods, but the node does not have this capacity yet."""
        return self.state is AllocationState.GONE and self.is_bound and not self.task.is_terminal

    @property
    def has_revocable_promise(self) -> bool:
        """Whether the pod has a promise that can be revoked for a pod of higher priority: no node fits the pod, and
        the API server has not refused to remove the stamp."""
        return self.state in PROMISED and self.is_unplaceable and self.is_stamped and not self.is_irrevocable

    @property
    def may_be_stamped(self) -> bool:
        """Whether the API shows the stamp of its promise, or may show it at any time."""
        return self.is_stamped or self.is_stamp_sent

    @property
    def is_tentative(self) -> bool:
        """Whether a promise to this pod is tentative: it is valid only during the scheduling attempt, because the pod
        did not opt in to the queue gate."""
        return not self.task.opted_in and not self.may_be_stamped


def classify(record: PodRecord) -> AllocationState:
    """The state of the pod that follows from its record."""
    task = record.task
    if task.is_terminal_or_terminating:
        return AllocationState.SUCCEEDED if task.succeeded else AllocationState.GONE
    if record.is_evicted:
        return AllocationState.GONE
    if record.is_bound or record.is_placed:
        return AllocationState.ALLOCATED
    if record.promised_at:
        return AllocationState.RESERVED if covers(record.promised_amounts, task.requests) else AllocationState.RESIZED
    if task.has_foreign_gate:
        return AllocationState.FOREIGN_GATE
    if task.has_queue_gate and not task.opted_in:
        return AllocationState.NOT_OPTED_IN
    if record.gate_refusal is not None:
        return AllocationState.GATE_REMOVAL_REFUSED
    if record.is_lapsed:
        return AllocationState.LAPSED
    return AllocationState.RETURNED_GRANT if record.has_returned_grant else AllocationState.WAITING


def covers(promised: Mapping[str, int], requests: Mapping[str, int]) -> bool:
    """Whether the promised amounts are enough for the requests."""
    return promised is requests or all(amount <= promised.get(name, 0) for name, amount in requests.items())


def excess_over(requests: Mapping[str, int], promised: Mapping[str, int]) -> dict[str, int]:
    """The part of the requests that was not promised."""
    return {name: more for name, amount in requests.items() if (more := amount - promised.get(name, 0)) > 0}


def ask_of(requests: Mapping[str, int]) -> Ask:
    return tuple(sorted(requests.items()))
