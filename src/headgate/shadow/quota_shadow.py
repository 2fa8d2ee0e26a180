"""Compares the decisions of Kueue with those of the quota engine (``quota/engine.py``) in the same state.

The engine follows the API: what Kueue admits and evicts are facts for it. Its own decisions are never written; they
stay *planned*, as if their writes were in progress. When the API shows a decision of Kueue, it is looked up in the
plan:

- It is planned: the decision is the same, and the rest of the plan stands.
- It is not: the plan of that tree of queues may be outdated, because the engine made it step by step while Kueue was
  still deciding. It is dropped and made again from the present state, and the decision is looked up once more. What is
  still not planned is a difference.

A plan that stands also covers decisions that Kueue made a moment earlier, before it had seen the latest change. A
planned decision that Kueue has not made after the patience is planned again, and if it still is, it is a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.reconcile import WatchSpec
from headgate.kube.api_resources import PODS, APIResource
from headgate.quota import names
from headgate.quota.api.workload import Admission, Workload, read_workload
from headgate.quota.controller.engine_inputs import EngineInputs
from headgate.quota.effects import Admit, Effect, Evict
from headgate.quota.engine import QuotaEngine, QuotaSettings
from headgate.quota.kinds.names import WORKLOADS
from headgate.shadow.comparison import Compared, ComparedDecision, DecisionComparison, Outcome
from headgate.shadow.open_decisions import OpenDecisions

Object = dict[str, Any]
Unit = tuple[str, str]
"""The key of a Workload and its uid."""

_PREEMPTOR: Final = re.compile(r"\(UID: ([^,)]+)")
_MAX_INSTEAD: Final = 5


class QuotaShadow:
    """``compared`` is called for each decision that was compared. Nothing is compared before :meth:`begin`."""

    name: Final = "quota"

    def __init__(self, settings: QuotaSettings, compared: Compared, patience_s: float) -> None:
        self.engine: Final = QuotaEngine(settings)
        self._inputs: Final = EngineInputs(self.engine, watches_pods=settings.starts_after_terminating)
        self._compared: Final = compared
        self._is_comparing = False
        self._admissions: Final[dict[str, Admit]] = {}  # the plan, by workload
        self._evictions: Final[dict[str, Evict]] = {}
        self._open_admissions: Final[OpenDecisions[Unit]] = OpenDecisions(patience_s)
        self._open_evictions: Final[OpenDecisions[Unit]] = OpenDecisions(patience_s)
        self._dropped: Final[list[Admit | Evict]] = []  # of the plan, since it was last made

    def discovered(self, served: DiscoveredKinds) -> None:
        self._inputs.discovered(served)

    def watches(self) -> Iterable[WatchSpec]:
        return self._inputs.watches()

    def open_decisions(self) -> Mapping[str, int]:
        return {"admission": len(self._open_admissions), "eviction": len(self._open_evictions)}

    # -- the world -------------------------------------------------------------------------------------------------

    def begin(self, now_s: float) -> None:
        """All objects are known: from now on decisions are planned and compared."""
        self._is_comparing = True
        self._plan(now_s)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> None:
        if resource == WORKLOADS:
            self._workload_applied(obj, now_s)
        elif resource == PODS:
            self.engine.pod_applied(obj)
        else:
            self._collect(self._inputs.applied[resource](obj, now_s), now_s)
        self._plan(now_s)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> None:
        key = f"{namespace}/{name}" if namespace else name
        if resource == PODS:
            self.engine.pod_removed(uid)
        elif resource == WORKLOADS:
            known = self.engine.workloads.get(key)
            if known is not None and known.uid != uid:
                return  # a new object has the name now
            self._forget(key, uid)
            self._collect(self._inputs.removed[resource](key, now_s), now_s)
        else:
            self._collect(self._inputs.removed[resource](key, now_s), now_s)
        self._plan(now_s)

    def _workload_applied(self, obj: Object, now_s: float) -> None:
        workload = read_workload(obj)
        if isinstance(workload, str):
            metadata = obj["metadata"]
            key = f"{metadata.get('namespace', '')}/{metadata['name']}"
            self._drop([key], now_s)
            self._forget(key, metadata["uid"])
            self._collect(self.engine.workload_applied(obj, now_s), now_s)
            return
        known, is_difference = self.engine.workloads.get(workload.key), False
        if known is not None and known.uid != workload.uid:
            self._forget(known.key, known.uid)
        elif known is not None and self._is_comparing:
            if workload.holds_quota and not known.holds_quota:
                is_difference = self._compare_admission(workload, now_s)
            elif known.holds_quota and workload.is_evicted and not known.is_evicted:
                is_difference = self._compare_eviction(known, workload, now_s)
            elif not _is_as_eligible(known, workload):
                self._drop([workload.key], now_s)
        if workload.is_finished or workload.is_terminating:
            self._drop([workload.key], now_s)
            self._forget(workload.key, workload.uid)
        self._collect(self.engine.workload_applied(obj, now_s), now_s)
        if is_difference:
            self._plan_again(self._tree_of(workload), now_s)

    # -- the plan --------------------------------------------------------------------------------------------------

    def step(self, now_s: float) -> float | None:
        """Does what is due. Returns when it has to be called again without an event."""
        self._plan(now_s)
        for open_decisions in (self._open_admissions, self._open_evictions):
            overdue = open_decisions.overdue(now_s)
            for tree in sorted({self._tree_of(self.engine.workloads.get(key)) for key, _ in overdue}):
                self._plan_again(tree, now_s)
        for unit in self._open_admissions.overdue(now_s):
            self._report_admission(unit)
        for unit in self._open_evictions.overdue(now_s):
            self._report_eviction(unit)
        deadlines = (
            self.engine.next_deadline_s(),
            self._open_admissions.next_deadline_s(),
            self._open_evictions.next_deadline_s(),
        )
        return min((each for each in deadlines if each is not None), default=None)

    def _plan(self, now_s: float) -> None:
        if not self._is_comparing:
            return
        self._collect(self.engine.run_cycle(now_s), now_s)
        for each in self._dropped:
            is_admission = isinstance(each, Admit)
            planned: Admit | Evict | None
            planned = self._admissions.get(each.key) if is_admission else self._evictions.get(each.key)
            if planned is None or planned.uid != each.uid:
                (self._open_admissions if is_admission else self._open_evictions).close((each.key, each.uid))
        self._dropped.clear()

    def _collect(self, decided: Iterable[Effect], now_s: float) -> None:
        """Adds decisions to the plan."""
        for effect in decided:
            unit = effect.key, effect.uid
            if isinstance(effect, Admit):
                self._admissions[effect.key] = effect
                self._open_admissions.add(unit, now_s)
            elif isinstance(effect, Evict):
                self._evictions[effect.key] = effect
                self._open_evictions.add(unit, now_s)

    def _drop(self, keys: Iterable[str], now_s: float) -> None:
        """Undoes the planned decisions about these workloads. The engine decides again about them."""
        preemptors: dict[str, None] = {}
        again: list[Effect] = []
        for key in keys:
            admission, eviction = self._admissions.pop(key, None), self._evictions.pop(key, None)
            dropped: tuple[Admit | Evict | None, ...] = (admission, eviction)
            for each in dropped:
                if each is not None:
                    again += self.engine.refused(each, now_s)
                    self._dropped.append(each)
            if eviction is not None:
                preemptors[eviction.preemptor] = None
        for preemptor in preemptors:
            again += self.engine.reconsider(preemptor, now_s)
        self._collect(again, now_s)

    def _plan_again(self, tree: str, now_s: float) -> None:
        """Drops the plan of a tree of queues and makes it again from the present state."""
        queues = [name for name in self.engine.cache.queues if self.engine.ledger.tree_of(name) == tree]
        inside = set(queues)
        admitted = [key for key, each in self._admissions.items() if each.admission.cluster_queue in inside]
        evicted = [key for key in self._evictions if self._tree_of(self.engine.workloads.get(key)) == tree]
        self._drop(dict.fromkeys((*admitted, *evicted)), now_s)
        for name in queues:
            self.engine.queue_manager.retry(name)
        self._plan(now_s)

    def _forget(self, key: str, uid: str) -> None:
        self._admissions.pop(key, None)
        self._evictions.pop(key, None)
        self._open_admissions.close((key, uid))
        self._open_evictions.close((key, uid))

    def _tree_of(self, workload: Workload | None) -> str:
        if workload is None:
            return ""
        local = self.engine.cache.local_queues.get(workload.queue_key)
        queue = local.cluster_queue if local is not None else ""
        if workload.admission is not None:
            queue = workload.admission.cluster_queue
        return self.engine.ledger.tree_of(queue) if queue else ""

    # -- comparisons -----------------------------------------------------------------------------------------------

    def _compare_admission(self, workload: Workload, now_s: float) -> bool:
        """Kueue gave quota to the workload. Returns whether Headgate would decide otherwise."""
        key, given = workload.key, workload.admission
        planned = self._admissions.get(key)
        if not _is_same(planned, given):
            self._plan_again(self._tree_of(workload), now_s)
            planned = self._admissions.get(key)
        open_decision = self._open_admissions.close((key, workload.uid))
        self._admissions.pop(key, None)
        is_late = open_decision is not None and open_decision.is_reported
        if _is_same(planned, given):
            self._compare("late" if is_late else "same", "admission", workload, other=describe_admission(given))
            return False
        waits = self.engine.queue_manager.pending_reason(key)
        if planned is not None:
            outcome: Outcome = "other_flavors"
            self._collect(self.engine.refused(planned, now_s), now_s)
            self._admissions.pop(key, None)
        else:
            outcome = "only_other"
        self._compare(
            outcome,
            "admission",
            workload,
            other=describe_admission(given),
            headgate="waits" if planned is None else describe_admission(planned.admission),
            reason="" if waits is None or planned is not None else waits.reason,
            message="" if waits is None or planned is not None else waits.message,
            instead=self._planned_in(self._tree_of(workload)),
        )
        return True

    def _compare_eviction(self, known: Workload, workload: Workload, now_s: float) -> bool:
        """Kueue evicted the workload. Returns whether Headgate would decide otherwise."""
        key, evicted = workload.key, workload.conditions[names.EVICTED]
        if key not in self._evictions:
            self._plan_again(self._tree_of(known), now_s)
        planned = self._evictions.pop(key, None)
        open_decision = self._open_evictions.close((key, workload.uid))
        is_late = open_decision is not None and open_decision.is_reported
        named = _PREEMPTOR.search(evicted.message)
        preemptor = self._key_of(named[1]) if named is not None else ""
        other = f"evicted: {evicted.reason}"
        if planned is not None:
            outcome: Outcome = "late" if is_late else "same"
            self._compare(outcome, "eviction", workload, other=other, preemptor=preemptor)
            return False
        victims = tuple(each.key for each in self._evictions.values() if preemptor and each.preemptor == preemptor)
        waits = self.engine.queue_manager.pending_reason(preemptor) if preemptor else None
        admitted = self._admissions.get(preemptor)
        if victims:
            headgate = f"evicts {', '.join(victims)} for {preemptor}"
        elif admitted is not None:
            headgate = f"admits {preemptor} without an eviction: {describe_admission(admitted.admission)}"
        else:
            headgate = f"evicts nothing for {preemptor}" if preemptor else "does not evict it"
        self._compare(
            "other_victims" if victims else "only_other",
            "eviction",
            workload,
            other=other,
            headgate=headgate,
            reason="" if waits is None else waits.reason,
            message="" if waits is None else waits.message,
            preemptor=preemptor,
            instead=self._planned_in(self._tree_of(known)),
        )
        return True

    def _report_admission(self, unit: Unit) -> None:
        self._open_admissions.report(unit)
        workload, planned = self.engine.workloads[unit[0]], self._admissions[unit[0]]
        shown = workload.conditions.get(names.QUOTA_RESERVED)
        self._compare(
            "only_headgate",
            "admission",
            workload,
            other="waits",
            headgate=describe_admission(planned.admission),
            reason="" if shown is None else shown.reason,
            message="" if shown is None else shown.message,
        )

    def _report_eviction(self, unit: Unit) -> None:
        self._open_evictions.report(unit)
        workload, planned = self.engine.workloads[unit[0]], self._evictions[unit[0]]
        self._compare(
            "only_headgate",
            "eviction",
            workload,
            other="does not evict it",
            headgate=f"evicts it: {planned.preempted or planned.reason}",
            message=planned.message,
            preemptor=planned.preemptor,
        )

    def _planned_in(self, tree: str) -> tuple[str, ...]:
        """The workloads that Headgate would admit in the same tree of queues."""
        found = [
            key
            for key, each in self._admissions.items()
            if self.engine.ledger.tree_of(each.admission.cluster_queue) == tree
        ]
        return tuple(sorted(found)[:_MAX_INSTEAD])

    def _key_of(self, uid: str) -> str:
        """The workload with this uid. Linear; only for preemptions."""
        return next((key for key, each in self.engine.workloads.items() if each.uid == uid), "")

    def _compare(
        self,
        outcome: Outcome,
        decision: ComparedDecision,
        workload: Workload,
        *,
        other: str,
        headgate: str = "",
        reason: str = "",
        message: str = "",
        preemptor: str = "",
        instead: tuple[str, ...] = (),
    ) -> None:
        local = self.engine.cache.local_queues.get(workload.queue_key)
        self._compared(
            DecisionComparison(
                outcome=outcome,
                component=self.name,
                decision=decision,
                kind="Workload",
                namespace=workload.namespace,
                name=workload.name,
                uid=workload.uid,
                queue=workload.queue,
                cluster_queue="" if local is None else local.cluster_queue,
                other=other,
                headgate=headgate or other,
                reason=reason,
                message=message,
                preemptor=preemptor,
                instead=instead,
            )
        )


def describe_admission(admission: Admission | None) -> str:
    """Flavors and pod counts, such as ``admitted: main 2 pods, cpu in spot``."""
    if admission is None:
        return "admitted"
    sets = []
    for each in admission.pod_sets:
        flavors = [f"{resource} in {flavor}" for resource, flavor in sorted(each.flavors.items())]
        sets.append(", ".join((f"{each.name} {each.count} pods", *flavors)))
    return f"admitted: {'; '.join(sets)}"


def _is_same(planned: Admit | None, given: Admission | None) -> bool:
    if planned is None or given is None or planned.admission.cluster_queue != given.cluster_queue:
        return False
    sides = [
        {each.name: (dict(each.flavors), each.count) for each in one.pod_sets} for one in (planned.admission, given)
    ]
    return sides[0] == sides[1]


def _is_as_eligible(known: Workload, workload: Workload) -> bool:
    """Whether nothing changed that decides whether the workload gets or keeps quota."""
    return _eligibility(known) == _eligibility(workload)


def _eligibility(workload: Workload) -> tuple[Any, ...]:
    return (
        *(workload.queue, workload.priority, workload.is_active, workload.gates, dict(workload.reclaimable)),
        *(workload.requeue_at_s, workload.is_finished, workload.is_terminating, workload.holds_quota),
        *(workload.is_evicted, [(each.name, each.count, each.effective_min_count) for each in workload.pod_sets]),
    )
