"""The admission cycle: rounds that nominate the head of every queue, and then admit it or evict others for it.

In a round all heads are nominated with the usage at the start of the round, then processed in order: less borrowing,
higher priority, longer wait. Each admission counts for the entries after it. Rounds follow each other without waiting
for writes until no head is left. The queues of different trees (a root cohort with all queues below it) do not affect
each other.

A round considers one workload per queue, so a queue may lend quota in one round and reclaim it in the next. The
borrower's admission is then *withdrawn*: it is undone before it is written, which saves an admission and an eviction. A
workload is withdrawn at most once per cycle, and together with all later admissions of its queue, so that the order of
the queue is kept. ``nomination.py`` nominates.

Parked workloads register these topics: ``("tree", tree)``: quotas of the tree changed; ``("freed", tree, flavor,
resource)``: quota was released; ``("borrowed", tree, flavor, resource)``: another queue began to borrow it;
``("reserved", tree)``: a queue no longer reserves quota in a round; ``("line", queue)``: another workload is the first
in the line of a queue, or it needs no protection any more (``line_protection.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from headgate.quota import names
from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.quota_reservation import QuotaHolder
from headgate.quota.api.resource_flavor import ResourceFlavor
from headgate.quota.api.resource_groups import FlavorResource, Usage
from headgate.quota.cache.occupancy import describe_terminating
from headgate.quota.cache.quota_ledger import QuotaClaim, QuotaLedger, fits
from headgate.quota.cycle.last_assignments import LastAssignments
from headgate.quota.cycle.line_protection import LineProtection, WorkloadDelay
from headgate.quota.cycle.nomination import Nomination, can_be_admitted, can_reduce_counts, nominate
from headgate.quota.effects import Admit, Effect, EmitWorkloadEvent, Evict, SetCondition
from headgate.quota.flavors.assignment import Assignment, AssignmentMode
from headgate.quota.preemption.targets import PreemptionTarget
from headgate.quota.queues.queue_manager import EnoughQuota, PendingReason, PendingWorkload, QueueManager
from headgate.waiting.parking_lot import RegisteredEvents
from headgate.waiting.queueing_hints import ClusterEventWithHint, Topic


class UnwrittenAdmissions:
    """The admissions of the present cycle, which are not written to the API yet and can be withdrawn."""

    def __init__(self) -> None:
        self._by_queue: dict[str, dict[str, PendingWorkload]] = {}  # in the order of admission
        self._effect_of: dict[str, int] = {}
        self._withdrawn: set[str] = set()

    def add(self, pending: PendingWorkload, effect: int) -> None:
        """Records an admission. ``effect``: the index of its effect in the effects of the cycle."""
        self._effect_of[pending.key] = effect
        self._by_queue.setdefault(pending.queue, {})[pending.key] = pending

    def withdrawable(self, victims: Iterable[QuotaHolder]) -> frozenset[str]:
        """The keys of the victims whose admission can be withdrawn. The cost is proportional to the victims."""
        victims_by_queue: dict[str, set[str]] = {}
        for holder in victims:
            if holder.key in self._effect_of:
                victims_by_queue.setdefault(holder.queue, set()).add(holder.key)
        found: set[str] = set()
        for queue, keys in victims_by_queue.items():
            for key in reversed(self._by_queue[queue]):
                if key not in keys or key in self._withdrawn:
                    break
                found.add(key)
        return frozenset(found)

    def withdraw(self, key: str, queue: str) -> tuple[PendingWorkload, int]:
        """Returns the workload, which the caller adds to its queue again, and the index of its effect."""
        self._withdrawn.add(key)
        return self._by_queue[queue].pop(key), self._effect_of.pop(key)


RELEASE_OF_EVICTED = "the release of quota by evicted workload(s)"
_NOT_TRIED = PendingReason(names.PENDING_EVALUATION, "The workload waits behind others in its ClusterQueue")
NO_LONGER_FITS = "Workload no longer fits after processing another workload"

OnAdmitted = Callable[[PendingWorkload, Assignment], bool]
"""Called for each workload that gets quota. Returns whether it is admitted, or waits for admission checks."""
OnWithdrawn = Callable[[PendingWorkload], None]
"""Called for each workload whose admission is withdrawn before it was written."""


class CycleEntry(msgspec.Struct, frozen=True):
    """The head of a queue in a round, with its nomination. ``delays``: why it was not nominated in other flavors."""

    pending: PendingWorkload
    queue: ClusterQueue
    nomination: Nomination
    delays: Sequence[WorkloadDelay] = ()

    @property
    def is_held_back(self) -> bool:
        """Whether it would delay a protected workload in each flavor that has quota."""
        return bool(self.delays) and not can_be_admitted(self.nomination)

    @property
    def order(self) -> tuple[int, tuple[int, float, str]]:
        return self.nomination.assignment.borrow, self.pending.order


class AdmissionCycle:
    """Its state is kept between cycles: claims, reported reasons, and where flavor searches stopped."""

    def __init__(
        self,
        ledger: QuotaLedger,
        queue_manager: QueueManager,
        queues: Mapping[str, ClusterQueue],
        flavors: Mapping[str, ResourceFlavor],
        on_admitted: OnAdmitted,
        on_withdrawn: OnWithdrawn,
    ) -> None:
        self._ledger = ledger
        self._queue_manager = queue_manager
        self._queues = queues
        self._flavors = flavors
        self._on_admitted = on_admitted
        self._on_withdrawn = on_withdrawn
        self._last_assignments = LastAssignments()
        self._line_protection = LineProtection(ledger, queue_manager, queues, flavors)
        self._reported: dict[str, PendingReason] = {}  # by workload: the reason that was last written
        self._outdated: dict[str, None] = {}  # workloads whose condition may say what is not true any more
        self._effects: list[Effect | None] = []  # None: a withdrawn admission
        self._unwritten = UnwrittenAdmissions()
        self._queues_with_withdrawal: set[str] = set()  # in this round
        self._reserved_in_round: list[tuple[str, Usage]] = []
        self._claimants: dict[str, str] = {}  # by queue: the workload that has a claim
        self._skipped: list[CycleEntry] = []
        self._decisions = 0  # the number of decisions so far
        self._has_progressed = False  # whether this round made a decision or continued a flavor search

    def run(self, now_s: float, rounds: int | None = None) -> list[Effect]:
        """Runs rounds until no queue has a head to try, or at most ``rounds`` rounds."""
        rounds_left = -1 if rounds is None else rounds
        self._line_protection.wake_after_later_starts(now_s)
        while rounds_left and (ready := self._queue_manager.ready()):
            trees: dict[str, list[str]] = {}
            for name in ready:
                trees.setdefault(self._ledger.tree_of(name), []).append(name)
            for tree in sorted(trees):
                while rounds_left and (
                    ready_queues := [name for name in trees[tree] if self._queue_manager.is_ready(name)]
                ):
                    self._round(tree, ready_queues, now_s)
                    rounds_left -= 1
        self._correct_outdated()
        effects, self._effects = self._effects, []
        self._unwritten = UnwrittenAdmissions()
        return [each for each in effects if each is not None]

    def quotas_changed(self) -> None:
        """Quotas, flavors or options of queues changed."""
        self._line_protection.reset()

    def recheck_condition(self, key: str) -> None:
        """The condition of a pending workload may be outdated: it is corrected at the end of the cycle, also if the
        workload is not tried."""
        self._outdated[key] = None

    def nominate_pending(self, pending: PendingWorkload, now_s: float) -> tuple[Nomination, WorkloadDelay | None]:
        """The nomination of a workload if it were tried now, and why it may not get the quota that there is for it.
        Nothing is changed."""
        spec, claim = self._queues[pending.queue], self._ledger.claim_of(pending.key)
        self._ledger.claim(pending.key, None)
        nomination = nominate(self._ledger, spec, self._flavors, pending.workload, pending.order_s)
        entry = self._avoid_delay(CycleEntry(pending, spec, nomination), claim, now_s)
        self._ledger.claim(pending.key, claim)
        return (nomination, entry.delays[0]) if entry.is_held_back else (entry.nomination, None)

    def forget(self, key: str) -> None:
        """Drops all state of a workload that was admitted, changed, was deleted, or left its queue."""
        self._drop_claim_of(key)
        self._queue_manager.release_head(key)
        self._last_assignments.forget(key)
        self._reported.pop(key, None)
        self._outdated.pop(key, None)

    def _round(self, tree: str, ready: Iterable[str], now_s: float) -> None:
        self._wake_after_reservations()
        reserving = [name for name in self._queue_manager.reserving_queues() if self._ledger.tree_of(name) == tree]
        entries = [entry for name in (*ready, *reserving) if (entry := self._nominate_head(name)) is not None]
        self._skipped, self._has_progressed = [], False
        self._queues_with_withdrawal.clear()
        # Preemptors come first, so that they get the quota of their victims also after a restart.
        for entry in sorted(entries, key=lambda each: (not self._is_preemptor(each.pending), each.order)):
            # After a withdrawal another workload may be the head of the queue: the next round nominates it.
            if entry.queue.name not in self._queues_with_withdrawal:
                self._process(entry, now_s)
        for queue, usage in self._reserved_in_round:
            self._ledger.simulate_usage(queue, usage, -1)
        self._reserved_in_round.clear()
        if not self._has_progressed:
            self._park_skipped()
        self._line_protection.wake_after_later_starts(now_s)

    def _park_skipped(self) -> None:
        """Parks the skipped workloads of a round without progress: the next round would skip them again."""
        for entry in self._skipped:
            tree = self._ledger.tree_of(entry.queue.name)
            usage = entry.nomination.assignment.usage
            topics: list[Topic] = [("tree", tree), ("reserved", tree), *(("freed", tree, *fr) for fr in sorted(usage))]
            wakers = tuple(ClusterEventWithHint(topic) for topic in topics)
            self._queue_manager.park(entry.pending, PendingReason(names.WAITING_FOR_QUOTA, NO_LONGER_FITS), wakers)

    def _wake_after_reservations(self) -> None:
        """Wakes workloads that waited because other queues reserved quota in each round and no longer do."""
        trees = {self._ledger.tree_of(name) for name in self._queue_manager.no_longer_reserving()}
        self._queue_manager.wake([("reserved", tree) for tree in sorted(trees)])

    def _nominate_head(self, queue: str) -> CycleEntry | None:
        pending, spec = self._queue_manager.head(queue), self._queues.get(queue)
        if pending is None or spec is None:
            return None
        claimant = self._claimants.get(queue, pending.key)
        if claimant != pending.key:
            self._drop_claim_of(claimant)  # another workload is the head now: the freed quota is for the queue
        return CycleEntry(pending, spec, self._nominate(pending, spec))

    def _claim(self, pending: PendingWorkload, usage: Usage, *, has_reclaimed: bool) -> None:
        self._ledger.claim(pending.key, QuotaClaim(pending.queue, usage, has_reclaimed))
        self._claimants[pending.queue] = pending.key
        self._queue_manager.wake([("line", pending.queue)])

    def _drop_claim_of(self, key: str) -> None:
        claim = self._ledger.claim_of(key)
        if claim is not None:
            self._ledger.claim(key, None)
            self._drop_claim(key, claim)

    def _drop_claim(self, key: str, claim: QuotaClaim) -> None:
        if self._claimants.get(claim.queue) == key:
            del self._claimants[claim.queue]
        tree = self._ledger.tree_of(claim.queue)
        self._queue_manager.wake([("freed", tree, *fr) for fr in sorted(claim.usage)])

    def _nominate(self, pending: PendingWorkload, spec: ClusterQueue) -> Nomination:
        """Nominates the workload as if it had no claim, because the claimed quota is for this workload itself."""
        claim = self._ledger.claim_of(pending.key)
        self._ledger.claim(pending.key, None)
        tried = self._last_assignments.start(pending.key)
        found = nominate(self._ledger, spec, self._flavors, pending.workload, pending.order_s, tried)
        self._ledger.claim(pending.key, claim)
        return found

    def _process(self, entry: CycleEntry, now_s: float) -> None:
        """Acts on the nomination of a head: admits it, evicts others for it, or lets it wait."""
        key = entry.pending.key
        claim = self._ledger.claim_of(key)
        self._ledger.claim(key, None)
        is_stale = any(self._is_evicted(target) for target in entry.nomination.targets)
        if is_stale:
            entry = CycleEntry(entry.pending, entry.queue, self._nominate(entry.pending, entry.queue))
        entry = self._avoid_delay(entry, claim, now_s)
        assignment, targets = entry.nomination.assignment, entry.nomination.targets
        match assignment.mode:
            case _ if entry.is_held_back:
                self._hold_back(entry)
            case AssignmentMode.FIT if self._ledger.fits(entry.queue.name, assignment.usage):
                self._admit(entry, now_s, has_reclaimed=claim is not None and claim.has_reclaimed)
            case AssignmentMode.PREEMPT if targets and self._would_fit(entry):
                self._preempt(entry, now_s)
            case AssignmentMode.DEFERRED:
                self._defer(entry, claim)
            case AssignmentMode.PREEMPT if not targets and not is_stale:
                self._reject(entry, names.WAITING_FOR_QUOTA, self._reserve_capacity(entry))
            case AssignmentMode.NO_FIT if not is_stale:
                self._reject(entry, assignment.pending_reason or names.NO_MATCHING_FLAVOR)
            case _:
                self._skip(entry, claim)
        if claim is not None and self._ledger.claim_of(key) is None:
            self._drop_claim(key, claim)

    def _admit(self, entry: CycleEntry, now_s: float, *, has_reclaimed: bool) -> None:
        pending, assignment = entry.pending, entry.nomination.assignment
        workload = pending.workload
        usage = {fr: amount for fr, amount in assignment.usage.items() if amount}
        self._count_decision()
        self.forget(pending.key)
        self._queue_manager.remove(pending.key)
        cycle_order = len(self._effects)
        terminating = self._ledger.occupancy.terminating_ahead(pending.queue, usage, now_s)
        is_waiting = terminating is not None
        ends_s = self._line_protection.limit_end_s(pending, assignment, now_s, waits_for_pods=is_waiting)
        self._ledger.put(
            QuotaHolder(
                pending.key,
                workload.uid,
                pending.queue,
                usage,
                workload.priority,
                pending.order_s,
                now_s,
                cycle_order=cycle_order,
                is_waiting=is_waiting,
                ends_s=ends_s,
                grace_s=workload.grace_s if ends_s is not None else 0,
                has_reclaimed=has_reclaimed,
            )
        )
        self._unwritten.add(pending, cycle_order)
        self._wake_reclaimers(pending.queue, usage)
        is_admitted = self._on_admitted(pending, assignment)
        since_s = max(workload.created_s, _requeued_s(pending))
        admission = assignment.admission(pending.queue)
        waits_for = "" if terminating is None else describe_terminating(terminating)
        waited_s = max(now_s - since_s, 0.0)
        self._effects.append(Admit(pending.key, workload.uid, admission, is_admitted, waited_s, waits_for))

    def _wake_reclaimers(self, queue: str, usage: Usage) -> None:
        """Wakes workloads that may reclaim quota which this queue borrows now."""
        node, tree = self._ledger.after_evictions.queue(queue), self._ledger.tree_of(queue)
        borrowed = [] if node is None else [fr for fr in sorted(usage) if node.borrows_with(fr)]
        if borrowed:
            self._queue_manager.wake([("borrowed", tree, *fr) for fr in borrowed])

    def _preempt(self, entry: CycleEntry, now_s: float) -> None:
        pending, (assignment, targets) = entry.pending, (entry.nomination.assignment, entry.nomination.targets)
        path = self.path(pending.queue)
        withdrawable = self._unwritten.withdrawable(target.holder for target in targets)
        has_reclaimed = any(target.holder.queue != pending.queue for target in targets)
        for target in targets:
            holder = target.holder
            if holder.key in withdrawable:
                self._withdraw(holder)
                continue
            self._ledger.put(msgspec.structs.replace(holder, is_evicted=True))
            message = (
                f"Preempted to accommodate a workload (UID: {pending.workload.uid or 'UNKNOWN'}, "
                f"JobUID: {pending.workload.job_uid or 'UNKNOWN'}) due to {names.PREEMPTION_WORDS[target.reason]}; "
                f"preemptor path: {path}; preemptee path: {self.path(holder.queue)}"
            )
            self._effects.append(
                Evict(holder.key, holder.uid, names.BY_PREEMPTION, message, target.reason, pending.key)
            )
        if self._ledger.fits(pending.queue, assignment.usage):
            # In quota that is free now; the workload that had a claim to it gets the quota of the victims.
            self._admit(entry, now_s, has_reclaimed=has_reclaimed)
            return
        self._claim(pending, assignment.usage, has_reclaimed=has_reclaimed)
        evicted = len(targets) - len(withdrawable)
        awaited = f"the preemption of {evicted} workload(s)" if evicted else RELEASE_OF_EVICTED
        self._wait_for_evicted(
            entry, PendingReason(names.WAITING_FOR_PREEMPTED, f"{assignment.message}. Pending {awaited}")
        )

    def _withdraw(self, holder: QuotaHolder) -> None:
        """Undoes an admission that is not written yet: the workload is pending again, and its quota is free at once."""
        pending, effect = self._unwritten.withdraw(holder.key, holder.queue)
        self._effects[effect] = None
        self._ledger.remove(holder.key)
        self._on_withdrawn(pending)
        self._queue_manager.add(pending)
        self._queues_with_withdrawal.add(holder.queue)
        tree = self._ledger.tree_of(holder.queue)
        self._queue_manager.wake([("freed", tree, *fr) for fr in sorted(holder.usage)])

    def _defer(self, entry: CycleEntry, claim: QuotaClaim | None) -> None:
        """The workload fits when evicted workloads have ended. A preemptor keeps its claim to their quota; for another
        workload the quota is reserved only in this round."""
        usage, message = entry.nomination.assignment.usage, entry.nomination.assignment.message
        if claim is not None or self._is_preemptor(entry.pending):
            self._claim(entry.pending, usage, has_reclaimed=claim is not None and claim.has_reclaimed)
            reason = PendingReason(names.WAITING_FOR_PREEMPTED, message)
            self._wait_for_evicted(
                entry, self._reported.get(entry.pending.key) or _written_reason(entry.pending) or reason
            )
            return
        self._reserve_in_round(entry.queue.name, usage)
        self._wait_for_evicted(
            entry, PendingReason(names.WAITING_FOR_QUOTA, f"{message}. Pending {RELEASE_OF_EVICTED}")
        )

    def _wait_for_evicted(self, entry: CycleEntry, reason: PendingReason) -> None:
        self._count_decision()
        self._queue_manager.hold_head(entry.pending, reason, self._waking_events(entry), is_sticky=True)
        self._set_pending_reason(entry.pending, reason)

    def _avoid_delay(self, entry: CycleEntry, claim: QuotaClaim | None, now_s: float) -> CycleEntry:
        """The head with a nomination that delays no protected workload, if there is one. Quota that other heads reserve
        in this round counts as free: the next round has these reservations no more."""
        if not self._queue_manager.protecting_queues():
            return entry
        for queue, usage in self._reserved_in_round:
            self._ledger.simulate_usage(queue, usage, -1)
        claimed = {} if claim is None else claim.usage
        nomination, delays = self._line_protection.avoid_delay(entry.pending, entry.nomination, claimed, now_s)
        for queue, usage in self._reserved_in_round:
            self._ledger.simulate_usage(queue, usage, +1)
        found = CycleEntry(entry.pending, entry.queue, nomination, delays)
        if found.is_held_back and claim is None and self._is_preempting(entry.pending):
            return entry  # an earlier process evicted workloads for it: which quota they release is not known
        return found

    def _is_preemptor(self, pending: PendingWorkload) -> bool:
        """Whether workloads were evicted for it, maybe by an earlier process. The reason that this process wrote last
        counts before the condition, which the watch may show later."""
        reported = self._reported.get(pending.key)
        return pending.is_preemptor if reported is None else reported.reason == names.WAITING_FOR_PREEMPTED

    def _is_preempting(self, pending: PendingWorkload) -> bool:
        """Whether workloads were evicted for it and it is still its turn."""
        return self._is_preemptor(pending) and self._queue_manager.stays_head(pending.key)

    def _hold_back(self, entry: CycleEntry) -> None:
        """Parks a workload for which there is quota, because it would delay the first in the line of a queue."""
        pending = entry.pending
        reason = PendingReason(names.FIRST_IN_LINE_PROTECTED, entry.delays[0].message)
        self._count_decision()
        self._last_assignments.forget(pending.key)
        self._queue_manager.park(pending, reason, self._waking_events(entry))
        self._set_pending_reason(pending, reason)

    def _reject(self, entry: CycleEntry, reason_name: str, is_reserving: bool = False) -> None:
        """Parks the workload, unless the next round continues or restarts its search for a flavor."""
        assignment = entry.nomination.assignment
        reason = PendingReason(reason_name, assignment.message)
        if self._queue_manager.is_ready(entry.queue.name):  # otherwise it is in this round only to reserve quota
            if self._last_assignments.continues(entry.pending.key, assignment, reason):
                self._has_progressed = True
                return
            if self._last_assignments.restarts(entry.pending.key):
                self._has_progressed = True
                return
            self._count_decision()
        reason = self._last_assignments.first_reason(entry.pending.key) or reason
        self._queue_manager.park(entry.pending, reason, self._waking_events(entry, is_rejected=True), is_reserving)
        self._set_pending_reason(entry.pending, reason)

    def _count_decision(self) -> None:
        self._has_progressed = True
        self._decisions += 1

    def _skip(self, entry: CycleEntry, claim: QuotaClaim | None) -> None:
        """Another workload got the quota in this round. The next round continues the flavor search."""
        self._ledger.claim(entry.pending.key, claim)
        if self._last_assignments.skipped(entry.pending.key, entry.nomination.assignment, self._decisions):
            self._has_progressed = True
        self._skipped.append(entry)
        if claim is None:
            self._set_pending_reason(entry.pending, PendingReason(names.WAITING_FOR_QUOTA, NO_LONGER_FITS))

    def _reserve_capacity(self, entry: CycleEntry) -> bool:
        """Reserves the quota of a head that has no preemption targets in this round, if its queue cannot always reclaim
        what it lends (as in Kueue). Returns whether it did."""
        if entry.queue.preemption.reclaim_within_cohort == names.ANY:
            return False
        node = self._ledger.after_evictions.queue(entry.queue.name)
        if node is None:
            return False
        reserved: dict[FlavorResource, int] = {}
        for fr, amount in entry.nomination.assignment.usage.items():
            quota, limit = node.quota(fr), None
            if not entry.nomination.assignment.borrow:
                limit = quota.nominal
            elif quota.borrowing_limit is not None:
                limit = quota.nominal + quota.borrowing_limit
            reserved[fr] = amount if limit is None else max(0, min(amount, limit - node.usage.get(fr, 0)))
        self._reserve_in_round(entry.queue.name, reserved)
        return True

    def _reserve_in_round(self, queue: str, usage: Usage) -> None:
        self._ledger.simulate_usage(queue, usage, +1)
        self._reserved_in_round.append((queue, usage))

    def _is_evicted(self, target: PreemptionTarget) -> bool:
        holder = self._ledger.get(target.holder.key)
        return holder is None or holder.is_evicted

    def _would_fit(self, entry: CycleEntry) -> bool:
        node = self._ledger.after_evictions.queue(entry.queue.name)
        if node is None:
            return False
        for target in entry.nomination.targets:
            self._ledger.simulate_usage(target.holder.queue, target.holder.usage, -1)
        found = fits(node, entry.nomination.assignment.usage)
        for target in entry.nomination.targets:
            self._ledger.simulate_usage(target.holder.queue, target.holder.usage, +1)
        return found

    def _waking_events(self, entry: CycleEntry, is_rejected: bool = False) -> RegisteredEvents:
        """The events after which an attempt is useful: a missing resource becomes free in the tree, quotas change, or
        the workload would no longer delay a protected one.

        ``is_rejected``: no evicted workload is about to release quota. Then a queue that never preempts needs the whole
        request, and the head of a StrictFIFO queue is also tried when another queue borrows what it may reclaim."""
        tree, name = self._ledger.tree_of(entry.queue.name), entry.queue.name
        short = self._last_assignments.shortage_of(entry.pending.key, entry.nomination.assignment)
        policy = entry.queue.preemption
        smallest: dict[str, int] = {}
        if is_rejected and not policy.is_allowed and not can_reduce_counts(entry.pending.workload):
            for pod_set in entry.nomination.assignment.pod_sets:
                for resource, amount in pod_set.requests.items():
                    smallest[resource] = min(amount, smallest.get(resource, amount))
        reclaims = is_rejected and entry.queue.is_strict and policy.reclaim_within_cohort != names.NEVER
        after_delays = dict.fromkeys(topic for delay in entry.delays for topic in delay.topics(tree))
        return (
            ClusterEventWithHint(("tree", tree)),
            *(ClusterEventWithHint(("borrowed", tree, *fr)) for fr in sorted(short) if reclaims),
            *(
                ClusterEventWithHint(
                    ("freed", tree, *fr), EnoughQuota(name, fr, smallest[fr[1]]) if fr[1] in smallest else None
                )
                for fr in sorted(short)
            ),
            *map(ClusterEventWithHint, after_delays),
        )

    def _set_pending_reason(self, pending: PendingWorkload, reason: PendingReason, *, is_tried: bool = True) -> None:
        """Writes the reason unless it was written before, by this process or by an earlier one. An attempt is reported
        by an Event, too."""
        before = self._reported.get(pending.key)
        if before == reason:
            return
        self._reported[pending.key] = reason
        workload = pending.workload
        shown = None if before is not None else workload.conditions.get(names.QUOTA_RESERVED)
        if shown is not None and (shown.is_true, shown.reason, shown.message) == (False, reason.reason, reason.message):
            return
        uid = workload.uid
        self._effects.append(SetCondition(pending.key, uid, names.QUOTA_RESERVED, False, reason.reason, reason.message))
        if is_tried:
            self._effects.append(EmitWorkloadEvent(pending.key, uid, True, reason.reason, reason.message))

    def _correct_outdated(self) -> None:
        """A workload of a shape that is parked has the reason of its shape. Another one that was not tried has none
        yet."""
        for key in list(self._outdated):
            pending = self._queue_manager.get(key)
            if pending is None:
                del self._outdated[key]
            elif not self._queue_manager.is_ready(pending.queue):
                del self._outdated[key]
                reason = self._queue_manager.tried_reason(key)
                self._set_pending_reason(pending, reason or _NOT_TRIED, is_tried=False)

    def path(self, queue: str) -> str:
        """The path from the root cohort to the queue, for messages."""
        node = self._ledger.now.queue(queue)
        listed = [queue] if node is None else [each.name for each in node.path()]
        return "/" + "/".join(reversed(listed))


def _written_reason(pending: PendingWorkload) -> PendingReason | None:
    shown = pending.workload.conditions.get(names.QUOTA_RESERVED)
    return PendingReason(shown.reason, shown.message) if shown is not None and pending.is_preemptor else None


def _requeued_s(pending: PendingWorkload) -> float:
    requeued = pending.workload.conditions.get(names.REQUEUED)
    return 0.0 if requeued is None else requeued.since_s
