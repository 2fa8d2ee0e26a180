"""Which dependents an owner takes and which it lets go, as steps of its work.

An object without a controller that the owner's selector means is adopted; one that it controls and does not mean any
more is released. Before the first adoption the server is asked whether the owner is still there and not on its way out:
the watch may be late, and nobody must be adopted by the dead. What went wrong comes back as a text, and is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

from headgate.kube.references import controller_reference, is_controlled_by
from headgate.owners.effects import Answer, Effect, Get, Patch
from headgate.owners.families.family import Family, Key

Object = dict[str, Any]
Problem = str | None
Claiming = Generator[Effect, Answer, Problem]


def claim(
    family: Family,
    key: Key,
    *,
    finalizers: Sequence[str] = (),
    suits: Callable[[Object], bool] = lambda obj: True,
    counts: Callable[[Object], bool] = lambda obj: True,
) -> Claiming:
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
    doubt = yield from _ask_for(family, owner)
    if doubt is not None:
        return doubt
    for each in wanted:
        problem = (yield from _adopt(family, owner, each, finalizers)) or problem
    return problem


def _may_be_adopted(family: Family, obj: Object) -> bool:
    return not family.is_leaving(obj["metadata"]["uid"])


def _ask_for(family: Family, owner: Object) -> Claiming:
    metadata = owner["metadata"]
    resource, name = family.kind.resource, metadata["name"]
    answer = yield Get(resource, metadata["namespace"], name, ("metadata.deletionTimestamp",))
    if not answer.ok:
        return answer.message
    live = answer.body["metadata"]
    if live["uid"] != metadata["uid"]:
        return f"{name} is another one by now: {live['uid']}, not {metadata['uid']}"
    return f"{name} has just been deleted" if "deletionTimestamp" in live else None


def _adopt(family: Family, owner: Object, obj: Object, finalizers: Sequence[str]) -> Claiming:
    change: Object = {"ownerReferences": [controller_reference(owner, family.kind.kind)]}
    if finalizers:
        change["finalizers"] = list(finalizers)
    return (yield from _patch(family, obj, change))


def _release(family: Family, owner: Object, obj: Object, finalizers: Sequence[str]) -> Claiming:
    if not is_controlled_by(obj, owner) or family.is_leaving(obj["metadata"]["uid"]):
        return None
    change: Object = {"ownerReferences": [{"$patch": "delete", "uid": owner["metadata"]["uid"]}]}
    held = [each for each in obj["metadata"].get("finalizers") or () if each in finalizers]
    if held:
        change["$deleteFromPrimitiveList/finalizers"] = held
    return (yield from _patch(family, obj, change))


def _patch(family: Family, obj: Object, change: Object) -> Claiming:
    metadata = obj["metadata"]
    body = {"metadata": {"uid": metadata["uid"], **change}}
    answer = yield Patch(family.kind.dependents, metadata["namespace"], metadata["name"], body)
    if answer.ok:
        family.wrote(answer.body)
        return None
    # Gone, another one by now, or taken by somebody else in the meantime: the watch will tell.
    return None if answer.missing or answer.status in (409, 422) else answer.message
