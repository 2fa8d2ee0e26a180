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

    def add(self, pending: PendingWorkload, effect: int) -> None:
        """Records an admission. ``effect``: the index of its effect in the effects of the cycle."""
        self._effect_of[pending.key] = effect
        self._by_queue.setdefault(pending.queue, {})[pending.key] = pending

    def withdrawable(self, victims: Iterable[QuotaHolder]) -> frozenset[str]:
        """The keys of the victims whose admission can be withdrawn. The cost is proportional to the victims."""
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
        """Returns the workload to put back in its queue, and the index of its effect."""
        self._withdrawn.add(key)
        return self._by_queue[queue].pop(key), self._effect_of.pop(key)


RELEASE_OF_EVICTED = "the release of quota by evicted workload(s)"
NO_LONGER_FITS = "Workload no longer fits after processing another workload"

OnAdmitted = Callable[[PendingWorkload, Assignment], bool]
"""Called for each workload that gets quota. Returns whether it is admitted, or waits for admission checks."""
OnWithdrawn = Callable[[PendingWorkload], None]
"""Called for each workload whose admission is withdrawn before it was written."""


class CycleEntry(msgspec.Struct, frozen=True):
    pending: PendingWorkload
    queue: ClusterQueue
    nomination: Nomination

    @property
    def order(self) -> tuple[bool, int, tuple[int, float, str]]:
        """Preemptors come first, so that they get the quota of their victims also after a restart."""
        return not self.pending.is_preemptor, self.nomination.assignment.borrow, self.pending.order


class AdmissionCycle:
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
        self._reported: dict[str, PendingReason] = {}
        self._effects: list[Effect | None] = []  # None: withdrawn
        self._unwritten = UnwrittenAdmissions()
        self._rejoined: set[str] = set()  # queues in which an admission was withdrawn in this round
        self._held_for_round: list[tuple[str, Usage]] = []
        self._claimants: dict[str, str] = {}  # by queue: the workload that has a claim
        self._skipped: list[CycleEntry] = []
        self._decisions = 0
        self._has_progressed = False

    def run(self, now_s: float, rounds: int | None = None) -> list[Effect]:
        """Runs rounds until no queue has a head to try, or at most ``rounds`` rounds."""
        rounds_left = -1 if rounds is None else rounds
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
        effects, self._effects = self._effects, []
        self._unwritten = UnwrittenAdmissions()
        return [each for each in effects if each is not None]

    def forget(self, key: str) -> None:
        """Drops all state of a workload that changed, was deleted, or left its queue."""
        self._drop_claim_of(key)
        self._queue_manager.release_head(key)
        self._last_assignments.forget(key)
        self._reported.pop(key, None)

    def _round(self, tree: str, ready: Iterable[str], now_s: float) -> None:
        self._wake_held_queues()
        holding = [name for name in self._queue_manager.holding_place() if self._ledger.tree_of(name) == tree]
        entries = [entry for name in (*ready, *holding) if (entry := self._nominate_head(name)) is not None]
        self._skipped, self._has_progressed = [], False
        self._rejoined.clear()
        for entry in sorted(entries, key=lambda each: each.order):
            if (
                entry.queue.name not in self._rejoined
            ):  # else its first is another one: it is looked at in the next round
                self._process(entry, now_s)
        for queue, usage in self._held_for_round:
            self._ledger.simulate_usage(queue, usage, -1)
        self._held_for_round.clear()
        if not self._has_progressed:
            self._give_up()

    def _give_up(self) -> None:
        """Parks the skipped workloads of a round without progress: the next round would skip them again."""
        for entry in self._skipped:
            tree = self._ledger.tree_of(entry.queue.name)
            usage = entry.nomination.assignment.usage
            topics: list[Topic] = [("tree", tree), ("held", tree), *(("freed", tree, *fr) for fr in sorted(usage))]
            wakers = tuple(ClusterEventWithHint(topic) for topic in topics)
            self._queue_manager.park(entry.pending, PendingReason(names.WAITING_FOR_QUOTA, NO_LONGER_FITS), wakers)

    def _wake_held_queues(self) -> None:
        """Wakes workloads that waited for queues which held quota in a round and no longer do."""
        trees = {self._ledger.tree_of(name) for name in self._queue_manager.released_places()}
        self._queue_manager.wake([("held", tree) for tree in sorted(trees)])

    def _nominate_head(self, queue: str) -> CycleEntry | None:
        pending, spec = self._queue_manager.head(queue), self._queues.get(queue)
        if pending is None or spec is None:
            return None
        claimant = self._claimants.get(queue, pending.key)
        if claimant != pending.key:
            self._drop_claim_of(claimant)  # another workload comes first; the freed quota belongs to the queue
        return CycleEntry(pending, spec, self._nominate(pending, spec))

    def _claim(self, pending: PendingWorkload, usage: Usage) -> None:
        self._ledger.claim(pending.key, QuotaClaim(pending.queue, usage))
        self._claimants[pending.queue] = pending.key

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
        """Nominates the workload without its own claim, because the claimed quota is for it."""
        claim = self._ledger.claim_of(pending.key)
        self._ledger.claim(pending.key, None)
        tried = self._last_assignments.start(pending.key)
        found = nominate(self._ledger, spec, self._flavors, pending.workload, pending.order_s, tried)
        self._ledger.claim(pending.key, claim)
        return found

    def _process(self, entry: CycleEntry, now_s: float) -> None:
        key = entry.pending.key
        claim = self._ledger.claim_of(key)
        self._ledger.claim(key, None)
        is_stale = any(self._is_evicted(target) for target in entry.nomination.targets)
        if is_stale:
            entry = CycleEntry(entry.pending, entry.queue, self._nominate(entry.pending, entry.queue))
        assignment, targets = entry.nomination.assignment, entry.nomination.targets
        match assignment.mode:
            case AssignmentMode.FIT if self._ledger.fits(entry.queue.name, assignment.usage):
                self._admit(entry, now_s)
            case AssignmentMode.PREEMPT if targets and self._would_fit(entry):
                self._preempt(entry, now_s)
            case AssignmentMode.DEFERRED:
                self._defer(entry, claim)
            case AssignmentMode.PREEMPT if not targets and not is_stale:
                self._refuse(entry, names.WAITING_FOR_QUOTA, self._keep_place(entry))
            case AssignmentMode.NO_FIT if not is_stale:
                self._refuse(entry, assignment.pending_reason or names.NO_MATCHING_FLAVOR)
            case _:
                self._skip(entry, claim)
        if claim is not None and self._ledger.claim_of(key) is None:
            self._drop_claim(key, claim)

    def _admit(self, entry: CycleEntry, now_s: float) -> None:
        pending, assignment = entry.pending, entry.nomination.assignment
        workload = pending.workload
        usage = {fr: amount for fr, amount in assignment.usage.items() if amount}
        self._decide()
        self.forget(pending.key)
        self._queue_manager.remove(pending.key)
        cycle_order = len(self._effects)
        terminating = self._ledger.occupancy.terminating_ahead(pending.queue, usage, now_s)
        holder = QuotaHolder(pending.key, workload.uid, pending.queue, usage, workload.priority, pending.order_s, now_s)
        self._ledger.put(msgspec.structs.replace(holder, cycle_order=cycle_order, is_waiting=terminating is not None))
        self._unwritten.add(pending, cycle_order)
        self._wake_reclaimers(pending.queue, usage)
        is_admitted = self._on_admitted(pending, assignment)
        since_s = max(workload.created_s, _since_s(pending))
        admission = assignment.admission(pending.queue)
        waits_for = "" if terminating is None else describe_terminating(terminating)
        waited_s = max(now_s - since_s, 0.0)
        self._effects.append(Admit(pending.key, workload.uid, admission, is_admitted, waited_s, waits_for))

    def _wake_reclaimers(self, queue: str, usage: Usage) -> None:
        """Wakes workloads that may reclaim quota which this queue borrows now."""
        node, tree = self._ledger.ahead.queue(queue), self._ledger.tree_of(queue)
        borrowed = [] if node is None else [fr for fr in sorted(usage) if node.borrows_with(fr)]
        if borrowed:
            self._queue_manager.wake([("borrowed", tree, *fr) for fr in borrowed])

    def _preempt(self, entry: CycleEntry, now_s: float) -> None:
        pending, (assignment, targets) = entry.pending, (entry.nomination.assignment, entry.nomination.targets)
        path = self.path(pending.queue)
        withdrawable = self._unwritten.withdrawable(target.holder for target in targets)
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
            self._admit(entry, now_s)  # it fits now; the workload it was reserved for gets the victims' quota
            return
        self._claim(pending, assignment.usage)
        evicted = len(targets) - len(withdrawable)
        awaited = f"the preemption of {evicted} workload(s)" if evicted else RELEASE_OF_EVICTED
        self._wait_for_others(
            entry, PendingReason(names.WAITING_FOR_PREEMPTED, f"{assignment.message}. Pending {awaited}")
        )

    def _withdraw(self, holder: QuotaHolder) -> None:
        """Undoes an admission that is not written yet: the workload is pending again, and its quota is free at once."""
        pending, effect = self._unwritten.withdraw(holder.key, holder.queue)
        self._effects[effect] = None
        self._ledger.remove(holder.key)
        self._on_withdrawn(pending)
        self._queue_manager.add(pending)
        self._rejoined.add(holder.queue)
        tree = self._ledger.tree_of(holder.queue)
        self._queue_manager.wake([("freed", tree, *fr) for fr in sorted(holder.usage)])

    def _defer(self, entry: CycleEntry, claim: QuotaClaim | None) -> None:
        """The workload fits when evicted workloads have ended. A preemptor keeps its claim to their quota; another
        workload holds the quota only for this round."""
        usage, message = entry.nomination.assignment.usage, entry.nomination.assignment.message
        if claim is not None or entry.pending.is_preemptor:
            self._claim(entry.pending, usage)
            reason = PendingReason(names.WAITING_FOR_PREEMPTED, message)
            self._wait_for_others(
                entry, self._reported.get(entry.pending.key) or _shown_reason(entry.pending) or reason
            )
            return
        self._hold_for_a_round(entry.queue.name, usage)
        self._wait_for_others(entry, PendingReason(names.WAITING_FOR_QUOTA, f"{message}. Pending {RELEASE_OF_EVICTED}"))

    def _wait_for_others(self, entry: CycleEntry, reason: PendingReason) -> None:
        self._decide()
        self._queue_manager.hold_head(entry.pending, reason, self._waking_events(entry), is_sticky=True)
        self._set_pending_reason(entry.pending, reason)

    def _refuse(self, entry: CycleEntry, reason_name: str, keeps_place: bool = False) -> None:
        assignment = entry.nomination.assignment
        reason = PendingReason(reason_name, assignment.message)
        if self._queue_manager.is_ready(entry.queue.name):  # else it only kept its place
            if self._last_assignments.continues(entry.pending.key, assignment, reason):
                self._has_progressed = True
                return
            if self._last_assignments.restarts(entry.pending.key):
                self._has_progressed = True
                return
            self._decide()
        reason = self._last_assignments.first_reason(entry.pending.key) or reason
        self._queue_manager.park(entry.pending, reason, self._waking_events(entry, is_refused=True), keeps_place)
        self._set_pending_reason(entry.pending, reason)

    def _decide(self) -> None:
        self._has_progressed = True
        self._decisions += 1

    def _skip(self, entry: CycleEntry, claim: QuotaClaim | None) -> None:
        """Another workload took the quota in this round. The next round continues the flavor search."""
        self._ledger.claim(entry.pending.key, claim)
        if self._last_assignments.skipped(entry.pending.key, entry.nomination.assignment, self._decisions):
            self._has_progressed = True
        self._skipped.append(entry)
        if claim is None:
            self._set_pending_reason(entry.pending, PendingReason(names.WAITING_FOR_QUOTA, NO_LONGER_FITS))

    def _keep_place(self, entry: CycleEntry) -> bool:
        """Holds the quota in this round, for a queue that cannot always reclaim what it lends."""
        if entry.queue.preemption.reclaim_within_cohort == names.ANY:
            return False
        node = self._ledger.ahead.queue(entry.queue.name)
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
        self._ledger.simulate_usage(queue, usage, +1)
        self._held_for_round.append((queue, usage))

    def _is_evicted(self, target: PreemptionTarget) -> bool:
        holder = self._ledger.get(target.holder.key)
        return holder is None or holder.is_evicted

    def _would_fit(self, entry: CycleEntry) -> bool:
        node = self._ledger.ahead.queue(entry.queue.name)
        if node is None:
            return False
        for target in entry.nomination.targets:
            self._ledger.simulate_usage(target.holder.queue, target.holder.usage, -1)
        found = fits(node, entry.nomination.assignment.usage)
        for target in entry.nomination.targets:
            self._ledger.simulate_usage(target.holder.queue, target.holder.usage, +1)
        return found

    def _waking_events(self, entry: CycleEntry, is_refused: bool = False) -> RegisteredEvents:
        """The events that may help: a missing resource becomes free in the tree, or quotas change.

        ``is_refused``: no evicted workload is about to release quota. Then a queue that never preempts needs the whole
        request, and the head of a StrictFIFO queue is also tried when another queue borrows what it may reclaim."""
        tree, name = self._ledger.tree_of(entry.queue.name), entry.queue.name
        short = self._last_assignments.shortage_of(entry.pending.key, entry.nomination.assignment)
        policy = entry.queue.preemption
        never_preempts = (policy.within_cluster_queue, policy.reclaim_within_cohort) == (names.NEVER, names.NEVER)
        smallest: dict[str, int] = {}
        if is_refused and never_preempts and not can_reduce_counts(entry.pending.workload):
            for pod_set in entry.nomination.assignment.pod_sets:
                for resource, amount in pod_set.requests.items():
                    smallest[resource] = min(amount, smallest.get(resource, amount))
        reclaims = is_refused and entry.queue.is_strict and policy.reclaim_within_cohort != names.NEVER
        return (
            ClusterEventWithHint(("tree", tree)),
            *(ClusterEventWithHint(("borrowed", tree, *fr)) for fr in sorted(short) if reclaims),
            *(
                ClusterEventWithHint(
                    ("freed", tree, *fr), EnoughQuota(name, fr, smallest[fr[1]]) if fr[1] in smallest else None
                )
                for fr in sorted(short)
            ),
        )

    def _set_pending_reason(self, pending: PendingWorkload, reason: PendingReason) -> None:
        """Writes the reason unless it was written before, by this process or by an earlier one."""
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
        self._effects.append(EmitWorkloadEvent(pending.key, uid, True, reason.reason, reason.message))

    def path(self, queue: str) -> str:
        node = self._ledger.now.queue(queue)
        listed = [queue] if node is None else [each.name for each in node.path()]
        return "/" + "/".join(reversed(listed))


def _shown_reason(pending: PendingWorkload) -> PendingReason | None:
    shown = pending.workload.conditions.get(names.QUOTA_RESERVED)
    return PendingReason(shown.reason, shown.message) if shown is not None and pending.is_preemptor else None


def _since_s(pending: PendingWorkload) -> float:
    requeued = pending.workload.conditions.get(names.REQUEUED)
    return 0.0 if requeued is None else requeued.since_s
