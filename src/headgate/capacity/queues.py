"""The queues: the one door through which scheduling, ``explain`` and the writers of status use this room.

What the API shows comes in, grants come out, and what became of them comes in again. Everything can be rebuilt from the
API alone: what was promised is on the pods (``stamp.py``); only promises that the API does not show yet are remembered
here. How: ``book.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.capacity import admitting, room, verdicts
from headgate.capacity.admitting import Grant
from headgate.capacity.book import Book
from headgate.capacity.company import Company, company_of
from headgate.capacity.intake import Intake
from headgate.capacity.ledger import Column
from headgate.capacity.line import Line
from headgate.capacity.names import ROOT
from headgate.capacity.order import created_s_of, share_of
from headgate.capacity.queue import Amounts
from headgate.capacity.record import IN_LINE, PROMISED, WITHOUT_QUESTION, Standing
from headgate.capacity.remedies import Growth, Missing, Remedy, find_remedy, without_other_gates
from headgate.capacity.room import Room
from headgate.capacity.settings import DEFAULTS, Settings
from headgate.capacity.stamp import Stamp
from headgate.capacity.task import Task
from headgate.capacity.verdict import Held, Why
from headgate.capacity.victims import Resident, Rules
from headgate.kube.amounts import PODS

__all__ = [
    "Company",
    "Grant",
    "Growth",
    "Held",
    "Limits",
    "Line",
    "Missing",
    "Queues",
    "Remedy",
    "Room",
    "Usage",
    "Why",
]


_GIVEN_ON: Final = "what it was promised, and had no node for, went to a pod of higher priority"


class Usage(msgspec.Struct, frozen=True):
    """Of a queue and all below it, in units. ``waiting``: pods that are held back, and ``wanted`` what they ask for.
    ``terminating``: what pods use that were told to go and are still on their nodes; it is not in ``allocated``."""

    allocated: Amounts
    reserved: Amounts
    inqueue: Amounts
    waiting: int
    share: float
    wanted: Amounts = {}
    terminating: Amounts = {}


class Limits(msgspec.Struct, frozen=True):
    """``capability``: what counts, with what ancestors and siblings leave; what is not named is unlimited. ``stated``:
    what the queue itself says of it."""

    capability: Amounts
    deserved: Amounts
    guarantee: Amounts
    stated: Amounts = {}
    weight: int = 1


class Queues:
    def __init__(self, settings: Settings = DEFAULTS) -> None:
        self._book = Book(settings)
        self._intake = Intake(self._book)
        self.victim_rules = Rules(settings)

    # What the API shows.

    def queue_applied(self, wire: Mapping[str, Any]) -> None:
        self._intake.apply_queue(wire)

    def queue_removed(self, name: str) -> None:
        self._intake.remove_queue(name)

    def group_applied(self, wire: Mapping[str, Any]) -> None:
        self._intake.apply_group(wire)

    def group_removed(self, namespace: str, name: str) -> None:
        self._intake.remove_group(namespace, name)

    def namespace_applied(self, wire: Mapping[str, Any]) -> None:
        self._intake.apply_namespace(wire)

    def namespace_removed(self, name: str) -> None:
        self._intake.remove_namespace(name)

    def task_applied(self, task: Task) -> None:
        self._intake.apply_task(task)

    def task_removed(self, uid: str) -> None:
        self._intake.remove_task(uid)

    def problems(self) -> Mapping[str, str]:
        """What is set aside, and why: ``queue/NAME`` or ``podgroup/NAMESPACE/NAME``."""
        return self._intake.problems

    # Decisions.

    def admit(self, now_s: float, most: int) -> list[Grant]:
        """The admission step. Pods that did not opt in are granted, too, for as long as they are tried."""
        return admitting.admit(self._book, now_s, most)

    def held(self, uid: str) -> Held | None:
        """Why the pod may not be tried now; None if it may. Asking for one that gave a tentative grant back (it did
        not opt in, and found no node) says that it would be tried again: it stands in line for the next admission,
        with the rest of its group. To look without asking: :meth:`why`."""
        record = self._book.records.get(uid)
        if record is not None and record.standing is Standing.RESTING:
            members = (record,) if record.gang is None else tuple(record.gang.members.values())
            for each in members:
                each.resting = False
                self._book.change(each)
        return self.why(uid)

    def is_resting(self, uid: str) -> bool:
        """Whether it gave a tentative grant back, and nobody has asked for it since."""
        record = self._book.records.get(uid)
        return record is not None and record.standing is Standing.RESTING

    def why(self, uid: str) -> Held | None:
        """As :meth:`held`, and nothing changes by it."""
        self._book.settle_all()
        record = self._book.records.get(uid)
        return None if record is None else verdicts.find_reason(self._book, record)

    def stirred(self) -> list[str]:
        """Pods that may be tried now and could not before, or the reverse, since this was last asked."""
        self._book.settle_all()
        found, self._book.stirred = list(self._book.stirred), {}
        return found

    def next_deadline_s(self) -> float | None:
        """When the next pod that was put off may be admitted."""
        first = self._book.put_off.first()
        return None if first is None else float(first[0])

    # What became of it.

    def stamped(self, uid: str, stamp: Stamp) -> None:
        """This stamp was written on the pod; the API may show it later."""
        record = self._book.records.get(uid)
        if record is None or record.promised_at == stamp.at:
            return
        self._book.lift(record)
        record.promise(stamp.queue, stamp.requests, stamp.at)
        self._book.settle(record)

    def take_back(self, uid: str, why: str) -> bool:
        """End the promise to a pod that has no node, so that others may have its share; it waits again like any other.
        Whether there was one. ``why`` is told with the reason for which the pod waits."""
        record = self._book.records.get(uid)
        if record is None or record.standing not in PROMISED:
            return False
        self._book.take_back(record, why)
        return True

    def withdrawn(self) -> list[str]:
        """Pods whose promise was taken back since this was last asked."""
        found, self._book.withdrawn = list(self._book.withdrawn), {}
        return found

    @property
    def has_withdrawn(self) -> bool:
        """Whether :meth:`withdrawn` has something to tell."""
        return bool(self._book.withdrawn)

    def is_withdrawn(self, uid: str, stamp: Stamp) -> bool:
        """Whether this stamp, which the API shows, is of a promise that was taken back."""
        record = self._book.records.get(uid)
        return record is not None and stamp.at in record.withdrawn

    def regrouped(self) -> list[str]:
        """Pods about which everything has to be decided anew, since something changed after this was last asked: their
        group, its object or its other members, or their requests. Pods with a node are not among them."""
        book = self._book
        book.settle_all()
        found, book.regrouped = book.regrouped, {}
        respecified, book.respecified = book.respecified, {}
        for key in respecified:
            gang = book.gangs.get(key)
            found.update(dict.fromkeys(() if gang is None else gang.members))
        return [uid for uid in found if book.records[uid].standing not in WITHOUT_QUESTION]

    def moved(self) -> list[str]:
        """Pods that count in another queue than before, since this was last asked."""
        self._book.settle_all()
        found, self._book.moved = list(self._book.moved), {}
        return found

    def placed(self, uid: str) -> None:
        record = self._book.records.get(uid)
        if record is not None:
            record.is_placed = True
            self._book.change(record)
            record.has_no_node = False

    def unplaced(self, uid: str) -> None:
        """It has no node after all. What was promised to it for good stays promised."""
        record = self._book.records.get(uid)
        if record is None or record.is_bound:
            return
        record.is_placed = False
        if record.is_tentative and record.promised_at:
            record.promised_at, record.resting = "", True
        self._book.change(record)

    def refused(self, uid: str, until_s: float, why: str) -> None:
        """Its gate could not be lifted: what was promised goes back, and it waits anew from then on. If the API has
        shown that it was lifted after all, that counts."""
        record = self._book.records.get(uid)
        if record is None or record.is_bound or record.is_stamped:
            return
        self._book.lift(record)
        record.promised_at, record.is_placed, record.put_off = "", False, (until_s, why)
        self._book.settle(record)

    def has_no_node(self, uid: str, is_so: bool) -> None:
        """Whether it was tried, fits nowhere, and was promised no node: then what was promised to it can be taken back
        for a pod of higher priority."""
        record = self._book.records.get(uid)
        if record is None or record.has_no_node is is_so:
            return
        if record.standing not in PROMISED:
            record.has_no_node = is_so
            return
        self._book.lift(record)
        record.has_no_node = is_so
        self._book.settle(record)

    def retracting(self, uid: str, is_so: bool) -> None:
        """Its promise is being taken back: it may not be tried, and its share is in use until :meth:`retracted`."""
        record = self._book.records.get(uid)
        if record is not None and record.is_retracting is not is_so:
            record.is_retracting = is_so
            self._book.stir(uid)

    def keeps_promise(self, uid: str) -> None:
        """The API server refused to take its promise back."""
        record = self._book.records.get(uid)
        if record is not None:
            self._book.lift(record)
            record.is_retracting, record.keeps_promise = False, True
            self._book.settle(record)
            self._book.stir(uid)

    def retracted(self, uid: str) -> None:
        """Its promise was taken back for a pod of higher priority: it waits for its queue again, in order. If it got a
        node meanwhile, that counts."""
        record = self._book.records.get(uid)
        if record is None or not record.is_retracting:
            return
        record.is_retracting = False
        if record.standing in PROMISED:
            self._book.take_back(record, _GIVEN_ON)
            record.has_no_node = False
        self._book.stir(uid)

    def evicted(self, uid: str) -> None:
        """It was told to go: what it holds is free at once, for whoever it has to make room for."""
        self._set_evicted(uid, is_evicted=True)

    def unevicted(self, uid: str) -> None:
        self._set_evicted(uid, is_evicted=False)

    def _set_evicted(self, uid: str, is_evicted: bool) -> None:
        record = self._book.records.get(uid)
        if record is not None:
            record.is_evicted = is_evicted
            self._book.change(record)

    # Who may be told to go.

    def starving(self) -> list[str]:
        """Who comes first in its queue and finds no room, where something changed since this was last asked."""
        return room.starving(self._book)

    def make_room(self, uid: str, *, may_evict: bool = True, freed: Collection[str] = ()) -> Room | None:
        """Who has to go, and whose promise has to be taken back, so that the queue has room for this pod, or for the
        gang that it is let in with; None if nobody may. Whoever tells them says so by :meth:`evicted`, and by
        :meth:`retracting` and :meth:`retracted`; the next admission then grants what they held. ``freed``: promises
        that were taken back for it, and not released yet."""
        known = [each for each in freed if each in self._book.records]
        return room.make_room(self._book, self.victim_rules, uid, may_evict=may_evict, freed=known)

    def line(self) -> Line:
        """A new line for pods that may be tried."""
        return self._book.new_line()

    # Asking.

    def queue_of(self, uid: str) -> str:
        self._book.settle_all()
        record = self._book.records.get(uid)
        return "" if record is None else record.place

    def queue_names(self) -> list[str]:
        """All that exist, and the root."""
        return sorted(name for name in self._book.tree.branches if self._book.tree.get(name) is not None)

    def usage(self, queue: str) -> Usage:
        self._book.settle_all()
        account, branch = self._book.ledger.account(queue), self._book.tree.branches.get(queue)
        allocated, reserved, inqueue = (dict(account.total[column]) for column in list(Column)[:3])
        share = share_of({} if branch is None else branch.deserved, account.used)
        wanted = dict(account.total[Column.WAITING])
        terminating = dict(account.total[Column.TERMINATING])
        return Usage(allocated, reserved, inqueue, wanted.pop(PODS, 0), share, wanted, terminating)

    def refusal(self, queue: str) -> Held | None:
        """Why the queue takes no pods at all, however much room there is; None if it does."""
        return verdicts.find_in_queue(self._book, queue)

    def limits(self, queue: str) -> Limits:
        branch = self._book.tree.branches.get(queue)
        if branch is None:
            return Limits({}, {}, {})
        spec = branch.spec
        return Limits(branch.limits, branch.deserved, spec.guarantee, spec.capability, spec.weight)

    def parent(self, queue: str) -> str:
        """The queue above; empty for the root and for whoever has no sound place."""
        path = self._book.tree.path(queue)
        return path[1] if len(path) > 1 and path[-1] == ROOT else ""

    def is_inqueue(self, namespace: str, name: str) -> bool:
        """Whether the group was let in."""
        self._book.settle_all()
        gang = self._book.gangs.get((namespace, name))
        return gang is not None and self._book.is_in(gang)

    def victims(self, uid: str, there: Sequence[Resident]) -> list[str]:
        """Of the pods on one node, whom this one may make go: in its own queue, or in queues that have too much."""
        self._book.settle_all()
        record = self._book.records.get(uid)
        return [] if record is None else self.victim_rules.find(self._book, record, there)

    def minimum(self, uid: str) -> tuple[str, ...]:
        """The pods that its gang cannot do without, in order; only itself if it has none."""
        record = self._book.records.get(uid)
        return (uid,) if record is None or record.gang is None else record.gang.first_members()

    def members(self, namespace: str, group: str) -> tuple[str, ...]:
        """All pods that name the group."""
        gang = self._book.gangs.get((namespace, group))
        return () if gang is None else tuple(gang.members)

    def company(self, uid: str) -> Company:
        """Those who are tried together with this pod, itself among them, and how many of them have to get nodes."""
        record = self._book.records.get(uid)
        return Company((uid,)) if record is None else company_of(record)

    def position(self, uid: str) -> int | None:
        """How many units of its queue come before it; None if it does not wait for a grant. Pods of a group that are
        granted together are one unit; the pods of its own group that go on before it are units, too."""
        self._book.settle_all()
        record = self._book.records.get(uid)
        if record is None or record.standing not in IN_LINE:
            return None
        key = self._book.job_key(record)
        others = sum(other < key for other, _ in self._book.grants.standing(record.place))
        return others + (0 if record.gang is None else record.gang.units_before(uid))

    def remedy(self, uid: str) -> Remedy | None:
        """What would let the pod have room in its queue, tried out on copies; None if nothing is missing there. Costs
        as much as all pods together: for a caller that asks once."""
        self._book.settle_all()
        return find_remedy(self._book, self._intake, uid) if uid in self._book.records else None

    def remedy_behind_gates(self, uid: str) -> Remedy | None:
        """As :meth:`remedy`, as if the gates of others were off the pod."""
        self._book.settle_all()
        if uid not in self._book.records:
            return None
        trial = without_other_gates(self._book, self._intake, uid)
        return find_remedy(trial.book, trial.intake, uid)

    def oldest_waiting_s(self, queue: str) -> float | None:
        """When the oldest job that waits for a grant in this very queue was created."""
        self._book.settle_all()
        return min((created_s_of(key) for key, _ in self._book.grants.standing(queue)), default=None)

    def changed_queues(self) -> list[str]:
        """Whose usage changed since this was last asked."""
        self._book.settle_all()
        found, self._book.changed = list(self._book.changed), {}
        return found

    def entered(self) -> list[tuple[str, str]]:
        """Groups, by namespace and name, that were let in since this was last asked, or are kept out for another
        reason."""
        self._book.settle_all()
        found, self._book.entered = list(self._book.entered), {}
        return found
