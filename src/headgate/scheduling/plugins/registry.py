"""The built-in plugins by name, with their factories.

A new built-in plugin is an entry in :data:`IN_TREE_PLUGINS`. ``scheduling/profile.py`` makes the plugins of a profile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headgate.scheduling.cache.pod_fields import read_spread
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.config.types import (
    BinPackArgs,
    DefaultPreemptionArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    VolumeBindingArgs,
)
from headgate.scheduling.plugins.default_binder import DefaultBinder
from headgate.scheduling.plugins.default_preemption import DefaultPreemption
from headgate.scheduling.plugins.dynamic_resources import DynamicResources
from headgate.scheduling.plugins.image_locality import ImageLocality
from headgate.scheduling.plugins.interpodaffinity.plugin import InterPodAffinity
from headgate.scheduling.plugins.node_affinity import NodeAffinity
from headgate.scheduling.plugins.node_name import NodeName
from headgate.scheduling.plugins.node_ports import NodePorts
from headgate.scheduling.plugins.node_unschedulable import NodeUnschedulable
from headgate.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from headgate.scheduling.plugins.noderesources.balanced_allocation import NodeResourcesBalancedAllocation
from headgate.scheduling.plugins.noderesources.bin_pack import BinPack
from headgate.scheduling.plugins.noderesources.fit import NodeResourcesFit
from headgate.scheduling.plugins.noderesources.resource_allocation import (
    Strategy,
    Weights,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from headgate.scheduling.plugins.podtopologyspread.plugin import PodTopologySpread
from headgate.scheduling.plugins.priority_sort import PrioritySort
from headgate.scheduling.plugins.scheduling_gates import SchedulingGates
from headgate.scheduling.plugins.taint_toleration import TaintToleration
from headgate.scheduling.plugins.volume_binding import VolumeBinding
from headgate.scheduling.plugins.volume_restrictions import VolumeRestrictions
from headgate.scheduling.plugins.volume_zone import VolumeZone

PluginFactory = Callable[[Any, Cluster], Any]
"""Makes a plugin from its arguments (of ``scheduling/config/types.py``, or a mapping for an external plugin) and the
cluster state."""

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
    return NodeAffinity(args.added, args.added_preferred)


def _volumes(args: VolumeBindingArgs, cluster: Cluster) -> VolumeBinding:
    return VolumeBinding(cluster, float(args.bind_timeout_s))


def _preemption(args: DefaultPreemptionArgs, cluster: Cluster) -> DefaultPreemption:
    return DefaultPreemption(args, cluster.disruption_budgets, cluster.ongoing_preemptions, cluster.victim_rules)


def _spread(args: PodTopologySpreadArgs, cluster: Cluster) -> PodTopologySpread:
    defaults = None if args.defaulting_type == "System" else read_spread(args.default_constraints)
    return PodTopologySpread(cluster.pod_selectors, defaults)


def _weights(resources: tuple[ResourceSpec, ...]) -> Weights:
    return tuple((each.name, each.weight) for each in resources)


def _without_arguments(plugin: Callable[[], Any]) -> PluginFactory:
    return lambda args, cluster: plugin()


def _with_cluster(plugin: Callable[[Cluster], Any]) -> PluginFactory:
    return lambda args, cluster: plugin(cluster)


IN_TREE_PLUGINS: Final[Mapping[str, PluginFactory]] = {
    "SchedulingGates": _without_arguments(SchedulingGates),
    "PrioritySort": _without_arguments(PrioritySort),
    "NodeUnschedulable": _without_arguments(NodeUnschedulable),
    "NodeName": _without_arguments(NodeName),
    "TaintToleration": _without_arguments(TaintToleration),
    "NodeAffinity": _affinity,
    "NodePorts": _without_arguments(NodePorts),
    "NodeResourcesFit": _fit,
    "VolumeRestrictions": _with_cluster(VolumeRestrictions),
    "NodeVolumeLimits": _with_cluster(NodeVolumeLimits),
    "VolumeBinding": _volumes,
    "VolumeZone": _with_cluster(VolumeZone),
    "DynamicResources": _without_arguments(DynamicResources),
    "DefaultPreemption": _preemption,
    "NodeResourcesBalancedAllocation": _balanced,
    "PodTopologySpread": _spread,
    "ImageLocality": _without_arguments(ImageLocality),
    "InterPodAffinity": InterPodAffinity,
    "DefaultBinder": _without_arguments(DefaultBinder),
    "BinPack": _bin_pack,
}
