"""The namespace controller: deletes the content of a terminating namespace, pods first, then finalizes the namespace.

One pass deletes every object, counts the remaining ones, and writes the counts into the namespace's five conditions,
with the texts of kube-controller-manager. The next pass runs when all remaining objects are gone, or after the
estimated time for that. Every pass reads its state from the API server, so it does not depend on an earlier pass.
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
_OK_CONDITIONS: Final = {
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
    """The conditions after a pass; the same list if nothing changed."""
    problems = _problems(found)
    after = before
    for type_, (reason, message) in _OK_CONDITIONS.items():
        problem = problems.get(type_)
        status = "False" if problem is None else "True"
        reason, message = problem or (reason, message)
        condition = {"type": type_, "status": status, "reason": reason, "message": message}
        after = conditions.with_condition(after, condition, now)
    return after


def _problems(found: NamespaceContentFindings) -> Mapping[str, tuple[str, str]]:
    problems: dict[str, tuple[str, str]] = {}
    if found.undiscovered:
        problems[_DISCOVERY] = ("DiscoveryFailed", found.undiscovered)
    if found.failures:
        text = f"Failed to delete all resource types, {len(found.failures)} remaining: {_joined(found.failures)}"
        problems[_CONTENT] = ("ContentDeletionFailed", text)
    if found.remaining:
        counts = [f"{each.plural}.{each.group} has {n} resource instances" for each, n in found.remaining.items()]
        problems[_REMAINING] = ("SomeResourcesRemain", f"Some resources are remaining: {_joined(counts)}")
    if found.finalizers:
        counts = [f"{name} in {n} resource instances" for name, n in found.finalizers.items()]
        text = f"Some content in the namespace has finalizers remaining: {_joined(counts)}"
        problems[_FINALIZERS] = ("SomeFinalizersRemain", text)
    return problems


def _joined(texts: Sequence[str]) -> str:
    return ", ".join(sorted(texts))


Object = dict[str, Any]

_KUBERNETES_FINALIZER: Final = "kubernetes"
_MAX_TRIES: Final = 5
_FINALIZER_ESTIMATE_S: Final = 15
_BACKGROUND: Final[Object] = {"propagationPolicy": "Background"}
_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_UNSUPPORTED: Final = frozenset({404, 405})


class _RemainingContent(msgspec.Struct, frozen=True):
    """The remaining objects after a deletion, and how long they may take."""

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
        self._remaining: Final[dict[str, set[str]]] = {}  # objects that must be deleted before the next pass
        self._removed_during_pass: Final[dict[str, set[str]]] = {}  # objects that were deleted during a pass

    # -- watch events ----------------------------------------------------------------------------------------------

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
        if (removed := self._removed_during_pass.get(namespace)) is not None:
            removed.add(uid)
        remaining = self._remaining.get(namespace)
        if remaining is None or uid not in remaining:
            return ()
        remaining.discard(uid)
        return () if remaining else (Enqueue(namespace),)

    def _forget(self, name: str) -> None:
        self._terminating.pop(name, None)
        self._remaining.pop(name, None)

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        self._remaining.pop(key, None)
        removed = self._removed_during_pass[key] = set()
        try:
            return (yield from self._run_pass(key, removed))
        finally:
            del self._removed_during_pass[key]

    def _run_pass(self, name: str, removed: set[str]) -> ReconcileSteps:
        response = yield Get(NAMESPACES, "", name)
        if response.missing:
            return Done()
        if response.ok and (response.body.get("status") or {}).get("phase") != "Terminating":
            if "deletionTimestamp" not in response.body["metadata"]:
                return Done()
            marked = {**response.body, "status": {**(response.body.get("status") or {}), "phase": "Terminating"}}
            response = yield Replace(NAMESPACES, "", name, marked, "status")
        if not response.ok:
            return RequeueWithBackoff(response.message)
        namespace = response.body
        if not (namespace.get("spec") or {}).get("finalizers"):
            return Done()
        found = NamespaceContentFindings()
        remaining = yield from _delete_content(namespace, found, response.now_s)
        response = yield from _write_conditions(namespace, found)
        if remaining.problem or not response.ok:
            return RequeueWithBackoff(remaining.problem or response.message)
        if not remaining.estimate_s:
            return (yield from _finalize(response.body))
        waiting_for = remaining.uids - removed
        if not waiting_for:
            return RequeueAfter(0.0)
        self._remaining[name] = set(waiting_for)
        return RequeueAfter(remaining.estimate_s // 2 + 1)


def _delete_content(
    namespace: Object, found: NamespaceContentFindings, now_s: float
) -> Generator[Effect, EffectResponse, _RemainingContent]:
    """Deletes all objects of the namespace: first pods, and the rest when no pod is left that may need it."""
    problems: list[str] = []
    served = yield from _discover(found)
    if found.undiscovered:
        problems.append(found.undiscovered)
    rows = [row for row in served.preferred if row.resource.namespaced and row.allows("delete")]
    uids: set[str] = set()
    estimate_s = 0
    for row in sorted(rows, key=lambda each: each.resource != PODS):
        remaining = yield from _delete_kind(namespace, row, now_s)
        uids |= remaining.uids
        estimate_s = max(estimate_s, remaining.estimate_s)
        if remaining.problem:
            problems.append(remaining.problem)
            found.failures.append(remaining.problem)
        if not remaining.uids:
            continue
        if row.resource == PODS:
            break
        found.remaining[row.resource] = len(remaining.uids)
        for finalizer in remaining.finalizers:
            found.finalizers[finalizer] = found.finalizers.get(finalizer, 0) + 1
    return _RemainingContent(frozenset(uids), (), estimate_s, "; ".join(problems))


def _discover(found: NamespaceContentFindings) -> Generator[Effect, EffectResponse, DiscoveredKinds]:
    """Reads discovery in every pass: objects of a missed kind would remain forever."""
    documents: list[Object] = []
    for prefix in ("/api", "/apis"):
        response = yield Discover("/api" if prefix == "/api" else "/apis")
        if response.ok:
            documents.append(response.body)
        else:
            found.undiscovered = response.message
    served = DiscoveredKinds.read(documents)
    if served.failed and not found.undiscovered:
        stale = ", ".join(f"{each}: stale GroupVersion discovery: {each}" for each in sorted(served.failed))
        text = f"unable to retrieve the complete list of server APIs: {stale}"
        found.undiscovered = f"Discovery failed for some groups, {len(served.failed)} failing: {text}"
    return served


def _delete_kind(
    namespace: Object, row: DiscoveredKind, now_s: float
) -> Generator[Effect, EffectResponse, _RemainingContent]:
    name, resource = namespace["metadata"]["name"], row.resource
    estimate_s = 0
    if resource == PODS:
        response = yield List(PODS, name, ("spec.terminationGracePeriodSeconds", "status.phase"))
        if not response.ok:
            return _RemainingContent(problem=response.message)
        estimate_s = _longest_grace_s(response.items)
        began_s = parse_time(namespace["metadata"]["deletionTimestamp"])
        if isinstance(began_s, str) or now_s - began_s >= estimate_s:
            estimate_s = 0
    problem = yield from _delete_all(name, row)
    if problem:
        return _RemainingContent(estimate_s=estimate_s, problem=problem)
    if not row.allows("list"):
        return _RemainingContent(estimate_s=estimate_s)
    response = yield List(resource, name, ("metadata.finalizers",))
    if not response.ok:
        unsupported = response.status in _UNSUPPORTED
        return _RemainingContent(estimate_s=estimate_s, problem="" if unsupported else response.message)
    items = [item["metadata"] for item in response.items]
    if not items:
        return _RemainingContent()
    uids = frozenset(item["uid"] for item in items)
    finalizers = tuple(each for item in items for each in item.get("finalizers") or ())
    if estimate_s:
        return _RemainingContent(uids, finalizers, estimate_s)
    if finalizers:
        return _RemainingContent(uids, finalizers, _FINALIZER_ESTIMATE_S)
    gvr = f"{resource.group}/{resource.version}, Resource={resource.plural}"
    return _RemainingContent(uids, problem=f"unexpected items still remain in namespace: {name} for gvr: {gvr}")


def _longest_grace_s(pods: Iterable[Object]) -> int:
    unfinished = (pod for pod in pods if (pod.get("status") or {}).get("phase") not in _FINISHED)
    return max(((pod.get("spec") or {}).get("terminationGracePeriodSeconds") or 0 for pod in unfinished), default=0)


def _delete_all(namespace: str, row: DiscoveredKind) -> Generator[Effect, EffectResponse, str]:
    if row.allows("deletecollection"):
        response = yield DeleteCollection(row.resource, namespace, _BACKGROUND)
        if response.status not in _UNSUPPORTED:
            return "" if response.ok else response.message
    if not row.allows("list"):
        return ""
    response = yield List(row.resource, namespace, ("metadata.finalizers",))
    if not response.ok:
        return "" if response.status in _UNSUPPORTED else response.message
    for item in response.items:
        response = yield Delete(row.resource, namespace, item["metadata"]["name"], _BACKGROUND)
        if not response.ok and response.status not in _UNSUPPORTED:
            return response.message
    return ""


def _write_conditions(
    namespace: Object, found: NamespaceContentFindings
) -> Generator[Effect, EffectResponse, EffectResponse]:
    """Writes the conditions if they changed. The response has the present namespace."""
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
    for _ in range(_MAX_TRIES):
        spec = namespace.get("spec") or {}
        kept = sorted(set(spec.get("finalizers") or ()) - {_KUBERNETES_FINALIZER})
        response = yield Replace(NAMESPACES, "", name, {**namespace, "spec": {**spec, "finalizers": kept}}, "finalize")
        if response.ok or response.missing:
            return Done()
        if not response.conflict:
            return RequeueWithBackoff(response.message)
        response = yield Get(NAMESPACES, "", name)
        if response.missing or (response.ok and response.body["metadata"]["uid"] != uid):
            return Done()
        if not response.ok:
            return RequeueWithBackoff(response.message)
        namespace = response.body
    return RequeueWithBackoff("it changes all the time")
