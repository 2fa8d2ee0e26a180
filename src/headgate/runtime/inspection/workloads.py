"""The reads that explain one job or workload in Kueue's queues: the object, the queues, its pods.

Generators that yield requests and are sent responses. The pods of a job are read because they may still terminate after
its quota was released; its latest Events are read because only the controllers know what was refused. ``pods.py``
explains pods.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.client.pager import ListRefused, ListResponse, list_all
from headgate.controllers.ownership.pods import is_finished
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.jobs.explanation import OWNER_NOT_READABLE, MissingWorkload, explain_missing_workload, unknown_workload
from headgate.jobs.framework.management import UnknownAncestor, known_ancestors
from headgate.jobs.framework.workload import prebuilt_name
from headgate.jobs.kinds.job_kind import JobKind
from headgate.jobs.names import COMPONENT, POD_GROUP_NAME
from headgate.kube import conditions
from headgate.kube.api_resources import EVENTS, NAMESPACES, PODS
from headgate.kube.object_meta import owner_references
from headgate.kube.serializer import wire_json
from headgate.quota.explain.description import WorkloadDescription, describe_workload
from headgate.quota.kinds.names import LOCAL_QUEUES, WORKLOADS
from headgate.quota.names import QUOTA_RESERVED
from headgate.runtime.inspection.ancestry import find_ancestor
from headgate.runtime.inspection.object_reads import get_object
from headgate.runtime.inspection.quota import QuotaInspection, inspect_quota
from headgate.runtime.inspection.unavailable import UnavailableResource, unavailable_resource

Wire = dict[str, Any]

_decode_page: Final = wire_json.WireDecoder(ListResponse[Wire]).decode


class TerminatingWorkloadPod(msgspec.Struct, frozen=True):
    """A pod that still terminates after its quota was released. ``by``: its deletion timestamp, the end of its grace
    period.
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
    """``absence``: why there is no Workload, or that it cannot be read, and ``told`` the Event about that.
    ``accounts``: of its Workloads. ``missing``: what could not be read besides the lists of the survey.
    """

    kind: str
    namespace: str
    name: str
    created: str = ""
    absence: MissingWorkload | None = None
    accounts: tuple[WorkloadDescription, ...] = ()
    ending: tuple[TerminatingWorkloadPod, ...] = ()
    told: LatestEvent | None = None
    missing: tuple[UnavailableResource, ...] = ()


def inspect_workload(
    namespace: str, name: str, now_s: float
) -> Generator[HTTPRequest, HTTPResponse, tuple[WorkloadInspection | ListRefused, QuotaInspection | None]]:
    found = yield from inspect_quota(namespace, now_s)
    wire = found.workloads.get(f"{namespace}/{name}")
    if wire is None and found.is_absent:
        return ListRefused(found.gaps[0].text), found
    if wire is None and not found.sees(WORKLOADS):
        alone = yield from get_object(WORKLOADS, "Workload", namespace, name)  # who may not list may be allowed to get
        if isinstance(alone, ListRefused):
            return alone, found
        wire = alone
    if wire is None:
        near = [key for key, each in found.workloads.items() if _is_near(each, namespace, name)]
        hint = f"; did you mean {', '.join(sorted(near)[:3])}?" if near else ": headgate workloads lists them"
        return ListRefused(f"there is no Workload {name} in namespace {namespace}{hint}"), found
    account = describe_workload(found.engine, wire, found.knows_places, now_s)
    created = wire["metadata"].get("creationTimestamp") or ""
    ending, missing = yield from _terminating_pods(wire, _holds(wire))
    return WorkloadInspection("workload", namespace, name, created, None, (account,), ending, missing=missing), found


def inspect_job(
    kind: JobKind, namespace: str, name: str, now_s: float
) -> Generator[HTTPRequest, HTTPResponse, tuple[WorkloadInspection | ListRefused, QuotaInspection | None]]:
    what = kind.kind.kind.lower()
    job = yield from get_object(kind.resource, what, namespace, name)
    if isinstance(job, ListRefused):
        return job, None
    found = yield from inspect_quota(namespace, now_s)
    mine = [wire for wire in found.workloads.values() if _is_of(wire, job)]
    about = WorkloadInspection(what, namespace, name, job["metadata"].get("creationTimestamp") or "")
    if mine:
        accounts = tuple(describe_workload(found.engine, wire, found.knows_places, now_s) for wire in mine)
        ending, missing = yield from _terminating_pods(mine[0], any(map(_holds, mine)))
        return msgspec.structs.replace(about, accounts=accounts, ending=ending, missing=missing), found
    if found.is_absent:
        return ListRefused(found.gaps[0].text), found
    absence, missing = yield from _absence(kind, job, found)
    told = yield from _latest_event(job)
    if isinstance(told, UnavailableResource):
        return msgspec.structs.replace(about, absence=absence, missing=(*missing, told)), found
    return msgspec.structs.replace(about, absence=absence, told=told, missing=missing), found


def _absence(
    kind: JobKind, job: Wire, found: QuotaInspection
) -> Generator[HTTPRequest, HTTPResponse, tuple[MissingWorkload, tuple[UnavailableResource, ...]]]:
    if not found.sees(WORKLOADS):
        return unknown_workload(job, found.why_unseen(WORKLOADS), kind), ()
    namespace = job["metadata"]["namespace"]
    space = yield from get_object(NAMESPACES, "namespace", "", namespace)
    labels: Mapping[str, str] | None = None
    missing: tuple[UnavailableResource, ...] = ()
    if isinstance(space, ListRefused):
        missing = (unavailable_resource(NAMESPACES, space, verb="get"),)
    else:
        labels = space["metadata"].get("labels") or {}
    ancestor = yield from find_ancestor(job, known_ancestors((kind,)))
    queues = found.engine.cache.local_queues if found.sees(LOCAL_QUEUES) else None
    return explain_missing_workload(kind, job, labels, unsure_of(ancestor), queues), missing


def unsure_of(ancestor: Wire | UnknownAncestor | ListRefused | None) -> Wire | UnknownAncestor | None:
    return UnknownAncestor(OWNER_NOT_READABLE, ancestor.text) if isinstance(ancestor, ListRefused) else ancestor


def _latest_event(job: Wire) -> Generator[HTTPRequest, HTTPResponse, LatestEvent | UnavailableResource | None]:
    """The newest; a gap if events may not be seen."""
    namespace = job["metadata"]["namespace"]
    uid = str(job["metadata"].get("uid", ""))
    query = {"fieldSelector": f"involvedObject.uid={uid}"}
    listed = yield from list_all(EVENTS.collection_path(namespace), _decode_page, query)
    if isinstance(listed, ListRefused):
        return unavailable_resource(EVENTS, listed, namespace)
    said = [
        LatestEvent(str(each.get("reason", "")), str(each.get("message", "")), _when(each))
        for each in listed.items
        if COMPONENT in (each.get("reportingComponent"), (each.get("source") or {}).get("component"))
    ]
    return max(said, key=lambda each: each.at, default=None)


def _when(event: Wire) -> str:
    stamps = (event.get("lastTimestamp"), (event.get("series") or {}).get("lastObservedTime"), event.get("eventTime"))
    return next((str(each) for each in stamps if each), "")


def _terminating_pods(
    workload: Wire, holds: bool
) -> Generator[HTTPRequest, HTTPResponse, tuple[tuple[TerminatingWorkloadPod, ...], tuple[UnavailableResource, ...]]]:
    """Its pods that still end, if it holds nothing any more; and a gap if its pods may not be listed."""
    if holds:
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
    """How the pods of a Workload are found: by their job's label, or that of their group."""
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
    here = workload["metadata"].get("namespace") == metadata.get("namespace")
    return owned or bool(name and here and workload["metadata"]["name"] == name)


def _is_near(workload: Wire, namespace: str, name: str) -> bool:
    """Somebody named the job, or another namespace."""
    is_owner = any(each.get("name") == name for each in owner_references(workload))
    return workload["metadata"]["name"] == name or (is_owner and workload["metadata"].get("namespace") == namespace)


def _holds(workload: Wire) -> bool:
    return conditions.is_true((workload.get("status") or {}).get("conditions"), QUOTA_RESERVED)
