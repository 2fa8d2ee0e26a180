"""The reads of ``headgate workloads --gated``: jobs and Workloads that a gate keeps from quota reservation.

A job with the annotation ``scheduling-gated-by`` (KEP-6915) gets no Workload, so the jobs themselves are listed, in all
kinds that may have the annotation. Workloads that the label ``deactivate`` holds are listed, too. Lists are read page
by page, and only gated jobs are kept. A generator that yields requests and is sent responses; ``docs/gated-jobs.md``
explains the gates.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from typing import Any, Final

import msgspec

from headgate.client.pager import ListRefused, ListResponse, list_all
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.jobs.framework.scheduling_gated_by import gated_by
from headgate.jobs.framework.workload import admission_gates_of
from headgate.jobs.kinds.job_kind import JobKind
from headgate.jobs.names import QUEUE_NAME
from headgate.jobs.pods.pod_metadata import foreign_gates_of, is_managed
from headgate.kube.api_resources import DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS, APIResource
from headgate.kube.lenient_reader import get_path
from headgate.kube.object_meta import owner_references
from headgate.kube.serializer import wire_json
from headgate.quota import names
from headgate.quota.api.workload import Workload, read_workload
from headgate.quota.explain.workload_list import owners_of
from headgate.quota.kinds.names import WORKLOADS
from headgate.runtime.inspection.unavailable import UnavailableResource, lacks, unavailable_resource

Wire = dict[str, Any]

KINDS: Final[dict[APIResource, str]] = {
    JOBS: "job.batch",
    PODS: "pod",
    DEPLOYMENTS: "deployment.apps",
    REPLICA_SETS: "replicaset.apps",
    STATEFUL_SETS: "statefulset.apps",
}
"""The kinds that may have a gate, with their names in kubectl."""
CREATION: Final = "its Workload"
"""``GatedJob.holds``: the gate prevents the creation of the Workload."""
UNKNOWN: Final = "its Workload, if it has none yet"
"""``GatedJob.holds`` if Workloads may not be listed: the job may have been admitted before."""
ADMISSION: Final = "admission"
"""``GatedJob.holds``: the gate prevents the admission of the Workload."""

_decode: Final = wire_json.WireDecoder(ListResponse[Wire]).decode


class GatedJob(msgspec.Struct, frozen=True):
    """``holds``: what the gate prevents. ``created``: a wire timestamp, which sorts as text."""

    namespace: str
    type: str
    name: str
    gate: str
    holds: str
    queue: str
    created: str

    @property
    def order(self) -> tuple[str, ...]:
        return self.created, self.namespace, self.type, self.name


class GatedJobList(msgspec.Struct, frozen=True):
    gated: tuple[GatedJob, ...]
    unavailable: tuple[UnavailableResource, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether all resources that exist could be listed."""
        return all(each.is_absent for each in self.unavailable)


def find_gated_jobs(
    namespace: str, extra_kinds: Iterable[JobKind] = ()
) -> Generator[HTTPRequest, HTTPResponse, GatedJobList]:
    """The oldest first; an empty namespace means all namespaces. ``extra_kinds``: further kinds to list."""
    kinds = {**KINDS, **{each.resource: f"{each.kind.kind.lower()}.{each.kind.group}" for each in extra_kinds}}
    scope = namespace or None
    unavailable: list[UnavailableResource] = []
    listed = yield from list_all(WORKLOADS.collection_path(scope), _decode)
    if isinstance(listed, ListRefused):
        unavailable.append(unavailable_resource(WORKLOADS, listed, scope))
        workloads: list[Wire] = []
    else:
        workloads = listed.items
    owner_uids = frozenset(owner.get("uid") for each in workloads for owner in owner_references(each))
    found = [each for wire in workloads for each in _of_workload(wire)]
    for resource, type_ in kinds.items():
        jobs = yield from list_all(resource.collection_path(scope), lambda body: _gated_jobs(_decode(body)))
        if isinstance(jobs, ListRefused):
            unavailable.append(unavailable_resource(resource, jobs, scope))
        else:
            found += _of_jobs(type_, jobs.items, owner_uids, UNKNOWN if lacks(unavailable, WORKLOADS) else CREATION)
    return GatedJobList(tuple(sorted(found, key=lambda each: each.order)), tuple(unavailable))


def _gated_jobs(page: ListResponse[Wire]) -> ListResponse[Wire]:
    return ListResponse(page.metadata, [each for each in page.items if _gate(each) and not _is_finished(each)])


def _gate(job: Wire) -> str:
    """The gate of the annotation, or the scheduling gates of other controllers on a pod in a queue."""
    return gated_by(job) or (", ".join(foreign_gates_of(job)) if is_managed(job) else "")


def _of_jobs(type_: str, jobs: Iterable[Wire], owner_uids: Collection[str | None], holds: str) -> list[GatedJob]:
    """A job that has a Workload is not held: it was admitted before, or the feature gate is off."""
    return [
        GatedJob(
            job["metadata"].get("namespace", ""),
            type_,
            job["metadata"]["name"],
            _gate(job),
            holds,
            str(get_path(job, ("metadata", "labels", QUEUE_NAME)) or ""),
            job["metadata"].get("creationTimestamp") or "",
        )
        for job in jobs
        if job["metadata"].get("uid") not in owner_uids
    ]


def _of_workload(wire: Wire) -> list[GatedJob]:
    """The entry of a Workload; it shows the name of the job that owns the Workload, if there is one."""
    read = read_workload(wire)
    if not isinstance(read, Workload) or read.is_finished or read.has(names.QUOTA_RESERVED):
        return []
    is_held = read.is_marked and not read.is_active
    gates = ", ".join(filter(None, (admission_gates_of(wire), names.DEACTIVATE if is_held else "")))
    if not gates:
        return []
    owner = next(iter(owners_of(wire)), None)
    type_, name = ("workload", read.name) if owner is None else (owner.type, owner.name)
    created = wire["metadata"].get("creationTimestamp") or ""
    return [GatedJob(read.namespace, type_, name, gates, ADMISSION, read.queue, created)]


def _is_finished(job: Wire) -> bool:
    listed = get_path(job, ("status", "conditions")) or ()
    has_ended = any(each.get("type") in ("Complete", "Failed") and each.get("status") == "True" for each in listed)
    return has_ended or get_path(job, ("status", "phase")) in ("Succeeded", "Failed")
