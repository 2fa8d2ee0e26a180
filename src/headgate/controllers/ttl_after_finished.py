"""Deletes finished Jobs after their ``spec.ttlSecondsAfterFinished``.

The deletion includes the pods (foreground). The controller reads the Job from the API server before the deletion,
because its TTL may have changed. ``controllers/jobs/`` runs the Jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.controllers.framework.effects import Delete, Get
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueAfter,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.controllers.jobs.status import finish
from headgate.controllers.ownership.pods import seconds
from headgate.kube.api_resources import JOBS, APIResource

Object = dict[str, Any]
Key = tuple[str, str]

_FIELDS: Final = ("metadata.deletionTimestamp", "spec.ttlSecondsAfterFinished", "status.conditions")


def expires_s(job: Object) -> float | None:
    """When the job expires; ``None`` if it does not, or is already being deleted."""
    ttl_s = (job.get("spec") or {}).get("ttlSecondsAfterFinished")
    if ttl_s is None or "deletionTimestamp" in job["metadata"]:
        return None
    finished_s = seconds((finish(job) or {}).get("lastTransitionTime"))
    return None if finished_s is None else finished_s + ttl_s


class TTLAfterFinishedController(Controller):
    """Keys are namespace and name of a job."""

    name = "ttl-after-finished"

    def __init__(self) -> None:
        self._expiring: Final[dict[Key, tuple[str, float]]] = {}  # with the job's uid

    def watches(self) -> Iterable[WatchSpec]:
        return (WatchSpec(JOBS, frozenset(_FIELDS)),)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        metadata = obj["metadata"]
        key = metadata["namespace"], metadata["name"]
        at_s = expires_s(obj)
        if at_s is None:
            self._expiring.pop(key, None)
            return ()
        self._expiring[key] = metadata["uid"], at_s
        return (Enqueue(key, max(0.0, at_s - now_s)),)

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        known = self._expiring.get((namespace, name))
        if known is not None and known[0] == uid:
            del self._expiring[namespace, name]
        return ()

    def reconcile(self, key: Key, now_s: float) -> ReconcileSteps:
        known = self._expiring.get(key)
        if known is None:
            return Done()
        if known[1] > now_s:
            return RequeueAfter(known[1] - now_s)
        response = yield Get(JOBS, *key, _FIELDS)
        if response.missing:
            return Done()
        if not response.ok:
            return RequeueWithBackoff(response.message)
        at_s = expires_s(response.body)
        if at_s is None:
            return Done()
        if at_s > now_s:
            return RequeueAfter(at_s - now_s)
        preconditions = {"uid": response.body["metadata"]["uid"]}
        response = yield Delete(JOBS, *key, {"propagationPolicy": "Foreground", "preconditions": preconditions})
        return Done() if response.ok or response.missing or response.conflict else RequeueWithBackoff(response.message)
