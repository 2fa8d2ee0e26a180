"""Would this pod fit there? Nodes and planned nodes with what is free on them, and pods put on them one after another.

A deliberately small part of scheduling: requests, the number of pods, ``nodeSelector`` and required node affinity,
taints and cordons. The real autoscalers ask kube-scheduler's own filters, so they also see volumes, ports, and rules
between pods; pods with those are planned here as if they had none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from headgate.kube.taints import UNSCHEDULABLE, first_untolerated
from headgate.nodes.models.machine import Node, Shape, labels_of
from headgate.nodes.models.pod import Pod

_CORDON = {"key": UNSCHEDULABLE, "effect": "NoSchedule"}


class Spot(msgspec.Struct):
    """Mutable: what is free on it shrinks as pods are put there. Lives for one plan."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    free: dict[str, int]
    guests: int = 0
    """Pods that keep the node from being empty."""

    def take(self, pod: Pod) -> None:
        for name, amount in pod.requests.items():
            self.free[name] = self.free.get(name, 0) - amount
        self.free["pods"] = self.free.get("pods", 0) - 1
        if not pod.stays_with_its_node:
            self.guests += 1

    def fits(self, pod: Pod) -> bool:
        return (
            self.free.get("pods", 0) >= 1
            and all(self.free.get(name, 0) >= amount for name, amount in pod.requests.items())
            and pod.required.matches(self.labels, self.name)
            and first_untolerated(self.taints, pod.tolerations) is None
        )


def standing(node: Node, *, ignored_taints: frozenset[str] = frozenset()) -> Spot:
    """A node as the API shows it, without the pods on it."""
    taints = [taint for taint in node.taints if taint["key"] not in ignored_taints]
    return Spot(node.name, node.labels, [*taints, _CORDON] if node.cordoned else taints, dict(node.allocatable))


def planned(name: str, group: str, shape: Shape) -> Spot:
    """A machine that does not exist yet."""
    return Spot(name, labels_of(name, group, shape), shape.taints, shape.counts)


def place(pod: Pod, spots: Iterable[Spot]) -> Spot | None:
    """Puts the pod on the first spot that has room for it."""
    for spot in spots:
        if spot.fits(pod):
            spot.take(pod)
            return spot
    return None
