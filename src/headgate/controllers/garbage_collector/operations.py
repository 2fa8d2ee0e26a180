"""The steps of the garbage collector on one object: delete it, remove owner references, remove its finalizers.

Each function is a generator of effects that returns ``None`` on success, or the error. An object that is already gone
or already changed by another client counts as success.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final

from headgate.controllers.framework.discovery import DiscoveredKind
from headgate.controllers.framework.effects import Delete, Effect, EffectResponse, Get, List, Patch
from headgate.controllers.garbage_collector.graph import OwnerGraphNode
from headgate.kube.object_meta import is_owned_by

Object = dict[str, Any]
Problem = str | None
"""An error text, or None after success."""
Operation = Generator[Effect, EffectResponse, Problem]

# The fields that the collector reads of an object.
METADATA: Final = ("metadata.ownerReferences", "metadata.finalizers", "metadata.deletionTimestamp")

_MAX_TRIES: Final = 5
_UNSUPPORTED_MEDIA_TYPE: Final = 415


def delete(node: OwnerGraphNode, live: Object, policy: str) -> Operation:
    """Deletes the object that ``live`` describes, unless its owners change meanwhile."""
    version = live["resourceVersion"]
    preconditions = {"uid": node.uid, "resourceVersion": version}
    options: Object = {"propagationPolicy": policy, "preconditions": preconditions}
    response = yield Delete(node.resource, node.namespace, node.name, options)
    if not response.conflict:
        return _problem(response)
    now = yield Get(node.resource, node.namespace, node.name, METADATA)
    if not now.ok:
        return _problem(now)
    changed = now.body["metadata"]
    if changed["uid"] != node.uid:
        return None
    if changed.get("ownerReferences") != live.get("ownerReferences"):
        return "the owner references of the object changed during the deletion"
    # Other fields changed. An object that changes all the time must be deleted, too.
    options = {"propagationPolicy": policy, "preconditions": {"uid": node.uid}}
    return _problem((yield Delete(node.resource, node.namespace, node.name, options)))


def drop_owners(node: OwnerGraphNode, uids: Sequence[str]) -> Operation:
    """Removes the references to these owners from the object."""
    kind, namespace, name, uid = node.resource, node.namespace, node.name, node.uid
    gone = [{"$patch": "delete", "uid": each} for each in uids]
    response = yield Patch(kind, namespace, name, {"metadata": {"ownerReferences": gone, "uid": uid}})
    if response.status != _UNSUPPORTED_MEDIA_TYPE:
        return _problem(response)
    return (yield from _rewrite_owners(node, lambda each: None if each.get("uid") in uids else each))


def unblock_owners(node: OwnerGraphNode, live: Object) -> Operation:
    """Sets ``blockOwnerDeletion`` to false in all owner references."""
    unblocked = [
        {**each, "blockOwnerDeletion": False}
        for each in live.get("ownerReferences") or ()
        if each.get("blockOwnerDeletion")
    ]
    if not unblocked:
        return None
    body: Object = {"metadata": {"ownerReferences": unblocked, "uid": node.uid}}
    response = yield Patch(node.resource, node.namespace, node.name, body)
    if response.status != _UNSUPPORTED_MEDIA_TYPE:
        return _problem(response)
    return (yield from _rewrite_owners(node, lambda each: {**each, "blockOwnerDeletion": False}))


def remove_finalizer(node: OwnerGraphNode, finalizer: str) -> Operation:
    for _ in range(_MAX_TRIES):
        response = yield Get(node.resource, node.namespace, node.name, METADATA)
        if not response.ok:
            return _problem(response)
        live = response.body["metadata"]
        finalizers = live.get("finalizers") or []
        if live["uid"] != node.uid or finalizer not in finalizers:
            return None
        kept = [each for each in finalizers if each != finalizer]
        response = yield from _patch_metadata(node, live, {"finalizers": kept})
        if not response.conflict:
            return _problem(response)
    return "it changes all the time"


def orphan_all(kinds: Iterable[DiscoveredKind], owner: OwnerGraphNode, known: Sequence[OwnerGraphNode]) -> Operation:
    """Removes the owner from all objects that name it, as listed by the server.

    For a kind that cannot be listed now, only the ``known`` dependents are changed, so that it does not block all
    owners.
    """
    for kind in kinds:
        response = yield List(kind.resource, owner.namespace, METADATA)
        dependents = [node for node in known if node.resource == kind.resource]
        if response.ok:
            dependents = [
                OwnerGraphNode(
                    kind, item["metadata"].get("namespace", ""), item["metadata"]["name"], item["metadata"]["uid"]
                )
                for item in response.items
                if is_owned_by(item, owner.uid)
            ]
        for dependent in dependents:
            problem = yield from drop_owners(dependent, [owner.uid])
            if problem is not None:
                return f"{dependent.kind.kind} {dependent.name}: {problem}"
    return None


def _rewrite_owners(node: OwnerGraphNode, change: Any) -> Operation:
    """For kinds without strategic merge patch: reads, changes, and writes with the version as precondition."""
    for _ in range(_MAX_TRIES):
        response = yield Get(node.resource, node.namespace, node.name, METADATA)
        if not response.ok:
            return _problem(response)
        live = response.body["metadata"]
        before = live.get("ownerReferences") or []
        after = [changed for each in before if (changed := change(each)) is not None]
        if live["uid"] != node.uid or after == before:
            return None
        response = yield from _patch_metadata(node, live, {"ownerReferences": after})
        if not response.conflict:
            return _problem(response)
    return "it changes all the time"


def _patch_metadata(
    node: OwnerGraphNode, live: Object, change: Object
) -> Generator[Effect, EffectResponse, EffectResponse]:
    metadata = {"uid": node.uid, "resourceVersion": live["resourceVersion"], **change}
    return (yield Patch(node.resource, node.namespace, node.name, {"metadata": metadata}, how="merge"))


def _problem(response: EffectResponse) -> Problem:
    return None if response.ok or response.missing else response.message
