"""The controller of StatefulSets: what it hears, whom it wakes, and in which order the steps of its work come.

Revisions first (they name what a pod is made from), then the pods in the order that ``plan.py`` allows, then status and
history. A round is linear in the pods of one set; news of pods are gathered for a moment before they wake it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final

from headgate.kube.resource import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, Resource
from headgate.owners import revisions
from headgate.owners.contract import WHOLE, Again, Controller, Done, Interest, Later, Steps, Wake
from headgate.owners.effects import Answer, Effect, Replace
from headgate.owners.families import pods
from headgate.owners.families.claiming import claim
from headgate.owners.families.family import Family, Key, OwnerKind
from headgate.owners.revisions import Keep, Record, Recorded, Renumber
from headgate.owners.stateful_sets.claims import Claims
from headgate.owners.stateful_sets.hands import Task, Version, carry_out, needs_mending
from headgate.owners.stateful_sets.identity import KIND, ordinal_of
from headgate.owners.stateful_sets.plan import Member, Rules, member_of, plan, rules_of
from headgate.owners.stateful_sets.status import is_news, status_of

Object = dict[str, Any]

COMPONENT: Final = "statefulset-controller"
_GATHER_S: Final = 0.01
_CLAIM_FIELDS: Final = frozenset({"metadata.ownerReferences", "metadata.deletionTimestamp"})


class StatefulSets(Controller):
    name = "stateful-sets"

    def __init__(self) -> None:
        self._pods: Final = Family(OwnerKind(KIND, STATEFUL_SETS, PODS, COMPONENT))
        self._revisions: Final = Family(OwnerKind(KIND, STATEFUL_SETS, CONTROLLER_REVISIONS, COMPONENT))
        self._claims: Final = Claims()

    def interests(self) -> Iterable[Interest]:
        return (
            Interest(STATEFUL_SETS, WHOLE),
            Interest(PODS, pods.FIELDS),
            Interest(CONTROLLER_REVISIONS, WHOLE),
            Interest(PERSISTENT_VOLUME_CLAIMS, _CLAIM_FIELDS),
        )

    # -- events in -------------------------------------------------------------------------------------------------

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        match resource.plural:
            case "statefulsets":
                return map(Wake, self._learn(obj))
            case "pods":
                return _soon(self._pods.dependent_applied(obj))
            case "controllerrevisions":
                return map(Wake, self._revisions.dependent_applied(obj))
            case _:
                self._claims.applied(obj)
                return ()

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        match resource.plural:
            case "statefulsets":
                self._revisions.owner_removed(namespace, name, uid)
                return map(Wake, self._pods.owner_removed(namespace, name, uid))
            case "pods":
                return _soon(self._pods.dependent_removed(namespace, name, uid))
            case "controllerrevisions":
                return map(Wake, self._revisions.dependent_removed(namespace, name, uid))
            case _:
                return map(Wake, self._claims.removed(namespace, name, uid))

    def synced(self, resource: Resource, revision: str, now_s: float) -> Iterable[Wake]:
        match resource.plural:
            case "pods":
                return map(Wake, self._pods.synced(revision))
            case "controllerrevisions":
                return map(Wake, self._revisions.synced(revision))
            case "persistentvolumeclaims":
                self._claims.synced(revision)
        return ()

    def _learn(self, set_: Object) -> list[Key]:
        self._revisions.owner_applied(set_)
        return self._pods.owner_applied(set_)

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
        recorded = yield from self._update_revision(set_)
        if recorded.revision is None:
            return Again(recorded.problem) if recorded.problem else Done()
        return (yield from self._tend(key, set_, recorded.revision, recorded.collisions, now_s))

    def _update_revision(self, set_: Object) -> Generator[Effect, Answer, Recorded]:
        """The revision that the set's template is, or becomes now."""
        collisions = (set_.get("status") or {}).get("collisionCount") or 0
        data = revisions.data_of(set_)
        match revisions.choose(self._history(set_), data):
            case Keep(revision):
                return Recorded(revision, collisions)
            case Renumber(revision, number):
                answer = yield from revisions.renumber(revision, number)
                recorded = Recorded(answer.body if answer.ok else None, collisions, answer.message)
            case Record(number):
                if "deletionTimestamp" in set_["metadata"]:
                    return Recorded(None, collisions)

                def make(collisions: int) -> Object:
                    return revisions.new_revision(set_, KIND, number, revisions.data_hash(data, collisions))

                recorded = yield from revisions.record(make, collisions)
        if recorded.revision is not None:
            self._revisions.wrote(recorded.revision)
        return recorded

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
        untold = yield from self._tell(set_, status)
        problem = problem or untold or (yield from self._forget(set_, members, task, history))
        return Again(problem) if problem is not None else _next_look(members, rules, now_s)

    def _tell(self, set_: Object, status: Object) -> Generator[Effect, Answer, str | None]:
        if not is_news(set_, status):
            return None
        metadata = set_["metadata"]
        body = {**set_, "apiVersion": KIND.api_version, "kind": KIND.kind, "status": status}
        answer = yield Replace(STATEFUL_SETS, metadata["namespace"], metadata["name"], body, "status")
        if answer.ok:
            self._learn(answer.body)
        return None if answer.ok or answer.missing else answer.message

    def _forget(
        self, set_: Object, members: list[Member], task: Task, history: list[Object]
    ) -> Generator[Effect, Answer, str | None]:
        limit = set_["spec"].get("revisionHistoryLimit")
        live = {task.current.name, task.update.name, *(each.revision for each in members)}
        for revision in revisions.superfluous(history, live, 10 if limit is None else limit):
            answer = yield from revisions.forget(revision)
            if answer.ok or answer.missing:
                self._revisions.is_gone(revision["metadata"]["uid"])
            elif not answer.conflict:
                return answer.message
        return None

    # -- what is known ---------------------------------------------------------------------------------------------

    def _history(self, set_: Object) -> list[Object]:
        return revisions.in_order(self._revisions.dependents(set_["metadata"]["uid"]).values())

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


def _version(revision: Object) -> Version:
    return Version(revision["metadata"]["name"], revisions.template_of(revision))


def _next_look(members: Iterable[Member], rules: Rules, now_s: float) -> Done | Later:
    """When the next pod that is ready has been so for long enough."""
    soon = [pods.available_at_s(each.pod, rules.min_ready_s) for each in members if not each.is_available]
    times = [each for each in soon if each < float("inf")]
    return Later(max(min(times) - now_s, 0.001)) if times else Done()


def _soon(keys: Iterable[Key]) -> list[Wake]:
    return [Wake(key, _GATHER_S) for key in keys]
