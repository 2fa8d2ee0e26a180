"""Disruption budgets: how many pods may go before somebody is hurt. A part of ``scheduling/cluster.py``.

A budget counts by its status, which its controller keeps: so many more disruptions are allowed, and these pods are on
their way already. Preemption may overdraw a budget, but goes where it overdraws the least. A selector that is empty
selects no pod here, as in kube-scheduler. Budgets wake nobody: they never stand between a pod and a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.kube.labels import NOTHING, Selector, from_label_selector
from headgate.kube.resource import POD_DISRUPTION_BUDGETS, Resource
from headgate.scheduling.events import Event
from headgate.scheduling.pod import Pod


class Budget(msgspec.Struct, frozen=True):
    selector: Selector
    allowed: int
    underway: frozenset[str]
    """Names of pods whose disruption the API server has granted and counted."""

    def counts(self, pod: Pod) -> bool:
        """Whether taking this pod away draws on the budget."""
        return bool(pod.labels) and self.selector.matches(pod.labels) and pod.name not in self.underway


class Budgets:
    watched: Final[Mapping[Resource, tuple[str, ...]]] = {
        POD_DISRUPTION_BUDGETS: ("spec.selector", "status.disruptionsAllowed", "status.disruptedPods")
    }

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Budget]] = {}
        self.set_aside: dict[str, str] = {}
        """By ``namespace/name``, why a budget is not counted with."""
        self.version = 0
        """Moves when any budget does."""

    def overdrawn(self, pods: Sequence[Pod]) -> tuple[bool, ...]:
        """Pod by pod, whether a budget would be overdrawn if they went away one after the other, in this order."""
        left: dict[tuple[str, str], int] = {}
        found: list[bool] = []
        for pod in pods:
            hurts = False
            for name, budget in self._by_namespace.get(pod.namespace, {}).items():
                if budget.counts(pod):
                    key = (pod.namespace, name)
                    left[key] = left.get(key, budget.allowed) - 1
                    hurts = hurts or left[key] < 0
            found.append(hurts)
        return tuple(found)

    def applied(self, resource: Resource, wire: Mapping[str, Any], /) -> Iterable[Event]:
        namespace, name = wire["metadata"].get("namespace") or "", wire["metadata"]["name"]
        budget = _read(wire)
        if isinstance(budget, str):
            self.removed(resource, namespace, name)
            self.set_aside[f"{namespace}/{name}"] = budget
            return ()
        self.set_aside.pop(f"{namespace}/{name}", None)
        known = self._by_namespace.setdefault(namespace, {})
        if known.get(name) != budget:
            known[name] = budget
            self.version += 1
        return ()

    def removed(self, resource: Resource, namespace: str, name: str, /) -> Iterable[Event]:
        self.set_aside.pop(f"{namespace}/{name}", None)
        known = self._by_namespace.get(namespace, {})
        if known.pop(name, None) is not None:
            self.version += 1
            if not known:
                del self._by_namespace[namespace]
        return ()


def _read(wire: Mapping[str, Any]) -> Budget | str:
    try:
        status = wire.get("status") or {}
        selector = from_label_selector((wire.get("spec") or {}).get("selector"))
        return Budget(
            NOTHING if selector.is_everything else selector,
            int(status.get("disruptionsAllowed") or 0),
            frozenset(status.get("disruptedPods") or ()),
        )
    except (AttributeError, TypeError, ValueError) as broken:
        return f"the budget cannot be read: {broken!r}"
