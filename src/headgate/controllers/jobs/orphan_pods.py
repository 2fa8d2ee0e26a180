"""Removes the tracking finalizer from pods that have been counted, and from pods that no job will count.

A pod that no job will count has no controller, or its job is deleted or has finished. If the job of a pod is not in the
cache, it is read from the API server before the finalizer is removed, because the watch may be late. A finished job
with another ``spec.managedBy`` keeps its pods: its own controller removes the finalizers.

Reconcilers are generators: they yield API requests (``controllers/framework/effects.py``) and receive the responses.
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
    """The uids of pods that have no finalizer now, or are deleted."""
    had_missing: bool
    """Some pods no longer existed, so no watch event will come for them."""
    problem: str | None


def remove_finalizers(
    cache: OwnershipCache, pods: Sequence[Object], *, if_unchanged: bool = False
) -> Generator[Effect, EffectResponse, FinalizersRemoved]:
    """``if_unchanged``: pods that have changed since they were read keep the finalizer, because a pod that has ended
    since then must be counted."""
    if not pods:
        return FinalizersRemoved(frozenset(), False, None)
    responses = yield ParallelRequests(tuple(_patch(each, if_unchanged) for each in pods))
    removed_uids: set[str] = set()
    had_missing, problem = False, None
    for pod, response in zip(pods, responses.parts, strict=True):
        uid = pod["metadata"]["uid"]
        if response.ok:
            removed_uids.add(uid)
            cache.observe_write(response.body)
        elif response.missing:
            removed_uids.add(uid)
            cache.deletion_confirmed(uid)
            had_missing = True
        else:
            problem = problem or response.message
    return FinalizersRemoved(frozenset(removed_uids), had_missing, problem)


def is_orphan(cache: OwnershipCache, pod: Object) -> bool:
    """Whether the pod is tracked and no job in the cache will count it."""
    if not is_tracked(pod):
        return False
    controller = controller_of(pod)
    if controller is None:
        return True
    if group_kind_of(controller) != (KIND.group, KIND.kind):
        return False
    key = cache.key_of(str(controller.get("uid")))
    job = None if key is None else cache.owner(key)
    return job is None or (is_finished(job) and not is_managed_elsewhere(job))


def release_orphan(cache: OwnershipCache, uid: str) -> ReconcileSteps:
    pod = cache.dependent(uid)
    if pod is None or not is_orphan(cache, pod):
        return Done()
    controller = controller_of(pod)
    if controller is not None and cache.key_of(str(controller.get("uid"))) is None:
        response = yield Get(JOBS, pod["metadata"]["namespace"], controller["name"], ("metadata.uid",))
        if not response.ok and not response.missing:
            return RequeueWithBackoff(response.message)
        if response.ok and response.body["metadata"]["uid"] == controller["uid"]:
            return Done()  # the watch event of the job, or of its deletion, enqueues the pod again
    removed = yield from remove_finalizers(cache, [pod])
    return Done() if removed.problem is None else RequeueWithBackoff(removed.problem)


def release_pods_of(cache: OwnershipCache, job_uid: str) -> ReconcileSteps:
    """Removes the finalizers of the pods of a deleted job."""
    tracked = [each for each in cache.dependents(job_uid).values() if is_tracked(each)]
    if cache.key_of(job_uid) is not None:
        return Done()
    removed = yield from remove_finalizers(cache, sorted(tracked, key=lambda each: str(each["metadata"]["name"])))
    return Done() if removed.problem is None else RequeueWithBackoff(removed.problem)


def _patch(pod: Object, if_unchanged: bool) -> Patch:
    metadata = pod["metadata"]
    change: Object = {"uid": metadata["uid"], "$deleteFromPrimitiveList/finalizers": [TRACKING]}
    if if_unchanged:
        change["resourceVersion"] = metadata["resourceVersion"]
    return Patch(PODS, metadata["namespace"], metadata["name"], {"metadata": change})
