"""Which dependents an owner adopts and releases, as steps of its reconcile.

An object without a controller that matches the owner's selector is adopted; a controlled object that no longer matches
is released. Before the first adoption the server is asked whether the owner still exists and is not being deleted: the
watch may be late. An error is returned as a text, and the step is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from headgate.controllers.framework.effects import Effect, EffectResponse, Get, Patch
from headgate.controllers.ownership.cache import Key, OwnershipCache
from headgate.kube.object_meta import controller_reference, is_controlled_by

Object = dict[str, Any]
Problem = str | None
ClaimSteps = Generator[Effect, EffectResponse, Problem]


def claim(
    family: OwnershipCache,
    key: Key,
    *,
    finalizers: Sequence[str] = (),
    suits: Callable[[Object], bool] = lambda obj: True,
    counts: Callable[[Object], bool] = lambda obj: True,
) -> ClaimSteps:
    """Adopt and release. ``finalizers`` are put on what is adopted, and taken off what is released.

    ``suits`` says no to what the owner cannot use although its selector means it. What does not count for it, such as
    a pod that has ended, is neither adopted nor released: ``counts``.
    """
    owner = family.owner(key)
    if owner is None:
        return None
    problem = None
    leaving = "deletionTimestamp" in owner["metadata"]
    selector = family.selector(key)
    for each in filter(counts, list(family.dependents(owner["metadata"]["uid"]).values())):
        is_meant = selector.matches(each["metadata"].get("labels")) and suits(each)
        if not is_meant and not leaving:
            problem = (yield from _release(family, owner, each, finalizers)) or problem
    wanted = [each for each in filter(counts, family.candidates(key)) if _may_be_adopted(family, each) and suits(each)]
    if not wanted or leaving:
        return problem
    doubt = yield from _recheck_owner(family, owner)
    if doubt is not None:
        return doubt
    for each in wanted:
        problem = (yield from _adopt(family, owner, each, finalizers)) or problem
    return problem


def _may_be_adopted(family: OwnershipCache, obj: Object) -> bool:
    return not family.is_terminating(obj["metadata"]["uid"])


def _recheck_owner(family: OwnershipCache, owner: Object) -> ClaimSteps:
    metadata = owner["metadata"]
    resource, name = family.kind.resource, metadata["name"]
    answer = yield Get(resource, metadata["namespace"], name, ("metadata.deletionTimestamp",))
    if not answer.ok:
        return answer.message
    live = answer.body["metadata"]
    if live["uid"] != metadata["uid"]:
        return f"{name} is another one by now: {live['uid']}, not {metadata['uid']}"
    return f"{name} has just been deleted" if "deletionTimestamp" in live else None


def _adopt(family: OwnershipCache, owner: Object, obj: Object, finalizers: Sequence[str]) -> ClaimSteps:
    change: Object = {"ownerReferences": [controller_reference(owner, family.kind.kind)]}
    if finalizers:
        change["finalizers"] = list(finalizers)
    return (yield from _patch(family, obj, change))


def _release(family: OwnershipCache, owner: Object, obj: Object, finalizers: Sequence[str]) -> ClaimSteps:
    if not is_controlled_by(obj, owner) or family.is_terminating(obj["metadata"]["uid"]):
        return None
    change: Object = {"ownerReferences": [{"$patch": "delete", "uid": owner["metadata"]["uid"]}]}
    held = [each for each in obj["metadata"].get("finalizers") or () if each in finalizers]
    if held:
        change["$deleteFromPrimitiveList/finalizers"] = held
    return (yield from _patch(family, obj, change))


def _patch(family: OwnershipCache, obj: Object, change: Object) -> ClaimSteps:
    metadata = obj["metadata"]
    body = {"metadata": {"uid": metadata["uid"], **change}}
    answer = yield Patch(family.kind.dependents, metadata["namespace"], metadata["name"], body)
    if answer.ok:
        family.wrote(answer.body)
        return None
    # Gone, another one by now, or adopted by another owner meanwhile: the watch will deliver it.
    return None if answer.missing or answer.status in (409, 422) else answer.message
