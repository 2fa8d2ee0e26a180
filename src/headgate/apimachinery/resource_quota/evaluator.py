"""The table of evaluators by resource, and the counting of objects for every resource without a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import msgspec

from headgate.apimachinery.resource_quota import claims, pods, services
from headgate.apimachinery.resource_quota.scopes import ScopeRequirement
from headgate.kube import quantity
from headgate.kube.pod_resources import Amounts

Object = dict[str, Any]

ONE: Final = quantity.of_units(1)
# Kubernetes never counts events; reviews and bindings are not stored.
_UNCOUNTED: Final = frozenset({"events", "events.events.k8s.io", "bindings", "componentstatuses"})
# What could be counted before there was ``count/``.
_OLD_NAMES: Final = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})


def _in_no_scope(requirement: ScopeRequirement, obj: Object) -> bool:
    return False


def _never(subresource: str, new: Object, old: Object) -> bool:
    return False


def _without_demands(required: Iterable[str], obj: Object) -> str:
    return ""


class Evaluator(msgspec.Struct, frozen=True, kw_only=True):
    """``charges_update``: whether an update may cost more; ``missing``: what a limit demands in vain."""

    tracks: Callable[[str], bool]
    usage: Callable[[Object], Amounts]
    in_scope: Callable[[ScopeRequirement, Object], bool] = _in_no_scope
    charges_update: Callable[[str, Object, Object], bool] = _never
    missing: Callable[[Iterable[str], Object], str] = _without_demands

    def tracked(self, names: Iterable[str]) -> list[str]:
        """Those of the limited resources that objects of this kind use."""
        return [name for name in names if self.tracks(name)]

    def cost(self, scopes: Iterable[ScopeRequirement], obj: Object | None) -> Amounts:
        """What an object uses of a quota with these scopes: nothing if it is outside of one."""
        if obj is None or not all(self.in_scope(each, obj) for each in scopes):
            return {}
        return self.usage(obj)


_EVALUATORS: Final = {
    "pods": Evaluator(
        tracks=pods.tracks,
        usage=pods.usage,
        in_scope=pods.in_scope,
        charges_update=pods.charges_update,
        missing=pods.missing,
    ),
    "services": Evaluator(
        tracks=services.tracks, usage=services.usage, charges_update=lambda subresource, new, old: not subresource
    ),
    "persistentvolumeclaims": Evaluator(
        tracks=claims.tracks_volumes,
        usage=claims.volume_usage,
        in_scope=claims.volume_in_scope,
        charges_update=claims.charges_volume_update,
    ),
    "resourceclaims.resource.k8s.io": Evaluator(
        tracks=claims.tracks_devices,
        usage=claims.device_usage,
        charges_update=lambda subresource, new, old: not subresource,
    ),
}


@cache
def evaluator_of(resource: str) -> Evaluator | None:
    """``resource`` is the plural with its group, as the store names it. ``None``: quotas do not know it."""
    if resource in _UNCOUNTED:
        return None
    special = _EVALUATORS.get(resource)
    if special is not None:
        return special
    names = {f"count/{resource}", *({resource} & _OLD_NAMES)}
    return Evaluator(tracks=names.__contains__, usage=lambda obj: dict.fromkeys(names, ONE))
