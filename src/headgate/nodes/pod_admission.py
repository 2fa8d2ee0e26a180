"""Whether a pod fits on its node, counted as a kubelet counts.

It detects a scheduler that overcommits a node: the last pod is rejected, with the kubelet's message. Only resources and
the number of pods are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.kube import quantity
from headgate.kube.pod_resources import Amounts, amounts, is_native, may_be_pod_level, sum_containers

Object = dict[str, Any]
Counts = Mapping[str, int]
"""Whole numbers per resource: thousandths for cpu, units for everything else."""

_CHECKED_FIRST: Final = ("cpu", "memory", "ephemeral-storage")


class AdmitRejection(msgspec.Struct, frozen=True):
    reason: str
    message: str


def counts_of(listed: Mapping[str, str] | None) -> dict[str, int]:
    """A resource list of the API as whole numbers; an invalid quantity is left out."""
    found = {name: quantity.parse(text) for name, text in (listed or {}).items()}
    return _whole({name: value for name, value in found.items() if not isinstance(value, str)})


def requests_of(pod: Object) -> dict[str, int]:
    """What the pod allocates: its containers' requests, or the pod level ones where given, and its overhead."""
    spec = pod["spec"]
    total = sum_containers(spec, "requests")
    for name, value in amounts(spec.get("resources"), "requests").items():
        if may_be_pod_level(name):
            total[name] = value
    for name, text in (spec.get("overhead") or {}).items():
        value = quantity.amount(text)
        total[name] = total[name] + value if name in total else value
    return {name: value for name, value in _whole(total).items() if value}


def check(requests: Counts, used: Counts, pods: int, allocatable: Counts) -> AdmitRejection | None:
    """``used`` and ``pods`` are the usage of the node's other pods."""
    if pods + 1 > allocatable.get("pods", 0):
        return _rejection("pods", 1, pods, allocatable.get("pods", 0))
    others = sorted(name for name in requests if name not in _CHECKED_FIRST)
    for name in (*_CHECKED_FIRST, *others):
        requested = requests.get(name, 0)
        if not requested or (name not in allocatable and not is_native(name)):
            continue  # a kubelet does not check resources that its node does not have
        in_use, capacity = used.get(name, 0), allocatable.get(name, 0)
        if requested > capacity - in_use:
            return _rejection(name, requested, in_use, capacity)
    return None


def _rejection(name: str, requested: int, used: int, capacity: int) -> AdmitRejection:
    text = f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return AdmitRejection(reason=f"OutOf{name}", message=text)


def _whole(values: Amounts) -> dict[str, int]:
    return {name: value.milli_value() if name == "cpu" else value.value() for name, value in values.items()}
