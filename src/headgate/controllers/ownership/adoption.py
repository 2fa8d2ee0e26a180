"""Adopts and releases dependents, as steps of an owner's reconcile (compare client-go's ControllerRefManager).

An object without a controller that matches the owner's selector is adopted; a controlled object that no longer matches
is released. Before the first adoption the owner is read from the API server, because the watch may be late: an owner
that is gone or terminating adopts nothing. An error is returned as a text, and the caller requeues the key.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from headgate.controllers.framework.effects import Effect, EffectResponse, Get, Patch
from headgate.controllers.ownership.cache import Key, OwnershipCache
from headgate.kube.object_meta import controller_reference, is_controlled_by

Object = dict[str, Any]
Problem = str | None
"""An error text, or None after success."""
ClaimSteps = Generator[Effect, EffectResponse, Problem]


def claim(
    cache: OwnershipCache,
    key: Key,
    *,
    finalizers: Sequence[str] = (),
    can_use: Callable[[Object], bool] = lambda obj: True,
    is_relevant: Callable[[Object], bool] = lambda obj: True,
) -> ClaimSteps:
    """Adopts and releases dependents. ``finalizers``: added on adoption, removed on release.

    ``can_use``: whether the owner can use an object that its selector matches. ``is_relevant``: objects for which it is
    false, such as finished pods, are neither adopted nor released.
    """
    owner = cache.owner(key)
    if owner is None:
        return None
    problem = None
    is_terminating = "deletionTimestamp" in owner["metadata"]
    selector = cache.selector(key)
    for each in filter(is_relevant, list(cache.dependents(owner["metadata"]["uid"]).values())):
        matches = selector.matches(each["metadata"].get("labels")) and can_use(each)
        if not matches and not is_terminating:
            problem = (yield from _release(cache, owner, each, finalizers)) or problem
    adoptable = [
        each for each in filter(is_relevant, cache.candidates(key)) if _may_be_adopted(cache, each) and can_use(each)
    ]
    if not adoptable or is_terminating:
        return problem
    owner_problem = yield from _recheck_owner(cache, owner)
    if owner_problem is not None:
        return owner_problem
    for each in adoptable:
        problem = (yield from _adopt(cache, owner, each, finalizers)) or problem
    return problem


def _may_be_adopted(cache: OwnershipCache, obj: Object) -> bool:
    return not cache.is_terminating(obj["metadata"]["uid"])


def _recheck_owner(cache: OwnershipCache, owner: Object) -> ClaimSteps:
    metadata = owner["metadata"]
    resource, name = cache.kind.resource, metadata["name"]
    response = yield Get(resource, metadata["namespace"], name, ("metadata.deletionTimestamp",))
    if not response.ok:
        return response.message
    live = response.body["metadata"]
    if live["uid"] != metadata["uid"]:
        return f"{name} was replaced by an object with the uid {live['uid']}; its uid was {metadata['uid']}"
    return f"{name} has just been deleted" if "deletionTimestamp" in live else None


def _adopt(cache: OwnershipCache, owner: Object, obj: Object, finalizers: Sequence[str]) -> ClaimSteps:
    change: Object = {"ownerReferences": [controller_reference(owner, cache.kind.kind)]}
    if finalizers:
        change["finalizers"] = list(finalizers)
    return (yield from _patch(cache, obj, change))


def _release(cache: OwnershipCache, owner: Object, obj: Object, finalizers: Sequence[str]) -> ClaimSteps:
    if not is_controlled_by(obj, owner) or cache.is_terminating(obj["metadata"]["uid"]):
        return None
    change: Object = {"ownerReferences": [{"$patch": "delete", "uid": owner["metadata"]["uid"]}]}
    present = [each for each in obj["metadata"].get("finalizers") or () if each in finalizers]
    if present:
        change["$deleteFromPrimitiveList/finalizers"] = present
    return (yield from _patch(cache, obj, change))


def _patch(cache: OwnershipCache, obj: Object, change: Object) -> ClaimSteps:
    metadata = obj["metadata"]
    body = {"metadata": {"uid": metadata["uid"], **change}}
    response = yield Patch(cache.kind.dependents, metadata["namespace"], metadata["name"], body)
    if response.ok:
        cache.observe_write(response.body)
        return None
    # After a 404, 409 or 422 the object was deleted, replaced, or adopted by another owner; the watch delivers that.
    return None if response.missing or response.status in (409, 422) else response.message
