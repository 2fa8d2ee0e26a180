"""The disruption controller: keeps the status of PodDisruptionBudgets up to date. See the package for the parts.

The eviction API of the API server reads and writes the same status. The controller therefore replaces the whole status
with the resource version that it read; after a conflict it tries again with the new version.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from headgate.controllers.disruption import events
from headgate.controllers.disruption.budget_pods import BudgetPodCounts, BudgetPodIndex, Key, read_pod
from headgate.controllers.disruption.disruption_target import cleared_condition, stale_at_s
from headgate.controllers.disruption.scales import WATCHED, ControllerScales, expected_pods
from headgate.controllers.disruption.status import (
    DisruptedPods,
    ErrorText,
    counted_status,
    desired_healthy,
    disrupted_pods,
    failed_status,
    needs_scale,
)
from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import Effect, EffectResponse, Get, Patch, Replace
from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.kube.api_resources import POD_DISRUPTION_BUDGETS, PODS, APIResource
from headgate.kube.labels import from_label_selector
from headgate.kube.object_meta import resource_version_of
from headgate.kube.timestamps import format_time

Object = dict[str, Any]

_POD_FIELDS: Final = (
    "metadata.labels",
    "metadata.ownerReferences",
    "metadata.deletionTimestamp",
    "metadata.generation",
    "status.phase",
    "status.conditions",
)
_BATCH_S: Final = 0.02
"""The delay before the pods of a budget are counted after a change of a pod. The changes of many pods that arrive
together lead to one count."""
_MARGIN_S: Final = 0.02
"""The next count runs this long after an eviction becomes overdue, so that the time has passed at the count."""


class _Budget(msgspec.Struct, frozen=True):
    key: Key


class _PodWithSeveralBudgets(msgspec.Struct, frozen=True):
    """A pod that more than one budget selects."""

    uid: str


class _DisruptionTargetPod(msgspec.Struct, frozen=True):
    """A pod with a DisruptionTarget condition."""

    namespace: str
    name: str
    uid: str


class DisruptionController(Controller):
    name = "budgets"

    def __init__(self) -> None:
        self._served = DiscoveredKinds()
        self._budgets: Final[dict[Key, Object]] = {}
        self._pod_index: Final = BudgetPodIndex()
        self._scales: Final = ControllerScales()

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        self._served = served
        return ()

    def watches(self) -> Iterable[WatchSpec]:
        yield WatchSpec(POD_DISRUPTION_BUDGETS, ALL_FIELDS)
        yield WatchSpec(PODS, frozenset(_POD_FIELDS))
        for resource, fields in WATCHED.items():
            yield WatchSpec(resource, fields)

    # -- watch events ----------------------------------------------------------------------------------------------

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            return self._pod_applied(obj, now_s)
        if resource == POD_DISRUPTION_BUDGETS:
            return [Enqueue(_Budget(key)) for key in self._budget_applied(obj)]
        self._scales.applied(resource, obj)
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PODS:
            return [Enqueue(_Budget(key), _BATCH_S) for key in self._pod_index.pod_removed(uid)]
        if resource == POD_DISRUPTION_BUDGETS:
            if self._budgets.get((namespace, name), {}).get("metadata", {}).get("uid") == uid:
                del self._budgets[namespace, name]
                self._pod_index.budget_removed((namespace, name))
        else:
            self._scales.removed(resource, namespace, name, uid)
        return ()

    def _pod_applied(self, obj: Object, now_s: float) -> Iterable[Enqueue]:
        pod = read_pod(obj)
        enqueues = [Enqueue(_Budget(key), _BATCH_S) for key in self._pod_index.pod_applied(pod)]
        if enqueues and len(self._pod_index.budgets_of(pod.uid)) > 1:
            enqueues.append(Enqueue(_PodWithSeveralBudgets(pod.uid)))
        at_s = stale_at_s(obj)
        if at_s is not None:
            enqueues.append(Enqueue(_DisruptionTargetPod(pod.namespace, pod.name, pod.uid), max(0.0, at_s - now_s)))
        return enqueues

    def _budget_applied(self, obj: Object) -> Iterable[Key]:
        """Stores a budget from the watch or from a response, unless it is older than the known version."""
        metadata = obj["metadata"]
        key = metadata["namespace"], metadata["name"]
        known = self._budgets.get(key)
        if (
            known is not None
            and known["metadata"]["uid"] == metadata["uid"]
            and resource_version_of(known) >= resource_version_of(obj)
        ):
            return ()
        self._budgets[key] = obj
        self._pod_index.budget_applied(key, from_label_selector((obj.get("spec") or {}).get("selector")))
        return (key,)

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: _Budget | _PodWithSeveralBudgets | _DisruptionTargetPod, now_s: float) -> ReconcileSteps:
        match key:
            case _Budget(budget_key):
                return (yield from self._reconcile_budget(budget_key, now_s))
            case _PodWithSeveralBudgets(uid):
                pod, budgets = self._pod_index.pod(uid), self._pod_index.budgets_of(uid)
                if pod is not None and len(budgets) > 1:
                    yield events.several_budgets(pod, budgets)
                return Done()
            case _DisruptionTargetPod():
                return (yield from _clear_disruption_target(key, now_s))

    def _reconcile_budget(self, key: Key, now_s: float) -> ReconcileSteps:
        budget = self._budgets.get(key)
        if budget is None:
            return Done()
        pod_counts = self._pod_index.counts(key)
        if not pod_counts.pods:
            yield events.no_pods(budget)
        expected = yield from self._count_expected_pods(budget, pod_counts)
        if self._budgets.get(key) is not budget:
            return Done()  # the budget changed during the request, and the event of this change has enqueued it
        disrupted = disrupted_pods(budget, pod_counts, partial(self._pod_index.pod_by_name, key[0]), now_s)
        if isinstance(expected, str):
            yield events.uncountable(budget, expected)
            status = failed_status(budget, expected, format_time(now_s))
        else:
            if pod_counts.unmanaged and needs_scale(budget["spec"]):
                yield events.unmanaged(budget)
            for pod in disrupted.overdue:
                yield events.not_deleted(budget, pod)
            status = counted_status(budget, disrupted, pod_counts.healthy, *expected, format_time(now_s))
        return (yield from self._write(key, budget, status, disrupted, now_s))

    def _count_expected_pods(
        self, budget: Object, pod_counts: BudgetPodCounts
    ) -> Generator[Effect, EffectResponse, tuple[int, int] | ErrorText]:
        """The expected number of pods, and how many of them must stay healthy; or why these are not known."""
        total: int | ErrorText = len(pod_counts.pods)
        if needs_scale(budget["spec"]):
            total = yield from expected_pods(self._scales, self._served, budget["metadata"]["namespace"], pod_counts)
        if isinstance(total, str):
            return total
        healthy = desired_healthy(budget["spec"], total)
        return healthy if isinstance(healthy, str) else (total, healthy)

    def _write(
        self, key: Key, budget: Object, status: Object, disrupted: DisruptedPods, now_s: float
    ) -> ReconcileSteps:
        """Writes the status if it has changed. Requeues for the time at which the next eviction becomes
        overdue."""
        if status != (budget.get("status") or {}):
            new = {**budget, "status": status}
            response = yield Replace(POD_DISRUPTION_BUDGETS, *key, new, subresource="status")
            if response.missing:
                return Done()
            if not response.ok:
                return RequeueWithBackoff(response.message)
            self._budget_applied(response.body)
        return (
            Done()
            if disrupted.next_overdue_s is None
            else RequeueAfter(max(disrupted.next_overdue_s - now_s, 0.0) + _MARGIN_S)
        )


def _clear_disruption_target(key: _DisruptionTargetPod, now_s: float) -> ReconcileSteps:
    """Resets the condition DisruptionTarget of the pod if its time has passed."""
    response = yield Get(PODS, key.namespace, key.name, _POD_FIELDS)
    if response.missing or (response.ok and response.body["metadata"]["uid"] != key.uid):
        return Done()
    if not response.ok:
        return RequeueWithBackoff(response.message)
    at_s = stale_at_s(response.body)
    if at_s is None:
        return Done()
    if at_s > now_s:
        return RequeueAfter(at_s - now_s)
    body = cleared_condition(response.body, format_time(now_s))
    response = yield Patch(PODS, key.namespace, key.name, body, subresource="status")
    return Done() if response.ok or response.missing else RequeueWithBackoff(response.message)
