"""The garbage collector: it deletes objects whose owners are gone, with the propagation policy of their owners.

It watches the metadata of every deletable resource and keeps the ownership graph (``graph.py``). The graph is only a
reason to check: before a deletion, the collector reads the object and each of its owners from the server. Owners that
are known to be absent are cached; a uid never comes back, so an entry stays true, and the least recently used entry is
evicted. ``operations.py`` has the steps of a deletion.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec

from headgate.controllers.framework.discovery import DiscoveredKinds
from headgate.controllers.framework.effects import Effect, EffectResponse, EmitEvent, Get
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    Key,
    ReconcileSteps,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.garbage_collector import operations
from headgate.controllers.garbage_collector.graph import (
    FOREGROUND,
    ORPHAN,
    AttemptToDelete,
    AttemptToOrphan,
    CollectorKey,
    OwnerGraphNode,
    OwnerIdentity,
    OwnerReference,
    OwnershipGraph,
    ReportInvalidOwnerNamespace,
    VerifyOwner,
    owner_identity,
    owner_references,
)
from headgate.controllers.garbage_collector.operations import METADATA, Problem
from headgate.kube.api_resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource

_MOST: Final = 2000


class AbsentOwnerCache:
    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._claims: Final[dict[OwnerIdentity, None]] = {}

    def add(self, claim: OwnerIdentity) -> None:
        self._claims.pop(claim, None)
        self._claims[claim] = None
        if len(self._claims) > self._most:
            del self._claims[next(iter(self._claims))]

    def __contains__(self, claim: OwnerIdentity) -> bool:
        if claim not in self._claims:
            return False
        self.add(claim)
        return True


Object = dict[str, Any]

_COMPONENT: Final = "garbage-collector-controller"
# Events are many, short-lived and have no owners.
_IGNORED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})


class _UnservedOwnerKind(msgspec.Struct, frozen=True):
    """The kind of an owner is not served (now): its dependents must wait."""

    api_version: str
    kind: str


class _ClusterScopedWithNamespacedOwner(msgspec.Struct, frozen=True):
    """A cluster-scoped object cannot have an owner in a namespace; it is left alone for ever."""


class _Owners(msgspec.Struct, frozen=True):
    """The owner references of an object, by what is left of the owners."""

    solid: list[OwnerReference]
    dangling: list[OwnerReference]
    waiting: list[OwnerReference]


class GarbageCollector(Controller):
    name = "garbage-collector"

    def __init__(self) -> None:
        self.graph: Final = OwnershipGraph()
        self._served = DiscoveredKinds()
        self._kinds: dict[APIResource, Any] = {}
        self._absent: Final = AbsentOwnerCache()
        self._parked: Final[dict[_UnservedOwnerKind, set[Key]]] = {}
        self._former: Final[dict[tuple[str, str], APIResource]] = {}

    # -- events in -------------------------------------------------------------------------------------------------

    def watches(self) -> Iterable[WatchSpec]:
        return [WatchSpec(resource, frozenset(METADATA)) for resource in self._kinds]

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        for name, row in self._served.by_name.items():
            if name not in served.by_name:
                self._former[name] = row.resource
        self._served = served
        before, self._kinds = (
            self._kinds,
            {
                row.resource: row
                for row in served.preferred
                if row.allows("delete", "list", "watch") and (row.resource.group, row.resource.plural) not in _IGNORED
            },
        )
        found = [each for each in self._parked if served.find(each.api_version, each.kind) is not None]
        wakes = [Enqueue(key) for each in found for key in self._parked.pop(each)]
        gone = before.keys() - self._kinds.keys()
        return chain(wakes, _wakes(self.graph.forget(gone))) if gone else wakes

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        kind = self._kinds.get(resource)
        return () if kind is None else _wakes(self.graph.applied(kind, obj["metadata"]))

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        node = self.graph.get(uid)
        if node is None or node.resource != resource:
            return ()
        self._absent.add(OwnerIdentity(node.kind.api_version, node.kind.kind, node.namespace, node.name, uid))
        return _wakes(self.graph.removed(resource, uid))

    # -- work ------------------------------------------------------------------------------------------------------

    def reconcile(self, key: CollectorKey, now_s: float) -> ReconcileSteps:
        match key:
            case AttemptToDelete(uid):
                return (yield from self._attempt(key, uid))
            case AttemptToOrphan(uid):
                return (yield from self._orphan(uid))
            case VerifyOwner(claim):
                return (yield from self._verify(key, claim))
            case ReportInvalidOwnerNamespace(uid, owner_uid):
                return (yield from self._report(uid, owner_uid))

    def _verify(self, key: Key, claim: OwnerIdentity) -> ReconcileSteps:
        """An owner that was never observed: it does not exist, or its watch is late."""
        if not self.graph.dependents_of_unknown(claim):
            return Done()
        found = yield from self._look_up(claim)
        if isinstance(found, RequeueWithBackoff | _ClusterScopedWithNamespacedOwner):
            return found if isinstance(found, RequeueWithBackoff) else Done()
        if isinstance(found, _UnservedOwnerKind):
            return self._park(found, key)
        if found is None:
            return Done(list(_wakes(self.graph.absent(claim))))
        # It exists, so its kind's watch will tell of it, or of its end. Should both be missed, this comes back.
        return RequeueWithBackoff("not heard of yet") if self.graph.dependents_of_unknown(claim) else Done()

    def _attempt(self, key: Key, uid: str) -> ReconcileSteps:
        node = self.graph.get(uid)
        if node is None or (node.deleting and not node.waiting):
            return Done()
        answer = yield Get(node.resource, node.namespace, node.name, METADATA)
        if answer.missing or (answer.ok and answer.body["metadata"]["uid"] != uid):
            return Done(list(_wakes(self.graph.removed(node.resource, uid))))
        if not answer.ok:
            return RequeueWithBackoff(answer.message)
        live = answer.body["metadata"]
        if node.waiting:
            return (yield from self._finish_waiting(node, live))
        if not live.get("ownerReferences"):
            return Done()
        owners = yield from self._classify(node, owner_references(live))
        if isinstance(owners, RequeueWithBackoff):
            return owners
        if isinstance(owners, _ClusterScopedWithNamespacedOwner):
            return Done()
        if isinstance(owners, _UnservedOwnerKind):
            return self._park(owners, key)
        return (yield from self._act(node, live, owners))

    def _act(self, node: OwnerGraphNode, live: Object, owners: _Owners) -> ReconcileSteps:
        gone = [each.uid for each in (*owners.dangling, *owners.waiting)]
        if owners.solid:
            if not gone:
                return Done()
            return _verdict((yield from operations.drop_owners(node, gone)))
        policy = "Background"
        dependents = self.graph.dependents(node.uid)
        finalizers = live.get("finalizers") or ()
        if owners.waiting and dependents:
            policy = "Foreground"
            if any(each.waiting for each in dependents):
                # Before this turns into a circle in which each waits for the other, its owners stop waiting for it.
                problem = yield from operations.unblock_owners(node, live)
                if problem is not None:
                    return _verdict(problem)
        elif ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        return _verdict((yield from operations.delete(node, live, policy)))

    def _finish_waiting(self, node: OwnerGraphNode, live: Object) -> ReconcileSteps:
        blocking = self.graph.blocking(node)
        if not blocking:
            return _verdict((yield from operations.remove_finalizer(node, FOREGROUND)))
        if self.graph.waits_for_itself(node):
            return _verdict((yield from operations.unblock_owners(node, live)))
        return Done([Enqueue(AttemptToDelete(each.uid)) for each in blocking if not each.waiting])

    def _orphan(self, uid: str) -> ReconcileSteps:
        node = self.graph.get(uid)
        if node is None or not node.orphaning:
            return Done()
        # Not from the graph: a dependent that was not heard of yet would lose its owner and be deleted for it.
        kinds = [row for row in self._kinds.values() if row.resource.namespaced or not node.namespace]
        problem = yield from operations.orphan_all(kinds, node, self.graph.dependents(uid))
        if problem is None:
            problem = yield from operations.remove_finalizer(node, ORPHAN)
        return _verdict(problem)

    def _report(self, uid: str, owner_uid: str) -> ReconcileSteps:
        node = self.graph.get(uid)
        named = next((each for each in node.owners if each.uid == owner_uid), None) if node else None
        if node is None or named is None:
            return Done()
        about = {
            "kind": node.kind.kind,
            "namespace": node.namespace,
            "name": node.name,
            "uid": uid,
            "apiVersion": node.kind.api_version,
        }
        owner = f"[{named.api_version}/{named.kind}, namespace: {node.namespace}, name: {named.name}, uid: {named.uid}]"
        text = f'ownerRef {owner} does not exist in namespace "{node.namespace}"'
        yield EmitEvent(about, "Warning", "OwnerRefInvalidNamespace", text, _COMPONENT)
        return Done()

    # -- owners ----------------------------------------------------------------------------------------------------

    def _classify(
        self, node: OwnerGraphNode, named: Iterable[OwnerReference]
    ) -> Generator[
        Effect, EffectResponse, _Owners | RequeueWithBackoff | _UnservedOwnerKind | _ClusterScopedWithNamespacedOwner
    ]:
        owners = _Owners([], [], [])
        for reference in named:
            found = yield from self._look_up(owner_identity(reference, node.namespace))
            if isinstance(found, RequeueWithBackoff | _UnservedOwnerKind | _ClusterScopedWithNamespacedOwner):
                return found
            if found is None:
                owners.dangling.append(reference)
            elif "deletionTimestamp" in found and FOREGROUND in (found.get("finalizers") or ()):
                owners.waiting.append(reference)
            else:
                owners.solid.append(reference)
        return owners

    def _look_up(
        self, claim: OwnerIdentity
    ) -> Generator[
        Effect,
        EffectResponse,
        Object | RequeueWithBackoff | _UnservedOwnerKind | _ClusterScopedWithNamespacedOwner | None,
    ]:
        """The metadata of an owner as the server has it; ``None`` if there is no such owner."""
        everywhere = msgspec.structs.replace(claim, namespace="")
        if claim in self._absent or everywhere in self._absent:
            return None
        kind = self._served.find(claim.api_version, claim.kind)
        if kind is None:
            return (yield from self._look_up_former(claim))
        if kind.resource.namespaced and not claim.namespace:
            return _ClusterScopedWithNamespacedOwner()
        answer = yield Get(kind.resource, claim.namespace, claim.name, METADATA)
        if answer.missing or (answer.ok and answer.body["metadata"]["uid"] != claim.uid):
            self._absent.add(claim if kind.resource.namespaced else everywhere)
            return None
        if not answer.ok:
            return RequeueWithBackoff(answer.message)
        metadata: Object = answer.body["metadata"]
        return metadata

    def _look_up_former(
        self, claim: OwnerIdentity
    ) -> Generator[Effect, EffectResponse, RequeueWithBackoff | _UnservedOwnerKind | None]:
        """An owner whose kind is served no longer: when its definition is gone, so are all its objects, whether their
        end was heard or not. A definition that is there may just not be served for a while."""
        former = self._former.get((claim.api_version, claim.kind))
        if former is None:
            return _UnservedOwnerKind(claim.api_version, claim.kind)
        answer = yield Get(CUSTOM_RESOURCE_DEFINITIONS, "", f"{former.plural}.{former.group}", METADATA)
        if answer.missing:
            self._absent.add(claim)
            return None
        if not answer.ok:
            return RequeueWithBackoff(answer.message)
        if "deletionTimestamp" in answer.body["metadata"]:
            return RequeueWithBackoff("its definition is about to go")
        return _UnservedOwnerKind(claim.api_version, claim.kind)

    def _park(self, kind: _UnservedOwnerKind, key: Key) -> Done:
        self._parked.setdefault(kind, set()).add(key)
        return Done()


def _wakes(looks: Iterable[CollectorKey]) -> Iterator[Enqueue]:
    return map(Enqueue, looks)


def _verdict(problem: Problem) -> Done | RequeueWithBackoff:
    return Done() if problem is None else RequeueWithBackoff(problem)
