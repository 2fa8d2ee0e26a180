"""Aggregated ClusterRoles: ``admin``, ``edit``, ``view``, and any role with an ``aggregationRule``.

An aggregated role has the rules of every role that one of its selectors matches, selector by selector, in the order of
their names, each rule once. The controller updates the set of matching roles as roles change, so a change costs only
the roles that it affects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from headgate.controllers.framework.effects import Apply
from headgate.controllers.framework.reconcile import (
    Controller,
    Done,
    Enqueue,
    ReconcileSteps,
    RequeueWithBackoff,
    WatchSpec,
)
from headgate.kube.api_resources import CLUSTER_ROLES, APIResource
from headgate.kube.labels import Selector, from_label_selector

Object = dict[str, Any]

_MANAGER: Final = "clusterrole-aggregation-controller"


class _AggregatedRole(msgspec.Struct, frozen=True):
    """Its selectors, each with the names of the roles that it matches."""

    parts: tuple[tuple[Selector, set[str]], ...]


class ClusterRoleAggregationController(Controller):
    """Keys are names of cluster roles."""

    name = "cluster-role-aggregation"

    def __init__(self) -> None:
        self._roles: Final[dict[str, Object]] = {}
        self._aggregated: Final[dict[str, _AggregatedRole]] = {}

    def watches(self) -> Iterable[WatchSpec]:
        return (WatchSpec(CLUSTER_ROLES, frozenset({"metadata.labels", "aggregationRule", "rules"})),)

    def applied(self, resource: APIResource, obj: Object, now_s: float) -> Iterable[Enqueue]:
        name = obj["metadata"]["name"]
        before = self._roles.get(name)
        self._roles[name] = obj
        enqueued = self._update_members(name, obj["metadata"].get("labels") or {})
        if (before or {}).get("aggregationRule") != obj.get("aggregationRule"):
            self._define(name, obj.get("aggregationRule"))
        if name in self._aggregated:
            enqueued.add(name)
        return [Enqueue(each) for each in sorted(enqueued)]

    def removed(self, resource: APIResource, namespace: str, name: str, uid: str, now_s: float) -> Iterable[Enqueue]:
        self._roles.pop(name, None)
        self._aggregated.pop(name, None)
        return [Enqueue(each) for each in sorted(self._update_members(name, None))]

    def _update_members(self, name: str, labels: dict[str, str] | None) -> set[str]:
        """Updates the members of the aggregated roles. Returns those that the role matches, or matched before."""
        affected = set()
        for aggregated, found in self._aggregated.items():
            for selector, members in found.parts:
                belongs = labels is not None and name != aggregated and selector.matches(labels)
                if belongs or name in members:
                    affected.add(aggregated)
                if belongs:
                    members.add(name)
                else:
                    members.discard(name)
        return affected

    def _define(self, name: str, rule: Object | None) -> None:
        self._aggregated.pop(name, None)
        if rule is None:
            return
        selectors = [from_label_selector(each) for each in rule.get("clusterRoleSelectors") or ()]
        self._aggregated[name] = _AggregatedRole(
            tuple((selector, self._matching(selector) - {name}) for selector in selectors)
        )

    def _matching(self, selector: Selector) -> set[str]:
        return {name for name, role in self._roles.items() if selector.matches(role["metadata"].get("labels") or {})}

    def reconcile(self, key: str, now_s: float) -> ReconcileSteps:
        found = self._aggregated.get(key)
        if found is None:
            return Done()
        rules: list[Object] = []
        for _, members in found.parts:
            for name in sorted(members):
                rules += [rule for rule in self._roles[name].get("rules") or () if rule not in rules]
        if rules == (self._roles[key].get("rules") or []):
            return Done()
        obj = {
            "apiVersion": f"{CLUSTER_ROLES.group}/{CLUSTER_ROLES.version}",
            "kind": "ClusterRole",
            "metadata": {"name": key},
            "rules": rules,
        }
        response = yield Apply(CLUSTER_ROLES, "", key, obj, _MANAGER)
        return Done() if response.ok or response.missing else RequeueWithBackoff(response.message)
