"""The steps of a plan, carried out: claims first, then pods, told as events in Kubernetes' words.

Batches grow (1, 2, 4 …) as long as all goes well; what goes wrong ends the work of this round and comes back as a
text. What was done is remembered at once, so the next round does not do it again. What to do is ``plan.py``'s business.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from headgate.kube.resource import PERSISTENT_VOLUME_CLAIMS, PODS
from headgate.owners.effects import Answer, Create, Delete, Effect, Emit, Patch, Together
from headgate.owners.families.family import Family
from headgate.owners.families.pods import about
from headgate.owners.stateful_sets import identity
from headgate.owners.stateful_sets.claims import Claims
from headgate.owners.stateful_sets.identity import KIND
from headgate.owners.stateful_sets.plan import End, Member, Mend, Provide, Rules, Stage, Start, Step, starts_at_current
from headgate.owners.stateful_sets.retention import belongs_to_gone_pod, has_conflict, wanted_owners

Object = dict[str, Any]
Problem = str | None
Doing = Generator[Effect, Answer, Problem]
Verb = Literal["Create", "Update", "Delete"]

_LARGEST_BATCH: Final = 500


class Version(msgspec.Struct, frozen=True):
    """A revision by name, and the pod template in it."""

    name: str
    template: Object


class Task(msgspec.Struct, frozen=True):
    """What the work on one set is about."""

    set_: Object
    rules: Rules
    current: Version
    update: Version
    pods: Family
    claims: Claims

    @property
    def namespace(self) -> str:
        namespace: str = self.set_["metadata"]["namespace"]
        return namespace


def carry_out(task: Task, stages: Iterable[Stage]) -> Doing:
    for stage in stages:
        done, size = 0, 1
        while done < len(stage):
            problem = yield from _batch(task, stage[done : done + size])
            if problem is not None:
                return problem
            done += size
            size = min(2 * size, _LARGEST_BATCH)
    return None


def needs_mending(task: Task, member: Member) -> bool:
    if member.ordinal in task.rules.ordinals and not identity.has_identity(member.pod):
        return True
    return bool(_misowned(task, member.pod, member.ordinal))


def _batch(task: Task, steps: Sequence[Step]) -> Doing:
    starts = [step.ordinal for step in steps if isinstance(step, Start) and not _must_wait(task, step.ordinal)]
    waiting = [step.member for step in steps if isinstance(step, Provide)]
    lacks = yield from _provide(task, [*starts, *(member.ordinal for member in waiting)])
    problem = next(iter(lacks.values()), None)
    for ordinal in starts:
        if ordinal in lacks:
            yield _told(task, "Create", identity.pod_name(task.set_, ordinal), lacks[ordinal])
    problem = (yield from _start(task, [each for each in starts if each not in lacks])) or problem
    for member in waiting:
        problem = (yield from _own(task, member.pod, member.ordinal)) or problem
    for step in steps:
        if isinstance(step, Mend):
            problem = (yield from _mend(task, step.member)) or problem
    return (yield from _end(task, [step.member for step in steps if isinstance(step, End)])) or problem


# -- claims ------------------------------------------------------------------------------------------------------------


def _must_wait(task: Task, ordinal: int) -> bool:
    """A claim that goes with a pod that was scaled away must be gone before its namesake starts."""
    metadata = task.set_["metadata"]
    for name in identity.claim_names(task.set_, ordinal):
        claim = task.claims.get(task.namespace, name)
        if claim is not None and belongs_to_gone_pod(claim, task.set_, identity.pod_name(task.set_, ordinal)):
            task.claims.wait(task.namespace, name, (task.namespace, metadata["name"]))
            return True
    return False


def _provide(task: Task, ordinals: Sequence[int]) -> Generator[Effect, Answer, dict[int, str]]:
    """Create the claims that are missing; for whom it did not work out, and why."""
    lacks: dict[int, str] = {}
    wanted: list[tuple[int, Object]] = []
    for ordinal in ordinals:
        for template in identity.claim_templates(task.set_):
            name = identity.claim_name(task.set_, template, ordinal)
            claim = task.claims.get(task.namespace, name)
            if claim is None:
                wanted.append((ordinal, identity.claim_from(task.set_, template, ordinal)))
            elif "deletionTimestamp" in claim["metadata"]:
                lacks[ordinal] = f"pvc {name} is being deleted"
    if not wanted:
        return lacks
    answer = yield Together(tuple(Create(PERSISTENT_VOLUME_CLAIMS, task.namespace, claim) for _, claim in wanted))
    for (ordinal, claim), each in zip(wanted, answer.parts, strict=True):
        name = claim["metadata"]["name"]
        if each.ok:
            task.claims.wrote(each.body)
        else:
            lacks[ordinal] = f"failed to create PVC {name}: {each.message}"
        if not each.conflict:
            yield _told_of_claim(task, name, ordinal, None if each.ok else each.message)
    return lacks


def _misowned(task: Task, pod: Object, ordinal: int) -> list[tuple[Object, list[Object]]]:
    """Claims whose owners are not as the policy wants them, with the right ones."""
    found = []
    scaled_away = ordinal not in task.rules.ordinals
    for name in identity.claim_names(task.set_, ordinal):
        claim = task.claims.get(task.namespace, name)
        owners = None if claim is None else wanted_owners(claim, task.set_, pod, scaled_away=scaled_away)
        if claim is not None and owners is not None:
            found.append((claim, owners))
    return found


def _own(task: Task, pod: Object, ordinal: int) -> Doing:
    for claim, owners in _misowned(task, pod, ordinal):
        metadata = claim["metadata"]
        if has_conflict(claim, task.set_, pod):
            text = (
                f"PersistentVolumeClaim {metadata['name']} has a conflicting OwnerReference that acts as a manging "
                "controller, the retention policy is ignored for this claim"
            )
            yield _event(task, "Warning", "ConflictingController", text)
        known = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {"metadata": {**known, "ownerReferences": owners}}
        answer = yield Patch(PERSISTENT_VOLUME_CLAIMS, task.namespace, metadata["name"], body, "merge")
        if not answer.ok:
            problem = f"could not update claim {metadata['name']} for delete policy ownerRefs: {answer.message}"
            yield _told(task, "Update", pod["metadata"]["name"], problem)
            return problem
        task.claims.wrote(answer.body)
    return None


# -- pods --------------------------------------------------------------------------------------------------------------


def _start(task: Task, ordinals: Sequence[int]) -> Doing:
    if not ordinals:
        return None
    versions = [task.current if starts_at_current(task.rules, each) else task.update for each in ordinals]
    bodies = [
        identity.member_from(task.set_, version.template, version.name, ordinal)
        for ordinal, version in zip(ordinals, versions, strict=True)
    ]
    answer = yield Together(tuple(Create(PODS, task.namespace, body) for body in bodies))
    problem: Problem = None
    for ordinal, each in zip(ordinals, answer.parts, strict=True):
        if each.ok:
            task.pods.wrote(each.body)
            problem = (yield from _own(task, each.body, ordinal)) or problem
        else:
            problem = problem or each.message
        if not each.conflict:  # somebody of that name is there, or was: the watch will tell
            yield _told(task, "Create", identity.pod_name(task.set_, ordinal), None if each.ok else each.message)
    return problem


def _end(task: Task, members: Sequence[Member]) -> Doing:
    if not members:
        return None
    answer = yield Together(tuple(_deletion(task, member) for member in members))
    problem: Problem = None
    for member, each in zip(members, answer.parts, strict=True):
        metadata = member.pod["metadata"]
        if each.ok:
            task.pods.told_to_go(metadata["uid"])
        elif each.missing:
            task.pods.is_gone(metadata["uid"])
        elif not each.conflict:  # another one has that name by now
            problem = problem or each.message
        if each.ok or not (each.missing or each.conflict):
            yield _told(task, "Delete", metadata["name"], None if each.ok else each.message)
    return problem


def _deletion(task: Task, member: Member) -> Delete:
    metadata = member.pod["metadata"]
    return Delete(PODS, task.namespace, metadata["name"], {"preconditions": {"uid": metadata["uid"]}})


def _mend(task: Task, member: Member) -> Doing:
    if not needs_mending(task, member):  # what came before it may have seen to it
        return None
    metadata = member.pod["metadata"]
    problem = yield from _own(task, member.pod, member.ordinal)
    if problem is not None or member.ordinal not in task.rules.ordinals:
        return problem
    if not identity.has_identity(member.pod):
        labels = identity.identity_labels(task.set_, member.ordinal)
        body = {"metadata": {"uid": metadata["uid"], "labels": labels}}
        answer = yield Patch(PODS, task.namespace, metadata["name"], body, "merge")
        if answer.ok:
            task.pods.wrote(answer.body)
        elif not answer.missing:
            problem = answer.message
    yield _told(task, "Update", metadata["name"], problem)
    return problem


# -- events ------------------------------------------------------------------------------------------------------------


def _told(task: Task, verb: Verb, pod: str, problem: Problem) -> Emit:
    text = f"{verb} Pod {pod} in StatefulSet {task.set_['metadata']['name']}"
    if problem is None:
        return _event(task, "Normal", f"Successful{verb}", f"{text} successful")
    return _event(task, "Warning", f"Failed{verb}", f"{text} failed error: {problem}")


def _told_of_claim(task: Task, claim: str, ordinal: int, problem: Problem) -> Emit:
    pod, set_name = identity.pod_name(task.set_, ordinal), task.set_["metadata"]["name"]
    if problem is None:
        text = f"Create Claim {claim} Pod {pod} in StatefulSet {set_name} success"
        return _event(task, "Normal", "SuccessfulCreate", text)
    text = f"Create Claim {claim} for Pod {pod} in StatefulSet {set_name} failed error: {problem}"
    return _event(task, "Warning", "FailedCreate", text)


def _event(task: Task, type_: Literal["Normal", "Warning"], reason: str, message: str) -> Emit:
    return Emit(about(task.set_, KIND), type_, reason, message, task.pods.kind.component)
