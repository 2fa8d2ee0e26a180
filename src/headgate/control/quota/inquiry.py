"""Everything that is asked to explain one job or workload in Kueue's queues: the object, the queues, its pods.

Generators that yield requests and are sent answers. The pods of a job are asked for because they may still end while
its quota is free already; what the controllers told its user last, because only they know what they were refused. Pods
have ``pod_inquiry.py``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.client.listing import Page, Refused, list_all
from headgate.client.transport import Request, Response
from headgate.control.gaps import Gap, gap_of
from headgate.control.quota.ancestry import find_ancestor
from headgate.control.quota.getting import get
from headgate.control.quota.survey import QuotaSurvey, survey_quota
from headgate.jobs.ancestors import Unsure, known_ancestors
from headgate.jobs.explaining import UNREADABLE, Absence, unseen_workload, why_no_workload
from headgate.jobs.kind import JobKind
from headgate.jobs.names import COMPONENT, POD_GROUP_NAME
from headgate.jobs.workload import prebuilt_name
from headgate.kube import conditions, wire_json
from headgate.kube.references import owner_references
from headgate.kube.resource import EVENTS, NAMESPACES, PODS
from headgate.owners.families.pods import is_finished
from headgate.quota.account import Account, account_of
from headgate.quota.kinds.names import LOCAL_QUEUES, WORKLOADS
from headgate.quota.names import QUOTA_RESERVED

Wire = dict[str, Any]

_decode_page: Final = wire_json.Decoder(Page[Wire]).decode


class Ending(msgspec.Struct, frozen=True):
    """A pod that still ends though its quota is free. ``by``: its deletion timestamp, when its grace is over."""

    name: str
    node: str
    by: str


class Told(msgspec.Struct, frozen=True):
    """The last thing that a controller of jobs said of it."""

    reason: str
    message: str
    at: str


class Inquiry(msgspec.Struct, frozen=True, omit_defaults=True):
    """``absence``: why there is no Workload, or that it cannot be seen, and ``told`` what was said of that.
    ``accounts``: of its Workloads. ``missing``: what could not be read besides the lists of the survey."""

    kind: str
    namespace: str
    name: str
    created: str = ""
    absence: Absence | None = None
    accounts: tuple[Account, ...] = ()
    ending: tuple[Ending, ...] = ()
    told: Told | None = None
    missing: tuple[Gap, ...] = ()


def inquire_workload(
    namespace: str, name: str, now_s: float
) -> Generator[Request, Response, tuple[Inquiry | Refused, QuotaSurvey | None]]:
    found = yield from survey_quota(namespace, now_s)
    wire = found.workloads.get(f"{namespace}/{name}")
    if wire is None and found.is_absent:
        return Refused(found.gaps[0].text), found
    if wire is None and not found.sees(WORKLOADS):
        alone = yield from get(WORKLOADS, "Workload", namespace, name)  # who may not list may be allowed to get
        if isinstance(alone, Refused):
            return alone, found
        wire = alone
    if wire is None:
        near = [key for key, each in found.workloads.items() if _is_near(each, namespace, name)]
        hint = f"; did you mean {', '.join(sorted(near)[:3])}?" if near else ": headgate workloads lists them"
        return Refused(f"there is no Workload {name} in namespace {namespace}{hint}"), found
    account = account_of(found.engine, wire, found.knows_places, now_s)
    created = wire["metadata"].get("creationTimestamp") or ""
    ending, missing = yield from _ending(wire, _holds(wire))
    return Inquiry("workload", namespace, name, created, None, (account,), ending, missing=missing), found


def inquire_job(
    kind: JobKind, namespace: str, name: str, now_s: float
) -> Generator[Request, Response, tuple[Inquiry | Refused, QuotaSurvey | None]]:
    what = kind.kind.kind.lower()
    job = yield from get(kind.resource, what, namespace, name)
    if isinstance(job, Refused):
        return job, None
    found = yield from survey_quota(namespace, now_s)
    mine = [wire for wire in found.workloads.values() if _is_of(wire, job)]
    about = Inquiry(what, namespace, name, job["metadata"].get("creationTimestamp") or "")
    if mine:
        accounts = tuple(account_of(found.engine, wire, found.knows_places, now_s) for wire in mine)
        ending, missing = yield from _ending(mine[0], any(map(_holds, mine)))
        return msgspec.structs.replace(about, accounts=accounts, ending=ending, missing=missing), found
    if found.is_absent:
        return Refused(found.gaps[0].text), found
    absence, missing = yield from _absence(kind, job, found)
    told = yield from _told(job)
    if isinstance(told, Gap):
        return msgspec.structs.replace(about, absence=absence, missing=(*missing, told)), found
    return msgspec.structs.replace(about, absence=absence, told=told, missing=missing), found


def _absence(
    kind: JobKind, job: Wire, found: QuotaSurvey
) -> Generator[Request, Response, tuple[Absence, tuple[Gap, ...]]]:
    if not found.sees(WORKLOADS):
        return unseen_workload(job, found.why_unseen(WORKLOADS), kind), ()
    namespace = job["metadata"]["namespace"]
    space = yield from get(NAMESPACES, "namespace", "", namespace)
    labels: Mapping[str, str] | None = None
    missing: tuple[Gap, ...] = ()
    if isinstance(space, Refused):
        missing = (gap_of(NAMESPACES, space, verb="get"),)
    else:
        labels = space["metadata"].get("labels") or {}
    ancestor = yield from find_ancestor(job, known_ancestors((kind,)))
    queues = found.engine.world.local_queues if found.sees(LOCAL_QUEUES) else None
    return why_no_workload(kind, job, labels, unsure_of(ancestor), queues), missing


def unsure_of(ancestor: Wire | Unsure | Refused | None) -> Wire | Unsure | None:
    return Unsure(UNREADABLE, ancestor.text) if isinstance(ancestor, Refused) else ancestor


def _told(job: Wire) -> Generator[Request, Response, Told | Gap | None]:
    """The newest; a gap if events may not be seen."""
    namespace = job["metadata"]["namespace"]
    uid = str(job["metadata"].get("uid", ""))
    query = {"fieldSelector": f"involvedObject.uid={uid}"}
    listed = yield from list_all(EVENTS.collection(namespace), _decode_page, query)
    if isinstance(listed, Refused):
        return gap_of(EVENTS, listed, namespace)
    said = [
        Told(str(each.get("reason", "")), str(each.get("message", "")), _when(each))
        for each in listed.items
        if COMPONENT in (each.get("reportingComponent"), (each.get("source") or {}).get("component"))
    ]
    return max(said, key=lambda each: each.at, default=None)


def _when(event: Wire) -> str:
    stamps = (event.get("lastTimestamp"), (event.get("series") or {}).get("lastObservedTime"), event.get("eventTime"))
    return next((str(each) for each in stamps if each), "")


def _ending(workload: Wire, holds: bool) -> Generator[Request, Response, tuple[tuple[Ending, ...], tuple[Gap, ...]]]:
    """Its pods that still end, if it holds nothing any more; and a gap if its pods may not be listed."""
    if holds:
        return (), ()
    metadata = workload["metadata"]
    pods: list[Wire] = []
    for selector in _selectors(metadata):
        listed = yield from list_all(PODS.collection(metadata["namespace"]), _decode_page, {"labelSelector": selector})
        if isinstance(listed, Refused):
            return (), (gap_of(PODS, listed, metadata["namespace"]),)
        pods += listed.items
    return tuple(_endings(pods)), ()


def _selectors(metadata: Wire) -> list[str]:
    """How the pods of a Workload are found: by their job's label, or that of their group."""
    owners = metadata.get("ownerReferences") or ()
    jobs = [f"batch.kubernetes.io/controller-uid={each['uid']}" for each in owners if each.get("kind") == "Job"]
    return jobs or [f"{POD_GROUP_NAME}={metadata['name']}"]


def _endings(pods: Iterable[Wire]) -> list[Ending]:
    found = [
        Ending(pod["metadata"]["name"], str(pod["spec"]["nodeName"]), str(pod["metadata"]["deletionTimestamp"]))
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
