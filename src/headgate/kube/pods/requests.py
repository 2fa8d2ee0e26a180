"""The resource requests and limits of a pod as a whole.

``kube/pod_resources.py`` has the sum over containers. Here pod-level amounts replace it, overhead is added, and a pod
that is being resized in place counts with the larger of its requested and its allocated amount. Amounts are exact;
``scheduling/`` converts them to the integers of a node matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headgate.kube import conditions, quantity
from headgate.kube.pod_resources import (
    Amounts,
    Which,
    amounts,
    compute_qos_class,
    is_sidecar,
    may_be_pod_level,
    qos_class,
    sum_containers,
)

__all__ = [
    "Amounts",
    "compute_qos_class",
    "fill_requests",
    "is_sidecar",
    "pod_limits",
    "pod_requests",
    "qos_class",
    "spec_during_resize",
]

Object = dict[str, Any]

RESIZE_PENDING: Final = "PodResizePending"
INFEASIBLE: Final = "Infeasible"


def pod_requests(
    pod: Mapping[str, Any], *, spec_only: bool = False, missing: Amounts | None = None, pod_level: bool = True
) -> Amounts:
    """What the scheduler reserves for the pod.

    ``spec_only`` ignores the pod's status. Otherwise the status counts too, because a shrinking container keeps its old
    amount until the kubelet has changed it. ``missing`` has the amounts for resources that a container does not
    request; without ``pod_level``, pod-level resources are ignored.
    """
    spec = pod.get("spec") or {}
    total = sum_containers(spec if spec_only else spec_during_resize(pod, "requests"), "requests", missing)
    if pod_level:
        for name, each in amounts(spec.get("resources"), "requests").items():
            if may_be_pod_level(name):
                total[name] = each
    for name, extra in _overhead(spec).items():
        total[name] = total[name] + extra if name in total else extra
    return total


def pod_limits(pod: Mapping[str, Any], *, spec_only: bool = False) -> Amounts:
    """What the pod may use. Overhead is added only to resources with a limit."""
    spec = pod.get("spec") or {}
    total = sum_containers(spec if spec_only else spec_during_resize(pod, "limits"), "limits")
    for name, each in amounts(spec.get("resources"), "limits").items():
        if may_be_pod_level(name):
            total[name] = each
    for name, extra in _overhead(spec).items():
        if total.get(name):
            total[name] = total[name] + extra
    return total


def fill_requests(resources: Mapping[str, Any]) -> Object:
    """``resources`` with requests equal to the limits where requests are missing, as defaulting does."""
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    missing = {name: value for name, value in limits.items() if name not in requests}
    return {**resources, "requests": {**requests, **missing}} if missing else dict(resources)


def _overhead(spec: Mapping[str, Any]) -> Amounts:
    return {name: quantity.amount(value) for name, value in (spec.get("overhead") or {}).items()}


def spec_during_resize(pod: Mapping[str, Any], which: Which) -> Object:
    """The pod's specification with the amounts that count for each container during a resize."""
    spec: Object = pod.get("spec") or {}
    status = pod.get("status") or {}
    reported = {
        each.get("name"): each
        for field in ("containerStatuses", "initContainerStatuses")
        for each in status.get(field) or ()
        if each.get("resources") is not None
    }
    if not reported:
        return spec
    pending = conditions.find(status.get("conditions"), RESIZE_PENDING)
    is_infeasible = pending is not None and pending.get("reason") == INFEASIBLE

    def effective_container(container: Object) -> Object:
        found = reported.get(container.get("name"))
        if found is None or _has_requested_resources(container, found):
            return container
        sources = [amounts(found.get("resources"), which)]
        if which == "requests":
            sources.append(amounts({"requests": found.get("allocatedResources")}, "requests"))
        if not is_infeasible:
            sources.append(amounts(container.get("resources"), which))
        largest: Amounts = {}
        for source in sources:
            for name, each in source.items():
                if name not in largest or each > largest[name]:
                    largest[name] = each
        return {**container, "resources": {which: {name: each.canonical for name, each in largest.items()}}}

    if not any(
        each.get("name") in reported and not _has_requested_resources(each, reported[each["name"]])
        for each in _all_containers(spec)
    ):
        return spec
    out = {**spec, "containers": [effective_container(each) for each in spec.get("containers") or ()]}
    if spec.get("initContainers"):
        out["initContainers"] = [
            effective_container(each) if is_sidecar(each) else each for each in spec["initContainers"]
        ]
    return out


def _all_containers(spec: Object) -> Iterator[Object]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def _has_requested_resources(container: Object, reported: Object) -> bool:
    """Whether the container has, and was allocated, the resources of its spec: no resize is in progress."""
    requested = container.get("resources") or {}
    allocated = reported.get("allocatedResources", requested.get("requests"))
    return reported["resources"] == requested and allocated == requested.get("requests")
