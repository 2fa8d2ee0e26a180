"""Features of Kueue's kinds that Headgate does not support: rejected with the field that requests them.

The table is ordered by kind. A field that only has no effect is accepted with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from headgate.kube.field_errors import FieldErrors, forbidden
from headgate.kube.lenient_reader import Object, find_object, find_objects, find_text
from headgate.quota.kinds.names import ELASTIC_JOB, MULTIKUEUE, PROVISIONING, SLICE_REPLACEMENT

_TOPOLOGY: Final = "topology-aware scheduling is not supported"
_MULTIKUEUE: Final = "MultiKueue is not supported: workloads stay in this cluster"
_WORKLOAD_SLICES: Final = "elastic jobs (workload slices) are not supported"
_CONTROLLERS: Final = {
    MULTIKUEUE: _MULTIKUEUE,
    PROVISIONING: "ProvisioningRequest is not supported: no capacity is provisioned before admission",
}
_ADMISSION_FAIR_SHARING: Final = (
    "spec.admissionScope: admission fair sharing is not supported; the field is kept and has no effect"
)

PathsAndReasons = Iterator[tuple[str, str]]


def _in_flavor(obj: Object) -> PathsAndReasons:
    if find_object(obj, "spec").get("topologyName") is not None:
        yield "spec.topologyName", _TOPOLOGY


def _in_cluster_queue(obj: Object) -> PathsAndReasons:
    if find_object(obj, "spec").get("concurrentAdmissionPolicy") is not None:
        yield "spec.concurrentAdmissionPolicy", "concurrent admission is not supported"


def _in_check(obj: Object) -> PathsAndReasons:
    problem = _CONTROLLERS.get(find_text(find_object(obj, "spec"), "controllerName"))
    if problem:
        yield "spec.controllerName", problem


def _in_workload(obj: Object) -> PathsAndReasons:
    annotations = find_object(obj, "metadata", "annotations")
    if annotations.get(ELASTIC_JOB) == "true":
        yield f"metadata.annotations[{ELASTIC_JOB}]", _WORKLOAD_SLICES
    if annotations.get(SLICE_REPLACEMENT):
        yield f"metadata.annotations[{SLICE_REPLACEMENT}]", _WORKLOAD_SLICES
    spec, status = find_object(obj, "spec"), find_object(obj, "status")
    for path, pods in find_objects(spec, "podSets", "spec"):
        if pods.get("topologyRequest") is not None:
            yield f"{path}.topologyRequest", _TOPOLOGY
    if spec.get("preemptionGates"):
        yield "spec.preemptionGates", "preemption gates are not supported"
    for path, assignment in find_objects(find_object(status, "admission"), "podSetAssignments", "status.admission"):
        for name in ("topologyAssignment", "delayedTopologyRequest"):
            if assignment.get(name) is not None:
                yield f"{path}.{name}", _TOPOLOGY
    for name in ("clusterName", "nominatedClusterNames"):
        if status.get(name):
            yield f"status.{name}", _MULTIKUEUE


_UNSUPPORTED_BY_KIND: Final[dict[str, Callable[[Object], PathsAndReasons]]] = {
    "ResourceFlavor": _in_flavor,
    "ClusterQueue": _in_cluster_queue,
    "AdmissionCheck": _in_check,
    "Workload": _in_workload,
}


def unsupported_field_problems(kind: str, obj: Object) -> FieldErrors:
    find = _UNSUPPORTED_BY_KIND.get(kind)
    return [] if find is None else [forbidden(path, detail) for path, detail in find(obj)]


def warnings(kind: str, obj: Object) -> list[str]:
    mode = find_text(find_object(obj, "spec", "admissionScope"), "admissionMode")
    return [_ADMISSION_FAIR_SHARING] if kind == "ClusterQueue" and mode == "UsageBasedAdmissionFairSharing" else []
