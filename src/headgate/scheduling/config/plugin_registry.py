"""The table of plugins: their names, the extension points they serve, and which run by default.

Built-in entries are those of kube-scheduler v1.35, so that a configuration has the same meaning. Its two plugins behind
alpha features (GangScheduling, NodeDeclaredFeatures) are not included. :func:`with_plugins` adds external plugins;
``cli/wiring/plugins.py`` finds them among installed packages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

POINTS: Final = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)
METHODS: Final[Mapping[str, str]] = {
    "preEnqueue": "pre_enqueue",
    "queueSort": "order_key",
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "preScore": "pre_score",
    "score": "score",
    "reserve": "reserve",
    "permit": "permit",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
}
"""The method that serves an extension point (``scheduling/framework/interface.py``)."""
QUEUE_METHODS: Final[Mapping[str, str]] = {
    "queueAdmission": "admit_unit",
    "queueReserve": "reserve_unit",
    "queueOrder": "unit_order_key",
}
"""The same for the extension points of queues. A ``volcano-scheduler.conf`` enables a plugin at all that it serves."""


class PluginEntry(msgspec.Struct, frozen=True):
    """``origin``: the package of an external plugin."""

    name: str
    points: frozenset[str]
    origin: str = ""


Registry = Mapping[str, PluginEntry]

_SERVES: Final[Mapping[str, str]] = {
    "SchedulingGates": "preEnqueue",
    "PrioritySort": "queueSort",
    "NodeUnschedulable": "filter",
    "NodeName": "filter",
    "TaintToleration": "filter preScore score",
    "NodeAffinity": "preFilter filter preScore score",
    "NodePorts": "preFilter filter",
    "NodeResourcesFit": "preFilter filter preScore score",
    "VolumeRestrictions": "preFilter filter",
    "NodeVolumeLimits": "preFilter filter",
    "VolumeBinding": "preFilter filter preScore score reserve preBind",
    "VolumeZone": "preFilter filter",
    "PodTopologySpread": "preFilter filter preScore score",
    "InterPodAffinity": "preFilter filter preScore score",
    "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
    "DefaultPreemption": "preEnqueue postFilter",
    "NodeResourcesBalancedAllocation": "preScore score",
    "ImageLocality": "score",
    "DefaultBinder": "bind",
}
BUILT_IN: Final[Registry] = {name: PluginEntry(name, frozenset(points.split())) for name, points in _SERVES.items()}

QUEUE_PLUGINS: Final[Registry] = {"BinPack": PluginEntry("BinPack", frozenset({"preScore", "score"}))}
"""Plugins of profiles with queues only: a ``KubeSchedulerConfiguration`` cannot name them."""

_WEIGHTS: Final[Mapping[str, int]] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
DEFAULT_ENABLED: Final = tuple((name, _WEIGHTS.get(name, 0)) for name in _SERVES)
"""The default plugins of a profile, in order, with weights."""

OBSOLETE_POINTS: Final[Mapping[str, str]] = {
    "enqueue": "an early name from the proposal; the extension point is preEnqueue",
    "DefaultEnqueue": "an early name from the proposal; the plugin is SchedulingGates",
}


def with_plugins(entries: Iterable[PluginEntry]) -> Registry | str:
    """The registry of built-in plugins and these external ones; an error text if two plugins have the same name."""
    registry = dict(BUILT_IN)
    for entry in entries:
        taken = registry.get(entry.name) or QUEUE_PLUGINS.get(entry.name)
        if taken is not None:
            return (
                f"plugin {entry.name} of {entry.origin or 'another package'} has the name of "
                f"{f'one of {taken.origin}' if taken.origin else 'a built-in one'}: rename or uninstall one of them"
            )
        registry[entry.name] = entry
    return registry


def points_served(plugin: object) -> frozenset[str]:
    """The extension points that a plugin (or its class) has a method for."""
    methods = (*METHODS.items(), *QUEUE_METHODS.items())
    return frozenset(point for point, method in methods if callable(getattr(plugin, method, None)))
