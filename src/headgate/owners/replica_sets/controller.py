"""Keeps as many pods as each ReplicaSet asks for: hears, wakes, and orders the steps. See the package for the parts.

Pods that nobody controls and the selector means are adopted, those it does not mean any more are released. One go makes
or ends so many pods at most, and then looks again. The status follows the counts, which our own writes change at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

import msgspec

from headgate.kube.references import controller_of
from headgate.kube.resource import PODS, REPLICA_SETS, Resource
from headgate.kube.schema import GroupVersionKind
from headgate.kube.timestamps import format_time
from headgate.owners.contract import WHOLE, Again, Controller, Done, Interest, Later, Steps, Verdict, Wake
from headgate.owners.effects import Answer, Effect, Patch
from headgate.owners.families import pods as facts
from headgate.owners.families.claiming import claim
from headgate.owners.families.family import Family, Key, OwnerKind
from headgate.owners.families.making import end, make, settle
from headgate.owners.replica_sets.order import first_to_go, on_nodes
from headgate.owners.replica_sets.plan import BURST, plan
from headgate.owners.replica_sets.status import differs, failure, min_ready_s, status, wanted
from headgate.owners.replica_sets.tally import Counts, Tally

Object = dict[str, Any]

KIND: Final = GroupVersionKind("apps", "v1", "ReplicaSet")
_OWNER: Final = OwnerKind(KIND, REPLICA_SETS, PODS, "replicaset-controller")
_POD_FIELDS: Final = facts.FIELDS | {
    "spec.initContainers",
    "status.containerStatuses",
    "status.initContainerStatuses",
}
SOON_S: Final = 0.02
"""Pods come and change in bursts: what happens within this time is looked at in one go."""


class _Problem(msgspec.Struct, frozen=True):
    """``failed`` is the condition that tells of it, unless nobody knows whether it did fail."""

    message: str
    failed: Object | None


class ReplicaSets(Controller):
    name = "replica-sets"

    def __init__(self, draw: Callable[[], str], burst: int = BURST, soon_s: float = SOON_S) -> None:
        self._draw = draw
        self._burst = burst
        self._soon_s = soon_s
        self._tally: Final = Tally()
        self._family: Final = Family(_OWNER, self._pod_told)
        self._siblings: Final[dict[str, dict[str, None]]] = {}  # by the uid of who controls them
        self._parents: Final[dict[str, str]] = {}  # the other way round

    def interests(self) -> Iterable[Interest]:
        return Interest(REPLICA_SETS, WHOLE), Interest(PODS, _POD_FIELDS)

    # -- events in -------------------------------------------------------------------------------------------------

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        if resource == PODS:
            return [Wake(key, self._soon_s) for key in self._family.dependent_applied(obj)]
        return [Wake(key) for key in self._owner_applied(obj)]

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource == PODS:
            return [Wake(key, self._soon_s) for key in self._family.dependent_removed(namespace, name, uid)]
        self._family.owner_removed(namespace, name, uid)
        self._tally.owner_removed(uid)
        self._move(uid, None)
        return ()

    def synced(self, resource: Resource, revision: str, now_s: float) -> Iterable[Wake]:
        return map(Wake, self._family.synced(revision)) if resource == PODS else ()

    def _owner_applied(self, obj: Object) -> list[Key]:
        concerned = self._family.owner_applied(obj)
        if concerned:
            parent = controller_of(obj)
            self._move(obj["metadata"]["uid"], None if parent is None else str(parent.get("uid")))
            self._tally.owner_applied(obj)
        return concerned

    def _move(self, uid: str, parent: str | None) -> None:
        before = self._parents.pop(uid, None)
        if before is not None:
            there = self._siblings[before]
            there.pop(uid, None)
            if not there:
                del self._siblings[before]
        if parent is not None:
            self._parents[uid] = parent
            self._siblings.setdefault(parent, {})[uid] = None

    def _pod_told(self, uid: str, owner: str | None, pod: Object | None) -> None:
        self._tally.pod(uid, owner, pod, self._family.is_leaving(uid))

    # -- work ------------------------------------------------------------------------------------------------------

    def work(self, key: Key, now_s: float) -> Steps:
        owner = self._family.owner(key)
        if owner is None:
            return Done()
        doubt = yield from settle(self._family, owner)
        if doubt is not None:
            return Again(doubt)
        if self._counts(owner).strangers or any(map(facts.is_active, self._family.candidates(key))):
            unclaimed = yield from claim(self._family, key, counts=facts.is_active)
            if unclaimed is not None:
                return Again(unclaimed)
        owner = self._family.owner(key)
        if owner is None:
            return Done()
        problem, unfinished = None, False
        if "deletionTimestamp" not in owner["metadata"]:
            todo = plan(wanted(owner), self._counts(owner).active, self._burst)
            problem = yield from self._make(owner, todo.make, now_s) if todo.make else self._end(owner, todo.end, now_s)
            unfinished = todo.unfinished
        return (yield from self._report(key, problem, unfinished, now_s))

    def _counts(self, owner: Object) -> Counts:
        uid = owner["metadata"]["uid"]
        return self._tally.counts(uid, self._family.dependents(uid), self._family.is_leaving)

    def _make(self, owner: Object, count: int, now_s: float) -> Generator[Effect, Answer, _Problem | None]:
        template, prefix = owner["spec"]["template"], facts.prefix_of(owner["metadata"]["name"])
        bodies = [facts.pod_from(template, owner, KIND, name, prefix=prefix) for name in self._names(owner, count)]
        made = yield from make(self._family, owner, bodies)
        if made.problem is None or made.stop:
            return None
        unknown = made.answer is not None and made.answer.unknown
        return _Problem(made.problem, None if unknown else failure(1, made.problem, format_time(now_s)))

    def _names(self, owner: Object, count: int) -> list[str]:
        prefix = facts.prefix_of(owner["metadata"]["name"])
        taken = {pod["metadata"]["name"] for pod in self._family.dependents(owner["metadata"]["uid"]).values()}
        names: dict[str, None] = {}
        while len(names) < count:
            name = facts.drawn_name(prefix, self._draw())
            if name not in taken:
                names[name] = None
        return list(names)

    def _end(self, owner: Object, count: int, now_s: float) -> Generator[Effect, Answer, _Problem | None]:
        if not count:
            return None
        uid = owner["metadata"]["uid"]
        related = on_nodes(pod for each in self._related(uid) for pod in self._active(each))
        going = first_to_go(self._active(uid), related, count, now_s)
        failed = yield from end(self._family, owner, going)
        if failed is None:
            return None
        message = f"unable to delete pods: {failed}"
        return _Problem(message, failure(-1, message, format_time(now_s)))

    def _related(self, uid: str) -> Iterable[str]:
        parent = self._parents.get(uid)
        return () if parent is None else self._siblings[parent]

    def _active(self, owner_uid: str) -> list[Object]:
        there = self._family.dependents(owner_uid)
        return [pod for uid, pod in there.items() if facts.is_active(pod) and not self._family.is_leaving(uid)]

    def _report(self, key: Key, problem: _Problem | None, unfinished: bool, now_s: float) -> Steps:
        owner = self._family.owner(key)
        if owner is None:
            return Done()
        counts = self._counts(owner)
        new = status(owner, counts, None if problem is None else problem.failed, now_s)
        if differs(owner, new):
            body = {"metadata": {"uid": owner["metadata"]["uid"]}, "status": new}
            answer = yield Patch(REPLICA_SETS, *key, body, how="merge", subresource="status")
            if answer.ok:
                self._owner_applied(answer.body)
            elif not answer.missing and not answer.conflict:
                return Again(answer.message)
        if problem is not None:
            return Again(problem.message)
        return Done([Wake(key)]) if unfinished else self._rest(owner, counts, now_s)

    @staticmethod
    def _rest(owner: Object, counts: Counts, now_s: float) -> Verdict:
        next_s = counts.next_available_s(min_ready_s(owner), now_s)
        return Done() if next_s is None else Later(max(next_s, SOON_S))
