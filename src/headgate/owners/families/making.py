"""Making and ending dependents, as steps of an owner's work: in batches, told as events, and never twice.

Creation starts slowly (1, 2, 4, 8 … at a time): when a quota or a webhook says no, few are refused. Every object has
its name before the request is sent, so a create whose outcome is unknown is repeated under the same name, and a name
that is taken then means that it had arrived. How many and which is decided by who calls this.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec

from headgate.kube.references import is_controlled_by
from headgate.owners.effects import Answer, Create, Delete, Effect, Emit, Get, Together
from headgate.owners.families.family import Doubt, Family
from headgate.owners.families.pods import about

Object = dict[str, Any]

_FIRST_BATCH: Final = 1
_TERMINATING: Final = "NamespaceTerminating"


class Made(msgspec.Struct, frozen=True):
    """How many were made, and why no more were: the message of the first that failed.

    ``stop``: it will not help to try again (the namespace is going); ``answer`` is the refusal.
    """

    count: int = 0
    problem: str | None = None
    stop: bool = False
    answer: Answer | None = None


Making = Generator[Effect, Answer, Made]
Ending = Generator[Effect, Answer, str | None]


def make(family: Family, owner: Object, bodies: Sequence[Object], *, quietly: bool = False) -> Making:
    """Create these, in slow-start batches. ``quietly``: without events."""
    count, size = 0, _FIRST_BATCH
    while count < len(bodies):
        batch = bodies[count : count + size]
        made, failed = yield from _make_batch(family, owner, batch, quietly)
        count += made
        if failed is not None:
            stop = failed.has_cause(_TERMINATING)
            if not quietly and not stop and not failed.unknown:
                text = f"Error creating: {failed.message}"
                yield _event(family, owner, "Warning", "FailedCreate", text)
            return Made(count, failed.message, stop, failed)
        size *= 2
    return Made(count)


def end(family: Family, owner: Object, objects: Sequence[Object], *, quietly: bool = False) -> Ending:
    """Delete these, all at once. What was gone already is done."""
    if not objects:
        return None
    answers = yield Together(tuple(_deletion(family, each) for each in objects))
    problem = None
    for obj, answer in zip(objects, answers.parts, strict=True):
        failed = _ended(family, owner, obj, answer)
        name = obj["metadata"]["name"]
        if failed is None and answer.ok and not quietly:
            yield _event(family, owner, "Normal", "SuccessfulDelete", f"Deleted {_noun(family)}: {name}")
        elif failed is not None:
            problem = problem or failed
            if not quietly and not answer.unknown:
                yield _event(family, owner, "Warning", "FailedDelete", f"Error deleting: {failed}")
    return problem


def settle(family: Family, owner: Object) -> Ending:
    """Find out what became of writes whose outcome nobody knew: the first step of any work on an owner."""
    uid = owner["metadata"]["uid"]
    doubt = family.doubts.get(uid)
    if doubt is None:
        return None
    problem = None
    for body in list(doubt.creates.values()):
        _, failed = yield from _make_batch(family, owner, [body], quietly=False)
        problem = problem or (None if failed is None or not failed.unknown else failed.message)
    for obj in list(doubt.ends.values()):
        problem = (yield from end(family, owner, [obj])) or problem
    if not doubt.creates and not doubt.ends:
        family.doubts.pop(uid, None)
    return problem


def _make_batch(
    family: Family, owner: Object, batch: Sequence[Object], quietly: bool
) -> Generator[Effect, Answer, tuple[int, Answer | None]]:
    namespace = owner["metadata"]["namespace"]
    creates = family.doubts.setdefault(owner["metadata"]["uid"], Doubt()).creates
    again = {body["metadata"]["name"] for body in batch if body["metadata"]["name"] in creates}
    creates.update((body["metadata"]["name"], body) for body in batch)
    answers = yield Together(tuple(Create(family.kind.dependents, namespace, body) for body in batch))
    made, failed = 0, None
    for body, answer in zip(batch, answers.parts, strict=True):
        name = body["metadata"]["name"]
        if answer.conflict and name in again:
            answer = yield Get(family.kind.dependents, namespace, name)
            if answer.ok and not is_controlled_by(answer.body, owner):
                answer = Answer(409, {"message": f'{_noun(family)}s "{name}" already exists'}, answer.now_s)
        if not answer.unknown:
            creates.pop(name, None)
        if not answer.ok:
            failed = failed or answer
            continue
        made += 1
        family.wrote(answer.body)
        if not quietly:
            yield _event(family, owner, "Normal", "SuccessfulCreate", f"Created {_noun(family)}: {name}")
    doubt = family.doubts.get(owner["metadata"]["uid"])  # gone with the owner, maybe
    if doubt is not None and not doubt.creates and not doubt.ends:
        del family.doubts[owner["metadata"]["uid"]]
    return made, failed


def _deletion(family: Family, obj: Object) -> Delete:
    metadata = obj["metadata"]
    options = {"preconditions": {"uid": metadata["uid"]}, "propagationPolicy": "Background"}
    return Delete(family.kind.dependents, metadata["namespace"], metadata["name"], options)


def _ended(family: Family, owner: Object, obj: Object, answer: Answer) -> str | None:
    uid, owner_uid = obj["metadata"]["uid"], owner["metadata"]["uid"]
    doubt = family.doubts.get(owner_uid)
    if answer.unknown:
        family.doubts.setdefault(owner_uid, Doubt()).ends[uid] = obj
        return answer.message
    if doubt is not None:
        doubt.ends.pop(uid, None)
    if answer.ok:
        family.told_to_go(uid)
        return None
    if answer.missing:
        family.is_gone(uid)
    elif not answer.conflict:  # there is another one of that name by now: the watch will tell
        return answer.message
    return None


def _event(family: Family, owner: Object, kind: Any, reason: str, message: str) -> Emit:
    return Emit(about(owner, family.kind.kind), kind, reason, message, family.kind.component)


def _noun(family: Family) -> str:
    return family.kind.dependents.plural.removesuffix("s")
