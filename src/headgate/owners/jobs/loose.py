"""Taking the tracking finalizer off pods: of those that have been counted, and of those that nobody will count.

The second kind are pods without a controller, and pods whose job is gone or has finished. Before a pod is freed
because its job is not known, the server is asked: news of the job may only be late.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from headgate.kube.references import controller_of, group_kind_of
from headgate.kube.resource import JOBS, PODS
from headgate.owners.contract import Again, Done, Steps
from headgate.owners.effects import Answer, Effect, Get, Patch, Together
from headgate.owners.families.family import Family
from headgate.owners.jobs.bodies import KIND
from headgate.owners.jobs.members import TRACKING, is_tracked
from headgate.owners.jobs.spec import is_managed_elsewhere
from headgate.owners.jobs.status import is_finished

Object = dict[str, Any]


class Freed(msgspec.Struct, frozen=True):
    uids: frozenset[str]
    """Of those that are free now, or gone."""
    were_gone: bool
    """Some were not there any more: no further news of them will come."""
    problem: str | None


def free(family: Family, pods: Sequence[Object], *, as_known: bool = False) -> Generator[Effect, Answer, Freed]:
    """``as_known``: only those that have not changed since, because one that ended meanwhile is to be counted."""
    if not pods:
        return Freed(frozenset(), False, None)
    answers = yield Together(tuple(_patch(each, as_known) for each in pods))
    freed: set[str] = set()
    were_gone, problem = False, None
    for pod, answer in zip(pods, answers.parts, strict=True):
        uid = pod["metadata"]["uid"]
        if answer.ok:
            freed.add(uid)
            family.wrote(answer.body)
        elif answer.missing:
            freed.add(uid)
            family.is_gone(uid)
            were_gone = True
        else:
            problem = problem or answer.message
    return Freed(frozenset(freed), were_gone, problem)


def is_loose(family: Family, pod: Object) -> bool:
    """Whether a tracked pod has nobody to count it, as far as is known."""
    if not is_tracked(pod):
        return False
    controller = controller_of(pod)
    if controller is None:
        return True
    if group_kind_of(controller) != (KIND.group, KIND.kind):
        return False
    key = family.key_of(str(controller.get("uid")))
    job = None if key is None else family.owner(key)
    return job is None or (is_finished(job) and not is_managed_elsewhere(job))


def free_loose(family: Family, uid: str) -> Steps:
    pod = family.dependent(uid)
    if pod is None or not is_loose(family, pod):
        return Done()
    controller = controller_of(pod)
    if controller is not None and family.key_of(str(controller.get("uid"))) is None:
        answer = yield Get(JOBS, pod["metadata"]["namespace"], controller["name"], ("metadata.uid",))
        if not answer.ok and not answer.missing:
            return Again(answer.message)
        if answer.ok and answer.body["metadata"]["uid"] == controller["uid"]:
            return Done()  # when its job is heard of, or heard to be gone, it is looked at again
    freed = yield from free(family, [pod])
    return Done() if freed.problem is None else Again(freed.problem)


def free_all_of(family: Family, job_uid: str) -> Steps:
    """The pods of a job that is known to be gone."""
    tracked = [each for each in family.dependents(job_uid).values() if is_tracked(each)]
    if family.key_of(job_uid) is not None:
        return Done()
    freed = yield from free(family, sorted(tracked, key=lambda each: str(each["metadata"]["name"])))
    return Done() if freed.problem is None else Again(freed.problem)


def _patch(pod: Object, as_known: bool) -> Patch:
    metadata = pod["metadata"]
    change: Object = {"uid": metadata["uid"], "$deleteFromPrimitiveList/finalizers": [TRACKING]}
    if as_known:
        change["resourceVersion"] = metadata["resourceVersion"]
    return Patch(PODS, metadata["namespace"], metadata["name"], {"metadata": change})
