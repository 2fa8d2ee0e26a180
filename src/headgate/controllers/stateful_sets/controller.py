"""The StatefulSet controller: its watches, the keys that it enqueues, and the order of its steps.

A reconcile first records the revision of the pod template, then creates, updates and deletes pods in the order of
``plan.py``, and last writes the status and deletes old revisions. Its time is linear in the number of pods of the
StatefulSet. The events of pods that arrive within 10 ms lead to one reconcile.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Final

from headgate.controllers.framework.reconcile import (
    ALL_FIELDS,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.ownership import controller_revisions, pods
from headgate.controllers.ownership.adoption import claim
from headgate.controllers.ownership.cache import Key
from headgate.controllers.ownership.revisioned_controller import RevisionedController
from headgate.controllers.stateful_sets.claim_cache import ClaimCache
from headgate.controllers.stateful_sets.identity import KIND, ordinal_of
from headgate.controllers.stateful_sets.plan import StatefulSetPod, StatefulSetRules, member_of, plan_pods, rules_of
from headgate.controllers.stateful_sets.pod_control import StatefulSetTask, TemplateRevision, execute_plan, needs_repair
from headgate.controllers.stateful_sets.status import has_changed, status_of
from headgate.kube.api_resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, APIResource

Object = dict[str, Any]

COMPONENT: Final = "statefulset-controller"
_BATCH_S: Final = 0.01
_CLAIM_FIELDS: Final = frozenset({"metadata.ownerReferences", "metadata.deletionTimestamp"})


class StatefulSetController(RevisionedController):
    name = "stateful-sets"

    def __init__(self) -> None:
        super().__init__(KIND, STATEFUL_SETS, COMPONENT, _BATCH_S)
        self._claims: Final = ClaimCache()

    def watches(self) -> Iterable[WatchSpec]:
        return (
            WatchSpec(STATEFUL_SETS, ALL_FIELDS),
            WatchSpec(PODS, pods.FIELDS),
            WatchSpec(CONTROLLER_REVISIONS, ALL_FIELDS),
            WatchSpec(PERSISTENT_VOLUME_CLAIMS, _CLAIM_FIELDS),
        )

    def _other_applied(self, obj: Object) -> Iterable[Enqueue]:
        self._claims.applied(obj)
        return ()

    def _other_removed(self, namespace: str, name: str, uid: str) -> Iterable[Enqueue]:
        return map(Enqueue, self._claims.removed(namespace, name, uid))

    def synced(self, resource: APIResource, revision: str, now_s: float) -> Iterable[Enqueue]:
        if resource == PERSISTENT_VOLUME_CLAIMS:
            self._claims.synced(revision)
        return super().synced(resource, revision, now_s)

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        problem = yield from claim(self._revisions, key)
        if problem is None:
            problem = yield from claim(self._pods, key, can_use=lambda pod: _ordinal(key, pod) is not None)
        set_ = self._pods.owner(key)
        if set_ is None:
            return Done()
        if problem is not None:
            return RequeueWithBackoff(problem)
        recorded = yield from self._revision(set_, functools.partial(_new_revision, set_))
        if recorded.revision is None:
            return RequeueWithBackoff(recorded.problem) if recorded.problem else Done()
        return (yield from self._reconcile_pods(key, set_, recorded.revision, recorded.collisions, now_s))

    def _reconcile_pods(self, key: Key, set_: Object, update: Object, collisions: int, now_s: float) -> ReconcileSteps:
        history = self._history(set_)
        current_name = (set_.get("status") or {}).get("currentRevision")
        current = next((each for each in history if each["metadata"]["name"] == current_name), update)
        rules = rules_of(set_)
        task = StatefulSetTask(
            set_, rules, _template_revision(current), _template_revision(update), self._pods, self._claims
        )
        problem = None
        if "deletionTimestamp" not in set_["metadata"]:
            members = self._members(key, rules, now_s)
            stages = plan_pods(rules, members, task.update.name, lambda member: needs_repair(task, member))
            problem = yield from execute_plan(task, stages)
        members = self._members(key, rules, now_s)
        status = status_of(set_, rules, members, task.current.name, task.update.name, collisions)
        status_problem = (yield from self._write_status(set_, status)) if has_changed(set_, status) else None
        problem = (
            problem
            or status_problem
            or (yield from self._drop_revisions(_excess_revisions(set_, members, task, history)))
        )
        return RequeueWithBackoff(problem) if problem is not None else _next_check(members, rules, now_s)

    # -- lookups ---------------------------------------------------------------------------------------------------

    def _members(self, key: Key, rules: StatefulSetRules, now_s: float) -> list[StatefulSetPod]:
        set_ = self._pods.owner(key)
        dependents = {} if set_ is None else self._pods.dependents(set_["metadata"]["uid"])
        return [
            member_of(pod, ordinal, rules.min_ready_s, now_s, is_terminating=self._pods.is_terminating(uid))
            for uid, pod in dependents.items()
            if (ordinal := _ordinal(key, pod)) is not None
        ]


def _ordinal(key: Key, pod: Object) -> int | None:
    return ordinal_of(key[1], pod["metadata"]["name"])


def _new_revision(set_: Object, number: int, collisions: int) -> Object:
    return controller_revisions.new_revision(
        set_, KIND, number, controller_revisions.data_hash(controller_revisions.data_of(set_, KIND), collisions)
    )


def _excess_revisions(
    set_: Object, members: Iterable[StatefulSetPod], task: StatefulSetTask, history: list[Object]
) -> list[Object]:
    limit = set_["spec"].get("revisionHistoryLimit")
    used = {task.current.name, task.update.name, *(each.revision for each in members)}
    return controller_revisions.excess_revisions(history, used, 10 if limit is None else limit)


def _template_revision(revision: Object) -> TemplateRevision:
    return TemplateRevision(revision["metadata"]["name"], controller_revisions.template_of(revision))


def _next_check(members: Iterable[StatefulSetPod], rules: StatefulSetRules, now_s: float) -> Done | RequeueAfter:
    """Requeues for the time at which the next ready pod becomes available."""
    available_at_s = [pods.available_at_s(each.pod, rules.min_ready_s) for each in members if not each.is_available]
    times = [each for each in available_at_s if each < float("inf")]
    return RequeueAfter(max(min(times) - now_s, 0.001)) if times else Done()
