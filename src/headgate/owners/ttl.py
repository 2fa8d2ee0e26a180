"""Removes Jobs some time after they finished, if they say so (``spec.ttlSecondsAfterFinished``).

The job goes with its pods (foreground). The time may have been changed a moment ago, so before the deletion the server
is asked once more. Who makes a job finish is ``owners/jobs/``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.kube.resource import JOBS, Resource
from headgate.owners.contract import Again, Controller, Done, Interest, Later, Steps, Wake
from headgate.owners.effects import Delete, Get
from headgate.owners.families.pods import seconds
from headgate.owners.jobs.status import finish

Object = dict[str, Any]
Key = tuple[str, str]

_FIELDS: Final = ("metadata.deletionTimestamp", "spec.ttlSecondsAfterFinished", "status.conditions")


def expires_s(job: Object) -> float | None:
    """When it is to go; ``None``: it stays, or is going."""
    ttl_s = (job.get("spec") or {}).get("ttlSecondsAfterFinished")
    if ttl_s is None or "deletionTimestamp" in job["metadata"]:
        return None
    finished_s = seconds((finish(job) or {}).get("lastTransitionTime"))
    return None if finished_s is None else finished_s + ttl_s


class FinishedJobs(Controller):
    """Keys are namespace and name of a job."""

    name = "ttl-after-finished"

    def __init__(self) -> None:
        self._expiring: Final[dict[Key, tuple[str, float]]] = {}  # with the job's uid

    def interests(self) -> Iterable[Interest]:
        return (Interest(JOBS, frozenset(_FIELDS)),)

    def applied(self, resource: Resource, obj: Object, now_s: float) -> Iterable[Wake]:
        metadata = obj["metadata"]
        key = metadata["namespace"], metadata["name"]
        at_s = expires_s(obj)
        if at_s is None:
            self._expiring.pop(key, None)
            return ()
        self._expiring[key] = metadata["uid"], at_s
        return (Wake(key, max(0.0, at_s - now_s)),)

    def removed(self, resource: Resource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Wake]:
        known = self._expiring.get((namespace, name))
        if known is not None and known[0] == uid:
            del self._expiring[namespace, name]
        return ()

    def work(self, key: Key, now_s: float) -> Steps:
        known = self._expiring.get(key)
        if known is None:
            return Done()
        if known[1] > now_s:
            return Later(known[1] - now_s)
        answer = yield Get(JOBS, *key, _FIELDS)
        if answer.missing:
            return Done()
        if not answer.ok:
            return Again(answer.message)
        at_s = expires_s(answer.body)
        if at_s is None:
            return Done()
        if at_s > now_s:
            return Later(at_s - now_s)
        preconditions = {"uid": answer.body["metadata"]["uid"]}
        answer = yield Delete(JOBS, *key, {"propagationPolicy": "Foreground", "preconditions": preconditions})
        return Done() if answer.ok or answer.missing or answer.conflict else Again(answer.message)
