"""A profile with queues: which plugins implement Volcano's ``predicates``, ``nodeorder`` and ``binpack``.

``predicates`` enables the filters; without it only resources, the node's name and volumes are checked. ``nodeorder``
and ``binpack`` are scores. The weights ``leastrequested`` and ``mostrequested`` oppose each other on the same
resources: the larger one counts, with the difference. docs/queue-profiles.md lists the other differences. ``capacity/``
reads the settings of queues.
"""

from __future__ import annotations

from typing import Final

from headgate.capacity.conf import DEFAULTS, PREEMPT, RECLAIM, PluginOption, SchedulerConf
from headgate.scheduling.config.plugin_args import default_args
from headgate.scheduling.config.plugin_registry import BUILT_IN, DEFAULT_ENABLED, POINTS, QUEUE_METHODS
from headgate.scheduling.config.types import (
    CPU_AND_MEMORY,
    Args,
    BinPackArgs,
    DefaultPreemptionArgs,
    Enabled,
    ExternalPluginArgs,
    KubeSchedulerProfile,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    VolumeBindingArgs,
)
from headgate.scheduling.config.volcano_arguments import (
    BIND_TIMEOUT,
    BINPACK_RESOURCES,
    SWITCHES,
    WEIGHTS,
    listed_resources,
)

QUEUE_SCHEDULERS: Final = frozenset({"headgate", "volcano"})
"""The scheduler names whose profiles use queues by default."""

_FIT: Final = "NodeResourcesFit"
_PREEMPTION: Final = "DefaultPreemption"
_SCORES: Final = {  # by plugin: the argument of nodeorder with its weight
    "NodeAffinity": "nodeaffinity.weight",
    "InterPodAffinity": "podaffinity.weight",
    "NodeResourcesBalancedAllocation": "balancedresource.weight",
    "TaintToleration": "tainttoleration.weight",
    "ImageLocality": "imagelocality.weight",
    "PodTopologySpread": "podtopologyspread.weight",
}
_ALWAYS: Final = frozenset({"NodeName", _FIT, "VolumeBinding", "VolumeRestrictions", "DynamicResources"})
"""Filters that cannot be disabled: without them pods would be bound to nodes where they cannot run."""
_BALANCED: Final = (*CPU_AND_MEMORY, ResourceSpec("nvidia.com/gpu"))
_FILTER_POINTS: Final = frozenset({"preFilter", "filter"})


def queue_profile(name: str, conf: SchedulerConf = DEFAULTS) -> KubeSchedulerProfile:
    filters = _filters(conf)
    scores = _scores(conf)
    weights = dict(scores)
    evicts = conf.runs(PREEMPT) or conf.runs(RECLAIM)
    points = {point: _plugins_at(point, filters, scores, evicts=evicts) for point in POINTS}
    for point in QUEUE_METHODS if conf.external_plugins else ():
        points[point] = tuple((each.name, 0) for each in conf.external_plugins if point in each.external_points)
    running = {each for enabled in points.values() for each, _ in enabled}
    args: dict[str, Args] = {each: found for each in sorted(running) if (found := default_args(each)) is not None}
    args[_FIT] = NodeResourcesFitArgs(strategy=_strategy(conf))
    if "NodeResourcesBalancedAllocation" in weights:
        args["NodeResourcesBalancedAllocation"] = NodeResourcesBalancedAllocationArgs(_BALANCED)
    if "BinPack" in weights:
        args["BinPack"] = BinPackArgs(_bin_pack_resources(_plugin(conf, "binpack")))
    if _PREEMPTION in running:
        args[_PREEMPTION] = _preemption(conf)
    timeout_s = _plugin(conf, "predicates").arguments.get(BIND_TIMEOUT)
    if timeout_s is not None:
        args["VolumeBinding"] = VolumeBindingArgs(int(timeout_s))
    args |= {each.name: ExternalPluginArgs(each.arguments) for each in conf.external_plugins}
    return KubeSchedulerProfile(name, points, args, queues=conf)


def _plugins_at(
    point: str, filters: frozenset[str], scores: tuple[Enabled, ...], *, evicts: bool
) -> tuple[Enabled, ...]:
    if point == "score":
        return scores
    serving = [name for name, _ in DEFAULT_ENABLED if point in BUILT_IN[name].points]
    if point == "preScore":
        scored = [name for name, _ in scores]
        return tuple((name, 0) for name in scored if name in serving or name not in BUILT_IN)
    if point in _FILTER_POINTS:
        serving = [name for name in serving if name in filters]
    return tuple((name, 0) for name in serving if name != _PREEMPTION or evicts)


def _filters(conf: SchedulerConf) -> frozenset[str]:
    """All filters except disabled ones."""
    if not conf.is_enabled_at("predicates", "predicate"):
        return _ALWAYS
    arguments = _plugin(conf, "predicates").arguments
    off = {plugin for argument, plugin in SWITCHES.items() if arguments.get(argument) is False}
    return frozenset(name for name in BUILT_IN if name in _ALWAYS or name not in off)


def _scores(conf: SchedulerConf) -> tuple[Enabled, ...]:
    weights: dict[str, int] = {}
    if conf.is_enabled_at("nodeorder", "nodeOrder"):
        weights = {plugin: _weight(conf, argument) for plugin, argument in _SCORES.items()}
        weights[_FIT] = abs(_least_allocated_weight(conf))
    if conf.is_enabled_at("binpack", "nodeOrder"):
        weights["BinPack"] = int(_plugin(conf, "binpack").arguments.get("binpack.weight", 1))
    in_order = [name for name, _ in DEFAULT_ENABLED if name in weights]
    return tuple((name, weights[name]) for name in dict.fromkeys((*in_order, *weights)) if weights[name])


def _weight(conf: SchedulerConf, argument: str) -> int:
    return int(_plugin(conf, "nodeorder").arguments.get(argument, WEIGHTS[argument]))


def _least_allocated_weight(conf: SchedulerConf) -> int:
    """The weight of LeastAllocated; a negative value is the weight of MostAllocated."""
    return _weight(conf, "leastrequested.weight") - _weight(conf, "mostrequested.weight")


def _strategy(conf: SchedulerConf) -> str:
    return "MostAllocated" if _least_allocated_weight(conf) < 0 else "LeastAllocated"


def _bin_pack_resources(binpack: PluginOption) -> tuple[ResourceSpec, ...]:
    given = binpack.arguments
    weights = {name: f"{BINPACK_RESOURCES}.{name}" for name in listed_resources(given.get(BINPACK_RESOURCES))}
    weights |= {"cpu": "binpack.cpu", "memory": "binpack.memory"}
    return tuple(ResourceSpec(name, int(given.get(argument, 1))) for name, argument in weights.items())


def _preemption(conf: SchedulerConf) -> DefaultPreemptionArgs:
    given = conf.action_arguments.get(PREEMPT, {})
    default = DefaultPreemptionArgs()
    return DefaultPreemptionArgs(
        int(given.get("minCandidateNodesPercentage", default.min_candidate_nodes_percentage)),
        int(given.get("minCandidateNodesAbsolute", default.min_candidate_nodes_absolute)),
    )


def _plugin(conf: SchedulerConf, name: str) -> PluginOption:
    return conf.plugin(name) or PluginOption(name)
