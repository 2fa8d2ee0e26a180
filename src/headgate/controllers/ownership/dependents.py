"""Creates and deletes dependents, as steps of an owner's reconcile: in batches, with Events, and never twice.

Batches start small (1, 2, 4, 8 …): when a quota or a webhook refuses, few requests fail. Every object has its name
before the request is sent, so a create of unknown outcome is repeated under the same name, and a conflict then means
that the first one arrived. The caller decides how many and which.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec

from headgate.controllers.framework.effects import (
    Create,
    Delete,
    Effect,
    EffectResponse,
    EmitEvent,
    Get,
    ParallelRequests,
)
from headgate.controllers.ownership.cache import OwnershipCache, UnconfirmedWrites
from headgate.controllers.ownership.pods import object_reference
from headgate.kube.object_meta import is_controlled_by

Object = dict[str, Any]

_FIRST_BATCH: Final = 1
_TERMINATING: Final = "NamespaceTerminating"


class BatchCreateResult(msgspec.Struct, frozen=True):
    """How many were created, and the message of the first failure.

    ``stop``: a retry will not help (the namespace is terminating); ``answer`` is the refusal.
    """

    count: int = 0
    problem: str | None = None
    stop: bool = False
    answer: EffectResponse | None = None


CreateSteps = Generator[Effect, EffectResponse, BatchCreateResult]
DeleteSteps = Generator[Effect, EffectResponse, str | None]


def create_dependents(
    family: OwnershipCache, owner: Object, bodies: Sequence[Object], *, quietly: bool = False
) -> CreateSteps:
    """Create these, in slow-start batches. ``quietly``: without events."""
    count, size = 0, _FIRST_BATCH
    while count < len(bodies):
        batch = bodies[count : count + size]
        made, failed = yield from _create_batch(family, owner, batch, quietly)
        count += made
        if failed is not None:
            stop = failed.has_cause(_TERMINATING)
            if not quietly and not stop and not failed.unknown:
                text = f"Error creating: {failed.message}"
                yield _event(family, owner, "Warning", "FailedCreate", text)
            return BatchCreateResult(count, failed.message, stop, failed)
        size *= 2
    return BatchCreateResult(count)


def delete_dependents(
    family: OwnershipCache, owner: Object, objects: Sequence[Object], *, quietly: bool = False
) -> DeleteSteps:
    """Delete these, all at once. What was gone already is done."""
    if not objects:
        return None
    answers = yield ParallelRequests(tuple(_deletion(family, each) for each in objects))
    problem = None
    for obj, answer in zip(objects, answers.parts, strict=True):
        failed = _delete_outcome(family, owner, obj, answer)
        name = obj["metadata"]["name"]
        if failed is None and answer.ok and not quietly:
            yield _event(family, owner, "Normal", "SuccessfulDelete", f"Deleted {_noun(family)}: {name}")
        elif failed is not None:
            problem = problem or failed
            if not quietly and not answer.unknown:
                yield _event(family, owner, "Warning", "FailedDelete", f"Error deleting: {failed}")
    return problem


def resolve_unconfirmed(family: OwnershipCache, owner: Object) -> DeleteSteps:
    """Settle writes of unknown outcome: the first step of each reconcile of an owner."""
    uid = owner["metadata"]["uid"]
    doubt = family.unconfirmed_writes.get(uid)
    if doubt is None:
        return None
    problem = None
    for body in list(doubt.creates.values()):
        _, failed = yield from _create_batch(family, owner, [body], quietly=False)
        problem = problem or (None if failed is None or not failed.unknown else failed.message)
    for obj in list(doubt.deletes.values()):
        problem = (yield from delete_dependents(family, owner, [obj])) or problem
    if not doubt.creates and not doubt.deletes:
        family.unconfirmed_writes.pop(uid, None)
    return problem


def _create_batch(
    family: OwnershipCache, owner: Object, batch: Sequence[Object], quietly: bool
) -> Generator[Effect, EffectResponse, tuple[int, EffectResponse | None]]:
    namespace = owner["metadata"]["namespace"]
    creates = family.unconfirmed_writes.setdefault(owner["metadata"]["uid"], UnconfirmedWrites()).creates
    again = {body["metadata"]["name"] for body in batch if body["metadata"]["name"] in creates}
    creates.update((body["metadata"]["name"], body) for body in batch)
    answers = yield ParallelRequests(tuple(Create(family.kind.dependents, namespace, body) for body in batch))
    made, failed = 0, None
    for body, answer in zip(batch, answers.parts, strict=True):
        name = body["metadata"]["name"]
        if answer.conflict and name in again:
            answer = yield Get(family.kind.dependents, namespace, name)
            if answer.ok and not is_controlled_by(answer.body, owner):
                answer = EffectResponse(409, {"message": f'{_noun(family)}s "{name}" already exists'}, answer.now_s)
        if not answer.unknown:
            creates.pop(name, None)
        if not answer.ok:
            failed = failed or answer
            continue
        made += 1
        family.wrote(answer.body)
        if not quietly:
            yield _event(family, owner, "Normal", "SuccessfulCreate", f"Created {_noun(family)}: {name}")
    doubt = family.unconfirmed_writes.get(owner["metadata"]["uid"])  # gone with the owner, maybe
    if doubt is not None and not doubt.creates and not doubt.deletes:
        del family.unconfirmed_writes[owner["metadata"]["uid"]]
    return made, failed


def _deletion(family: OwnershipCache, obj: Object) -> Delete:
    metadata = obj["metadata"]
    options = {"preconditions": {"uid": metadata["uid"]}, "propagationPolicy": "Background"}
    return Delete(family.kind.dependents, metadata["namespace"], metadata["name"], options)


def _delete_outcome(family: OwnershipCache, owner: Object, obj: Object, answer: EffectResponse) -> str | None:
    uid, owner_uid = obj["metadata"]["uid"], owner["metadata"]["uid"]
    doubt = family.unconfirmed_writes.get(owner_uid)
    if answer.unknown:
        family.unconfirmed_writes.setdefault(owner_uid, UnconfirmedWrites()).deletes[uid] = obj
        return answer.message
    if doubt is not None:
        doubt.deletes.pop(uid, None)
    if answer.ok:
        family.deletion_accepted(uid)
        return None
    if answer.missing:
        family.deletion_confirmed(uid)
    elif not answer.conflict:  # there is another one of that name by now: the watch will tell
        return answer.message
    return None


def _event(family: OwnershipCache, owner: Object, kind: Any, reason: str, message: str) -> EmitEvent:
    return EmitEvent(object_reference(owner, family.kind.kind), kind, reason, message, family.kind.component)


def _noun(family: OwnershipCache) -> str:
    return family.kind.dependents.plural.removesuffix("s")
