"""The garbage collector: objects whose owners are gone are deleted, in the way their owners were.

It hears the metadata of everything that can be deleted and keeps the ownership graph (``graph.py``). What the graph
says is only a reason to look: before anything is deleted, the object and each of its owners are read from the server.
The steps of a deletion are in ``collecting.py``; here is what to look at, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec

from headgate.kube.resource import CUSTOM_RESOURCE_DEFINITIONS, Resource
from headgate.owners import collecting
from headgate.owners.absences import Absences
from headgate.owners.collecting import METADATA, Problem
from headgate.owners.contract import Again, Controller, Done, Interest, Key, Steps, Wake
from headgate.owners.effects import Answer, Effect, Emit, Get
from headgate.owners.graph import (
    FOREGROUND,
    ORPHAN,
    Attempt,
    Claim,
    Graph,
    Look,
    Misplaced,
    Node,
    Orphan,
    Reference,
    Verify,
    claim_of,
    references,
)
from headgate.owners.served import Served

Object = dict[str, Any]

_COMPONENT: Final = "garbage-collector-controller"
# Events are many, short-lived and owned by nobody.
_IGNORED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})


class _Unserved(msgspec.Struct, frozen=True):
    """The kind of an owner is not served (now): whoever names it must wait."""

    api_version: str
    kind: str


class _Misfit(msgspec.Struct, frozen=True):
    """A cluster-scoped object cannot have an owner in a namespace; it is left alone for ever."""


class _Owners(msgspec.Struct, frozen=True):
    """The owner references of an object, by what is left of the owners."""

    solid: list[Reference]
    dangling: list[Reference]
    waiting: list[Reference]


class Collector(Controller):
    name = "garbage-collector"

    def __init__(self) -> None:
        self.graph: Final = Graph()
        self._served = Served()
        self._kinds: dict[Resource, Any] = {}
        self._absent: Final = Absences()
        self._parked: Final[dict[_Unserved, set[Key]]] = {}
        self._former: Final[dict[tuple[str, str], Resource]] = {}

    # -- events in -------------------------------------------------------------------------------------------------

    def interests(self) -> Iterable[Interest]:
        return [Interest(resource, frozenset(METADATA)) for resource in self._kinds]

    def learn(self, served: Served) -> Iterable[Wake]:
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
        wakes = [Wake(key) for each in found for key in self._parked.pop(each)]
        gone = before.keys() - self._kinds.keys()
        return chain(wakes, _wakes(self.graph.forget(gone))) if gone else wakes

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        kind = self._kinds.get(resource)
        return () if kind is None else _wakes(self.graph.applied(kind, obj["metadata"]))

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        node = self.graph.get(uid)
        if node is None or node.resource != resource:
            return ()
        self._absent.add(Claim(node.kind.api_version, node.kind.kind, node.namespace, node.name, uid))
        return _wakes(self.graph.removed(resource, uid))

    # -- work ------------------------------------------------------------------------------------------------------

    def work(self, key: Look, now_s: float) -> Steps:
        match key:
            case Attempt(uid):
                return (yield from self._attempt(key, uid))
            case Orphan(uid):
                return (yield from self._orphan(uid))
            case Verify(claim):
                return (yield from self._verify(key, claim))
            case Misplaced(uid, owner_uid):
                return (yield from self._report(uid, owner_uid))

    def _verify(self, key: Key, claim: Claim) -> Steps:
        """An owner that nobody has heard of: it is not there, or news of it is late."""
        if not self.graph.doubted(claim):
            return Done()
        found = yield from self._look_up(claim)
        if isinstance(found, Again | _Misfit):
            return found if isinstance(found, Again) else Done()
        if isinstance(found, _Unserved):
            return self._park(found, key)
        if found is None:
            return Done(list(_wakes(self.graph.absent(claim))))
        # It exists, so its kind's watch will tell of it, or of its end. Should both be missed, this comes back.
        return Again("not heard of yet") if self.graph.doubted(claim) else Done()

    def _attempt(self, key: Key, uid: str) -> Steps:
        node = self.graph.get(uid)
        if node is None or (node.deleting and not node.waiting):
            return Done()
        answer = yield Get(node.resource, node.namespace, node.name, METADATA)
        if answer.missing or (answer.ok and answer.body["metadata"]["uid"] != uid):
            return Done(list(_wakes(self.graph.removed(node.resource, uid))))
        if not answer.ok:
            return Again(answer.message)
        live = answer.body["metadata"]
        if node.waiting:
            return (yield from self._finish_waiting(node, live))
        if not live.get("ownerReferences"):
            return Done()
        owners = yield from self._classify(node, references(live))
        if isinstance(owners, Again):
            return owners
        if isinstance(owners, _Misfit):
            return Done()
        if isinstance(owners, _Unserved):
            return self._park(owners, key)
        return (yield from self._act(node, live, owners))

    def _act(self, node: Node, live: Object, owners: _Owners) -> Steps:
        gone = [each.uid for each in (*owners.dangling, *owners.waiting)]
        if owners.solid:
            if not gone:
                return Done()
            return _verdict((yield from collecting.drop_owners(node, gone)))
        policy = "Background"
        dependents = self.graph.dependents(node.uid)
        finalizers = live.get("finalizers") or ()
        if owners.waiting and dependents:
            policy = "Foreground"
            if any(each.waiting for each in dependents):
                # Before this turns into a circle in which each waits for the other, its owners stop waiting for it.
                problem = yield from collecting.unblock_owners(node, live)
                if problem is not None:
                    return _verdict(problem)
        elif ORPHAN in finalizers:
            policy = "Orphan"
        elif FOREGROUND in finalizers:
            policy = "Foreground"
        return _verdict((yield from collecting.delete(node, live, policy)))

    def _finish_waiting(self, node: Node, live: Object) -> Steps:
        blocking = self.graph.blocking(node)
        if not blocking:
            return _verdict((yield from collecting.remove_finalizer(node, FOREGROUND)))
        if self.graph.waits_for_itself(node):
            return _verdict((yield from collecting.unblock_owners(node, live)))
        return Done([Wake(Attempt(each.uid)) for each in blocking if not each.waiting])

    def _orphan(self, uid: str) -> Steps:
        node = self.graph.get(uid)
        if node is None or not node.orphaning:
            return Done()
        # Not from the graph: a dependent that was not heard of yet would lose its owner and be deleted for it.
        kinds = [row for row in self._kinds.values() if row.resource.namespaced or not node.namespace]
        problem = yield from collecting.orphan_all(kinds, node, self.graph.dependents(uid))
        if problem is None:
            problem = yield from collecting.remove_finalizer(node, ORPHAN)
        return _verdict(problem)

    def _report(self, uid: str, owner_uid: str) -> Steps:
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
        yield Emit(about, "Warning", "OwnerRefInvalidNamespace", text, _COMPONENT)
        return Done()

    # -- owners ----------------------------------------------------------------------------------------------------

    def _classify(
        self, node: Node, named: Iterable[Reference]
    ) -> Generator[Effect, Answer, _Owners | Again | _Unserved | _Misfit]:
        owners = _Owners([], [], [])
        for reference in named:
            found = yield from self._look_up(claim_of(reference, node.namespace))
            if isinstance(found, Again | _Unserved | _Misfit):
                return found
            if found is None:
                owners.dangling.append(reference)
            elif "deletionTimestamp" in found and FOREGROUND in (found.get("finalizers") or ()):
                owners.waiting.append(reference)
            else:
                owners.solid.append(reference)
        return owners

    def _look_up(self, claim: Claim) -> Generator[Effect, Answer, Object | Again | _Unserved | _Misfit | None]:
        """The metadata of an owner as the server has it; ``None`` if there is no such owner."""
        everywhere = msgspec.structs.replace(claim, namespace="")
        if claim in self._absent or everywhere in self._absent:
            return None
        kind = self._served.find(claim.api_version, claim.kind)
        if kind is None:
            return (yield from self._look_up_former(claim))
        if kind.resource.namespaced and not claim.namespace:
            return _Misfit()
        answer = yield Get(kind.resource, claim.namespace, claim.name, METADATA)
        if answer.missing or (answer.ok and answer.body["metadata"]["uid"] != claim.uid):
            self._absent.add(claim if kind.resource.namespaced else everywhere)
            return None
        if not answer.ok:
            return Again(answer.message)
        metadata: Object = answer.body["metadata"]
        return metadata

    def _look_up_former(self, claim: Claim) -> Generator[Effect, Answer, Again | _Unserved | None]:
        """An owner whose kind is served no longer: when its definition is gone, so are all its objects, whether their
        end was heard or not. A definition that is there may just not be served for a while."""
        former = self._former.get((claim.api_version, claim.kind))
        if former is None:
            return _Unserved(claim.api_version, claim.kind)
        answer = yield Get(CUSTOM_RESOURCE_DEFINITIONS, "", f"{former.plural}.{former.group}", METADATA)
        if answer.missing:
            self._absent.add(claim)
            return None
        if not answer.ok:
            return Again(answer.message)
        if "deletionTimestamp" in answer.body["metadata"]:
            return Again("its definition is about to go")
        return _Unserved(claim.api_version, claim.kind)

    def _park(self, kind: _Unserved, key: Key) -> Done:
        self._parked.setdefault(kind, set()).add(key)
        return Done()


def _wakes(looks: Iterable[Look]) -> Iterator[Wake]:
    return map(Wake, looks)


def _verdict(problem: Problem) -> Done | Again:
    return Done() if problem is None else Again(problem)
