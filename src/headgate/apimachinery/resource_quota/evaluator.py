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
    """``may_add_usage``: whether an update may add usage, so that quotas are checked. ``missing``: the error text if
    the object does not specify an amount that a quota requires."""

    tracks: Callable[[str], bool]
    usage: Callable[[Object], Amounts]
    in_scope: Callable[[ScopeRequirement, Object], bool] = _in_no_scope
    may_add_usage: Callable[[str, Object, Object], bool] = _never
    missing: Callable[[Iterable[str], Object], str] = _nothing_missing

    def tracked(self, names: Iterable[str]) -> list[str]:
        """The names of limited resources that objects of this kind use."""
        return [name for name in names if self.tracks(name)]

    def usage_in_scopes(self, scopes: Iterable[ScopeRequirement], obj: Object | None) -> Amounts:
        """The usage of an object in a quota with these scopes: none if the object is not in all of them."""
        if obj is None or not all(self.in_scope(each, obj) for each in scopes):
            return {}
        return self.usage(obj)


_EVALUATORS: Final = {
    "pods": Evaluator(
        tracks=pods.tracks,
        usage=pods.usage,
        in_scope=pods.in_scope,
        may_add_usage=pods.may_add_usage,
        missing=pods.missing,
    ),
    "services": Evaluator(
        tracks=services.tracks, usage=services.usage, may_add_usage=lambda subresource, new, old: not subresource
    ),
    "persistentvolumeclaims": Evaluator(
        tracks=claims.tracks_volumes,
        usage=claims.volume_usage,
        in_scope=claims.volume_in_scope,
        may_add_usage=claims.may_add_volume_usage,
    ),
    "resourceclaims.resource.k8s.io": Evaluator(
        tracks=claims.tracks_devices,
        usage=claims.device_usage,
        may_add_usage=lambda subresource, new, old: not subresource,
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
