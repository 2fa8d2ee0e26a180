"""The reads that explain one job or workload in Kueue's queues: the object, the queues, its pods.

Generators that yield requests and are sent responses. The pods of a job are read because they may still terminate after
its quota was released. If the job has no Workload, its Events are read: only they say why the API server refused one.
``pods.py`` explains pods.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.client.pager import ListRefused, ListResponse, list_all
from headgate.controllers.ownership.pods import is_finished
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.jobs.explanation import (
    OWNER_NOT_READABLE,
    MissingWorkload,
    explain_missing_workload,
    unadmitted_job_note,
    unknown_workload,
)
from headgate.jobs.framework.management import UnknownAncestor, known_ancestors
from headgate.jobs.framework.workload import prebuilt_name, queue_of
from headgate.jobs.kinds.job_kind import JobKind
from headgate.jobs.names import COMPONENT, POD_GROUP_NAME
from headgate.kube import conditions
from headgate.kube.api_resources import EVENTS, NAMESPACES, PODS
from headgate.kube.object_meta import owner_references
from headgate.kube.serializer import wire_json
from headgate.quota.explain.description import WorkloadDescription, describe_workload
from headgate.quota.kinds.names import LOCAL_QUEUES, WORKLOADS
from headgate.quota.names import ADMITTED, QUOTA_RESERVED
from headgate.runtime.inspection.ancestry import find_ancestor
from headgate.runtime.inspection.object_reads import get_object
from headgate.runtime.inspection.quota import QuotaInspection, inspect_quota
from headgate.runtime.inspection.unavailable import UnavailableResource, unavailable_resource

Wire = dict[str, Any]

_decode_page: Final = wire_json.WireDecoder(ListResponse[Wire]).decode


class TerminatingWorkloadPod(msgspec.Struct, frozen=True):
    """A pod that still terminates after its quota was released. ``by``: its deletion timestamp, which is the end of its
    grace period.
    """

    name: str
    node: str
    by: str


class LatestEvent(msgspec.Struct, frozen=True):
    """The last Event that a job controller emitted on the object."""

    reason: str
    message: str
    at: str


class WorkloadInspection(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ``headgate explain -o json`` prints; the JSON names of fields differ from those in the code.

    ``missing_workload``: why there is no Workload, or that it may not be read; ``latest_event``: the Event about that.
    ``missing``: what could not be read besides the lists of the ``QuotaInspection``. ``note``: why the object runs
    though its Workload is not admitted.
    """

    kind: str
    namespace: str
    name: str
    created: str = ""
    missing_workload: MissingWorkload | None = msgspec.field(default=None, name="absence")
    descriptions: tuple[WorkloadDescription, ...] = msgspec.field(default=(), name="accounts")
    terminating_pods: tuple[TerminatingWorkloadPod, ...] = msgspec.field(default=(), name="ending")
    latest_event: LatestEvent | None = msgspec.field(default=None, name="told")
    missing: tuple[UnavailableResource, ...] = ()
    note: str = ""


def inspect_workload(
    namespace: str, name: str, now_s: float
) -> Generator[HTTPRequest, HTTPResponse, tuple[WorkloadInspection | ListRefused, QuotaInspection | None]]:
    quota = yield from inspect_quota(namespace, now_s)
    wire = quota.workloads.get(f"{namespace}/{name}")
    if wire is None and quota.is_absent:
        return ListRefused(quota.unavailable[0].text), quota
    if wire is None and not quota.has_listed(WORKLOADS):
        workload = yield from get_object(
            WORKLOADS, "Workload", namespace, name
        )  # a user who may not list may still be allowed to get
        if isinstance(workload, ListRefused):
            return workload, quota
        wire = workload
    if wire is None:
        similar = [key for key, each in quota.workloads.items() if _is_similar(each, namespace, name)]
        hint = f"; did you mean {', '.join(sorted(similar)[:3])}?" if similar else ": headgate workloads lists them"
        return ListRefused(f"there is no Workload {name} in namespace {namespace}{hint}"), quota
    description = describe_workload(quota.engine, wire, quota.knows_positions, now_s)
    created = wire["metadata"].get("creationTimestamp") or ""
    terminating, missing = yield from _terminating_pods(wire, _has_quota(wire))
    inspection = WorkloadInspection(
        "workload", namespace, name, created, None, (description,), terminating, missing=missing
    )
    return inspection, quota


def inspect_job(
    kind: JobKind, namespace: str, name: str, now_s: float
) -> Generator[HTTPRequest, HTTPResponse, tuple[WorkloadInspection | ListRefused, QuotaInspection | None]]:
    kind_name = kind.kind.kind.lower()
    job = yield from get_object(kind.resource, kind_name, namespace, name)
    if isinstance(job, ListRefused):
        return job, None
    quota = yield from inspect_quota(namespace, now_s)
    own = [wire for wire in quota.workloads.values() if _is_of(wire, job)]
    inspection = WorkloadInspection(kind_name, namespace, name, job["metadata"].get("creationTimestamp") or "")
    if own:
        descriptions = tuple(describe_workload(quota.engine, wire, quota.knows_positions, now_s) for wire in own)
        terminating, missing = yield from _terminating_pods(own[0], any(map(_has_quota, own)))
        note = "" if any(map(is_admitted, own)) else unadmitted_job_note(kind, job)
        inspection = msgspec.structs.replace(
            inspection, descriptions=descriptions, terminating_pods=terminating, missing=missing, note=note
        )
        return inspection, quota
    if quota.is_absent:
        return ListRefused(quota.unavailable[0].text), quota
    missing_workload, missing = yield from _explain_missing_workload(kind, job, quota)
    event = yield from _latest_event(job)
    if isinstance(event, UnavailableResource):
        return msgspec.structs.replace(inspection, missing_workload=missing_workload, missing=(*missing, event)), quota
    return msgspec.structs.replace(
        inspection, missing_workload=missing_workload, latest_event=event, missing=missing
    ), quota


def _explain_missing_workload(
    kind: JobKind, job: Wire, quota: QuotaInspection
) -> Generator[HTTPRequest, HTTPResponse, tuple[MissingWorkload, tuple[UnavailableResource, ...]]]:
    """Why the job has no Workload, and the reads that were refused."""
    if not quota.has_listed(WORKLOADS):
        return unknown_workload(job, quota.unavailable_reason(WORKLOADS), kind), ()
    namespace = job["metadata"]["namespace"]
    namespace_object = yield from get_object(NAMESPACES, "namespace", "", namespace)
    labels: Mapping[str, str] | None = None
    missing: tuple[UnavailableResource, ...] = ()
    if isinstance(namespace_object, ListRefused):
        missing = (unavailable_resource(NAMESPACES, namespace_object, verb="get"),)
    else:
        labels = namespace_object["metadata"].get("labels") or {}
    ancestor = yield from find_ancestor(job, known_ancestors((kind,)))
    queues = quota.engine.cache.local_queues if quota.has_listed(LOCAL_QUEUES) else None
    found = explain_missing_workload(kind, job, labels, unknown_if_refused(ancestor), queues)
    return with_gated_jobs(found, job, quota), missing


def with_gated_jobs(found: MissingWorkload, job: Wire, quota: QuotaInspection) -> MissingWorkload:
    """Adds what the LocalQueue of a gated job or pod says about all its gated jobs."""
    queue = f"{job['metadata']['namespace']}/{queue_of(job)}"
    message = quota.gated_jobs.get(queue, "") if found.state == "gated" else ""
    return msgspec.structs.replace(found, facts=(*found.facts, f"LocalQueue {queue}: {message}")) if message else found


def is_admitted(workload: Wire) -> bool:
    return conditions.is_true((workload.get("status") or {}).get("conditions"), ADMITTED)


def unknown_if_refused(ancestor: Wire | UnknownAncestor | ListRefused | None) -> Wire | UnknownAncestor | None:
    return UnknownAncestor(OWNER_NOT_READABLE, ancestor.text) if isinstance(ancestor, ListRefused) else ancestor


def _latest_event(job: Wire) -> Generator[HTTPRequest, HTTPResponse, LatestEvent | UnavailableResource | None]:
    """The newest Event of Headgate on the job."""
    namespace = job["metadata"]["namespace"]
    uid = str(job["metadata"].get("uid", ""))
    query = {"fieldSelector": f"involvedObject.uid={uid}"}
    listed = yield from list_all(EVENTS.collection_path(namespace), _decode_page, query)
    if isinstance(listed, ListRefused):
        return unavailable_resource(EVENTS, listed, namespace)
    events = [
        LatestEvent(str(each.get("reason", "")), str(each.get("message", "")), _event_time(each))
        for each in listed.items
        if COMPONENT in (each.get("reportingComponent"), (each.get("source") or {}).get("component"))
    ]
    return max(events, key=lambda each: each.at, default=None)


def _event_time(event: Wire) -> str:
    times = (event.get("lastTimestamp"), (event.get("series") or {}).get("lastObservedTime"), event.get("eventTime"))
    return next((str(each) for each in times if each), "")


def _terminating_pods(
    workload: Wire, has_quota: bool
) -> Generator[HTTPRequest, HTTPResponse, tuple[tuple[TerminatingWorkloadPod, ...], tuple[UnavailableResource, ...]]]:
    """The pods of a workload without quota that still terminate, and what could not be listed."""
    if has_quota:
        return (), ()
    metadata = workload["metadata"]
    pods: list[Wire] = []
    for selector in _selectors(metadata):
        listed = yield from list_all(
            PODS.collection_path(metadata["namespace"]), _decode_page, {"labelSelector": selector}
        )
        if isinstance(listed, ListRefused):
            return (), (unavailable_resource(PODS, listed, metadata["namespace"]),)
        pods += listed.items
    return tuple(_terminating(pods)), ()


def _selectors(metadata: Wire) -> list[str]:
    """Label selectors for the pods of a Workload: by their job or by their group."""
    owners = metadata.get("ownerReferences") or ()
    jobs = [f"batch.kubernetes.io/controller-uid={each['uid']}" for each in owners if each.get("kind") == "Job"]
    return jobs or [f"{POD_GROUP_NAME}={metadata['name']}"]


def _terminating(pods: Iterable[Wire]) -> list[TerminatingWorkloadPod]:
    found = [
        TerminatingWorkloadPod(
            pod["metadata"]["name"], str(pod["spec"]["nodeName"]), str(pod["metadata"]["deletionTimestamp"])
        )
        for pod in pods
        if pod["metadata"].get("deletionTimestamp") and pod["spec"].get("nodeName") and not is_finished(pod)
    ]
    return sorted(found, key=lambda each: (each.by, each.name))


def _is_of(workload: Wire, job: Wire) -> bool:
    metadata = job["metadata"]
    owned = any(each.get("uid") == metadata.get("uid") for each in owner_references(workload))
    name = prebuilt_name(job)
    same_namespace = workload["metadata"].get("namespace") == metadata.get("namespace")
    return owned or bool(name and same_namespace and workload["metadata"]["name"] == name)


def _is_similar(workload: Wire, namespace: str, name: str) -> bool:
    """Whether the given name is that of the workload's job, or the workload is in another namespace."""
    is_owner = any(each.get("name") == name for each in owner_references(workload))
    return workload["metadata"]["name"] == name or (is_owner and workload["metadata"].get("namespace") == namespace)


def _has_quota(workload: Wire) -> bool:
    return conditions.is_true((workload.get("status") or {}).get("conditions"), QUOTA_RESERVED)
