"""The namespace controller: deletes the content of a terminating namespace, pods first, then finalizes the namespace.

One pass deletes every object, counts what is left, and writes that into the namespace's five conditions, in the texts
that clients know. Passes repeat until the namespace is empty: as soon as everything that was left is gone, or after the
time that it may take. Every pass begins with what the server returns, so it does not depend on an earlier pass.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.controllers.framework.discovery import DiscoveredKind, DiscoveredKinds
from headgate.controllers.framework.effects import (
    Delete,
    DeleteCollection,
    Discover,
    Effect,
    EffectResponse,
    Get,
    List,
    Replace,
)
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.kube import conditions
from headgate.kube.api_resources import NAMESPACES, PODS, APIResource
from headgate.kube.conditions import Condition
from headgate.kube.timestamps import format_time, parse_time

_Condition = dict[str, Any]

_DISCOVERY: Final = "NamespaceDeletionDiscoveryFailure"
_PARSING: Final = "NamespaceDeletionGroupVersionParsingFailure"
_CONTENT: Final = "NamespaceDeletionContentFailure"
_REMAINING: Final = "NamespaceContentRemaining"
_FINALIZERS: Final = "NamespaceFinalizersRemaining"
_FINE: Final = {
    _DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    _PARSING: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    _CONTENT: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    _REMAINING: ("ContentRemoved", "All content successfully removed"),
    _FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


class NamespaceContentFindings(msgspec.Struct):
    """The findings of one pass. Mutable: the pass adds to it."""

    undiscovered: str = ""
    failures: list[str] = []
    remaining: dict[APIResource, int] = {}
    finalizers: dict[str, int] = {}


def updated_conditions(before: list[Condition], found: NamespaceContentFindings, now: str) -> list[Condition]:
    """The conditions after a round; the very list that was given if there is nothing to write."""
    bad = _problems(found)
    after = before
    for type_, (reason, message) in _FINE.items():
        told = bad.get(type_)
        status = "False" if told is None else "True"
        reason, message = told or (reason, message)
        condition = {"type": type_, "status": status, "reason": reason, "message": message}
        after = conditions.with_condition(after, condition, now)
    return after


def _problems(found: NamespaceContentFindings) -> Mapping[str, tuple[str, str]]:
    told: dict[str, tuple[str, str]] = {}
    if found.undiscovered:
        told[_DISCOVERY] = ("DiscoveryFailed", found.undiscovered)
    if found.failures:
        text = f"Failed to delete all resource types, {len(found.failures)} remaining: {_joined(found.failures)}"
        told[_CONTENT] = ("ContentDeletionFailed", text)
    if found.remaining:
        counts = [f"{each.plural}.{each.group} has {n} resource instances" for each, n in found.remaining.items()]
        told[_REMAINING] = ("SomeResourcesRemain", f"Some resources are remaining: {_joined(counts)}")
    if found.finalizers:
        counts = [f"{name} in {n} resource instances" for name, n in found.finalizers.items()]
        text = f"Some content in the namespace has finalizers remaining: {_joined(counts)}"
        told[_FINALIZERS] = ("SomeFinalizersRemain", text)
    return told


def _joined(texts: Sequence[str]) -> str:
    return ", ".join(sorted(texts))


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


class NamespaceController(Controller):
    """Keys are names of namespaces."""

    name = "namespaces"

    def __init__(self) -> None:
        self._kinds: tuple[APIResource, ...] = ()
        self._terminating: Final[dict[str, str]] = {}  # uid by name
        self._left: Final[dict[str, set[str]]] = {}  # what must go before another round makes sense
        self._gone: Final[dict[str, set[str]]] = {}  # what went while a round was under way

    # -- events in -------------------------------------------------------------------------------------------------

    def watches(self) -> Iterable[WatchSpec]:
        fields = frozenset({"metadata.deletionTimestamp"})
        return [WatchSpec(NAMESPACES, fields), *(WatchSpec(resource, fields) for resource in self._kinds)]

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        rows = (row for row in served.preferred if row.resource.namespaced and row.allows("delete", "list", "watch"))
        self._kinds = tuple(row.resource for row in rows)
        return ()

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        if resource != NAMESPACES:
            return ()
        metadata = obj["metadata"]
        name, uid = metadata["name"], metadata["uid"]
        if "deletionTimestamp" not in metadata:
            self._forget(name)
        elif self._terminating.get(name) != uid:
            self._terminating[name] = uid
            return (Enqueue(name),)
        return ()

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
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
        return () if left else (Enqueue(namespace),)

    def _forget(self, name: str) -> None:
        self._terminating.pop(name, None)
        self._left.pop(name, None)

    # -- work ------------------------------------------------------------------------------------------------------

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        self._left.pop(key, None)
        gone = self._gone[key] = set()
        try:
            return (yield from self._round(key, gone))
        finally:
            del self._gone[key]

    def _round(self, name: str, gone: set[str]) -> ReconcileSteps:
        answer = yield Get(NAMESPACES, "", name)
        if answer.missing:
            return Done()
        if answer.ok and (answer.body.get("status") or {}).get("phase") != "Terminating":
            if "deletionTimestamp" not in answer.body["metadata"]:
                return Done()
            marked = {**answer.body, "status": {**(answer.body.get("status") or {}), "phase": "Terminating"}}
            answer = yield Replace(NAMESPACES, "", name, marked, "status")
        if not answer.ok:
            return RequeueWithBackoff(answer.message)
        namespace = answer.body
        if not (namespace.get("spec") or {}).get("finalizers"):
            return Done()
        found = NamespaceContentFindings()
        left = yield from _empty(namespace, found, answer.now_s)
        answer = yield from _write_conditions(namespace, found)
        if left.problem or not answer.ok:
            return RequeueWithBackoff(left.problem or answer.message)
        if not left.estimate_s:
            return (yield from _finalize(answer.body))
        still = left.uids - gone
        if not still:
            return RequeueAfter(0.0)
        self._left[name] = set(still)
        return RequeueAfter(left.estimate_s // 2 + 1)


def _empty(
    namespace: Object, found: NamespaceContentFindings, now_s: float
) -> Generator[Effect, EffectResponse, _Left]:
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


def _discover(found: NamespaceContentFindings) -> Generator[Effect, EffectResponse, DiscoveredKinds]:
    """Asked in every round: a kind that was missed would be left behind for good."""
    documents: list[Object] = []
    for prefix in ("/api", "/apis"):
        answer = yield Discover("/api" if prefix == "/api" else "/apis")
        if answer.ok:
            documents.append(answer.body)
        else:
            found.undiscovered = answer.message
    served = DiscoveredKinds.read(documents)
    if served.failed and not found.undiscovered:
        stale = ", ".join(f"{each}: stale GroupVersion discovery: {each}" for each in sorted(served.failed))
        text = f"unable to retrieve the complete list of server APIs: {stale}"
        found.undiscovered = f"Discovery failed for some groups, {len(served.failed)} failing: {text}"
    return served


def _empty_kind(namespace: Object, row: DiscoveredKind, now_s: float) -> Generator[Effect, EffectResponse, _Left]:
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


def _delete_all(namespace: str, row: DiscoveredKind) -> Generator[Effect, EffectResponse, str]:
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


def _write_conditions(
    namespace: Object, found: NamespaceContentFindings
) -> Generator[Effect, EffectResponse, EffectResponse]:
    """Write the conditions if they changed; the answer holds the namespace as it is then."""
    name = namespace["metadata"]["name"]
    now = yield Get(NAMESPACES, "", name)
    if not now.ok or now.body["metadata"]["uid"] != namespace["metadata"]["uid"]:
        return now
    status = now.body.get("status") or {}
    before = status.get("conditions") or []
    after = updated_conditions(before, found, format_time(now.now_s))
    if after is before:
        return now
    return (yield Replace(NAMESPACES, "", name, {**now.body, "status": {**status, "conditions": after}}, "status"))


def _finalize(namespace: Object) -> ReconcileSteps:
    name, uid = namespace["metadata"]["name"], namespace["metadata"]["uid"]
    for _ in range(_TRIES):
        spec = namespace.get("spec") or {}
        kept = sorted(set(spec.get("finalizers") or ()) - {_TOKEN})
        answer = yield Replace(NAMESPACES, "", name, {**namespace, "spec": {**spec, "finalizers": kept}}, "finalize")
        if answer.ok or answer.missing:
            return Done()
        if not answer.conflict:
            return RequeueWithBackoff(answer.message)
        answer = yield Get(NAMESPACES, "", name)
        if answer.missing or (answer.ok and answer.body["metadata"]["uid"] != uid):
            return Done()
        if not answer.ok:
            return RequeueWithBackoff(answer.message)
        namespace = answer.body
    return RequeueWithBackoff("it changes all the time")
