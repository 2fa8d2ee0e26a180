"""The quota engine: receives API objects and returns effects (writes and Events). The entry point of this package.

Every ``…_applied`` and ``…_removed`` returns at once the effects that do not depend on free quota
(``quota/queues/workload_lifecycle.py``, ``quota/queues/blockers.py``). ``run_cycle`` decides which workloads get quota;
``quota/controller/quota_controller.py`` calls it after it has passed in all changes, and reports the outcome of writes
with ``written`` and ``refused``. The engine keeps only what the API shows, and its own decisions that the API does not
show yet (``quota/cache/assumed_workloads.py``), so it can be rebuilt from a list of all objects.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from headgate.kube.pods.termination import MAX_TERMINATION_WAIT_S
from headgate.quota import names
from headgate.quota.api.activation import is_deactivating
from headgate.quota.api.admission_checks import are_satisfied, required_checks, reset_checks
from headgate.quota.api.cluster_queue import ClusterQueue
from headgate.quota.api.pod_defaults import PodDefaults
from headgate.quota.api.pods_ready import WaitForPodsReady, execution_deadline, queue_order_s
from headgate.quota.api.quota_reservation import QuotaHolder, QuotaPod, has_ended, read_quota_pod
from headgate.quota.api.resource_groups import FlavorResource
from headgate.quota.api.wire_reader import JSONObject, read_object
from headgate.quota.api.workload import Workload, read_workload, usage_of
from headgate.quota.cache.assumed_workloads import AssumedWorkload, AssumedWorkloads
from headgate.quota.cache.occupancy import WAIT_OVER_REASONS, WaitOverCause
from headgate.quota.cache.quota_cache import CacheChange, QuotaCache
from headgate.quota.cache.quota_ledger import QuotaLedger
from headgate.quota.cycle.admission_cycle import AdmissionCycle
from headgate.quota.cycle.line_protection import WorkloadDelay
from headgate.quota.cycle.nomination import Nomination
from headgate.quota.effects import Admit, Effect, EmitWorkloadEvent, Evict, SetCondition
from headgate.quota.flavors.assignment import Assignment
from headgate.quota.queues.blockers import Blocker, find_blocker
from headgate.quota.queues.queue_manager import PendingReason, PendingWorkload, QueueManager
from headgate.quota.queues.workload_lifecycle import WorkloadReviewInput, review
from headgate.waiting.heap import DeadlineHeap

Effects = list[Effect]


class QuotaSettings(msgspec.Struct, frozen=True):
    """``honours_gates``: the feature gate AdmissionGatedBy. ``pods_ready``: None if waitForPodsReady is off.
    ``starts_after_terminating``: the feature gate StartAfterTerminatingPods. ``max_wait_s``: how long workloads wait
    for a terminating pod at most. ``honours_activation``: the feature gate ActivationLabels."""

    honours_gates: bool = True
    pods_ready: WaitForPodsReady | None = None
    starts_after_terminating: bool = True
    max_wait_s: float = MAX_TERMINATION_WAIT_S
    honours_activation: bool = False


_DEFAULTS: Final = QuotaSettings()
_LIMITS: Final = (names.EXCEEDS_MAX_QUOTA, names.NO_MATCHING_FLAVOR)
_ENDED_BY_OTHER_OBJECTS: Final = frozenset(
    (
        names.MISCONFIGURED,
        names.SUSPENDED,
        names.DEACTIVATED,
        names.ADMISSION_GATED,
        *_LIMITS,
    )
)
"""Reasons that are not true any more when a workload is in its queue, or when the quotas of its queue have changed. The
workload itself may not be tried then: others of its shape are, or it waits behind the head of a StrictFIFO queue."""


class QuotaEngine:
    """All quota of a cluster. ``workloads``: by ``namespace/name``, as the API shows them."""

    def __init__(self, settings: QuotaSettings = _DEFAULTS) -> None:
        self._settings = settings
        self.ledger = QuotaLedger(self._cluster_queue_of)
        self.queue_manager = QueueManager(self.ledger.available_after_evictions)
        self.cache = QuotaCache(self.ledger, settings.honours_gates, settings.honours_activation)
        self.workloads: dict[str, Workload] = {}
        self._cycle = AdmissionCycle(
            self.ledger,
            self.queue_manager,
            self.cache.queues,
            self.cache.flavors,
            self._assume_admission,
            self._forget_assumed_admission,
        )
        self._assumed = AssumedWorkloads()
        self._by_local_queue: dict[str, dict[str, None]] = {}
        self._limited: dict[str, dict[str, None]] = {}  # by LocalQueue: workloads whose condition names a limit
        self._by_namespace: dict[str, dict[str, None]] = {}
        self._by_runtime_class: dict[str, dict[str, None]] = {}
        self._pod_defaults = PodDefaults()
        self._reviews: DeadlineHeap[str] = DeadlineHeap()
        self._requested: dict[str, tuple[Effect, ...]] = {}  # by workload: the effects that its last review returned
        self._reported: dict[str, PendingReason] = {}  # by workload: the reason that was last written
        # Workloads, uid by key, that no longer wait for terminating pods; the API does not show this yet.
        self._starting: dict[str, str] = {}
        # By workload whose admission the server rejected: until when it is not tried.
        self._postponed: dict[str, float] = {}
        self.is_held = False
        """Whether objects are still unknown, so that nothing is decided (``hold``)."""
        self._counts_limits = False  # whether workloads with different run-time limits have different shapes

    # The first lists.

    def hold(self) -> None:
        """Decides nothing until ``release``. Objects are still being listed: those that are not known yet may exist."""
        self.is_held = True

    def release(self, now_s: float) -> Effects:
        """All objects are known: examines all workloads."""
        self.is_held = False
        return self._examine_all(self.workloads, now_s)

    # Events of the watch.

    def flavor_applied(self, obj: JSONObject, now_s: float) -> Effects:
        return self._apply_change(self.cache.flavor_applied(obj), now_s)

    def flavor_removed(self, name: str, now_s: float) -> Effects:
        return self._apply_change(self.cache.flavor_removed(name), now_s)

    def check_applied(self, name: str, is_active: bool, now_s: float) -> Effects:
        return self._apply_change(self.cache.check_applied(name, is_active), now_s)

    def check_removed(self, name: str, now_s: float) -> Effects:
        return self._apply_change(self.cache.check_removed(name), now_s)

    def cluster_queue_applied(self, obj: JSONObject, now_s: float) -> Effects:
        return self._apply_change(self.cache.cluster_queue_applied(obj), now_s)

    def cluster_queue_replaced(self, queue: ClusterQueue, now_s: float) -> Effects:
        """As if the API showed this queue: for dry runs (``quota/explain/remedies.py``)."""
        return self._apply_change(self.cache.cluster_queue_replaced(queue), now_s)

    def cluster_queue_removed(self, name: str, now_s: float) -> Effects:
        return self._apply_change(self.cache.cluster_queue_removed(name), now_s)

    def cohort_applied(self, obj: JSONObject, now_s: float) -> Effects:
        return self._apply_change(self.cache.cohort_applied(obj), now_s)

    def cohort_removed(self, name: str, now_s: float) -> Effects:
        return self._apply_change(self.cache.cohort_removed(name), now_s)

    def local_queue_applied(self, obj: JSONObject, now_s: float) -> Effects:
        key = self.cache.local_queue_applied(obj)
        if key:
            self.ledger.occupancy.local_queue_changed(key)
        return self._examine_all(self._by_local_queue.get(key, ()), now_s) if key else []

    def local_queue_removed(self, key: str, now_s: float) -> Effects:
        if not self.cache.local_queue_removed(key):
            return []
        self.ledger.occupancy.local_queue_changed(key)
        return self._examine_all(self._by_local_queue.get(key, ()), now_s)

    def namespace_applied(self, name: str, labels: Mapping[str, str], now_s: float) -> Effects:
        is_changed = self.cache.namespace_applied(name, labels)
        return self._examine_all(self._by_namespace.get(name, ()), now_s) if is_changed else []

    def namespace_removed(self, name: str, now_s: float) -> Effects:
        return self._examine_all(self._by_namespace.get(name, ()), now_s) if self.cache.namespace_removed(name) else []

    def workload_applied(self, obj: JSONObject, now_s: float) -> Effects:
        found = read_workload(obj)
        metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
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
                self._postponed.pop(found.key, None)  # another client changed it: the server may accept it now
        self._remember(found)
        self._assumed.observe(found)
        return self._examine(found, now_s)

    def workload_removed(self, key: str, now_s: float) -> Effects:
        workload = self.workloads.pop(key, None)
        self.cache.problems.pop(("Workload", key), None)
        if workload is not None:
            self._remove_from_indexes(workload)
        self._assumed.forget(key)
        self._dequeue(key)
        self._reviews.discard(key)
        self._requested.pop(key, None)
        self._reported.pop(key, None)
        self._postponed.pop(key, None)
        self._release_quota(key)
        return []

    def limit_range_applied(self, obj: JSONObject, now_s: float) -> Effects:
        return self._apply_pod_defaults(self._by_namespace.get(self._pod_defaults.put_range(obj), ()), now_s)

    def limit_range_removed(self, key: str, now_s: float) -> Effects:
        return self._apply_pod_defaults(self._by_namespace.get(self._pod_defaults.remove_range(key), ()), now_s)

    def runtime_class_applied(self, obj: JSONObject, now_s: float) -> Effects:
        return self._apply_pod_defaults(self._by_runtime_class.get(self._pod_defaults.put_class(obj), ()), now_s)

    def runtime_class_removed(self, name: str, now_s: float) -> Effects:
        return self._apply_pod_defaults(self._by_runtime_class.get(self._pod_defaults.remove_class(name), ()), now_s)

    def pod_applied(self, obj: JSONObject) -> bool:
        """Apply a pod: pods may use quota on their nodes after it was released (``quota/cache/occupancy.py``). Returns
        whether that changed anything."""
        occupancy, settings = self.ledger.occupancy, self._settings
        found = read_quota_pod(obj, settings.max_wait_s) if settings.starts_after_terminating else None
        if isinstance(found, QuotaPod):
            return occupancy.pod_applied(found)
        metadata = read_object(obj, "metadata")
        if found is not None:
            occupancy.ignored.setdefault(found, f"{metadata.get('namespace', '')}/{metadata.get('name', '')}")
        cause: WaitOverCause = "left" if has_ended(obj) else "not counted"
        return occupancy.pod_removed(str(metadata.get("uid", "")), cause)

    def pod_removed(self, uid: str) -> bool:
        return self.ledger.occupancy.pod_removed(uid)

    # Results of writes.

    def may_write_admission(self, key: str) -> bool:
        """False if a label deactivated the workload after its admission was decided."""
        workload = self.workloads.get(key)
        return workload is None or not is_deactivating(workload, self._settings.honours_activation)

    def written(self, effect: Effect, revision: int) -> None:
        """The write of an effect succeeded. ``revision``: the resourceVersion of the new version as a number; 0 if
        versions cannot be compared."""
        if isinstance(effect, Admit | Evict):  # others may be decided before the admission that is assumed now
            self._assumed.written(effect.key, effect.uid, revision, isinstance(effect, Evict))

    def refused(self, effect: Effect, now_s: float, until_s: float | None = None) -> Effects:
        """The write of an effect failed and is not repeated: the assumed admission or eviction is undone. ``until_s``:
        if the server rejected the write, the time before which this workload is not tried again; other workloads
        are."""
        if until_s is not None:
            self._postponed[effect.key] = until_s
        self._requested.pop(effect.key, None)
        self._reported.pop(effect.key, None)
        self._starting.pop(effect.key, None)
        if isinstance(effect, Admit | Evict):
            self._assumed.refused(effect.key, effect.uid, isinstance(effect, Evict))
        workload = self.workloads.get(effect.key)
        return [] if workload is None else self._examine(workload, now_s)

    def reconsider(self, key: str, now_s: float) -> Effects:
        """Drops what was decided for a pending workload without an admission: its claim to the quota of victims, and
        where its search for flavors stopped. It is tried again as if it were new."""
        workload = self.workloads.get(key)
        if workload is None or key in self._assumed.admissions:
            return []
        self._dequeue(key)
        return self._examine(workload, now_s)

    # Deadlines and the admission cycle.

    def next_deadline_s(self) -> float | None:
        """When ``run_cycle`` must be called without an event."""
        deadlines = (
            self.queue_manager.next_deadline_s(),
            self._reviews.next_deadline_s(),
            self.ledger.occupancy.next_deadline_s(),
        )
        return min((each for each in deadlines if each is not None), default=None)

    def run_cycle(self, now_s: float, rounds: int | None = None) -> Effects:
        """Runs the admission cycle: admits all workloads that can get quota, and evicts others for them where
        preemption is allowed; in at most ``rounds`` rounds. Also does what is due now."""
        if self.is_held:
            return []
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
        return effects + self._start(self.ledger.occupancy.ready())  # a withdrawn admission may have freed quota

    def nominate_pending(self, pending: PendingWorkload, now_s: float) -> tuple[Nomination, WorkloadDelay | None]:
        """The nomination of a workload if it were tried now, and why it may not get the quota that there is for it: it
        would delay the first in the line of a queue."""
        return self._cycle.nominate_pending(pending, now_s)

    # Helpers.

    def _cluster_queue_of(self, local_queue: str) -> str:
        found = self.cache.local_queues.get(local_queue)
        return "" if found is None else found.cluster_queue

    def _start(self, ready: Iterable[tuple[QuotaHolder, WaitOverCause]]) -> Effects:
        """Lets workloads start whose wait for terminating pods is over."""
        effects: Effects = []
        for holder, cause in ready:
            self.ledger.put(msgspec.structs.replace(holder, is_waiting=False))
            self._starting[holder.key] = holder.uid
            type_ = names.WAITING_FOR_TERMINATING_PODS
            reason, event_message = WAIT_OVER_REASONS[cause if self._settings.starts_after_terminating else "disabled"]
            effects.append(SetCondition(holder.key, holder.uid, type_, False, reason, event_message))
            effects.append(EmitWorkloadEvent(holder.key, holder.uid, False, reason, event_message))
        return effects

    def _assume_admission(self, pending: PendingWorkload, assignment: Assignment) -> bool:
        queue, admission = self.cache.queues[pending.queue], assignment.admission(pending.queue)
        self._assumed.admissions[pending.key] = AssumedWorkload(pending.workload.uid, admission)
        self._reported.pop(pending.key, None)
        return are_satisfied(pending.workload, required_checks(queue, admission))

    def _forget_assumed_admission(self, pending: PendingWorkload) -> None:
        del self._assumed.admissions[pending.key]

    def _remember(self, workload: Workload) -> None:
        known = self.workloads.get(workload.key)
        if known is not None and (known.queue_key, known.pod_sets, _names_limit(known)) != (
            workload.queue_key,
            workload.pod_sets,
            _names_limit(workload),
        ):
            self._remove_from_indexes(known)
        self.workloads[workload.key] = workload
        for index, name in self._indexes_of(workload):
            index.setdefault(name, {})[workload.key] = None

    def _indexes_of(self, workload: Workload) -> Iterator[tuple[dict[str, dict[str, None]], str]]:
        yield self._by_local_queue, workload.queue_key
        yield self._by_namespace, workload.namespace
        if _names_limit(workload):
            yield self._limited, workload.queue_key
        for name in {each.runtime_class for each in workload.pod_sets} - {""}:
            yield self._by_runtime_class, name

    def _remove_from_indexes(self, workload: Workload) -> None:
        for index, name in self._indexes_of(workload):
            index[name].pop(workload.key, None)
            if not index[name]:
                del index[name]

    def _apply_pod_defaults(self, keys: Iterable[str], now_s: float) -> Effects:
        """The defaults for pods changed: computes the requests of workloads made from templates again."""
        effects: Effects = []
        for key in list(keys):
            known = self.workloads[key]
            found = self._pod_defaults.applied_to(known)
            if found is not known:
                self._remember(found)
                effects += self._examine(found, now_s)
        return effects

    def _reject_unreadable(self, metadata: Mapping[str, object], problem: str, now_s: float) -> Effects:
        """Removes an invalid workload from its queue. Quota that it holds stays counted."""
        key = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        reported = self._reported.get(key)
        if self.ledger.get(key) is None:
            self.workload_removed(key, now_s)
        self._dequeue(key)
        self.cache.problems["Workload", key] = problem
        uid, reason = metadata.get("uid"), PendingReason(names.MISCONFIGURED, problem)
        if self.ledger.get(key) is not None or not isinstance(uid, str):
            return []
        self._reported[key] = reason
        if reported == reason:
            return []
        return [SetCondition(key, uid, names.QUOTA_RESERVED, False, reason.reason, reason.message)]

    def _examine_all(self, keys: Iterable[str], now_s: float) -> Effects:
        effects: Effects = []
        for key in list(keys):
            workload = self.workloads.get(key)
            if workload is not None:
                effects += self._examine(workload, now_s)
        return effects

    def _apply_change(self, change: CacheChange, now_s: float) -> Effects:
        """Queues changed: examines all workloads that are pending, hold quota or are blocked there."""
        effects: Effects = []
        if change.trees or change.queues:
            self._cycle.quotas_changed()
        for name in sorted(change.queues):
            queue = self.cache.queues.get(name)
            if queue is not None:
                self.queue_manager.set_strategy(name, queue.is_strict)
            self.queue_manager.set_protection(name, queue is not None and queue.protects_first)
            keys = [pending.key for pending in self.queue_manager.pending(name)]
            keys += [holder.key for holder in self.ledger.held_in(name)]
            effects += self._examine_all(keys, now_s)
            self.queue_manager.retry(name)
            if queue is None:
                self.queue_manager.forget_queue(name)
        topics = [
            *(("tree", tree) for tree in sorted(change.trees)),
            *(("cluster queue", name) for name in sorted(change.queues)),
        ]
        effects += self._examine_all(self.queue_manager.wake(topics), now_s)
        for local_queue, waiting in self._limited.items() if change.trees else ():
            if self.ledger.tree_of(self._cluster_queue_of(local_queue)) in change.trees:
                for key in waiting:
                    self._cycle.recheck_condition(key)
        if self._counts_limits is not bool(self.queue_manager.protecting_queues()):
            self._counts_limits = not self._counts_limits
            limited = [key for key, each in self.workloads.items() if each.max_execution_s is not None]
            effects += self._examine_all([key for key in limited if key in self.queue_manager], now_s)
        return effects

    def _examine(self, workload: Workload, now_s: float) -> Effects:
        """Updates all state for the workload: the ledger, its queue, or why it is kept out of its queue. Returns the
        effects that do not depend on free quota."""
        if self.is_held:
            return []
        holds = self._update_ledger(workload, now_s)
        if not holds and self._is_postponed(workload, now_s):
            return []
        effects = [] if workload.key in self._assumed.admissions else self._review(workload, now_s)
        if holds or workload.is_finished or workload.is_terminating:
            self._dequeue(workload.key)
            self._reported.pop(workload.key, None)
            return effects
        context = self.cache.context_of(workload)
        blocker = find_blocker(workload, context, now_s)
        if blocker is not None or context.cluster_queue is None:
            return effects + self._block(workload, blocker, now_s)
        self._reported.pop(workload.key, None)
        since_s = queue_order_s(workload, self._settings.pods_ready)
        pending = PendingWorkload(workload, context.cluster_queue.name, since_s, self._shape_of(workload))
        known = self.queue_manager.get(workload.key)
        if known is not None and (known.queue, known.shape, known.order) != (
            pending.queue,
            pending.shape,
            pending.order,
        ):
            self._cycle.forget(workload.key)
        self.queue_manager.add(pending)
        shown = workload.conditions.get(names.QUOTA_RESERVED)
        if shown is not None and not shown.is_true and shown.reason in _ENDED_BY_OTHER_OBJECTS:
            self._cycle.recheck_condition(workload.key)
        return effects

    def _shape_of(self, workload: Workload) -> Hashable:
        """What decides whether the workload gets quota. Where queues protect the first in line, that is also how long
        the workload may run."""
        if not self._counts_limits or workload.max_execution_s is None:
            return workload.shape
        return workload.shape, workload.max_execution_s - workload.past_execution_s, workload.grace_s

    def _is_postponed(self, workload: Workload, now_s: float) -> bool:
        until_s = self._postponed.get(workload.key)
        if until_s is None or until_s <= now_s:
            self._postponed.pop(workload.key, None)
            return False
        self._dequeue(workload.key)
        self.queue_manager.block(workload.key, PendingReason(""), (), until_s, _order(workload))
        return True

    def _update_ledger(self, workload: Workload, now_s: float) -> bool:
        """Records in the ledger the quota that the workload holds: as the API shows it, or as this engine has decided
        and assumes. Returns whether it holds quota."""
        key = workload.key
        assumed = self._assumed.admissions.get(key)
        admission = workload.admission if workload.holds_quota else (assumed.admission if assumed else None)
        if admission is None:
            self._release_quota(key)
            return False
        reserved = workload.conditions.get(names.QUOTA_RESERVED)
        known = self.ledger.get(key)
        since_s, cycle_order = (now_s, 0) if known is None else (known.reserved_s, known.cycle_order)
        if workload.holds_quota and reserved is not None:
            since_s, cycle_order = reserved.since_s, 0
        is_waiting, ends_s = (False, None) if known is None else (known.is_waiting, known.ends_s)
        if workload.holds_quota:
            deadline = execution_deadline(workload)
            ends_s = None if deadline is None else deadline.at_s
            is_waiting = workload.has(names.WAITING_FOR_TERMINATING_PODS)
            if not is_waiting:
                self._starting.pop(key, None)
            elif self._starting.get(key) == workload.uid:
                is_waiting = False
        is_evicted = key in self._assumed.evictions or (
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
            is_evicted,
            cycle_order,
            is_waiting,
            ends_s,
            workload.grace_s if ends_s is not None else 0,
            known is not None and known.has_reclaimed,
        )
        if holder != known:
            self.ledger.put(holder)
            self._wake_for_release(known, holder)
        return True

    def _review(self, workload: Workload, now_s: float) -> Effects:
        """The effects of ``quota/queues/workload_lifecycle.py``. The same effects are not returned twice in a row."""
        found = review(WorkloadReviewInput(workload, self.cache.context_of(workload), self._settings.pods_ready, now_s))
        if found.at_s is None:
            self._reviews.discard(workload.key)
        else:
            self._reviews.put(workload.key, found.at_s)
        if not found.effects or self._requested.get(workload.key) == found.effects:
            if not found.effects:
                self._requested.pop(workload.key, None)
            return []
        if workload.key in self._assumed.evictions and any(isinstance(each, Evict) for each in found.effects):
            return []
        self._requested[workload.key] = found.effects
        for effect in found.effects:
            if isinstance(effect, Evict) and self.ledger.get(workload.key) is not None:
                self._assumed.evictions[workload.key] = AssumedWorkload(workload.uid)
                self._update_ledger(workload, now_s)
        return self._with_checks(found.effects, now_s)

    def _with_checks(self, effects: Iterable[Effect], now_s: float) -> Effects:
        """Adds the reset of admission checks to evictions."""
        done: Effects = []
        for effect in effects:
            workload = self.workloads.get(effect.key)
            if isinstance(effect, Evict) and workload is not None and workload.checks:
                effect = msgspec.structs.replace(effect, checks=reset_checks(workload.checks, now_s))
            done.append(effect)
        return done

    def _block(self, workload: Workload, blocker: Blocker | None, now_s: float) -> Effects:
        """Keeps the workload out of its queue. Returns the writes of its condition if the reason is new."""
        self._dequeue(workload.key)
        if blocker is None:
            return []
        self.queue_manager.block(workload.key, blocker.reason, blocker.topics, blocker.until_s, _order(workload))
        reason, shown = blocker.reason, workload.conditions.get(names.QUOTA_RESERVED)
        if not reason.reason or self._reported.get(workload.key) == reason:
            return []
        self._reported[workload.key] = reason
        if shown is not None and (shown.is_true, shown.reason, shown.message) == (False, reason.reason, reason.message):
            return []
        effects: Effects = [
            SetCondition(workload.key, workload.uid, names.QUOTA_RESERVED, False, reason.reason, reason.message)
        ]
        if reason.reason == names.ADMISSION_GATED:
            event_message = f"Workload admission is gated by: {workload.gates}"
            effects.append(EmitWorkloadEvent(workload.key, workload.uid, False, reason.reason, event_message))
        return effects

    def _dequeue(self, key: str) -> None:
        """Removes the workload from its queue, and its claim to the quota of victims."""
        self._cycle.forget(key)
        self.queue_manager.remove(key)

    def _release_quota(self, key: str) -> None:
        """Removes the quota that the workload holds from the ledger."""
        self._starting.pop(key, None)
        workload = self.workloads.get(key)
        holder = self.ledger.remove(key, keeps_pods=workload is not None and not workload.is_finished)
        if holder is not None:
            self._wake_for_release(holder, None)

    def _wake_for_release(self, before: QuotaHolder | None, after: QuotaHolder | None) -> None:
        """Wakes workloads that may use what this workload no longer holds."""
        if before is None:
            return
        is_same_queue = after is not None and after.queue == before.queue
        still_held = after.usage if after is not None and is_same_queue else {}
        is_eviction_undone = after is not None and before.is_evicted and not after.is_evicted
        freed = [fr for fr, amount in before.usage.items() if is_eviction_undone or still_held.get(fr, 0) < amount]
        self._wake_freed(before.queue, freed)

    def _wake_freed(self, queue: str, freed: Sequence[FlavorResource]) -> None:
        if freed:
            tree = self.ledger.tree_of(queue)
            self.queue_manager.wake([("freed", tree, *fr) for fr in sorted(freed)])


def _names_limit(workload: Workload) -> bool:
    """Whether the condition says that the quotas do not allow the workload: other quotas may end that."""
    shown = workload.conditions.get(names.QUOTA_RESERVED)
    return shown is not None and not shown.is_true and shown.reason in _LIMITS


def _order(workload: Workload) -> tuple[int, float, str]:
    """The order among blocked workloads."""
    return -workload.priority, workload.created_s, workload.uid
