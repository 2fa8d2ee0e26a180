"""Builders of Kueue's objects, as JSON values of v1beta2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.kube.timestamps import format_time

Wire = dict[str, Any]
Limits = tuple[int, int | None, int | None] | int
"""Nominal quota, borrowing limit, lending limit; or the first alone."""

_POD_FIELDS = ("tolerations", "nodeSelector", "affinity", "terminationGracePeriodSeconds")
START_S = 1_700_000_000.0


def a_flavor(name: str = "default", labels: Mapping[str, str] | None = None, **spec: Any) -> Wire:
    return {"metadata": {"name": name}, "spec": {"nodeLabels": dict(labels or {}), **spec}}


def groups(*listed: Mapping[str, Mapping[str, Limits]]) -> list[Wire]:
    """Resource groups: flavors in order, each with its quotas by resource."""
    return [
        {
            "coveredResources": list(next(iter(group.values()), {})),
            "flavors": [
                {"name": flavor, "resources": [_quota(*each) for each in resources.items()]}
                for flavor, resources in group.items()
            ],
        }
        for group in listed
    ]


def _quota(resource: str, limits: Limits) -> Wire:
    nominal, borrowing, lending = limits if isinstance(limits, tuple) else (limits, None, None)
    wire: Wire = {"name": resource, "nominalQuota": str(nominal)}
    if borrowing is not None:
        wire["borrowingLimit"] = str(borrowing)
    if lending is not None:
        wire["lendingLimit"] = str(lending)
    return wire


def a_cluster_queue(name: str = "cq", *listed: Mapping[str, Mapping[str, Limits]], **spec: Any) -> Wire:
    """``annotations`` in ``spec`` are those of the object."""
    annotations = spec.pop("annotations", None)
    metadata = {"name": name, **({"annotations": dict(annotations)} if annotations else {})}
    resources = groups(*(listed or ({"default": {"cpu": 10}},)))
    return {"metadata": metadata, "spec": {"resourceGroups": resources, "namespaceSelector": {}, **spec}}


def a_cohort(name: str, parent: str = "", *listed: Mapping[str, Mapping[str, Limits]]) -> Wire:
    spec: Wire = {"parentName": parent} if parent else {}
    return {"metadata": {"name": name}, "spec": {**spec, "resourceGroups": groups(*listed)}}


def a_local_queue(name: str = "lq", cluster_queue: str = "cq", namespace: str = "ns", **spec: Any) -> Wire:
    return {"metadata": {"namespace": namespace, "name": name}, "spec": {"clusterQueue": cluster_queue, **spec}}


def a_pod_set(name: str = "main", count: int = 1, requests: Mapping[str, Any] | None = None, **more: Any) -> Wire:
    pod = {key: more.pop(key) for key in _POD_FIELDS if key in more}
    wanted = {resource: str(amount) for resource, amount in (requests or {"cpu": "1"}).items()}
    container = {"name": "c", "resources": {"requests": wanted}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container], **pod}}, **more}


def a_workload(
    name: str = "w",
    *pod_sets: Wire,
    cpu: int | str | None = None,
    queue: str = "lq",
    namespace: str = "ns",
    priority: int = 0,
    at_s: float = 0.0,
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Wire:
    sets: Sequence[Wire] = pod_sets or (a_pod_set(requests={"cpu": cpu if cpu is not None else 1}),)
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": format_time(START_S + at_s),
            "annotations": dict(annotations or {}),
        },
        "spec": {"queueName": queue, "priority": priority, "podSets": list(sets), **spec},
        "status": dict(status or {}),
    }


def a_condition(type_: str, is_true: bool = True, reason: str = "", message: str = "", at_s: float = 0.0) -> Wire:
    return {
        "type": type_,
        "status": "True" if is_true else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(START_S + at_s),
    }


def reserved(
    cluster_queue: str = "cq", flavor: str = "default", at_s: float = 0.0, count: int = 1, **usage: int | str
) -> Wire:
    """A status that holds quota of one flavor for one pod set."""
    return {
        "admission": {
            "clusterQueue": cluster_queue,
            "podSetAssignments": [
                {
                    "name": "main",
                    "flavors": dict.fromkeys(usage, flavor),
                    "resourceUsage": {resource: str(amount) for resource, amount in usage.items()},
                    "count": count,
                }
            ],
        },
        "conditions": [
            a_condition("QuotaReserved", reason="QuotaReserved", at_s=at_s),
            a_condition("Admitted", reason="Admitted", at_s=at_s),
        ],
    }
