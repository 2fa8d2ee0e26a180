"""How much of a ResourceQuota a pod uses: 1 of ``pods``, its requests and limits, and 1 of ``count/pods``.

A finished pod uses only ``count/pods``. A gated pod counts like any other: a quota protects the namespace, not the
nodes. A terminating pod counts until it is deleted or finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from headgate.apimachinery.resource_quota.scopes import ScopeRequirement
from headgate.apimachinery.validation.pod.resources import is_extended_resource
from headgate.kube import quantity
from headgate.kube.pod_resources import (
    HUGE_PAGES,
    Amounts,
    amounts,
    is_huge_page,
    is_native,
    may_be_pod_level,
    qos_class,
)
from headgate.kube.pods.requests import pod_limits, pod_requests

Object = dict[str, Any]

_COUNT: Final = "count/pods"
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_NAMES: Final = frozenset(
    {_COUNT, "pods", *_COMPUTE, *(f"{which}.{name}" for which in ("requests", "limits") for name in _COMPUTE)}
)
# If a quota limits one of these, every container must specify it. Kubernetes regards this rule as a mistake, and does
# not extend it to other resources.
_MUST_BE_SPECIFIED: Final = frozenset(
    {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
)
_DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
_ONE: Final = quantity.of_units(1)


def tracks(name: str) -> bool:
    if name in _NAMES or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}", f"requests.{_DEVICE_CLASS}")):
        return True
    return name.startswith("requests.") and not is_native(name)


def usage(pod: Object) -> Amounts:
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return {_COUNT: _ONE}
    return {_COUNT: _ONE, **_compute_usage(pod_requests(pod), pod_limits(pod))}


def _compute_usage(requests: Mapping[str, quantity.Quantity], limits: Mapping[str, quantity.Quantity]) -> Amounts:
    used: Amounts = {"pods": _ONE}
    for name in _COMPUTE:
        if name in requests:
            used[name] = used[f"requests.{name}"] = requests[name]
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    for name, value in requests.items():
        if is_huge_page(name):
            used[name] = used[f"requests.{name}"] = value
        elif name.startswith(_DEVICE_CLASS) or is_extended_resource(name):
            used[f"requests.{name}"] = value
    return used


def missing(required: Iterable[str], pod: Object) -> str:
    """The error text with the containers that do not specify required amounts; empty if there are none.

    A pod with pod-level resources need not specify amounts of containers.
    """
    spec = pod.get("spec") or {}
    pod_level = spec.get("resources") or {}
    if any(may_be_pod_level(name) for which in ("requests", "limits") for name in pod_level.get(which) or ()):
        return ""
    lacking: dict[str, set[str]] = {}
    checked = _MUST_BE_SPECIFIED.intersection(required)
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources")
        specified = _compute_usage(amounts(resources, "requests"), amounts(resources, "limits"))
        for name in checked - specified.keys():
            lacking.setdefault(name, set()).add(container["name"])
    if not lacking:
        return ""
    parts = (f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))
    return f"must specify {'; '.join(parts)}"


def may_add_usage(subresource: str, new: Object, old: Object) -> bool:
    if subresource == "resize":
        return True
    return not subresource and _is_terminating(new) != _is_terminating(old)


def in_scope(requirement: ScopeRequirement, pod: Object) -> bool:
    match requirement.scope:
        case "Terminating":
            return _is_terminating(pod)
        case "NotTerminating":
            return not _is_terminating(pod)
        case "BestEffort":
            return qos_class(pod) == "BestEffort"
        case "NotBestEffort":
            return qos_class(pod) != "BestEffort"
        case "PriorityClass":
            return requirement.selects((pod.get("spec") or {}).get("priorityClassName") or "")
        case "CrossNamespacePodAffinity":
            return _has_cross_namespace_affinity(pod)
        case _:
            return False


def _is_terminating(pod: Object) -> bool:
    """In this scope, "terminating" means that the pod has a deadline, not that it is being deleted."""
    deadline_s = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return deadline_s is not None and deadline_s >= 0


def _has_cross_namespace_affinity(pod: Object) -> bool:
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms.extend(each.get("podAffinityTerm") or {} for each in preferred)
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
