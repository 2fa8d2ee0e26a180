"""Default requests and limits of pods; pod templates get none.

A container that limits a resource requests as much of it. A pod with pod-level resources gets the missing ones from its
containers (KEP-2837). ``apimachinery/defaults/resource_lists.py`` rounds amounts.
"""

from __future__ import annotations

from typing import Any

from headgate.kube.pod_resources import is_huge_page, may_be_pod_level, may_overcommit, sum_containers

Object = dict[str, Any]


def default_requests(spec: Object) -> None:
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            resources = container.get("resources")
            if resources and resources.get("limits"):
                requests = dict(resources.get("requests") or {})
                for name, value in resources["limits"].items():
                    requests.setdefault(name, value)
                resources["requests"] = requests
    resources = spec.get("resources")
    if resources:
        _default_pod_limits(spec, resources)
        _default_pod_requests(spec, resources)


def _default_pod_limits(spec: Object, resources: Object) -> None:
    """Huge pages cannot be overcommitted: the pod's limit is the sum of its containers' limits."""
    requests = resources.get("requests") or {}
    limits = dict(resources.get("limits") or {})
    if not limits and not requests:
        return
    for name, value in sum_containers(spec, "limits").items():
        if is_huge_page(name) and name not in requests:
            limits.setdefault(name, value.canonical)
    if limits:
        resources["limits"] = limits


def _default_pod_requests(spec: Object, resources: Object) -> None:
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    for name, value in sum_containers(spec, "requests").items():
        if may_be_pod_level(name) and may_overcommit(name):
            requests.setdefault(name, value.canonical)
    for name, value in limits.items():
        if may_be_pod_level(name):
            requests.setdefault(name, value)
    if requests:
        resources["requests"] = requests
