"""What the garbage collector does to an object, step by step: delete it, free it of owners, let it go.

Each function is a generator of effects that returns ``None`` when the object is as it should be, or what went wrong.
That somebody else did it first, or that the object is gone by now, is as good as having done it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final

from headgate.kube.references import is_owned_by
from headgate.owners.effects import Answer, Delete, Effect, Get, List, Patch
from headgate.owners.graph import Node
from headgate.owners.served import ServedKind

Object = dict[str, Any]
Problem = str | None
Doing = Generator[Effect, Answer, Problem]

# What the collector reads of an object.
METADATA: Final = ("metadata.ownerReferences", "metadata.finalizers", "metadata.deletionTimestamp")

_TRIES: Final = 5
_UNSUPPORTED_MEDIA_TYPE: Final = 415


def delete(node: Node, live: Object, policy: str) -> Doing:
    """Delete the object that ``live`` describes, unless its owners change meanwhile."""
    version = live["resourceVersion"]
    preconditions = {"uid": node.uid, "resourceVersion": version}
    options: Object = {"propagationPolicy": policy, "preconditions": preconditions}
    answer = yield Delete(node.resource, node.namespace, node.name, options)
    if not answer.conflict:
        return _problem(answer)
    now = yield Get(node.resource, node.namespace, node.name, METADATA)
    if not now.ok:
        return _problem(now)
    changed = now.body["metadata"]
    if changed["uid"] != node.uid:
        return None
    if changed.get("ownerReferences") != live.get("ownerReferences"):
        return "its owners changed meanwhile"
    # Something else changed. An object that never stands still must not escape by that.
    options = {"propagationPolicy": policy, "preconditions": {"uid": node.uid}}
    return _problem((yield Delete(node.resource, node.namespace, node.name, options)))


def drop_owners(node: Node, uids: Sequence[str]) -> Doing:
    """Take references to these owners out of the object."""
    kind, namespace, name, uid = node.resource, node.namespace, node.name, node.uid
    gone = [{"$patch": "delete", "uid": each} for each in uids]
    answer = yield Patch(kind, namespace, name, {"metadata": {"ownerReferences": gone, "uid": uid}})
    if answer.status != _UNSUPPORTED_MEDIA_TYPE:
        return _problem(answer)
    return (yield from _rewrite_owners(node, lambda each: None if each.get("uid") in uids else each))


def unblock_owners(node: Node, live: Object) -> Doing:
    """Let no owner of the object wait for it."""
    free = [
        {**each, "blockOwnerDeletion": False}
        for each in live.get("ownerReferences") or ()
        if each.get("blockOwnerDeletion")
    ]
    if not free:
        return None
    body: Object = {"metadata": {"ownerReferences": free, "uid": node.uid}}
    answer = yield Patch(node.resource, node.namespace, node.name, body)
    if answer.status != _UNSUPPORTED_MEDIA_TYPE:
        return _problem(answer)
    return (yield from _rewrite_owners(node, lambda each: {**each, "blockOwnerDeletion": False}))


def remove_finalizer(node: Node, finalizer: str) -> Doing:
    for _ in range(_TRIES):
        answer = yield Get(node.resource, node.namespace, node.name, METADATA)
        if not answer.ok:
            return _problem(answer)
        live = answer.body["metadata"]
        finalizers = live.get("finalizers") or []
        if live["uid"] != node.uid or finalizer not in finalizers:
            return None
        kept = [each for each in finalizers if each != finalizer]
        answer = yield from _patch_metadata(node, live, {"finalizers": kept})
        if not answer.conflict:
            return _problem(answer)
    return "it changes all the time"


def orphan_all(kinds: Iterable[ServedKind], owner: Node, known: Sequence[Node]) -> Doing:
    """Take the owner out of every object that names it, asking the server which those are.

    Of a kind that cannot be listed just now those that are ``known`` must do: it must not keep every owner waiting.
    """
    for kind in kinds:
        answer = yield List(kind.resource, owner.namespace, METADATA)
        dependents = [node for node in known if node.resource == kind.resource]
        if answer.ok:
            dependents = [
                Node(kind, item["metadata"].get("namespace", ""), item["metadata"]["name"], item["metadata"]["uid"])
                for item in answer.items
                if is_owned_by(item, owner.uid)
            ]
        for dependent in dependents:
            problem = yield from drop_owners(dependent, [owner.uid])
            if problem is not None:
                return f"{dependent.kind.kind} {dependent.name}: {problem}"
    return None


def _rewrite_owners(node: Node, change: Any) -> Doing:
    """The same for kinds that know no strategic merge patch: read, change, write if nobody else did meanwhile."""
    for _ in range(_TRIES):
        answer = yield Get(node.resource, node.namespace, node.name, METADATA)
        if not answer.ok:
            return _problem(answer)
        live = answer.body["metadata"]
        before = live.get("ownerReferences") or []
        after = [changed for each in before if (changed := change(each)) is not None]
        if live["uid"] != node.uid or after == before:
            return None
        answer = yield from _patch_metadata(node, live, {"ownerReferences": after})
        if not answer.conflict:
            return _problem(answer)
    return "it changes all the time"


def _patch_metadata(node: Node, live: Object, change: Object) -> Generator[Effect, Answer, Answer]:
    metadata = {"uid": node.uid, "resourceVersion": live["resourceVersion"], **change}
    return (yield Patch(node.resource, node.namespace, node.name, {"metadata": metadata}, how="merge"))


def _problem(answer: Answer) -> Problem:
    return None if answer.ok or answer.missing else answer.message
