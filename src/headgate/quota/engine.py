"""The quota engine: API objects come in, effects come out. The entry point of this package.

Every ``…_applied`` and ``…_removed`` returns at once what follows from rules (``quota/queues/workload_lifecycle.py``,
``quota/queues/blockers.py``). ``run_cycle`` decides which workloads get quota; the controller calls it after it has
passed in all changes, and reports the outcome of writes with ``written`` and ``refused``. The engine keeps only what
the API shows and the writes on their way there (``quota/cache/assumed_workloads.py``), so it can be rebuilt from a list
of all objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from headgate.kube.pods.termination import MAX_TERMINATION_WAIT_S
from headgate.quota import names
from headgate.quota.api.admission_checks import are_satisfied, required_checks, reset_checks
from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.cohort import FlavorResource
from headgate.quota.api.pod_defaults import PodDefaults
from headgate.quota.api.pods_ready import WaitForPodsReady, queue_order_s
from headgate.quota.api.quota_reservation import QuotaHolder, QuotaPod, has_ended, read_quota_pod
from headgate.quota.api.wire_reader import Wire, read_object
from headgate.quota.api.workload import Workload, read_workload, usage_of
from headgate.quota.cache.assumed_workloads import AssumedWorkload, AssumedWorkloads
from headgate.quota.cache.occupancy import WAIT_OVER_REASONS, WaitOverCause
from headgate.quota.cache.quota_cache import CacheChange, QuotaCache
from headgate.quota.cache.quota_ledger import QuotaLedger
from headgate.quota.cycle.admission_cycle import AdmissionCycle
from headgate.quota.effects import Effect, EmitWorkloadEvent, Evict, SetCondition
from headgate.quota.flavors.assignment import Assignment
from headgate.quota.queues.blockers import Blocker, find_blocker
from headgate.quota.queues.queue_manager import PendingReason, PendingWorkload, QueueManager
from headgate.quota.queues.workload_lifecycle import WorkloadReviewInput, review
from headgate.waiting.heap import DeadlineHeap

Effects = list[Effect]


class QuotaSettings(msgspec.Struct, frozen=True):
    """``honours_gates``: the feature gate AdmissionGatedBy. ``pods_ready``: None if waitForPodsReady is off.
    ``starts_after_terminating``: the feature gate StartAfterTerminatingPods. ``max_wait_s``: how long workloads wait
    for a terminating pod at most."""

    honours_gates: bool = True
    pods_ready: WaitForPodsReady | None = None
    starts_after_terminating: bool = True
    max_wait_s: float = MAX_TERMINATION_WAIT_S


_DEFAULTS: Final = QuotaSettings()


class QuotaEngine:
    def __init__(self, settings: QuotaSettings = _DEFAULTS) -> None:
        self._settings = settings
        self.ledger = QuotaLedger(self._leads_to)
        self.queue_manager = QueueManager(self.ledger.available_ahead)
        self.cache = QuotaCache(self.ledger, settings.honours_gates)
        self.workloads: dict[str, Workload] = {}
        self._cycle = AdmissionCycle(
            self.ledger, self.queue_manager, self.cache.queues, self.cache.flavors, self._give, self._take_back
        )
        self._assumed = AssumedWorkloads()
        self._by_local_queue: dict[str, dict[str, None]] = {}
        self._by_namespace: dict[str, dict[str, None]] = {}
        self._by_runtime_class: dict[str, dict[str, None]] = {}
        self._pod_defaults = PodDefaults()
        self._reviews: DeadlineHeap[str] = DeadlineHeap()
        self._asked: dict[str, tuple[Effect, ...]] = {}
        self._said: dict[str, PendingReason] = {}
        self._starting: dict[str, str] = {}  # started, and the API does not show it yet; key and uid
        self._put_off: dict[str, float] = {}  # whose admission the server would not have, and until when

    # What the API shows.

    def flavor_applied(self, wire: Wire, now_s: float) -> Effects:
        return self._apply_change(self.cache.flavor_applied(wire), now_s)

    def flavor_removed(self, name: str, now_s: float) -> Effects:
        return self._apply_change(self.cache.flavor_removed(name), now_s)

    def check_applied(self, name: str, is_active: bool, now_s: float) -> Effects:
        return self._apply_change(self.cache.check_applied(name, is_active), now_s)

    def check_removed(self, name: str, now_s: float) -> Effects:
        return self._apply_change(self.cache.check_removed(name), now_s)

    def cluster_queue_applied(self, wire: Wire, now_s: float) -> Effects:
        return self._apply_change(self.cache.cluster_queue_applied(wire), now_s)

    def cluster_queue_replaced(self, queue: ClusterQueue, now_s: float) -> Effects:
        """As if the API showed this queue: for dry runs (``quota/explain/remedies.py``)."""
        return self._apply_change(self.cache.cluster_queue_replaced(queue), now_s)

    def cluster_queue_removed(self, name: str, now_s: float) -> Effects:
        return self._apply_change(self.cache.cluster_queue_removed(name), now_s)

    def cohort_applied(self, wire: Wire, now_s: float) -> Effects:
        return self._apply_change(self.cache.cohort_applied(wire), now_s)

    def cohort_removed(self, name: str, now_s: float) -> Effects:
        return self._apply_change(self.cache.cohort_removed(name), now_s)

    def local_queue_applied(self, wire: Wire, now_s: float) -> Effects:
        key = self.cache.local_queue_applied(wire)
        if key:
            self.ledger.occupancy.local_queue_changed(key)
        return self._examine_all(self._by_local_queue.get(key, ()), now_s) if key else []

    def local_queue_removed(self, key: str, now_s: float) -> Effects:
        if not self.cache.local_queue_removed(key):
            return []
        self.ledger.occupancy.local_queue_changed(key)
        return self._examine_all(self._by_local_queue.get(key, ()), now_s)

    def namespace_applied(self, name: str, labels: Mapping[str, str], now_s: float) -> Effects:
        is_other = self.cache.namespace_applied(name, labels)
        return self._examine_all(self._by_namespace.get(name, ()), now_s) if is_other else []

    def namespace_removed(self, name: str, now_s: float) -> Effects:
        return self._examine_all(self._by_namespace.get(name, ()), now_s) if self.cache.namespace_removed(name) else []

    def workload_applied(self, wire: Wire, now_s: float) -> Effects:
        found = read_workload(wire)
        metadata = wire.get("metadata") if isinstance(wire, Mapping) else None
        if isinstance(found, str):
            return self._reject_unreadable(metadata if isinstance(metadata, Mapping) else {}, found, now_s)
        self.cache.problems.pop(("Workload", found.key), None)
        found = self._pod_defaults.applied_to(found)
        known = self.workloads.get(found.key)
        if known is not None:
            if known.uid != found.uid:
                self.workload_removed(known.key, now_s)
            elif 0 < found.revision < known.revision:
                return []  # an old version, shown late
            elif found.revision != known.revision:
                self._put_off.pop(found.key, None)  # another client changed it: the server may accept it now
        self._remember(found)
        self._assumed.observe(found)
        return self._examine(found, now_s)

    def workload_removed(self, key: str, now_s: float) -> Effects:
        workload = self.workloads.pop(key, None)
        self.cache.problems.pop(("Workload", key), None)
        if workload is not None:
            self._disindex(workload)
        self._assumed.forget(key)
        self._dequeue(key)
        self._reviews.discard(key)
        self._asked.pop(key, None)
        self._said.pop(key, None)
        self._put_off.pop(key, None)
        self._release(key)
        return []

    def limit_range_applied(self, wire: Wire, now_s: float) -> Effects:
        return self._redefault(self._by_namespace.get(self._pod_defaults.put_range(wire), ()), now_s)

    def limit_range_removed(self, key: str, now_s: float) -> Effects:
        return self._redefault(self._by_namespace.get(self._pod_defaults.remove_range(key), ()), now_s)

    def runtime_class_applied(self, wire: Wire, now_s: float) -> Effects:
        return self._redefault(self._by_runtime_class.get(self._pod_defaults.put_class(wire), ()), now_s)

    def runtime_class_removed(self, name: str, now_s: float) -> Effects:
        return self._redefault(self._by_runtime_class.get(self._pod_defaults.remove_class(name), ()), now_s)

    def pod_applied(self, wire: Wire) -> bool:
        """Pods that were started with quota may use it after it was released. Whether that changed anything."""
        occupancy, settings = self.ledger.occupancy, self._settings
        found = read_quota_pod(wire, settings.max_wait_s) if settings.starts_after_terminating else None
        if isinstance(found, QuotaPod):
            return occupancy.pod_applied(found)
        metadata = read_object(wire, "metadata")
        if found is not None:
            occupancy.ignored.setdefault(found, f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")
        cause: WaitOverCause = "left" if has_ended(wire) else "not counted"
        return occupancy.pod_removed(str(metadata.get("uid", "")), cause)

    def pod_removed(self, uid: str) -> bool:
        return self.ledger.occupancy.pod_removed(uid)

    # What became of effects.

    def written(self, effect: Effect, revision: int) -> None:
        """The write was done, and this is the version it made; 0 if versions cannot be compared."""
        self._assumed.written(effect.key, effect.uid, revision, isinstance(effect, Evict))

    def refused(self, effect: Effect, now_s: float, until_s: float | None = None) -> Effects:
        """The write will not be done: its quota is free again and its condition is written again. ``until_s``: the
        server rejected the write, so the workload is not tried before then; other workloads are."""
        if until_s is not None:
            self._put_off[effect.key] = until_s
        self._asked.pop(effect.key, None)
        self._said.pop(effect.key, None)
        self._starting.pop(effect.key, None)
        self._assumed.refused(effect.key, effect.uid, isinstance(effect, Evict))
        workload = self.workloads.get(effect.key)
        return [] if workload is None else self._examine(workload, now_s)

    # The clock, and the decision.

    def next_deadline_s(self) -> float | None:
        """When ``cycle`` should be called though nothing happened."""
        deadlines = (
            self.queue_manager.next_deadline_s(),
            self._reviews.next_deadline_s(),
            self.ledger.occupancy.next_deadline_s(),
        )
        return min((each for each in deadlines if each is not None), default=None)

    def run_cycle(self, now_s: float, rounds: int | None = None) -> Effects:
        """Admits all workloads that can get quota, or preempts for them; in at most ``rounds`` rounds."""
        effects = self._examine_all(self.queue_manager.due(now_s), now_s)
        for key in self._reviews.due(now_s):
            effects += self._examine_all((key,), now_s)
        self.ledger.occupancy.expire(now_s)
        effects += self._start(self.ledger.occupancy.ready())
        decided = self._cycle.run(now_s, rounds)
        for effect in decided:
            if isinstance(effect, Evict):
                self._assumed.evictions[effect.key] = AssumedWorkload(effect.uid)
        effects += self._with_checks(decided, now_s)
        return effects + self._start(self.ledger.occupancy.ready())  # withdrawn admissions may free capacity

    # Inside.

    def _leads_to(self, local_queue: str) -> str:
        found = self.cache.local_queues.get(local_queue)
        return "" if found is None else found.cluster_queue

    def _start(self, ready: Iterable[tuple[QuotaHolder, WaitOverCause]]) -> Effects:
        """What these were given is in use on nodes no longer, or the pods that use it are waited for no longer."""
        effects: Effects = []
        for holder, cause in ready:
            self.ledger.put(msgspec.structs.replace(holder, is_waiting=False))
            self._starting[holder.key] = holder.uid
            type_ = names.WAITING_FOR_TERMINATING_PODS
            reason, said = WAIT_OVER_REASONS[cause if self._settings.starts_after_terminating else "disabled"]
            effects.append(SetCondition(holder.key, holder.uid, type_, False, reason, said))
            effects.append(EmitWorkloadEvent(holder.key, holder.uid, False, reason, said))
        return effects

    def _give(self, waiter: PendingWorkload, assignment: Assignment) -> bool:
        queue, admission = self.cache.queues[waiter.queue], assignment.admission(waiter.queue)
        self._assumed.admissions[waiter.key] = AssumedWorkload(waiter.workload.uid, admission)
        self._said.pop(waiter.key, None)
        return are_satisfied(waiter.workload, required_checks(queue, admission))

    def _take_back(self, waiter: PendingWorkload) -> None:
        del self._assumed.admissions[waiter.key]

    def _remember(self, workload: Workload) -> None:
        known = self.workloads.get(workload.key)
        if known is not None and (known.queue_key, known.pod_sets) != (workload.queue_key, workload.pod_sets):
            self._disindex(known)
        self.workloads[workload.key] = workload
        for index, at in self._places(workload):
            index.setdefault(at, {})[workload.key] = None

    def _places(self, workload: Workload) -> Iterator[tuple[dict[str, dict[str, None]], str]]:
        yield self._by_local_queue, workload.queue_key
        yield self._by_namespace, workload.namespace
        for name in {each.runtime_class for each in workload.pod_sets} - {""}:
            yield self._by_runtime_class, name

    def _disindex(self, workload: Workload) -> None:
        for index, at in self._places(workload):
            index[at].pop(workload.key, None)
            if not index[at]:
                del index[at]

    def _redefault(self, keys: Iterable[str], now_s: float) -> Effects:
        """Admission adds something else to pods now: workloads made from templates may ask for more or less."""
        effects: Effects = []
        for key in list(keys):
            known = self.workloads[key]
            found = self._pod_defaults.applied_to(known)
            if found is not known:
                self._remember(found)
                effects += self._examine(found, now_s)
        return effects

    def _reject_unreadable(self, metadata: Mapping[str, object], problem: str, now_s: float) -> Effects:
        """What it holds stays counted as it was known; it waits for nothing."""
        key = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        said = self._said.get(key)
        if self.ledger.get(key) is None:
            self.workload_removed(key, now_s)
        self._dequeue(key)
        self.cache.problems["Workload", key] = problem
        uid, reason = metadata.get("uid"), PendingReason(names.MISCONFIGURED, problem)
        if self.ledger.get(key) is not None or not isinstance(uid, str):
            return []
        self._said[key] = reason
        if said == reason:
            return []
        return [SetCondition(key, uid, names.QUOTA_RESERVED, False, reason.reason, reason.message)]

    def _examine_all(self, keys: Iterable[str], now_s: float) -> Effects:
        effects: Effects = []
        for key in list(keys):
            workload = self.workloads.get(key)
            if workload is not None:
                effects += self._examine(workload, now_s)
        return effects

    def _apply_change(self, touched: CacheChange, now_s: float) -> Effects:
        """Rules of queues are other ones: who waits in them, holds in them or is kept out by them is looked at."""
        effects: Effects = []
        for name in sorted(touched.queues):
            queue = self.cache.queues.get(name)
            if queue is not None:
                self.queue_manager.set_strategy(name, queue.is_strict)
            keys = [waiter.key for waiter in self.queue_manager.pending(name)]
            keys += [holder.key for holder in self.ledger.held_in(name)]
            effects += self._examine_all(keys, now_s)
            self.queue_manager.retry(name)
            if queue is None:
                self.queue_manager.forget_queue(name)
        topics = [
            *(("tree", tree) for tree in sorted(touched.trees)),
            *(("cluster queue", name) for name in sorted(touched.queues)),
        ]
        return effects + self._examine_all(self.queue_manager.wake(topics), now_s)

    def _examine(self, workload: Workload, now_s: float) -> Effects:
        holds = self._update_ledger(workload, now_s)
        if not holds and self._is_put_off(workload, now_s):
            return []
        effects = [] if workload.key in self._assumed.admissions else self._review(workload, now_s)
        if holds or workload.is_finished or workload.is_terminating:
            self._dequeue(workload.key)
            self._said.pop(workload.key, None)
            return effects
        around = self.cache.context_of(workload)
        blocker = find_blocker(workload, around, now_s)
        if blocker is not None or around.cluster_queue is None:
            return effects + self._block(workload, blocker, now_s)
        self._said.pop(workload.key, None)
        since_s = queue_order_s(workload, self._settings.pods_ready)
        waiter = PendingWorkload(workload, around.cluster_queue.name, since_s, workload.shape)
        known = self.queue_manager.get(workload.key)
        if known is not None and (known.queue, known.shape, known.order) != (waiter.queue, waiter.shape, waiter.order):
            self._cycle.forget(workload.key)
        self.queue_manager.add(waiter)
        return effects

    def _is_put_off(self, workload: Workload, now_s: float) -> bool:
        until_s = self._put_off.get(workload.key)
        if until_s is None or until_s <= now_s:
            self._put_off.pop(workload.key, None)
            return False
        self._dequeue(workload.key)
        self.queue_manager.block(workload.key, PendingReason(""), (), until_s, _order(workload))
        return True

    def _update_ledger(self, workload: Workload, now_s: float) -> bool:
        """The book says what the API shows, or was promised; whether that is anything."""
        key = workload.key
        promise = self._assumed.admissions.get(key)
        admission = workload.admission if workload.holds_quota else (promise.admission if promise else None)
        if admission is None:
            self._release(key)
            return False
        reserved = workload.conditions.get(names.QUOTA_RESERVED)
        known = self.ledger.get(key)
        since_s, turn = (now_s, 0) if known is None else (known.reserved_s, known.cycle_order)
        if workload.holds_quota and reserved is not None:
            since_s, turn = reserved.since_s, 0
        is_waiting = known is not None and known.is_waiting
        if workload.holds_quota:
            is_waiting = workload.has(names.WAITING_FOR_TERMINATING_PODS)
            if not is_waiting:
                self._starting.pop(key, None)
            elif self._starting.get(key) == workload.uid:
                is_waiting = False
        is_going = key in self._assumed.evictions or (
            workload.holds_quota and (workload.is_evicted or not workload.is_active)
        )
        holder = QuotaHolder(
            key,
            workload.uid,
            admission.cluster_queue,
            usage_of(workload, admission),
            workload.priority,
            queue_order_s(workload, self._settings.pods_ready),
            since_s,
            is_going,
            turn,
            is_waiting,
        )
        if holder != known:
            self.ledger.put(holder)
            self._wake_for_release(known, holder)
        return True

    def _review(self, workload: Workload, now_s: float) -> Effects:
        """What follows from rules, once: it is not asked for again until something else follows."""
        found = review(WorkloadReviewInput(workload, self.cache.context_of(workload), self._settings.pods_ready, now_s))
        if found.at_s is None:
            self._reviews.discard(workload.key)
        else:
            self._reviews.put(workload.key, found.at_s)
        if not found.effects or self._asked.get(workload.key) == found.effects:
            if not found.effects:
                self._asked.pop(workload.key, None)
            return []
        if workload.key in self._assumed.evictions and any(isinstance(each, Evict) for each in found.effects):
            return []
        self._asked[workload.key] = found.effects
        for effect in found.effects:
            if isinstance(effect, Evict) and self.ledger.get(workload.key) is not None:
                self._assumed.evictions[workload.key] = AssumedWorkload(workload.uid)
                self._update_ledger(workload, now_s)
        return self._with_checks(found.effects, now_s)

    def _with_checks(self, effects: Iterable[Effect], now_s: float) -> Effects:
        """Whoever is evicted starts anew with his checks."""
        done: Effects = []
        for effect in effects:
            workload = self.workloads.get(effect.key)
            if isinstance(effect, Evict) and workload is not None and workload.checks:
                effect = msgspec.structs.replace(effect, checks=reset_checks(workload.checks, now_s))
            done.append(effect)
        return done

    def _block(self, workload: Workload, blocker: Blocker | None, now_s: float) -> Effects:
        self._dequeue(workload.key)
        if blocker is None:
            return []
        self.queue_manager.block(workload.key, blocker.reason, blocker.topics, blocker.until_s, _order(workload))
        reason, shown = blocker.reason, workload.conditions.get(names.QUOTA_RESERVED)
        if not reason.reason or self._said.get(workload.key) == reason:
            return []
        self._said[workload.key] = reason
        if shown is not None and (shown.is_true, shown.reason, shown.message) == (False, reason.reason, reason.message):
            return []
        effects: Effects = [
            SetCondition(workload.key, workload.uid, names.QUOTA_RESERVED, False, reason.reason, reason.message)
        ]
        if reason.reason == names.ADMISSION_GATED:
            said = f"Workload admission is gated by: {workload.gates}"
            effects.append(EmitWorkloadEvent(workload.key, workload.uid, False, reason.reason, said))
        return effects

    def _dequeue(self, key: str) -> None:
        """It waits no longer. What was kept for it is free for others."""
        self._cycle.forget(key)
        self.queue_manager.remove(key)

    def _release(self, key: str) -> None:
        self._starting.pop(key, None)
        workload = self.workloads.get(key)
        holder = self.ledger.remove(key, keeps_pods=workload is not None and not workload.is_finished)
        if holder is not None:
            self._wake_for_release(holder, None)

    def _wake_for_release(self, before: QuotaHolder | None, after: QuotaHolder | None) -> None:
        """Whatever a workload holds less of now than before may help somebody in the tree."""
        if before is None:
            return
        is_same_queue = after is not None and after.queue == before.queue
        left = after.usage if after is not None and is_same_queue else {}
        is_staying = after is not None and before.is_evicted and not after.is_evicted
        freed = [fr for fr, amount in before.usage.items() if is_staying or left.get(fr, 0) < amount]
        self._wake_freed(before.queue, freed)

    def _wake_freed(self, queue: str, freed: Sequence[FlavorResource]) -> None:
        if freed:
            tree = self.ledger.tree_of(queue)
            self.queue_manager.wake([("freed", tree, *fr) for fr in sorted(freed)])


def _order(workload: Workload) -> tuple[int, float, str]:
    """Among those who may not wait."""
    return -workload.priority, workload.created_s, workload.uid
