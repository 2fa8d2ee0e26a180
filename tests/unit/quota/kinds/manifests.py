"""Small objects of kueue.x-k8s.io with defaults, and their validation problems."""

from __future__ import annotations

from typing import Any

from headgate.quota.kinds.validation import validate_object

Object = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"


def an_object(kind: str, spec: Object, **further: Any) -> Object:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "a"}, "spec": spec, **further}


def a_quota(name: str = "cpu", nominal: Any = "9", **limits: Any) -> Object:
    return {"name": name, "nominalQuota": nominal, **limits}


def a_group(*flavors: tuple[str, list[Object]], covered: list[str] | None = None) -> Object:
    names = covered or [each["name"] for each in flavors[0][1]]
    return {
        "coveredResources": names,
        "flavors": [{"name": name, "resources": quotas} for name, quotas in flavors],
    }


def a_cluster_queue(*groups: Object, **spec: Any) -> Object:
    return an_object("ClusterQueue", {"resourceGroups": list(groups), **spec})


def a_pod_set(name: str = "main", count: int = 1, cpu: Any = "1", **further: Any) -> Object:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"name": name, "count": count, "template": {"spec": {"containers": [container]}}, **further}


def a_workload(
    *pod_sets: Object, status: Object | None = None, annotations: Object | None = None, **spec: Any
) -> Object:
    made = an_object("Workload", {"podSets": list(pod_sets or (a_pod_set(),)), "active": True, **spec})
    made["metadata"] |= {"annotations": annotations} if annotations else {}
    return made if status is None else {**made, "status": status}


def a_condition(type_: str, status: str = "True") -> Object:
    return {"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": NOW}


def reserved(*conditions: str, usage: str = "1", count: int = 1, **further: Any) -> Object:
    """The status of a workload that holds quota."""
    given = {"name": "main", "count": count, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": usage}}
    admission = {"clusterQueue": "q", "podSetAssignments": [given]}
    held = [a_condition(each) for each in ("QuotaReserved", *conditions)]
    return {"admission": admission, "conditions": held, **further}


def problems(new: Object, old: Object | None = None) -> list[str]:
    return [str(each) for each in validate_object(new, old).problems]
