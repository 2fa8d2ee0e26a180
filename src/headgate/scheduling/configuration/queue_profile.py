"""A profile of kind *queues*: which of our plugins do what ``predicates``, ``nodeorder`` and ``binpack`` say.

``predicates`` are filters; without it only room, the node's name and volumes are looked at, as whether a pod could run
at all. ``nodeorder`` and ``binpack`` are scores. Two of Volcano's weights pull against each other on the same
resources, ``leastrequested`` and ``mostrequested``: the stronger one counts, with the difference. The other differences
are in docs/queue-profiles.md. What the settings say about queues is ``capacity/``'s to read.
"""

from __future__ import annotations

from typing import Final

from headgate.capacity.settings import DEFAULTS, PREEMPT, RECLAIM, Plugin, Settings
from headgate.scheduling.configuration.args import empty_args
from headgate.scheduling.configuration.conf_arguments import (
    BIND_TIMEOUT,
    BINPACK_RESOURCES,
    SWITCHES,
    WEIGHTS,
    listed_resources,
)
from headgate.scheduling.configuration.registry import BUILT_IN, DEFAULT_ENABLED, POINTS
from headgate.scheduling.configuration.values import (
    CPU_AND_MEMORY,
    Args,
    BinPackArgs,
    DefaultPreemptionArgs,
    Enabled,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    Profile,
    VolumeBindingArgs,
    Weighted,
)

QUEUE_SCHEDULERS: Final = frozenset({"headgate", "volcano"})
"""The names that are served in the order of queues unless a configuration says otherwise."""

_FIT: Final = "NodeResourcesFit"
_PREEMPTION: Final = "DefaultPreemption"
_SCORES: Final = {
    "NodeAffinity": "nodeaffinity.weight",
    "InterPodAffinity": "podaffinity.weight",
    "NodeResourcesBalancedAllocation": "balancedresource.weight",
    "TaintToleration": "tainttoleration.weight",
    "ImageLocality": "imagelocality.weight",
    "PodTopologySpread": "podtopologyspread.weight",
}
_ALWAYS: Final = frozenset({"NodeName", _FIT, "VolumeBinding", "VolumeRestrictions", "DynamicResources"})
"""Filters that no configuration takes away: without them pods would be bound where they cannot run."""
_BALANCED: Final = (*CPU_AND_MEMORY, Weighted("nvidia.com/gpu"))
_ASKED: Final = frozenset({"preFilter", "filter"})


def queue_profile(name: str, settings: Settings = DEFAULTS) -> Profile:
    filters = _filters(settings)
    scores = _scores(settings)
    weights = dict(scores)
    evicts = settings.runs(PREEMPT) or settings.runs(RECLAIM)
    points = {point: _at(point, filters, scores, evicts=evicts) for point in POINTS}
    running = {each for enabled in points.values() for each, _ in enabled}
    args: dict[str, Args] = {each: made for each in sorted(running) if (made := empty_args(each)) is not None}
    args[_FIT] = NodeResourcesFitArgs(strategy=_strategy(settings))
    if "NodeResourcesBalancedAllocation" in weights:
        args["NodeResourcesBalancedAllocation"] = NodeResourcesBalancedAllocationArgs(_BALANCED)
    if "BinPack" in weights:
        args["BinPack"] = BinPackArgs(_packed(_plugin(settings, "binpack")))
    if _PREEMPTION in running:
        args[_PREEMPTION] = _preemption(settings)
    timeout_s = _plugin(settings, "predicates").arguments.get(BIND_TIMEOUT)
    if timeout_s is not None:
        args["VolumeBinding"] = VolumeBindingArgs(int(timeout_s))
    return Profile(name, points, args, queues=settings)


def _at(point: str, filters: frozenset[str], scores: tuple[Enabled, ...], *, evicts: bool) -> tuple[Enabled, ...]:
    if point == "score":
        return scores
    serving = [name for name, _ in DEFAULT_ENABLED if point in BUILT_IN[name].points]
    if point == "preScore":
        scored = [name for name, _ in scores]
        return tuple((name, 0) for name in scored if name in serving or name not in BUILT_IN)
    if point in _ASKED:
        serving = [name for name in serving if name in filters]
    return tuple((name, 0) for name in serving if name != _PREEMPTION or evicts)


def _filters(settings: Settings) -> frozenset[str]:
    """Everything that filters, without what is switched off."""
    if not settings.has_say("predicates", "predicate"):
        return _ALWAYS
    arguments = _plugin(settings, "predicates").arguments
    off = {plugin for argument, plugin in SWITCHES.items() if arguments.get(argument) is False}
    return frozenset(name for name in BUILT_IN if name in _ALWAYS or name not in off)


def _scores(settings: Settings) -> tuple[Enabled, ...]:
    weights: dict[str, int] = {}
    if settings.has_say("nodeorder", "nodeOrder"):
        weights = {plugin: _weight(settings, argument) for plugin, argument in _SCORES.items()}
        weights[_FIT] = abs(_spreading(settings))
    if settings.has_say("binpack", "nodeOrder"):
        weights["BinPack"] = int(_plugin(settings, "binpack").arguments.get("binpack.weight", 1))
    in_order = [name for name, _ in DEFAULT_ENABLED if name in weights]
    return tuple((name, weights[name]) for name in dict.fromkeys((*in_order, *weights)) if weights[name])


def _weight(settings: Settings, argument: str) -> int:
    return int(_plugin(settings, "nodeorder").arguments.get(argument, WEIGHTS[argument]))


def _spreading(settings: Settings) -> int:
    """How much emptier nodes are preferred; below zero, how much fuller ones are."""
    return _weight(settings, "leastrequested.weight") - _weight(settings, "mostrequested.weight")


def _strategy(settings: Settings) -> str:
    return "MostAllocated" if _spreading(settings) < 0 else "LeastAllocated"


def _packed(binpack: Plugin) -> tuple[Weighted, ...]:
    given = binpack.arguments
    weights = {name: f"{BINPACK_RESOURCES}.{name}" for name in listed_resources(given.get(BINPACK_RESOURCES))}
    weights |= {"cpu": "binpack.cpu", "memory": "binpack.memory"}
    return tuple(Weighted(name, int(given.get(argument, 1))) for name, argument in weights.items())


def _preemption(settings: Settings) -> DefaultPreemptionArgs:
    given = settings.action_arguments.get(PREEMPT, {})
    default = DefaultPreemptionArgs()
    return DefaultPreemptionArgs(
        int(given.get("minCandidateNodesPercentage", default.min_candidate_nodes_percentage)),
        int(given.get("minCandidateNodesAbsolute", default.min_candidate_nodes_absolute)),
    )


def _plugin(settings: Settings, name: str) -> Plugin:
    return settings.plugin(name) or Plugin(name)
