"""Makes the framework of a configured profile: each plugin once, from its arguments, at its extension points.

Factories of built-in plugins are in ``scheduling/plugins/registry.py``; external plugins have factories of their own
(``cli/wiring/plugins.py``). A plugin without a factory is listed in ``unknown_plugins``, and the caller decides
whether to start. ``scheduling/config/`` has already validated which plugin may run at which extension point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.api.task import ANNOTATIONS
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.config.plugin_registry import BUILT_IN, METHODS, QUEUE_METHODS
from headgate.scheduling.config.types import (
    ExternalPluginArgs,
    KubeSchedulerProfile,
)
from headgate.scheduling.framework.framework import Framework
from headgate.scheduling.framework.interface import AwaitingPreBindPlugin, CyclePlugins, ResourceEventHandler
from headgate.scheduling.plugins.priority_sort import PrioritySort
from headgate.scheduling.plugins.queue_allocation import QueueAllocation
from headgate.scheduling.plugins.registry import IN_TREE_PLUGINS, PluginFactory
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates

_PREPARES: Final = {"preFilter": "filter", "preScore": "score"}
"""The extension points whose results another extension point reads."""
NO_PLUGINS: Final[Mapping[str, Any]] = {}


def new_framework(
    profile: KubeSchedulerProfile,
    cluster: Cluster,
    factories: Mapping[str, PluginFactory] = IN_TREE_PLUGINS,
    queue_plugins: Mapping[str, Any] = NO_PLUGINS,
) -> Framework:
    """An exception of one of the ``factories`` reports invalid plugin arguments; the caller catches it.
    ``queue_plugins``: the plugins of other packages that serve queues, by name. Profiles with queues share them, as
    they share the queues."""
    plugins = {
        name: queue_plugins[name] if name in queue_plugins else factories[name](_arguments(profile, name), cluster)
        for name in profile.plugins()
        if name in factories
    }
    of_queues = dict.fromkeys(name for point in QUEUE_METHODS for name, _ in profile.points.get(point, ()))

    def at(point: str) -> tuple[Any, ...]:
        """The plugins of an extension point. A built-in plugin may have a preFilter or preScore method that
        kube-scheduler's does not have: a configuration cannot name it there, so it is added."""
        prepared_point = _PREPARES.get(point, "")
        added = (
            name
            for name, _ in profile.points.get(prepared_point, ())
            if name in BUILT_IN and not _is_configurable(name, point)
        )
        listed = (name for name, _ in profile.points[point])
        found = (plugins[name] for name in (*added, *listed) if name in plugins)
        return tuple(each for each in found if callable(getattr(each, METHODS[point], None)))

    weights = dict(profile.points["score"])
    (queue_sort,) = at("queueSort") or (PrioritySort(),)
    return Framework(
        name=profile.name,
        pre_enqueue=at("preEnqueue"),
        queue_sort=queue_sort,
        cycle_plugins=CyclePlugins(
            pre_filters=at("preFilter"),
            filters=at("filter"),
            post_filters=at("postFilter"),
            pre_scores=at("preScore"),
            scores=tuple((each, weights[each.name]) for each in at("score")),
        ),
        binding_plugins={point: at(point) for point in ("reserve", "permit", "preBind", "bind", "postBind")},
        awaiting_plugins=tuple(each for each in at("preBind") if isinstance(each, AwaitingPreBindPlugin)),
        unknown_plugins=tuple(name for name in profile.plugins() if name not in plugins),
        annotations=frozenset(name for each in plugins.values() for name in getattr(each, "annotations", ())),
        queue_plugins=tuple(plugins[name] for name in of_queues if name in plugins),
        event_handlers=tuple(each for each in plugins.values() if isinstance(each, ResourceEventHandler)),
    )


def with_queue_allocation(framework: Framework, allocation: QueueAllocation) -> Framework:
    """The same framework with the plugin QueueAllocation, for a profile with queues: it is the last PreEnqueue plugin,
    the first to reserve, the last to unreserve, and the last that a binding waits for."""
    binding_plugins = {**framework.binding_plugins, "reserve": (allocation, *framework.binding_plugins["reserve"])}
    gates = (
        each.ignoring(allocation.owns) if isinstance(each, SchedulingGates) else each for each in framework.pre_enqueue
    )
    return msgspec.structs.replace(
        framework,
        pre_enqueue=(*gates, allocation),
        binding_plugins=binding_plugins,
        awaiting_plugins=(*framework.awaiting_plugins, allocation),
        annotations=framework.annotations | ANNOTATIONS,
    )


def _is_configurable(plugin: str, point: str) -> bool:
    """Whether a configuration may name the plugin at this point."""
    return point in BUILT_IN[plugin].points


def _arguments(profile: KubeSchedulerProfile, plugin: str) -> Any:
    args = profile.args.get(plugin)
    return args.given if isinstance(args, ExternalPluginArgs) else args
