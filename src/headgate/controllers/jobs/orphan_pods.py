"""Removes the tracking finalizer from pods that have been counted, and from pods that no job will count.

The latter are pods without a controller, and pods whose job is gone or has finished. Before the finalizer is removed
because the job is unknown, the server is asked: the watch of the job may be late.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from headgate.controllers.framework.effects import Effect, EffectResponse, Get, ParallelRequests, Patch
from headgate.controllers.framework.reconcile import Done, ReconcileSteps, RequeueWithBackoff
from headgate.controllers.jobs.job_pods import TRACKING, is_tracked
from headgate.controllers.jobs.pod_template import KIND
from headgate.controllers.jobs.spec import is_managed_elsewhere
from headgate.controllers.jobs.status import is_finished
from headgate.controllers.ownership.cache import OwnershipCache
from headgate.kube.api_resources import JOBS, PODS
from headgate.kube.object_meta import controller_of, group_kind_of

Object = dict[str, Any]


class FinalizersRemoved(msgspec.Struct, frozen=True):
    uids: frozenset[str]
    """Of those that are free now, or gone."""
    were_gone: bool
    """Some were not there any more: no further news of them will come."""
    problem: str | None


def remove_finalizers(
    family: OwnershipCache, pods: Sequence[Object], *, as_known: bool = False
) -> Generator[Effect, EffectResponse, FinalizersRemoved]:
    """``as_known``: only those that have not changed since, because one that ended meanwhile is to be counted."""
    if not pods:
        return FinalizersRemoved(frozenset(), False, None)
    answers = yield ParallelRequests(tuple(_patch(each, as_known) for each in pods))
    freed: set[str] = set()
    were_gone, problem = False, None
    for pod, answer in zip(pods, answers.parts, strict=True):
        uid = pod["metadata"]["uid"]
        if answer.ok:
            freed.add(uid)
            family.wrote(answer.body)
        elif answer.missing:
            freed.add(uid)
            family.deletion_confirmed(uid)
            were_gone = True
        else:
            problem = problem or answer.message
    return FinalizersRemoved(frozenset(freed), were_gone, problem)


def is_orphan(family: OwnershipCache, pod: Object) -> bool:
    """Whether a tracked pod has no job to count it, as far as is known."""
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


def release_orphan(family: OwnershipCache, uid: str) -> ReconcileSteps:
    pod = family.dependent(uid)
    if pod is None or not is_orphan(family, pod):
        return Done()
    controller = controller_of(pod)
    if controller is not None and family.key_of(str(controller.get("uid"))) is None:
        answer = yield Get(JOBS, pod["metadata"]["namespace"], controller["name"], ("metadata.uid",))
        if not answer.ok and not answer.missing:
            return RequeueWithBackoff(answer.message)
        if answer.ok and answer.body["metadata"]["uid"] == controller["uid"]:
            return Done()  # when its job is heard of, or heard to be gone, it is looked at again
    freed = yield from remove_finalizers(family, [pod])
    return Done() if freed.problem is None else RequeueWithBackoff(freed.problem)


def release_pods_of(family: OwnershipCache, job_uid: str) -> ReconcileSteps:
    """The pods of a job that is known to be gone."""
    tracked = [each for each in family.dependents(job_uid).values() if is_tracked(each)]
    if family.key_of(job_uid) is not None:
        return Done()
    freed = yield from remove_finalizers(family, sorted(tracked, key=lambda each: str(each["metadata"]["name"])))
    return Done() if freed.problem is None else RequeueWithBackoff(freed.problem)


def _patch(pod: Object, as_known: bool) -> Patch:
    metadata = pod["metadata"]
    change: Object = {"uid": metadata["uid"], "$deleteFromPrimitiveList/finalizers": [TRACKING]}
    if as_known:
        change["resourceVersion"] = metadata["resourceVersion"]
    return Patch(PODS, metadata["namespace"], metadata["name"], {"metadata": change})
