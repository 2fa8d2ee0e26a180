"""From a configured profile to plugins that run: each is made once, from its arguments, and stands at its points.

A new built-in plugin is a row in :data:`MAKERS`. Plugins from elsewhere come with makers of their own
(``cli/plugins.py``). A plugin that nobody can make is named in ``absent``, for whoever starts the scheduler to judge.
What may stand where was checked when the configuration was read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.task import ANNOTATIONS
from headgate.scheduling.cluster import Cluster, Part
from headgate.scheduling.configuration.registry import BUILT_IN, METHODS
from headgate.scheduling.configuration.values import (
    BinPackArgs,
    DefaultPreemptionArgs,
    ForeignArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    Profile,
    VolumeBindingArgs,
    Weighted,
)
from headgate.scheduling.contract import Awaits, Lineup, PreEnqueue, QueueSort
from headgate.scheduling.parts import read_spread
from headgate.scheduling.plugins.allocation import (
    Strategy,
    Weights,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from headgate.scheduling.plugins.bin_pack import BinPack
from headgate.scheduling.plugins.default_binder import DefaultBinder
from headgate.scheduling.plugins.default_preemption import DefaultPreemption
from headgate.scheduling.plugins.dynamic_resources import DynamicResources
from headgate.scheduling.plugins.image_locality import ImageLocality
from headgate.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from headgate.scheduling.plugins.node_affinity import NodeAffinity
from headgate.scheduling.plugins.node_name import NodeName
from headgate.scheduling.plugins.node_ports import NodePorts
from headgate.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from headgate.scheduling.plugins.node_resources_fit import NodeResourcesFit
from headgate.scheduling.plugins.node_unschedulable import NodeUnschedulable
from headgate.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from headgate.scheduling.plugins.pod_topology_spread import PodTopologySpread
from headgate.scheduling.plugins.priority_sort import PrioritySort
from headgate.scheduling.plugins.queue_allocation import QueueAllocation
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.plugins.taint_toleration import TaintToleration
from headgate.scheduling.plugins.volume_binding import VolumeBinding
from headgate.scheduling.plugins.volume_restrictions import VolumeRestrictions
from headgate.scheduling.plugins.volume_zone import VolumeZone

Maker = Callable[[Any, Cluster], Any]
"""A plugin, made from its arguments: those of ``configuration/values.py``, or a mapping if it comes from elsewhere."""

_HELPS: Final = {"preFilter": "filter", "preScore": "score"}
_STRATEGIES: Final[Mapping[str, Strategy]] = {"LeastAllocated": least_allocated, "MostAllocated": most_allocated}


def _fit(args: NodeResourcesFitArgs, cluster: Cluster) -> NodeResourcesFit:
    strategy = _STRATEGIES.get(args.strategy)
    if strategy is None:
        strategy = requested_to_capacity_ratio([(point.utilization, point.score) for point in args.shape])
    return NodeResourcesFit(strategy, _weights(args.resources), args.ignored_resources, args.ignored_resource_groups)


def _balanced(args: NodeResourcesBalancedAllocationArgs, cluster: Cluster) -> NodeResourcesBalancedAllocation:
    return NodeResourcesBalancedAllocation(_weights(args.resources))


def _bin_pack(args: BinPackArgs, cluster: Cluster) -> BinPack:
    return BinPack(_weights(args.resources))


def _affinity(args: NodeAffinityArgs, cluster: Cluster) -> NodeAffinity:
    return NodeAffinity(args.added, args.added_wishes)


def _volumes(args: VolumeBindingArgs, cluster: Cluster) -> VolumeBinding:
    return VolumeBinding(cluster, float(args.bind_timeout_s))


def _preemption(args: DefaultPreemptionArgs, cluster: Cluster) -> DefaultPreemption:
    return DefaultPreemption(args, cluster.budgets, cluster.preemptions, cluster.victim_rules)


def _spread(args: PodTopologySpreadArgs, cluster: Cluster) -> PodTopologySpread:
    defaults = None if args.defaulting_type == "System" else read_spread(args.default_constraints)
    return PodTopologySpread(cluster.selectors, defaults)


def _weights(resources: tuple[Weighted, ...]) -> Weights:
    return tuple((each.name, each.weight) for each in resources)


def _plain(plugin: Callable[[], Any]) -> Maker:
    return lambda args, cluster: plugin()


def _looking_around(plugin: Callable[[Cluster], Any]) -> Maker:
    return lambda args, cluster: plugin(cluster)


MAKERS: Final[Mapping[str, Maker]] = {
    "SchedulingGates": _plain(SchedulingGates),
    "PrioritySort": _plain(PrioritySort),
    "NodeUnschedulable": _plain(NodeUnschedulable),
    "NodeName": _plain(NodeName),
    "TaintToleration": _plain(TaintToleration),
    "NodeAffinity": _affinity,
    "NodePorts": _plain(NodePorts),
    "NodeResourcesFit": _fit,
    "VolumeRestrictions": _looking_around(VolumeRestrictions),
    "NodeVolumeLimits": _looking_around(NodeVolumeLimits),
    "VolumeBinding": _volumes,
    "VolumeZone": _looking_around(VolumeZone),
    "DynamicResources": _plain(DynamicResources),
    "DefaultPreemption": _preemption,
    "NodeResourcesBalancedAllocation": _balanced,
    "PodTopologySpread": _spread,
    "ImageLocality": _plain(ImageLocality),
    "InterPodAffinity": InterPodAffinity,
    "DefaultBinder": _plain(DefaultBinder),
    "BinPack": _bin_pack,
}


class Team(msgspec.Struct, frozen=True):
    """The plugins of a profile, in the order in which they are asked."""

    name: str
    pre_enqueue: tuple[PreEnqueue, ...]
    queue_sort: QueueSort
    lineup: Lineup
    around: Mapping[str, tuple[Any, ...]]
    """Those of the points from ``reserve`` to ``postBind``."""
    awaited: tuple[Awaits, ...]
    """Those of ``preBind`` that a binding waits for."""
    absent: tuple[str, ...]
    annotations: frozenset[str]
    """The annotations of pods that some plugin reads (``contract.PreEnqueue``)."""
    parts: tuple[Part, ...] = ()
    """Plugins that are told about objects of their choice (``cluster.Part``)."""


def assemble(profile: Profile, cluster: Cluster, makers: Mapping[str, Maker] = MAKERS) -> Team:
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
    return Team(
        name=profile.name,
        pre_enqueue=at("preEnqueue"),
        queue_sort=queue_sort,
        lineup=Lineup(
            pre_filters=at("preFilter"),
            filters=at("filter"),
            post_filters=at("postFilter"),
            pre_scores=at("preScore"),
            scores=tuple((each, weights[each.name]) for each in at("score")),
        ),
        around={point: at(point) for point in ("reserve", "permit", "preBind", "bind", "postBind")},
        awaited=tuple(each for each in at("preBind") if isinstance(each, Awaits)),
        absent=tuple(name for name in profile.plugins() if name not in made),
        annotations=frozenset(name for each in made.values() for name in getattr(each, "annotations", ())),
        parts=tuple(each for each in made.values() if isinstance(each, Part)),
    )


def joined(team: Team, allocation: QueueAllocation) -> Team:
    """The same team, of pods that wait for their queue: asked after all who merely look at the pod, first to take back
    what it gave, and awaited before the binding."""
    around = {**team.around, "reserve": (allocation, *team.around["reserve"])}
    gates = (each.leaving(allocation.owns) if isinstance(each, SchedulingGates) else each for each in team.pre_enqueue)
    return msgspec.structs.replace(
        team,
        pre_enqueue=(*gates, allocation),
        around=around,
        awaited=(*team.awaited, allocation),
        annotations=team.annotations | ANNOTATIONS,
    )


def _serves(plugin: str, point: str) -> bool:
    """Whether a configuration may name the plugin at this point."""
    return point in BUILT_IN[plugin].points


def _given(profile: Profile, plugin: str) -> Any:
    args = profile.args.get(plugin)
    return args.given if isinstance(args, ForeignArgs) else args
