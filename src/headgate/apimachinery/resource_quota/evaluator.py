"""The evaluators by resource. A resource without an evaluator is only counted."""

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
# Resources that could be counted before ``count/`` existed.
_LEGACY_NAMES: Final = frozenset({"configmaps", "resourcequotas", "replicationcontrollers", "secrets"})


def _in_no_scope(requirement: ScopeRequirement, obj: Object) -> bool:
    return False


def _never(subresource: str, new: Object, old: Object) -> bool:
    return False


def _nothing_missing(required: Iterable[str], obj: Object) -> str:
    return ""


class Evaluator(msgspec.Struct, frozen=True, kw_only=True):
    """``charges_update``: whether an update may use more; ``missing``: an error if required amounts are missing."""

    tracks: Callable[[str], bool]
    usage: Callable[[Object], Amounts]
    in_scope: Callable[[ScopeRequirement, Object], bool] = _in_no_scope
    charges_update: Callable[[str, Object, Object], bool] = _never
    missing: Callable[[Iterable[str], Object], str] = _nothing_missing

    def tracked(self, names: Iterable[str]) -> list[str]:
        """The names of limited resources that objects of this kind use."""
        return [name for name in names if self.tracks(name)]

    def cost(self, scopes: Iterable[ScopeRequirement], obj: Object | None) -> Amounts:
        """What an object uses of a quota with these scopes: nothing if it is not in all of them."""
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
    """``resource`` is the plural with its group, as in the store. ``None``: quotas do not count it."""
    if resource in _UNCOUNTED:
        return None
    special = _EVALUATORS.get(resource)
    if special is not None:
        return special
    names = {f"count/{resource}", *({resource} & _LEGACY_NAMES)}
    return Evaluator(tracks=names.__contains__, usage=lambda obj: dict.fromkeys(names, ONE))
