"""Rounds of admission: the first of every queue is looked at, and what fits together is admitted together.

In a round everybody is nominated as things stand at its beginning, and then served in order: who borrows less comes
first, then priority, then who waits longest. What was given to one is counted before the next is served. Rounds go on
until nobody is left who is worth a look, without waiting for a write in between: what comes out is what one workload
of each queue at a time would get. Trees have nothing to do with each other and are served one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from headgate.quota import names
from headgate.quota.assignment import Assignment, Mode
from headgate.quota.cluster_queue import ClusterQueue
from headgate.quota.cohort import FlavorResource, Usage
from headgate.quota.effects import Admit, Effect, Emit, Evict, SetCondition
from headgate.quota.flavor import ResourceFlavor
from headgate.quota.holder import Holder
from headgate.quota.holdings import Claim, Holdings, fits
from headgate.quota.nominating import Nomination, nominate
from headgate.quota.occupancy import describe
from headgate.quota.preemption import Target
from headgate.quota.queueing import Enough, Queueing, Reason, Waiter
from headgate.quota.reducing import can_shrink
from headgate.quota.searches import Searches
from headgate.quota.unwritten import Unwritten
from headgate.waiting.lot import Wakers
from headgate.waiting.waker import Topic, Waker

RELEASE_OF_EVICTED = "the release of quota by evicted workload(s)"
NO_LONGER_FITS = "Workload no longer fits after processing another workload"

Gets = Callable[[Waiter, Assignment], bool]
"""Told of whoever gets quota; whether he is admitted with it, or has to wait for admission checks."""
Loses = Callable[[Waiter], None]
"""Told of a workload whose admission is withdrawn before anybody heard of it."""


class Entry(msgspec.Struct, frozen=True):
    waiter: Waiter
    queue: ClusterQueue
    nomination: Nomination

    @property
    def order(self) -> tuple[bool, int, tuple[int, float, str]]:
        """Those for whom others went come first, so that what was freed is theirs after a restart, too."""
        return not self.waiter.is_preemptor, self.nomination.assignment.borrow, self.waiter.order


class Cycle:
    def __init__(
        self,
        book: Holdings,
        queueing: Queueing,
        queues: Mapping[str, ClusterQueue],
        flavors: Mapping[str, ResourceFlavor],
        gets: Gets,
        loses: Loses,
    ) -> None:
        self._book = book
        self._queueing = queueing
        self._queues = queues
        self._flavors = flavors
        self._gets = gets
        self._loses = loses
        self._searches = Searches()
        self._told: dict[str, Reason] = {}
        self._effects: list[Effect | None] = []  # None: withdrawn
        self._unwritten = Unwritten()
        self._rejoined: set[str] = set()  # queues to which a workload came back in this round
        self._for_a_round: list[tuple[str, Usage]] = []
        self._claimants: dict[str, str] = {}  # by queue: who of it has a claim
        self._skipped: list[Entry] = []
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
        self._unwritten = Unwritten()
        return [each for each in effects if each is not None]

    def forget(self, key: str) -> None:
        """The workload is another one now, or gone, or lost its turn: what was found out about it counts no more."""
        self._drop(key)
        self._queueing.unstick(key)
        self._searches.forget(key)
        self._told.pop(key, None)

    def _round(self, tree: str, ready: Iterable[str], now_s: float) -> None:
        self._stir_held()
        joining = [name for name in self._queueing.joining() if self._book.tree_of(name) == tree]
        entries = [entry for name in (*ready, *joining) if (entry := self._enter(name)) is not None]
        self._skipped, self._has_moved = [], False
        self._rejoined.clear()
        for entry in sorted(entries, key=lambda each: each.order):
            if (
                entry.queue.name not in self._rejoined
            ):  # else its first is another one: it is looked at in the next round
                self._serve(entry, now_s)
        for queue, usage in self._for_a_round:
            self._book.shift_ahead(queue, usage, -1)
        self._for_a_round.clear()
        if not self._has_moved:
            self._give_up()

    def _give_up(self) -> None:
        """Whoever was passed in a round in which nothing moved would be passed in the next one, too."""
        for entry in self._skipped:
            tree = self._book.tree_of(entry.queue.name)
            usage = entry.nomination.assignment.usage
            topics: list[Topic] = [("tree", tree), ("held", tree), *(("freed", tree, *fr) for fr in sorted(usage))]
            wakers = tuple(Waker(topic) for topic in topics)
            self._queueing.park(entry.waiter, Reason(names.WAITING_FOR_QUOTA, NO_LONGER_FITS), wakers)

    def _stir_held(self) -> None:
        """Queues that kept their place in rounds do so no longer."""
        trees = {self._book.tree_of(name) for name in self._queueing.unjoined()}
        self._queueing.wake([("held", tree) for tree in sorted(trees)])

    def _enter(self, queue: str) -> Entry | None:
        waiter, spec = self._queueing.head(queue), self._queues.get(queue)
        if waiter is None or spec is None:
            return None
        claimant = self._claimants.get(queue, waiter.key)
        if claimant != waiter.key:
            self._drop(claimant)  # somebody came before him; what others left for him is his queue's
        return Entry(waiter, spec, self._nominate(waiter, spec))

    def _claim(self, waiter: Waiter, usage: Usage) -> None:
        self._book.claim(waiter.key, Claim(waiter.queue, usage))
        self._claimants[waiter.queue] = waiter.key

    def _drop(self, key: str) -> None:
        claim = self._book.claim_of(key)
        if claim is not None:
            self._book.claim(key, None)
            self._let_go(key, claim)

    def _let_go(self, key: str, claim: Claim) -> None:
        if self._claimants.get(claim.queue) == key:
            del self._claimants[claim.queue]
        tree = self._book.tree_of(claim.queue)
        self._queueing.wake([("freed", tree, *fr) for fr in sorted(claim.usage)])

    def _nominate(self, waiter: Waiter, spec: ClusterQueue) -> Nomination:
        """As if its claim were not there: what it waits for is its own."""
        claim = self._book.claim_of(waiter.key)
        self._book.claim(waiter.key, None)
        tried = self._searches.begin(waiter.key)
        found = nominate(self._book, spec, self._flavors, waiter.workload, waiter.order_s, tried)
        self._book.claim(waiter.key, claim)
        return found

    def _serve(self, entry: Entry, now_s: float) -> None:
        key = entry.waiter.key
        claim = self._book.claim_of(key)
        self._book.claim(key, None)
        is_late = any(self._is_going(target) for target in entry.nomination.targets)
        if is_late:
            entry = Entry(entry.waiter, entry.queue, self._nominate(entry.waiter, entry.queue))
        assignment, targets = entry.nomination.assignment, entry.nomination.targets
        match assignment.mode:
            case Mode.FIT if self._book.fits(entry.queue.name, assignment.usage):
                self._admit(entry, now_s)
            case Mode.PREEMPT if targets and self._would_fit(entry):
                self._preempt(entry, now_s)
            case Mode.DEFERRED:
                self._defer(entry, claim)
            case Mode.PREEMPT if not targets and not is_late:
                self._refuse(entry, names.WAITING_FOR_QUOTA, self._keep_place(entry))
            case Mode.NO_FIT if not is_late:
                self._refuse(entry, assignment.why or names.NO_MATCHING_FLAVOR)
            case _:
                self._skip(entry, claim)
        if claim is not None and self._book.claim_of(key) is None:
            self._let_go(key, claim)

    def _admit(self, entry: Entry, now_s: float) -> None:
        waiter, assignment = entry.waiter, entry.nomination.assignment
        workload = waiter.workload
        usage = {fr: amount for fr, amount in assignment.usage.items() if amount}
        self._decide()
        self.forget(waiter.key)
        self._queueing.remove(waiter.key)
        turn = len(self._effects)
        leaving = self._book.occupancy.leaving_for(waiter.queue, usage, now_s)
        holder = Holder(waiter.key, workload.uid, waiter.queue, usage, workload.priority, waiter.order_s, now_s)
        self._book.put(msgspec.structs.replace(holder, turn=turn, is_waiting=leaving is not None))
        self._unwritten.add(waiter, turn)
        self._tell_of_borrowing(waiter.queue, usage)
        is_admitted = self._gets(waiter, assignment)
        since_s = max(workload.created_s, _since_s(waiter))
        admission = assignment.admission(waiter.queue)
        waits_for = "" if leaving is None else describe(leaving)
        waited_s = max(now_s - since_s, 0.0)
        self._effects.append(Admit(waiter.key, workload.uid, admission, is_admitted, waited_s, waits_for))

    def _tell_of_borrowing(self, queue: str, usage: Usage) -> None:
        """Who reclaims may have somebody to reclaim from now."""
        node, tree = self._book.ahead.queue(queue), self._book.tree_of(queue)
        borrowed = [] if node is None else [fr for fr in sorted(usage) if node.borrows_with(fr)]
        if borrowed:
            self._queueing.wake([("borrowed", tree, *fr) for fr in borrowed])

    def _preempt(self, entry: Entry, now_s: float) -> None:
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
            self._admit(entry, now_s)  # there is room now; it was wanted for somebody else, who gets the victims'
            return
        self._claim(waiter, assignment.usage)
        evicted = len(targets) - len(withdrawable)
        pending = f"the preemption of {evicted} workload(s)" if evicted else RELEASE_OF_EVICTED
        self._wait_for_others(entry, Reason(names.WAITING_FOR_PREEMPTED, f"{assignment.message}. Pending {pending}"))

    def _withdraw(self, holder: Holder) -> None:
        """No write was asked for: the workload goes on waiting, and what it would have held is free at once."""
        waiter, effect = self._unwritten.withdraw(holder.key, holder.queue)
        self._effects[effect] = None
        self._book.remove(holder.key)
        self._loses(waiter)
        self._queueing.add(waiter)
        self._rejoined.add(holder.queue)
        tree = self._book.tree_of(holder.queue)
        self._queueing.wake([("freed", tree, *fr) for fr in sorted(holder.usage)])

    def _defer(self, entry: Entry, claim: Claim | None) -> None:
        """Nothing to be done but to wait. Who evicted others for it keeps what they leave; who did not has no more
        right to it than others, once the round is over."""
        usage, message = entry.nomination.assignment.usage, entry.nomination.assignment.message
        if claim is not None or entry.waiter.is_preemptor:
            self._claim(entry.waiter, usage)
            pending = Reason(names.WAITING_FOR_PREEMPTED, message)
            self._wait_for_others(entry, self._told.get(entry.waiter.key) or _shown(entry.waiter) or pending)
            return
        self._hold_for_a_round(entry.queue.name, usage)
        self._wait_for_others(entry, Reason(names.WAITING_FOR_QUOTA, f"{message}. Pending {RELEASE_OF_EVICTED}"))

    def _wait_for_others(self, entry: Entry, reason: Reason) -> None:
        self._decide()
        self._queueing.stall(entry.waiter, reason, self._helpers(entry), sticks=True)
        self._tell(entry.waiter, reason)

    def _refuse(self, entry: Entry, why: str, joins: bool = False) -> None:
        assignment = entry.nomination.assignment
        reason = Reason(why, assignment.message)
        if self._queueing.is_ready(entry.queue.name):  # else it only kept its place
            if self._searches.goes_on(entry.waiter.key, assignment, reason):
                self._has_moved = True
                return
            if self._searches.begins_anew(entry.waiter.key):
                self._has_moved = True
                return
            self._decide()
        reason = self._searches.why(entry.waiter.key) or reason
        self._queueing.park(entry.waiter, reason, self._helpers(entry, is_idle=True), joins)
        self._tell(entry.waiter, reason)

    def _decide(self) -> None:
        self._has_moved = True
        self._decisions += 1

    def _skip(self, entry: Entry, claim: Claim | None) -> None:
        """Somebody else was faster in this round; in the next one the search goes on where it stopped."""
        self._book.claim(entry.waiter.key, claim)
        if self._searches.pass_by(entry.waiter.key, entry.nomination.assignment, self._decisions):
            self._has_moved = True
        self._skipped.append(entry)
        if claim is None:
            self._tell(entry.waiter, Reason(names.WAITING_FOR_QUOTA, NO_LONGER_FITS))

    def _keep_place(self, entry: Entry) -> bool:
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
        self._book.shift_ahead(queue, usage, +1)
        self._for_a_round.append((queue, usage))

    def _is_going(self, target: Target) -> bool:
        holder = self._book.get(target.holder.key)
        return holder is None or holder.is_evicted

    def _would_fit(self, entry: Entry) -> bool:
        node = self._book.ahead.queue(entry.queue.name)
        if node is None:
            return False
        for target in entry.nomination.targets:
            self._book.shift_ahead(target.holder.queue, target.holder.usage, -1)
        found = fits(node, entry.nomination.assignment.usage)
        for target in entry.nomination.targets:
            self._book.shift_ahead(target.holder.queue, target.holder.usage, +1)
        return found

    def _helpers(self, entry: Entry, is_idle: bool = False) -> Wakers:
        """What could help: that something of what there is too little of comes free in the tree, or other quotas.

        ``is_idle``: nothing is on its way. Then a queue that evicts nobody is not helped by less than what is asked;
        and the first of a strict queue, whom nobody passes, looks again when somebody borrows what it may reclaim."""
        tree, name = self._book.tree_of(entry.queue.name), entry.queue.name
        short = self._searches.lacks(entry.waiter.key, entry.nomination.assignment)
        policy = entry.queue.preemption
        is_patient = (policy.within_cluster_queue, policy.reclaim_within_cohort) == (names.NEVER, names.NEVER)
        least: dict[str, int] = {}
        if is_idle and is_patient and not can_shrink(entry.waiter.workload):
            for one in entry.nomination.assignment.pod_sets:
                for resource, amount in one.requests.items():
                    least[resource] = min(amount, least.get(resource, amount))
        reclaims = is_idle and entry.queue.is_strict and policy.reclaim_within_cohort != names.NEVER
        return (
            Waker(("tree", tree)),
            *(Waker(("borrowed", tree, *fr)) for fr in sorted(short) if reclaims),
            *(
                Waker(("freed", tree, *fr), Enough(name, fr, least[fr[1]]) if fr[1] in least else None)
                for fr in sorted(short)
            ),
        )

    def _tell(self, waiter: Waiter, reason: Reason) -> None:
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
        self._effects.append(Emit(waiter.key, uid, True, reason.reason, reason.message))

    def path(self, queue: str) -> str:
        node = self._book.now.queue(queue)
        listed = [queue] if node is None else [each.name for each in node.path()]
        return "/" + "/".join(reversed(listed))


def _shown(waiter: Waiter) -> Reason | None:
    shown = waiter.workload.conditions.get(names.QUOTA_RESERVED)
    return Reason(shown.reason, shown.message) if shown is not None and waiter.is_preemptor else None


def _since_s(waiter: Waiter) -> float:
    requeued = waiter.workload.conditions.get(names.REQUEUED)
    return 0.0 if requeued is None else requeued.since_s
