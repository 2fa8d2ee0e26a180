"""The reads that explain a pod in Kueue's queues: its Workload, or its group and its owners.

A generator that yields requests and is sent responses. ``runtime/inspection/queues.py`` has the reads that explain a
pod in Volcano's queues.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec

from headgate.client.pager import ListRefused, ListResponse, list_all
from headgate.controllers.ownership.pods import is_finished
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.jobs.explanation import (
    MissingWorkload,
    explain_missing_pod_workload,
    unadmitted_pod_note,
    unknown_workload,
)
from headgate.jobs.framework.management import known_ancestors
from headgate.jobs.pods.pod_metadata import foreign_gates_of, group_of, is_managed
from headgate.kube.api_resources import PODS
from headgate.kube.object_meta import controller_of, owner_references
from headgate.kube.serializer import wire_json
from headgate.quota.explain.description import WorkloadDescription, describe_workload
from headgate.quota.kinds.names import WORKLOADS
from headgate.runtime.inspection.ancestry import find_ancestor
from headgate.runtime.inspection.quota import QuotaInspection
from headgate.runtime.inspection.unavailable import UnavailableResource, unavailable_resource
from headgate.runtime.inspection.workloads import is_admitted, unknown_if_refused, with_gated_jobs

Wire = dict[str, Any]

_decode: Final = wire_json.WireDecoder(ListResponse[Wire]).decode


class PodInspection(msgspec.Struct, frozen=True):
    """``missing_workload``: why there is no Workload, or that it may not be read. ``missing``: what could not be read.
    ``note``: why the pod runs though it has no admitted Workload."""

    descriptions: tuple[WorkloadDescription, ...] = ()
    missing_workload: MissingWorkload | None = None
    missing: tuple[UnavailableResource, ...] = ()
    note: str = ""


def inspect_pod(pod: Wire, quota: QuotaInspection, now_s: float) -> Generator[HTTPRequest, HTTPResponse, PodInspection]:
    """Describes the Workloads that the pod belongs to: its own, its group's, or its job's."""
    namespace, group = pod["metadata"].get("namespace", ""), group_of(pod)
    owner = controller_of(pod) or {}
    uids = {pod["metadata"].get("uid"), owner.get("uid")} - {None}
    own = [
        wire
        for key, wire in sorted(quota.workloads.items())
        if (group and key == f"{namespace}/{group}") or any(each.get("uid") in uids for each in owner_references(wire))
    ]
    if own:
        described = tuple(describe_workload(quota.engine, wire, quota.knows_positions, now_s) for wire in own)
        is_own_unit = is_managed(pod) and not any(map(is_admitted, own))
        return PodInspection(described, note=unadmitted_pod_note(pod) if is_own_unit else "")
    if not quota.has_listed(WORKLOADS):
        reason = quota.unavailable[0].text if quota.is_absent else quota.unavailable_reason(WORKLOADS)
        return PodInspection((), unknown_workload(pod, reason))
    ancestor = yield from find_ancestor(pod, known_ancestors())
    members, gates = 1, dict[str, None]()
    missing: tuple[UnavailableResource, ...] = ()
    if group:
        listed = yield from list_all(PODS.collection_path(namespace), lambda body: _of_group(body, group))
        if isinstance(listed, ListRefused):
            members, missing = -1, (unavailable_resource(PODS, listed, namespace),)
        else:
            members = len(listed.items)
            gates = {gate: None for each in listed.items for gate in foreign_gates_of(each)}
    found = explain_missing_pod_workload(pod, unknown_if_refused(ancestor), members, tuple(sorted(gates)))
    note = found.summary if found.state == "released" else ""
    return PodInspection((), with_gated_jobs(found, pod, quota), missing, note)


def _of_group(body: bytes, group: str) -> ListResponse[Wire]:
    page = _decode(body)
    return ListResponse(page.metadata, [each for each in page.items if group_of(each) == group and _is_live(each)])


def _is_live(pod: Wire) -> bool:
    return not is_finished(pod) and not pod["metadata"].get("deletionTimestamp")
