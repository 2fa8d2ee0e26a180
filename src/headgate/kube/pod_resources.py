"""The requests and limits of a pod, by resource: sums over its containers, its QoS class, and resource names.

Sidecars (restartable init containers) count for the pod's whole life, plain init containers only by their peak. Pod
level resources and overhead are not part of these sums; ``kube/pods/requests.py`` adds them for scheduling.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from headgate.kube import quantity
from headgate.kube.quantity import Quantity

Object = dict[str, Any]
Amounts = dict[str, Quantity]
Which = Literal["requests", "limits"]

HUGE_PAGES: Final = "hugepages-"
_POD_LEVEL: Final = frozenset({"cpu", "memory"})
_COMPUTE: Final = ("cpu", "memory")
_MANY: Final = 16
"""So many amounts in one list are worth a search for equal ones."""


def is_huge_page(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    """Unprefixed names, and names under ``kubernetes.io/``."""
    return "/" not in name or "kubernetes.io/" in name


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_page(name)


def may_be_pod_level(name: str) -> bool:
    return name in _POD_LEVEL or is_huge_page(name)


def is_sidecar(init_container: Object) -> bool:
    return init_container.get("restartPolicy") == "Always"


def amounts(resources: Object | None, which: Which) -> Amounts:
    listed = (resources or {}).get(which)
    if not listed:
        return {}
    if len(listed) < _MANY or set(map(type, listed.values())) != {str}:
        return {name: quantity.amount(value) for name, value in listed.items()}
    # A pod may name thousands of resources, most of them with the same amount: each text is parsed once.
    parsed = {text: quantity.amount(text) for text in set(listed.values())}
    return {name: parsed[text] for name, text in listed.items()}


def sum_containers(spec: Object, which: Which, missing: Amounts | None = None) -> Amounts:
    """The containers' effective ``requests`` or ``limits``, init containers and sidecars included.

    ``missing`` has the amounts for resources that a container does not specify; an explicit zero is specified.
    """
    defaults = missing or {}
    total: Amounts = {}
    for container in spec.get("containers") or ():
        own = amounts(container.get("resources"), which)
        _add(total, {**defaults, **own} if defaults else own)
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = {**defaults, **amounts(container.get("resources"), which)}
        if is_sidecar(container):
            _add(total, own)
            _add(sidecars, own)
            _take_maximum(peak, sidecars)
        else:
            running = dict(own)
            _add(running, sidecars)
            _take_maximum(peak, running)
    _take_maximum(total, peak)
    return total


def _add(total: Amounts, more: Amounts) -> None:
    if not total:
        total.update(more)
        return
    for name, value in more.items():
        total[name] = total[name] + value if name in total else value


def _take_maximum(total: Amounts, other: Amounts) -> None:
    if not total:
        total.update(other)
        return
    for name, value in other.items():
        if name not in total or value > total[name]:
            total[name] = value


def qos_class(pod: Object) -> str:
    """The class in the pod's status, or the class that follows from its resources."""
    recorded = (pod.get("status") or {}).get("qosClass")
    return recorded if recorded else compute_qos_class(pod["spec"])


def compute_qos_class(spec: Object) -> str:
    """``Guaranteed`` if all containers have cpu and memory limits equal to requests; ``BestEffort`` if none has any."""
    if spec.get("resources") is not None:
        resource_lists = [spec["resources"]]
        # For pod-level resources without limits, the comparison below decides.
        guaranteed = not spec["resources"].get("limits") or _limits_all(spec["resources"])
    else:
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        resource_lists = [container.get("resources") or {} for container in containers]
        guaranteed = all(_limits_all(resources) for resources in resource_lists)
    requests = _compute_sums(resource_lists, "requests")
    limits = _compute_sums(resource_lists, "limits")
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _limits_all(resources: Object) -> bool:
    limits = resources.get("limits") or {}
    return all(name in limits and quantity.amount(limits[name]).nano > 0 for name in _COMPUTE)


def _compute_sums(resource_lists: list[Object], which: Which) -> dict[str, int]:
    sums: dict[str, int] = {}
    for resources in resource_lists:
        listed = resources.get(which) or {}
        for name in _COMPUTE:
            if name in listed and (nano := quantity.amount(listed[name]).nano) > 0:
                sums[name] = sums.get(name, 0) + nano
    return sums
