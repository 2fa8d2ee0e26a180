"""The end of a namespace: its content is deleted, pods first; when nothing is left the namespace is let go.

One round deletes everything there is, counts what is left, and writes that into the namespace's conditions. Rounds go
on until a namespace is empty: as soon as all that was left is gone, or after as long as it might take. Every round
begins with what the server says, so it does not matter who did the round before, or how far it came.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final

import msgspec

from headgate.kube.resource import NAMESPACES, PODS, Resource
from headgate.kube.timestamps import format_time, parse_time
from headgate.owners.contract import Again, Controller, Done, Interest, Later, Steps, Wake
from headgate.owners.effects import Answer, Delete, DeleteCollection, Discover, Effect, Get, List, Replace
from headgate.owners.namespace_conditions import Findings, updated
from headgate.owners.served import Served, ServedKind

Object = dict[str, Any]

_TOKEN: Final = "kubernetes"
_TRIES: Final = 5
_FINALIZER_ESTIMATE_S: Final = 15
_BACKGROUND: Final[Object] = {"propagationPolicy": "Background"}
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_UNSUPPORTED: Final = frozenset({404, 405})


class _Left(msgspec.Struct, frozen=True):
    """What is left of one kind after its deletion was asked for, and how long it may take to go."""

    uids: frozenset[str] = frozenset()
    finalizers: tuple[str, ...] = ()
    estimate_s: int = 0
    problem: str = ""


class Namespaces(Controller):
    """Keys are names of namespaces."""

    name = "namespaces"

    def __init__(self) -> None:
        self._kinds: tuple[Resource, ...] = ()
        self._terminating: Final[dict[str, str]] = {}  # uid by name
        self._left: Final[dict[str, set[str]]] = {}  # what must go before another round makes sense
        self._gone: Final[dict[str, set[str]]] = {}  # what went while a round was under way

    # -- events in -------------------------------------------------------------------------------------------------

    def interests(self) -> Iterable[Interest]:
        fields = frozenset({"metadata.deletionTimestamp"})
        return [Interest(NAMESPACES, fields), *(Interest(resource, fields) for resource in self._kinds)]

    def learn(self, served: Served) -> Iterable[Wake]:
        rows = (row for row in served.preferred if row.resource.namespaced and row.allows("delete", "list", "watch"))
        self._kinds = tuple(row.resource for row in rows)
        return ()

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        if resource != NAMESPACES:
            return ()
        metadata = obj["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        if "deletionTimestamp" not in metadata:
            self._forget(name)
        elif self._terminating.get(name) != uid:
            self._terminating[name] = uid
            return (Wake(name),)
        return ()

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        if resource == NAMESPACES:
            if self._terminating.get(name) == uid:
                self._forget(name)
            return ()
        if (gone := self._gone.get(namespace)) is not None:
            gone.add(uid)
        left = self._left.get(namespace)
        if left is None or uid not in left:
            return ()
        left.discard(uid)
        return () if left else (Wake(namespace),)

    def _forget(self, name: str) -> None:
        self._terminating.pop(name, None)
        self._left.pop(name, None)

    # -- work ------------------------------------------------------------------------------------------------------

    def work(self, key: str, now_s: float) -> Steps:
        self._left.pop(key, None)
        gone = self._gone[key] = set()
        try:
            return (yield from self._round(key, gone))
        finally:
            del self._gone[key]

    def _round(self, name: str, gone: set[str]) -> Steps:
        answer = yield Get(NAMESPACES, "", name)
        if answer.missing:
            return Done()
        if answer.ok and (answer.body.get("status") or {}).get("phase") != "Terminating":
            if "deletionTimestamp" not in answer.body["metadata"]:
                return Done()
            marked = {**answer.body, "status": {**(answer.body.get("status") or {}), "phase": "Terminating"}}
            answer = yield Replace(NAMESPACES, "", name, marked, "status")
        if not answer.ok:
            return Again(answer.message)
        namespace = answer.body
        if not (namespace.get("spec") or {}).get("finalizers"):
            return Done()
        found = Findings()
        left = yield from _empty(namespace, found, answer.now_s)
        answer = yield from _tell(namespace, found)
        if left.problem or not answer.ok:
            return Again(left.problem or answer.message)
        if not left.estimate_s:
            return (yield from _finalize(answer.body))
        still = left.uids - gone
        if not still:
            return Later(0.0)
        self._left[name] = set(still)
        return Later(left.estimate_s // 2 + 1)


def _empty(namespace: Object, found: Findings, now_s: float) -> Generator[Effect, Answer, _Left]:
    """Delete everything in the namespace; nothing else is touched while there are pods, which may need it."""
    problems: list[str] = []
    served = yield from _discover(found)
    if found.undiscovered:
        problems.append(found.undiscovered)
    rows = [row for row in served.preferred if row.resource.namespaced and row.allows("delete")]
    uids: set[str] = set()
    estimate_s = 0
    for row in sorted(rows, key=lambda each: each.resource != PODS):
        left = yield from _empty_kind(namespace, row, now_s)
        uids |= left.uids
        estimate_s = max(estimate_s, left.estimate_s)
        if left.problem:
            problems.append(left.problem)
            found.failures.append(left.problem)
        if not left.uids:
            continue
        if row.resource == PODS:
            break
        found.remaining[row.resource] = len(left.uids)
        for finalizer in left.finalizers:
            found.finalizers[finalizer] = found.finalizers.get(finalizer, 0) + 1
    return _Left(frozenset(uids), (), estimate_s, "; ".join(problems))


def _discover(found: Findings) -> Generator[Effect, Answer, Served]:
    """Asked in every round: a kind that was missed would be left behind for good."""
    documents: list[Object] = []
    for prefix in ("/api", "/apis"):
        answer = yield Discover("/api" if prefix == "/api" else "/apis")
        if answer.ok:
            documents.append(answer.body)
        else:
            found.undiscovered = answer.message
    served = Served.read(documents)
    if served.failed and not found.undiscovered:
        stale = ", ".join(f"{each}: stale GroupVersion discovery: {each}" for each in sorted(served.failed))
        text = f"unable to retrieve the complete list of server APIs: {stale}"
        found.undiscovered = f"Discovery failed for some groups, {len(served.failed)} failing: {text}"
    return served


def _empty_kind(namespace: Object, row: ServedKind, now_s: float) -> Generator[Effect, Answer, _Left]:
    name, resource = namespace["metadata"]["name"], row.resource
    estimate_s = 0
    if resource == PODS:
        answer = yield List(PODS, name, ("spec.terminationGracePeriodSeconds", "status.phase"))
        if not answer.ok:
            return _Left(problem=answer.message)
        estimate_s = _longest_grace_s(answer.items)
        began_s = parse_time(namespace["metadata"]["deletionTimestamp"])
        if isinstance(began_s, str) or now_s - began_s >= estimate_s:
            estimate_s = 0
    problem = yield from _delete_all(name, row)
    if problem:
        return _Left(estimate_s=estimate_s, problem=problem)
    if not row.allows("list"):
        return _Left(estimate_s=estimate_s)
    answer = yield List(resource, name, ("metadata.finalizers",))
    if not answer.ok:
        unsupported = answer.status in _UNSUPPORTED
        return _Left(estimate_s=estimate_s, problem="" if unsupported else answer.message)
    items = [item["metadata"] for item in answer.items]
    if not items:
        return _Left()
    uids = frozenset(item["uid"] for item in items)
    finalizers = tuple(each for item in items for each in item.get("finalizers") or ())
    if estimate_s:
        return _Left(uids, finalizers, estimate_s)
    if finalizers:
        return _Left(uids, finalizers, _FINALIZER_ESTIMATE_S)
    place = f"{resource.group}/{resource.version}, Resource={resource.plural}"
    return _Left(uids, problem=f"unexpected items still remain in namespace: {name} for gvr: {place}")


def _longest_grace_s(pods: Iterable[Object]) -> int:
    unfinished = (pod for pod in pods if (pod.get("status") or {}).get("phase") not in _FINISHED)
    return max(((pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 0 for pod in unfinished), default=0)


def _delete_all(namespace: str, row: ServedKind) -> Generator[Effect, Answer, str]:
    if row.allows("deletecollection"):
        answer = yield DeleteCollection(row.resource, namespace, _BACKGROUND)
        if answer.status not in _UNSUPPORTED:
            return "" if answer.ok else answer.message
    if not row.allows("list"):
        return ""
    answer = yield List(row.resource, namespace, ("metadata.finalizers",))
    if not answer.ok:
        return "" if answer.status in _UNSUPPORTED else answer.message
    for item in answer.items:
        answer = yield Delete(row.resource, namespace, item["metadata"]["name"], _BACKGROUND)
        if not answer.ok and answer.status not in _UNSUPPORTED:
            return answer.message
    return ""


def _tell(namespace: Object, found: Findings) -> Generator[Effect, Answer, Answer]:
    """Write the conditions if they changed; the answer holds the namespace as it is then."""
    name = namespace["metadata"]["name"]
    now = yield Get(NAMESPACES, "", name)
    if not now.ok or now.body["metadata"]["uid"] != namespace["metadata"]["uid"]:
        return now
    status = now.body.get("status") or {}
    before = status.get("conditions") or []
    after = updated(before, found, format_time(now.now_s))
    if after is before:
        return now
    return (yield Replace(NAMESPACES, "", name, {**now.body, "status": {**status, "conditions": after}}, "status"))


def _finalize(namespace: Object) -> Steps:
    name, uid = namespace["metadata"]["name"], namespace["metadata"]["uid"]
    for _ in range(_TRIES):
        spec = namespace.get("spec") or {}
        kept = sorted(set(spec.get("finalizers") or ()) - {_TOKEN})
        answer = yield Replace(NAMESPACES, "", name, {**namespace, "spec": {**spec, "finalizers": kept}}, "finalize")
        if answer.ok or answer.missing:
            return Done()
        if not answer.conflict:
            return Again(answer.message)
        answer = yield Get(NAMESPACES, "", name)
        if answer.missing or (answer.ok and answer.body["metadata"]["uid"] != uid):
            return Done()
        if not answer.ok:
            return Again(answer.message)
        namespace = answer.body
    return Again("it changes all the time")
