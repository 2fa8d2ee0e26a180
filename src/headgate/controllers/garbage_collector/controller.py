"""The garbage collector: it deletes objects whose owners are gone, with the propagation policy of their owners.

It watches the metadata of every deletable resource and keeps the ownership graph (``graph.py``). The graph only selects
the objects to check: before a deletion, the collector reads the object and each of its owners from the API server.
Owners that do not exist are cached; a uid is never used again, so an entry stays valid. The least recently used entry
is evicted. ``operations.py`` has the steps of a deletion.
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

_MAX_SIZE: Final = 2000


class AbsentOwnerCache:
    def __init__(self, max_size: int = _MAX_SIZE) -> None:
        self._max_size = max_size
        self._identities: Final[dict[OwnerIdentity, None]] = {}

    def add(self, identity: OwnerIdentity) -> None:
        self._identities.pop(identity, None)
        self._identities[identity] = None
        if len(self._identities) > self._max_size:
            del self._identities[next(iter(self._identities))]

    def __contains__(self, identity: OwnerIdentity) -> bool:
        if identity not in self._identities:
            return False
        self.add(identity)
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
    """A cluster-scoped object cannot have a namespaced owner; it is never deleted."""


class _Owners(msgspec.Struct, frozen=True):
    """The owner references of an object by the state of the owners, with the names of kube-controller-manager.

    The owners of ``solid`` exist, those of ``dangling`` do not, those of ``waiting`` are being deleted in the
    foreground.
    """

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
        self._parked: Final[dict[_UnservedOwnerKind, set[Key]]] = {}  # keys that wait until the kind is served
        self._former_resources: Final[dict[tuple[str, str], APIResource]] = {}

    # -- watch events ----------------------------------------------------------------------------------------------

    def watches(self) -> Iterable[WatchSpec]:
        return [WatchSpec(resource, frozenset(METADATA)) for resource in self._kinds]

    def discovered(self, served: DiscoveredKinds) -> Iterable[Enqueue]:
        for name, row in self._served.by_name.items():
            if name not in served.by_name:
                self._former_resources[name] = row.resource
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
        enqueues = [Enqueue(key) for each in found for key in self._parked.pop(each)]
        gone = before.keys() - self._kinds.keys()
        return chain(enqueues, _enqueue_all(self.graph.forget(gone))) if gone else enqueues

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        kind = self._kinds.get(resource)
        return () if kind is None else _enqueue_all(self.graph.applied(kind, obj["metadata"]))

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        node = self.graph.get(uid)
        if node is None or node.resource != resource:
            return ()
        self._absent.add(OwnerIdentity(node.kind.api_version, node.kind.kind, node.namespace, node.name, uid))
        return _enqueue_all(self.graph.removed(resource, uid))

    # -- reconcile -------------------------------------------------------------------------------------------------

    def reconcile(self, key: CollectorKey, now_s: float) -> ReconcileSteps:
        match key:
            case AttemptToDelete(uid):
                return (yield from self._attempt_to_delete(key, uid))
            case AttemptToOrphan(uid):
                return (yield from self._attempt_to_orphan(uid))
            case VerifyOwner(identity):
                return (yield from self._verify_owner(key, identity))
            case ReportInvalidOwnerNamespace(uid, owner_uid):
                return (yield from self._report_invalid_owner(uid, owner_uid))

    def _verify_owner(self, key: Key, identity: OwnerIdentity) -> ReconcileSteps:
        """Reads an owner that was never observed: it does not exist, or its watch event is late."""
        if not self.graph.dependents_of_unknown(identity):
            return Done()
        found = yield from self._look_up(identity)
        if isinstance(found, RequeueWithBackoff | _ClusterScopedWithNamespacedOwner):
            return found if isinstance(found, RequeueWithBackoff) else Done()
        if isinstance(found, _UnservedOwnerKind):
            return self._park(found, key)
        if found is None:
            return Done(list(_enqueue_all(self.graph.absent(identity))))
        # The owner exists, so the watch will deliver it or its deletion. The requeue is for a missed event.
        problem = "the owner exists, but its watch event has not arrived yet"
        return RequeueWithBackoff(problem) if self.graph.dependents_of_unknown(identity) else Done()

    def _attempt_to_delete(self, key: Key, uid: str) -> ReconcileSteps:
        node = self.graph.get(uid)
        if node is None or (node.deleting and not node.waiting):
            return Done()
        response = yield Get(node.resource, node.namespace, node.name, METADATA)
        if response.missing or (response.ok and response.body["metadata"]["uid"] != uid):
            return Done(list(_enqueue_all(self.graph.removed(node.resource, uid))))
        if not response.ok:
            return RequeueWithBackoff(response.message)
        live = response.body["metadata"]
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
        return (yield from self._delete_or_drop_owners(node, live, owners))

    def _delete_or_drop_owners(self, node: OwnerGraphNode, live: Object, owners: _Owners) -> ReconcileSteps:
        gone = [each.uid for each in (*owners.dangling, *owners.waiting)]
        if owners.solid:
            if not gone:
                return Done()
            return _result_of((yield from operations.drop_owners(node, gone)))
        policy = "Background"
        dependents = self.graph.dependents(node.uid)
        finalizers = live.get("finalizers") or ()
        if owners.waiting and dependents:
            policy = "Foreground"
            if any(each.waiting for each in dependents):
                # Otherwise this could become a cycle in which each object waits for the other.
                problem = yield from operations.unblock_owners(node, live)
                if problem is not None:
                    return _result_of(problem)
        elif ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        return _result_of((yield from operations.delete(node, live, policy)))

    def _finish_waiting(self, node: OwnerGraphNode, live: Object) -> ReconcileSteps:
        blocking = self.graph.blocking(node)
        if not blocking:
            return _result_of((yield from operations.remove_finalizer(node, FOREGROUND)))
        if self.graph.waits_for_itself(node):
            return _result_of((yield from operations.unblock_owners(node, live)))
        return Done([Enqueue(AttemptToDelete(each.uid)) for each in blocking if not each.waiting])

    def _attempt_to_orphan(self, uid: str) -> ReconcileSteps:
        node = self.graph.get(uid)
        if node is None or not node.orphaning:
            return Done()
        # Lists from the server, not the graph: a dependent that was not observed yet would be deleted with its owner.
        kinds = [row for row in self._kinds.values() if row.resource.namespaced or not node.namespace]
        problem = yield from operations.orphan_all(kinds, node, self.graph.dependents(uid))
        if problem is None:
            problem = yield from operations.remove_finalizer(node, ORPHAN)
        return _result_of(problem)

    def _report_invalid_owner(self, uid: str, owner_uid: str) -> ReconcileSteps:
        node = self.graph.get(uid)
        owner = next((each for each in node.owners if each.uid == owner_uid), None) if node else None
        if node is None or owner is None:
            return Done()
        reference = {
            "kind": node.kind.kind,
            "namespace": node.namespace,
            "name": node.name,
            "uid": uid,
            "apiVersion": node.kind.api_version,
        }
        fields = f"{owner.api_version}/{owner.kind}, namespace: {node.namespace}, name: {owner.name}, uid: {owner.uid}"
        text = f'ownerRef [{fields}] does not exist in namespace "{node.namespace}"'
        yield EmitEvent(reference, "Warning", "OwnerRefInvalidNamespace", text, _COMPONENT)
        return Done()

    # -- owners ----------------------------------------------------------------------------------------------------

    def _classify(
        self, node: OwnerGraphNode, references: Iterable[OwnerReference]
    ) -> Generator[
        Effect, EffectResponse, _Owners | RequeueWithBackoff | _UnservedOwnerKind | _ClusterScopedWithNamespacedOwner
    ]:
        owners = _Owners([], [], [])
        for reference in references:
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
        self, identity: OwnerIdentity
    ) -> Generator[
        Effect,
        EffectResponse,
        Object | RequeueWithBackoff | _UnservedOwnerKind | _ClusterScopedWithNamespacedOwner | None,
    ]:
        """The metadata of an owner as the server has it; ``None`` if there is no such owner."""
        cluster_scoped = msgspec.structs.replace(identity, namespace="")
        if identity in self._absent or cluster_scoped in self._absent:
            return None
        kind = self._served.find(identity.api_version, identity.kind)
        if kind is None:
            return (yield from self._look_up_former(identity))
        if kind.resource.namespaced and not identity.namespace:
            return _ClusterScopedWithNamespacedOwner()
        response = yield Get(kind.resource, identity.namespace, identity.name, METADATA)
        if response.missing or (response.ok and response.body["metadata"]["uid"] != identity.uid):
            self._absent.add(identity if kind.resource.namespaced else cluster_scoped)
            return None
        if not response.ok:
            return RequeueWithBackoff(response.message)
        metadata: Object = response.body["metadata"]
        return metadata

    def _look_up_former(
        self, identity: OwnerIdentity
    ) -> Generator[Effect, EffectResponse, RequeueWithBackoff | _UnservedOwnerKind | None]:
        """Decides about an owner whose kind is no longer served. If the definition of the kind is deleted, all its
        objects are deleted, too. If the definition exists, the kind may be served again."""
        former = self._former_resources.get((identity.api_version, identity.kind))
        if former is None:
            return _UnservedOwnerKind(identity.api_version, identity.kind)
        response = yield Get(CUSTOM_RESOURCE_DEFINITIONS, "", f"{former.plural}.{former.group}", METADATA)
        if response.missing:
            self._absent.add(identity)
            return None
        if not response.ok:
            return RequeueWithBackoff(response.message)
        if "deletionTimestamp" in response.body["metadata"]:
            return RequeueWithBackoff("the definition of the owner's kind is being deleted")
        return _UnservedOwnerKind(identity.api_version, identity.kind)

    def _park(self, kind: _UnservedOwnerKind, key: Key) -> Done:
        self._parked.setdefault(kind, set()).add(key)
        return Done()


def _enqueue_all(keys: Iterable[CollectorKey]) -> Iterator[Enqueue]:
    return map(Enqueue, keys)


def _result_of(problem: Problem) -> Done | RequeueWithBackoff:
    return Done() if problem is None else RequeueWithBackoff(problem)
