"""The admission cycle: rounds that nominate the head of every queue and admit, or preempt for, what fits together.

In a round each head is nominated with the usage at its start, then processed in order: less borrowing, higher priority,
longer wait. Each admission counts before the next entry. Rounds continue without waiting for writes until no head is
left; trees are independent. Since a round sees one workload per queue, a queue may lend quota in one round and reclaim
it in the next. The borrower's admission is then withdrawn before it is written, which saves an admission and an
eviction; a workload is withdrawn at most once per cycle, with all later admissions of its queue, so the order holds.
``nomination.py`` nominates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from headgate.quota import names
from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.cohort import FlavorResource, Usage
from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.api.resource_flavor import ResourceFlavor
from headgate.quota.cache.occupancy import describe_terminating
from headgate.quota.cache.quota_ledger import QuotaClaim, QuotaLedger, fits
from headgate.quota.cycle.last_assignments import LastAssignments
from headgate.quota.cycle.nomination import Nomination, can_reduce_counts, nominate
from headgate.quota.effects import Admit, Effect, EmitWorkloadEvent, Evict, SetCondition
from headgate.quota.flavors.assignment import Assignment, AssignmentMode
from headgate.quota.preemption.targets import PreemptionTarget
from headgate.quota.queues.queue_manager import EnoughQuota, PendingReason, PendingWorkload, QueueManager
from headgate.waiting.parking_lot import RegisteredEvents
from headgate.waiting.queueing_hints import ClusterEventWithHint, Topic


class UnwrittenAdmissions:
    def __init__(self) -> None:
        self._by_queue: dict[str, dict[str, PendingWorkload]] = {}  # in the order of admission
        self._effect_of: dict[str, int] = {}
        self._withdrawn: set[str] = set()

    def add(self, waiter: PendingWorkload, effect: int) -> None:
        """It was admitted. ``effect``: at which place of the cycle's effects that is said."""
        self._effect_of[waiter.key] = effect
        self._by_queue.setdefault(waiter.queue, {})[waiter.key] = waiter

    def withdrawable(self, victims: Iterable[QuotaHolder]) -> frozenset[str]:
        """The keys of those of them whose admission can be withdrawn. Costs the victims."""
        wanted: dict[str, set[str]] = {}
        for holder in victims:
            if holder.key in self._effect_of:
                wanted.setdefault(holder.queue, set()).add(holder.key)
        found: set[str] = set()
        for queue, keys in wanted.items():
            for key in reversed(self._by_queue[queue]):
                if key not in keys or key in self._withdrawn:
                    break
                found.add(key)
        return frozenset(found)

    def withdraw(self, key: str, queue: str) -> tuple[PendingWorkload, int]:
        """Whom to put back, and where its admission is said."""
        self._withdrawn.add(key)
        return self._by_queue[queue].pop(key), self._effect_of.pop(key)


RELEASE_OF_EVICTED = "the release of quota by evicted workload(s)"
NO_LONGER_FITS = "Workload no longer fits after processing another workload"

OnAdmitted = Callable[[PendingWorkload, Assignment], bool]
"""Told of whoever gets quota; whether he is admitted with it, or has to wait for admission checks."""
OnWithdrawn = Callable[[PendingWorkload], None]
"""Told of a workload whose admission is withdrawn before anybody heard of it."""


class CycleEntry(msgspec.Struct, frozen=True):
    waiter: PendingWorkload
    queue: ClusterQueue
    nomination: Nomination

    @property
    def order(self) -> tuple[bool, int, tuple[int, float, str]]:
        """Those for whom others went come first, so that what was freed is theirs after a restart, too."""
        return not self.waiter.is_preemptor, self.nomination.assignment.borrow, self.waiter.order


class AdmissionCycle:
    def __init__(
        self,
        book: QuotaLedger,
        queueing: QueueManager,
        queues: Mapping[str, ClusterQueue],
        flavors: Mapping[str, ResourceFlavor],
        gets: OnAdmitted,
        loses: OnWithdrawn,
    ) -> None:
        self._book = book
        self._queueing = queueing
        self._queues = queues
        self._flavors = flavors
        self._gets = gets
        self._loses = loses
        self._last_assignments = LastAssignments()
        self._told: dict[str, PendingReason] = {}
        self._effects: list[Effect | None] = []  # None: withdrawn
        self._unwritten = UnwrittenAdmissions()
        self._rejoined: set[str] = set()  # queues to which a workload came back in this round
        self._for_a_round: list[tuple[str, Usage]] = []
        self._claimants: dict[str, str] = {}  # by queue: who of it has a claim
        self._skipped: list[CycleEntry] = []
        self._decisions = 0
        self._has_moved = False

    def run(self, now_s: float, rounds: int | None = None) -> list[Effect]:
        """All rounds there are, or so many at most."""
        left = -1 if rounds is None else rounds
        while left and (ready := self._queueing.ready()):
            trees: dict[str, list[str]] = {}
            for name in ready:
                trees.setdefault(self._book.tree_of(name), []).append(name)
            for tree in sorted(trees):
                while left and (still := [name for name in trees[tree] if self._queueing.is_ready(name)]):
                    self._round(tree, still, now_s)
                    left -= 1
        effects, self._effects = self._effects, []
        self._unwritten = UnwrittenAdmissions()
        return [each for each in effects if each is not None]

    def forget(self, key: str) -> None:
        """The workload is another one now, or gone, or lost its turn: what was found out about it counts no more."""
        self._drop(key)
        self._queueing.release_head(key)
        self._last_assignments.forget(key)
        self._told.pop(key, None)

    def _round(self, tree: str, ready: Iterable[str], now_s: float) -> None:
        self._wake_held_queues()
        joining = [name for name in self._queueing.holding_place() if self._book.tree_of(name) == tree]
        entries = [entry for name in (*ready, *joining) if (entry := self._nominate_head(name)) is not None]
        self._skipped, self._has_moved = [], False
        self._rejoined.clear()
        for entry in sorted(entries, key=lambda each: each.order):
            if (
                entry.queue.name not in self._rejoined
            ):  # else its first is another one: it is looked at in the next round
                self._serve(entry, now_s)
        for queue, usage in self._for_a_round:
            self._book.simulate_usage(queue, usage, -1)
        self._for_a_round.clear()
        if not self._has_moved:
            self._give_up()

    def _give_up(self) -> None:
        """Whoever was passed in a round in which nothing moved would be passed in the next one, too."""
        for entry in self._skipped:
            tree = self._book.tree_of(entry.queue.name)
            usage = entry.nomination.assignment.usage
            topics: list[Topic] = [("tree", tree), ("held", tree), *(("freed", tree, *fr) for fr in sorted(usage))]
            wakers = tuple(ClusterEventWithHint(topic) for topic in topics)
            self._queueing.park(entry.waiter, PendingReason(names.WAITING_FOR_QUOTA, NO_LONGER_FITS), wakers)

    def _wake_held_queues(self) -> None:
        """Queues that kept their place in rounds do so no longer."""
        trees = {self._book.tree_of(name) for name in self._queueing.released_places()}
        self._queueing.wake([("held", tree) for tree in sorted(trees)])

    def _nominate_head(self, queue: str) -> CycleEntry | None:
        waiter, spec = self._queueing.head(queue), self._queues.get(queue)
        if waiter is None or spec is None:
            return None
        claimant = self._claimants.get(queue, waiter.key)
        if claimant != waiter.key:
            self._drop(claimant)  # another workload comes first; the freed quota belongs to the queue
        return CycleEntry(waiter, spec, self._nominate(waiter, spec))

    def _claim(self, waiter: PendingWorkload, usage: Usage) -> None:
        self._book.claim(waiter.key, QuotaClaim(waiter.queue, usage))
        self._claimants[waiter.queue] = waiter.key

    def _drop(self, key: str) -> None:
        claim = self._book.claim_of(key)
        if claim is not None:
            self._book.claim(key, None)
            self._drop_claim(key, claim)

    def _drop_claim(self, key: str, claim: QuotaClaim) -> None:
        if self._claimants.get(claim.queue) == key:
            del self._claimants[claim.queue]
        tree = self._book.tree_of(claim.queue)
        self._queueing.wake([("freed", tree, *fr) for fr in sorted(claim.usage)])

    def _nominate(self, waiter: PendingWorkload, spec: ClusterQueue) -> Nomination:
        """As if its claim were not there: what it waits for is its own."""
        claim = self._book.claim_of(waiter.key)
        self._book.claim(waiter.key, None)
        tried = self._last_assignments.begin(waiter.key)
        found = nominate(self._book, spec, self._flavors, waiter.workload, waiter.order_s, tried)
        self._book.claim(waiter.key, claim)
        return found

    def _serve(self, entry: CycleEntry, now_s: float) -> None:
        key = entry.waiter.key
        claim = self._book.claim_of(key)
        self._book.claim(key, None)
        is_late = any(self._is_going(target) for target in entry.nomination.targets)
        if is_late:
            entry = CycleEntry(entry.waiter, entry.queue, self._nominate(entry.waiter, entry.queue))
        assignment, targets = entry.nomination.assignment, entry.nomination.targets
        match assignment.mode:
            case AssignmentMode.FIT if self._book.fits(entry.queue.name, assignment.usage):
                self._admit(entry, now_s)
            case AssignmentMode.PREEMPT if targets and self._would_fit(entry):
                self._preempt(entry, now_s)
            case AssignmentMode.DEFERRED:
                self._defer(entry, claim)
            case AssignmentMode.PREEMPT if not targets and not is_late:
                self._refuse(entry, names.WAITING_FOR_QUOTA, self._keep_place(entry))
            case AssignmentMode.NO_FIT if not is_late:
                self._refuse(entry, assignment.pending_reason or names.NO_MATCHING_FLAVOR)
            case _:
                self._skip(entry, claim)
        if claim is not None and self._book.claim_of(key) is None:
            self._drop_claim(key, claim)

    def _admit(self, entry: CycleEntry, now_s: float) -> None:
        waiter, assignment = entry.waiter, entry.nomination.assignment
        workload = waiter.workload
        usage = {fr: amount for fr, amount in assignment.usage.items() if amount}
        self._decide()
        self.forget(waiter.key)
        self._queueing.remove(waiter.key)
        turn = len(self._effects)
        leaving = self._book.occupancy.leaving_for(waiter.queue, usage, now_s)
        holder = QuotaHolder(waiter.key, workload.uid, waiter.queue, usage, workload.priority, waiter.order_s, now_s)
        self._book.put(msgspec.structs.replace(holder, cycle_order=turn, is_waiting=leaving is not None))
        self._unwritten.add(waiter, turn)
        self._tell_of_borrowing(waiter.queue, usage)
        is_admitted = self._gets(waiter, assignment)
        since_s = max(workload.created_s, _since_s(waiter))
        admission = assignment.admission(waiter.queue)
        waits_for = "" if leaving is None else describe_terminating(leaving)
        waited_s = max(now_s - since_s, 0.0)
        self._effects.append(Admit(waiter.key, workload.uid, admission, is_admitted, waited_s, waits_for))

    def _tell_of_borrowing(self, queue: str, usage: Usage) -> None:
        """Who reclaims may have somebody to reclaim from now."""
        node, tree = self._book.ahead.queue(queue), self._book.tree_of(queue)
        borrowed = [] if node is None else [fr for fr in sorted(usage) if node.borrows_with(fr)]
        if borrowed:
            self._queueing.wake([("borrowed", tree, *fr) for fr in borrowed])

    def _preempt(self, entry: CycleEntry, now_s: float) -> None:
        waiter, (assignment, targets) = entry.waiter, (entry.nomination.assignment, entry.nomination.targets)
        path = self.path(waiter.queue)
        withdrawable = self._unwritten.withdrawable(target.holder for target in targets)
        for target in targets:
            holder = target.holder
            if holder.key in withdrawable:
                self._withdraw(holder)
                continue
            self._book.put(msgspec.structs.replace(holder, is_evicted=True))
            message = (
                f"Preempted to accommodate a workload (UID: {waiter.workload.uid or 'UNKNOWN'}, "
                f"JobUID: {waiter.workload.job_uid or 'UNKNOWN'}) due to {names.PREEMPTION_WORDS[target.reason]}; "
                f"preemptor path: {path}; preemptee path: {self.path(holder.queue)}"
            )
            self._effects.append(Evict(holder.key, holder.uid, names.BY_PREEMPTION, message, target.reason, waiter.key))
        if self._book.fits(waiter.queue, assignment.usage):
            self._admit(entry, now_s)  # it fits now; the workload it was reserved for gets the victims' quota
            return
        self._claim(waiter, assignment.usage)
        evicted = len(targets) - len(withdrawable)
        pending = f"the preemption of {evicted} workload(s)" if evicted else RELEASE_OF_EVICTED
        self._wait_for_others(
            entry, PendingReason(names.WAITING_FOR_PREEMPTED, f"{assignment.message}. Pending {pending}")
        )

    def _withdraw(self, holder: QuotaHolder) -> None:
        """No write was asked for: the workload goes on waiting, and what it would have held is free at once."""
        waiter, effect = self._unwritten.withdraw(holder.key, holder.queue)
        self._effects[effect] = None
        self._book.remove(holder.key)
        self._loses(waiter)
        self._queueing.add(waiter)
        self._rejoined.add(holder.queue)
        tree = self._book.tree_of(holder.queue)
        self._queueing.wake([("freed", tree, *fr) for fr in sorted(holder.usage)])

    def _defer(self, entry: CycleEntry, claim: QuotaClaim | None) -> None:
        """Nothing to be done but to wait. Who evicted others for it keeps what they leave; who did not has no more
        right to it than others, once the round is over."""
        usage, message = entry.nomination.assignment.usage, entry.nomination.assignment.message
        if claim is not None or entry.waiter.is_preemptor:
            self._claim(entry.waiter, usage)
            pending = PendingReason(names.WAITING_FOR_PREEMPTED, message)
            self._wait_for_others(entry, self._told.get(entry.waiter.key) or _shown(entry.waiter) or pending)
            return
        self._hold_for_a_round(entry.queue.name, usage)
        self._wait_for_others(entry, PendingReason(names.WAITING_FOR_QUOTA, f"{message}. Pending {RELEASE_OF_EVICTED}"))

    def _wait_for_others(self, entry: CycleEntry, reason: PendingReason) -> None:
        self._decide()
        self._queueing.hold_head(entry.waiter, reason, self._helpers(entry), sticks=True)
        self._set_pending_reason(entry.waiter, reason)

    def _refuse(self, entry: CycleEntry, why: str, joins: bool = False) -> None:
        assignment = entry.nomination.assignment
        reason = PendingReason(why, assignment.message)
        if self._queueing.is_ready(entry.queue.name):  # else it only kept its place
            if self._last_assignments.goes_on(entry.waiter.key, assignment, reason):
                self._has_moved = True
                return
            if self._last_assignments.restarts(entry.waiter.key):
                self._has_moved = True
                return
            self._decide()
        reason = self._last_assignments.first_reason(entry.waiter.key) or reason
        self._queueing.park(entry.waiter, reason, self._helpers(entry, is_idle=True), joins)
        self._set_pending_reason(entry.waiter, reason)

    def _decide(self) -> None:
        self._has_moved = True
        self._decisions += 1

    def _skip(self, entry: CycleEntry, claim: QuotaClaim | None) -> None:
        """Somebody else was faster in this round; in the next one the search goes on where it stopped."""
        self._book.claim(entry.waiter.key, claim)
        if self._last_assignments.skipped(entry.waiter.key, entry.nomination.assignment, self._decisions):
            self._has_moved = True
        self._skipped.append(entry)
        if claim is None:
            self._set_pending_reason(entry.waiter, PendingReason(names.WAITING_FOR_QUOTA, NO_LONGER_FITS))

    def _keep_place(self, entry: CycleEntry) -> bool:
        """A queue that cannot always take back what it lent lets nobody else have it in this round."""
        if entry.queue.preemption.reclaim_within_cohort == names.ANY:
            return False
        node = self._book.ahead.queue(entry.queue.name)
        if node is None:
            return False
        kept: dict[FlavorResource, int] = {}
        for fr, amount in entry.nomination.assignment.usage.items():
            quota, limit = node.quota(fr), None
            if not entry.nomination.assignment.borrow:
                limit = quota.nominal
            elif quota.borrowing_limit is not None:
                limit = quota.nominal + quota.borrowing_limit
            kept[fr] = amount if limit is None else max(0, min(amount, limit - node.usage.get(fr, 0)))
        self._hold_for_a_round(entry.queue.name, kept)
        return True

    def _hold_for_a_round(self, queue: str, usage: Usage) -> None:
        self._book.simulate_usage(queue, usage, +1)
        self._for_a_round.append((queue, usage))

    def _is_going(self, target: PreemptionTarget) -> bool:
        holder = self._book.get(target.holder.key)
        return holder is None or holder.is_evicted

    def _would_fit(self, entry: CycleEntry) -> bool:
        node = self._book.ahead.queue(entry.queue.name)
        if node is None:
            return False
        for target in entry.nomination.targets:
            self._book.simulate_usage(target.holder.queue, target.holder.usage, -1)
        found = fits(node, entry.nomination.assignment.usage)
        for target in entry.nomination.targets:
            self._book.simulate_usage(target.holder.queue, target.holder.usage, +1)
        return found

    def _helpers(self, entry: CycleEntry, is_idle: bool = False) -> RegisteredEvents:
        """What could help: that something of what there is too little of comes free in the tree, or other quotas.

        ``is_idle``: nothing is on its way. Then a queue that evicts nobody is not helped by less than what is asked;
        and the first of a strict queue, whom nobody passes, looks again when somebody borrows what it may reclaim."""
        tree, name = self._book.tree_of(entry.queue.name), entry.queue.name
        short = self._last_assignments.lacks(entry.waiter.key, entry.nomination.assignment)
        policy = entry.queue.preemption
        is_patient = (policy.within_cluster_queue, policy.reclaim_within_cohort) == (names.NEVER, names.NEVER)
        least: dict[str, int] = {}
        if is_idle and is_patient and not can_reduce_counts(entry.waiter.workload):
            for one in entry.nomination.assignment.pod_sets:
                for resource, amount in one.requests.items():
                    least[resource] = min(amount, least.get(resource, amount))
        reclaims = is_idle and entry.queue.is_strict and policy.reclaim_within_cohort != names.NEVER
        return (
            ClusterEventWithHint(("tree", tree)),
            *(ClusterEventWithHint(("borrowed", tree, *fr)) for fr in sorted(short) if reclaims),
            *(
                ClusterEventWithHint(
                    ("freed", tree, *fr), EnoughQuota(name, fr, least[fr[1]]) if fr[1] in least else None
                )
                for fr in sorted(short)
            ),
        )

    def _set_pending_reason(self, waiter: PendingWorkload, reason: PendingReason) -> None:
        """Once: what the API was told to show, or shows to who starts anew, is not written again."""
        before = self._told.get(waiter.key)
        if before == reason:
            return
        self._told[waiter.key] = reason
        workload = waiter.workload
        shown = None if before is not None else workload.conditions.get(names.QUOTA_RESERVED)
        if shown is not None and (shown.is_true, shown.reason, shown.message) == (False, reason.reason, reason.message):
            return
        uid = workload.uid
        self._effects.append(SetCondition(waiter.key, uid, names.QUOTA_RESERVED, False, reason.reason, reason.message))
        self._effects.append(EmitWorkloadEvent(waiter.key, uid, True, reason.reason, reason.message))

    def path(self, queue: str) -> str:
        node = self._book.now.queue(queue)
        listed = [queue] if node is None else [each.name for each in node.path()]
        return "/" + "/".join(reversed(listed))


def _shown(waiter: PendingWorkload) -> PendingReason | None:
    shown = waiter.workload.conditions.get(names.QUOTA_RESERVED)
    return PendingReason(shown.reason, shown.message) if shown is not None and waiter.is_preemptor else None


def _since_s(waiter: PendingWorkload) -> float:
    requeued = waiter.workload.conditions.get(names.REQUEUED)
    return 0.0 if requeued is None else requeued.since_s
