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
from headgate.scheduling.config.plugin_registry import BUILT_IN, METHODS
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

_HELPS: Final = {"preFilter": "filter", "preScore": "score"}


def new_framework(
    profile: KubeSchedulerProfile, cluster: Cluster, makers: Mapping[str, PluginFactory] = IN_TREE_PLUGINS
) -> Framework:
    """``makers`` that raise are the caller's to catch: they say what is wrong with the arguments."""
    made = {name: makers[name](_given(profile, name), cluster) for name in profile.plugins() if name in makers}

    def at(point: str) -> tuple[Any, ...]:
        """A plugin of ours may do at one point what Kubernetes' does at two, or at two what that does at one."""
        helped = _HELPS.get(point, "")
        helpers = (name for name, _ in profile.points.get(helped, ()) if name in BUILT_IN and not _serves(name, point))
        listed = (name for name, _ in profile.points[point])
        plugins = (made[name] for name in (*helpers, *listed) if name in made)
        return tuple(each for each in plugins if callable(getattr(each, METHODS[point], None)))

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
        unknown_plugins=tuple(name for name in profile.plugins() if name not in made),
        annotations=frozenset(name for each in made.values() for name in getattr(each, "annotations", ())),
        event_handlers=tuple(each for each in made.values() if isinstance(each, ResourceEventHandler)),
    )


def with_queue_allocation(team: Framework, allocation: QueueAllocation) -> Framework:
    """The same framework for pods that wait for their queue: QueueAllocation is the last PreEnqueue plugin, the first
    to reserve, the last to unreserve, and is awaited before the binding."""
    around = {**team.binding_plugins, "reserve": (allocation, *team.binding_plugins["reserve"])}
    gates = (each.ignoring(allocation.owns) if isinstance(each, SchedulingGates) else each for each in team.pre_enqueue)
    return msgspec.structs.replace(
        team,
        pre_enqueue=(*gates, allocation),
        binding_plugins=around,
        awaiting_plugins=(*team.awaiting_plugins, allocation),
        annotations=team.annotations | ANNOTATIONS,
    )


def _serves(plugin: str, point: str) -> bool:
    """Whether a configuration may name the plugin at this point."""
    return point in BUILT_IN[plugin].points


def _given(profile: KubeSchedulerProfile, plugin: str) -> Any:
    args = profile.args.get(plugin)
    return args.given if isinstance(args, ExternalPluginArgs) else args
