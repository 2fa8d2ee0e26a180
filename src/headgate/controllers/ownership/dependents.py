"""Creates and deletes dependents, as steps of an owner's reconcile: in batches, with Events, and never twice.

Batches start small (1, 2, 4, 8 …), so that few requests fail when a ResourceQuota or a webhook refuses them. Every
object has its name before the request is sent. A create whose outcome is unknown is repeated with the same name. If the
API server then answers that the object exists and the owner controls it, the first request was successful. The caller
decides how many objects, and which.
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
    """``count``: how many objects were created. ``problem``: the message of the first failure.

    ``stop``: a retry cannot succeed, because the namespace is terminating. ``response``: the response to the failed
    request.
    """

    count: int = 0
    problem: str | None = None
    stop: bool = False
    response: EffectResponse | None = None


CreateSteps = Generator[Effect, EffectResponse, BatchCreateResult]
DeleteSteps = Generator[Effect, EffectResponse, str | None]
"""Returns the message of the first failure; None if there was none."""


def create_dependents(
    cache: OwnershipCache, owner: Object, bodies: Sequence[Object], *, without_events: bool = False
) -> CreateSteps:
    """Creates objects in slow-start batches. ``without_events``: emits no Events."""
    count, size = 0, _FIRST_BATCH
    while count < len(bodies):
        batch = bodies[count : count + size]
        created, failed = yield from _create_batch(cache, owner, batch, without_events)
        count += created
        if failed is not None:
            stop = failed.has_cause(_TERMINATING)
            if not without_events and not stop and not failed.unknown:
                text = f"Error creating: {failed.message}"
                yield _event(cache, owner, "Warning", "FailedCreate", text)
            return BatchCreateResult(count, failed.message, stop, failed)
        size *= 2
    return BatchCreateResult(count)


def delete_dependents(
    cache: OwnershipCache, owner: Object, objects: Sequence[Object], *, without_events: bool = False
) -> DeleteSteps:
    """Deletes objects in parallel. An object that does not exist counts as deleted."""
    if not objects:
        return None
    responses = yield ParallelRequests(tuple(_deletion(cache, each) for each in objects))
    problem = None
    for obj, response in zip(objects, responses.parts, strict=True):
        failed = _delete_outcome(cache, owner, obj, response)
        name = obj["metadata"]["name"]
        if failed is None and response.ok and not without_events:
            yield _event(cache, owner, "Normal", "SuccessfulDelete", f"Deleted {_kind_name(cache)}: {name}")
        elif failed is not None:
            problem = problem or failed
            if not without_events and not response.unknown:
                yield _event(cache, owner, "Warning", "FailedDelete", f"Error deleting: {failed}")
    return problem


def resolve_unconfirmed(cache: OwnershipCache, owner: Object) -> DeleteSteps:
    """Resolves writes of unknown outcome. It is the first step of each reconcile of an owner."""
    uid = owner["metadata"]["uid"]
    unconfirmed = cache.unconfirmed_writes.get(uid)
    if unconfirmed is None:
        return None
    problem = None
    for body in list(unconfirmed.creates.values()):
        _, failed = yield from _create_batch(cache, owner, [body], without_events=False)
        problem = problem or (None if failed is None or not failed.unknown else failed.message)
    for obj in list(unconfirmed.deletes.values()):
        problem = (yield from delete_dependents(cache, owner, [obj])) or problem
    if not unconfirmed.creates and not unconfirmed.deletes:
        cache.unconfirmed_writes.pop(uid, None)
    return problem


def _create_batch(
    cache: OwnershipCache, owner: Object, batch: Sequence[Object], without_events: bool
) -> Generator[Effect, EffectResponse, tuple[int, EffectResponse | None]]:
    namespace = owner["metadata"]["namespace"]
    creates = cache.unconfirmed_writes.setdefault(owner["metadata"]["uid"], UnconfirmedWrites()).creates
    retried = {body["metadata"]["name"] for body in batch if body["metadata"]["name"] in creates}
    creates.update((body["metadata"]["name"], body) for body in batch)
    responses = yield ParallelRequests(tuple(Create(cache.kind.dependents, namespace, body) for body in batch))
    created, failed = 0, None
    for body, response in zip(batch, responses.parts, strict=True):
        name = body["metadata"]["name"]
        if response.conflict and name in retried:
            response = yield Get(cache.kind.dependents, namespace, name)
            if response.ok and not is_controlled_by(response.body, owner):
                response = EffectResponse(
                    409, {"message": f'{_kind_name(cache)}s "{name}" already exists'}, response.now_s
                )
        if not response.unknown:
            creates.pop(name, None)
        if not response.ok:
            failed = failed or response
            continue
        created += 1
        cache.observe_write(response.body)
        if not without_events:
            yield _event(cache, owner, "Normal", "SuccessfulCreate", f"Created {_kind_name(cache)}: {name}")
    unconfirmed = cache.unconfirmed_writes.get(owner["metadata"]["uid"])  # dropped if the owner was deleted
    if unconfirmed is not None and not unconfirmed.creates and not unconfirmed.deletes:
        del cache.unconfirmed_writes[owner["metadata"]["uid"]]
    return created, failed


def _deletion(cache: OwnershipCache, obj: Object) -> Delete:
    metadata = obj["metadata"]
    options = {"preconditions": {"uid": metadata["uid"]}, "propagationPolicy": "Background"}
    return Delete(cache.kind.dependents, metadata["namespace"], metadata["name"], options)


def _delete_outcome(cache: OwnershipCache, owner: Object, obj: Object, response: EffectResponse) -> str | None:
    uid, owner_uid = obj["metadata"]["uid"], owner["metadata"]["uid"]
    unconfirmed = cache.unconfirmed_writes.get(owner_uid)
    if response.unknown:
        cache.unconfirmed_writes.setdefault(owner_uid, UnconfirmedWrites()).deletes[uid] = obj
        return response.message
    if unconfirmed is not None:
        unconfirmed.deletes.pop(uid, None)
    if response.ok:
        cache.deletion_accepted(uid)
        return None
    if response.missing:
        cache.deletion_confirmed(uid)
    elif not response.conflict:  # a conflict means that a new object has this name, which the watch will deliver
        return response.message
    return None


def _event(cache: OwnershipCache, owner: Object, kind: Any, reason: str, message: str) -> EmitEvent:
    return EmitEvent(object_reference(owner, cache.kind.kind), kind, reason, message, cache.kind.component)


def _kind_name(cache: OwnershipCache) -> str:
    return cache.kind.dependents.plural.removesuffix("s")
