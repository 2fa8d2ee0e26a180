"""The controller of StatefulSets: what it hears, whom it wakes, and in which order the steps of its work come.

Revisions first (they name what a pod is made from), then the pods in the order that ``plan.py`` allows, then status and
history. A round is linear in the pods of one set; news of pods are gathered for a moment before they wake it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Final

from headgate.kube.resource import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, Resource
from headgate.owners import revisions
from headgate.owners.contract import WHOLE, Again, Done, Interest, Later, Steps, Wake
from headgate.owners.families import pods
from headgate.owners.families.claiming import claim
from headgate.owners.families.family import Key
from headgate.owners.revisioned import RevisionedOwners
from headgate.owners.stateful_sets.claims import Claims
from headgate.owners.stateful_sets.hands import Task, Version, carry_out, needs_mending
from headgate.owners.stateful_sets.identity import KIND, ordinal_of
from headgate.owners.stateful_sets.plan import Member, Rules, member_of, plan, rules_of
from headgate.owners.stateful_sets.status import is_news, status_of

Object = dict[str, Any]

COMPONENT: Final = "statefulset-controller"
_GATHER_S: Final = 0.01
_CLAIM_FIELDS: Final = frozenset({"metadata.ownerReferences", "metadata.deletionTimestamp"})


class StatefulSets(RevisionedOwners):
    name = "stateful-sets"

    def __init__(self) -> None:
        super().__init__(KIND, STATEFUL_SETS, COMPONENT, _GATHER_S)
        self._claims: Final = Claims()

    def interests(self) -> Iterable[Interest]:
        return (
            Interest(STATEFUL_SETS, WHOLE),
            Interest(PODS, pods.FIELDS),
            Interest(CONTROLLER_REVISIONS, WHOLE),
            Interest(PERSISTENT_VOLUME_CLAIMS, _CLAIM_FIELDS),
        )

    def _other_applied(self, obj: Object) -> Iterable[Wake]:
        self._claims.applied(obj)
        return ()

    def _other_removed(self, namespace: str, name: str, uid: str) -> Iterable[Wake]:
        return map(Wake, self._claims.removed(namespace, name, uid))

    def synced(self, resource: Resource, revision: str, now_s: float) -> Iterable[Wake]:
        if resource == PERSISTENT_VOLUME_CLAIMS:
            self._claims.synced(revision)
        return super().synced(resource, revision, now_s)

    # -- work ------------------------------------------------------------------------------------------------------

    def work(self, key: Key, now_s: float) -> Steps:
        problem = yield from claim(self._revisions, key)
        if problem is None:
            problem = yield from claim(self._pods, key, suits=lambda pod: _ordinal(key, pod) is not None)
        set_ = self._pods.owner(key)
        if set_ is None:
            return Done()
        if problem is not None:
            return Again(problem)
        recorded = yield from self._revision(set_, functools.partial(_new_revision, set_))
        if recorded.revision is None:
            return Again(recorded.problem) if recorded.problem else Done()
        return (yield from self._tend(key, set_, recorded.revision, recorded.collisions, now_s))

    def _tend(self, key: Key, set_: Object, update: Object, collisions: int, now_s: float) -> Steps:
        history = self._history(set_)
        named = (set_.get("status") or {}).get("currentRevision")
        current = next((each for each in history if each["metadata"]["name"] == named), update)
        rules = rules_of(set_)
        task = Task(set_, rules, _version(current), _version(update), self._pods, self._claims)
        problem = None
        if "deletionTimestamp" not in set_["metadata"]:
            members = self._members(key, rules, now_s)
            stages = plan(rules, members, task.update.name, lambda member: needs_mending(task, member))
            problem = yield from carry_out(task, stages)
        members = self._members(key, rules, now_s)
        status = status_of(set_, rules, members, task.current.name, task.update.name, collisions)
        untold = (yield from self._tell_status(set_, status)) if is_news(set_, status) else None
        problem = problem or untold or (yield from self._drop_revisions(_superfluous(set_, members, task, history)))
        return Again(problem) if problem is not None else _next_look(members, rules, now_s)

    # -- what is known ---------------------------------------------------------------------------------------------

    def _members(self, key: Key, rules: Rules, now_s: float) -> list[Member]:
        set_ = self._pods.owner(key)
        there = {} if set_ is None else self._pods.dependents(set_["metadata"]["uid"])
        return [
            member_of(pod, ordinal, rules.min_ready_s, now_s, is_leaving=self._pods.is_leaving(uid))
            for uid, pod in there.items()
            if (ordinal := _ordinal(key, pod)) is not None
        ]


def _ordinal(key: Key, pod: Object) -> int | None:
    return ordinal_of(key[1], pod["metadata"]["name"])


def _new_revision(set_: Object, number: int, collisions: int) -> Object:
    return revisions.new_revision(set_, KIND, number, revisions.data_hash(revisions.data_of(set_, KIND), collisions))


def _superfluous(set_: Object, members: Iterable[Member], task: Task, history: list[Object]) -> list[Object]:
    limit = set_["spec"].get("revisionHistoryLimit")
    live = {task.current.name, task.update.name, *(each.revision for each in members)}
    return revisions.superfluous(history, live, 10 if limit is None else limit)


def _version(revision: Object) -> Version:
    return Version(revision["metadata"]["name"], revisions.template_of(revision))


def _next_look(members: Iterable[Member], rules: Rules, now_s: float) -> Done | Later:
    """When the next pod that is ready has been so for long enough."""
    soon = [pods.available_at_s(each.pod, rules.min_ready_s) for each in members if not each.is_available]
    times = [each for each in soon if each < float("inf")]
    return Later(max(min(times) - now_s, 0.001)) if times else Done()
