"""The profiles that pods of a case ask for, as in a configuration: what is off, what is set otherwise than usual."""

from __future__ import annotations

from typing import Any

from real.placements.node_rules import PREFERRED, REQUIRED
from real.placements.nodes import HOSTNAME, ZONE
from real.placements.sizes import GPU

Object = dict[str, Any]

PREEMPTING = "preempting"


def _profile(*off: str, **args: Object) -> Object:
    """Devices are not ours, and would add to every message."""
    disabled = [{"name": name} for name in ("DynamicResources", *off)]
    config = [{"name": name, "args": given} for name, given in args.items()]
    return {"plugins": {"multiPoint": {"disabled": disabled}}, "pluginConfig": config}


_MEASURED = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 2}, {"name": GPU, "weight": 3}]
_LINE = [{"utilization": 0, "score": 1}, {"utilization": 40, "score": 9}, {"utilization": 90, "score": 3}]
_NOT_X = {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["x"]}]}
_NOT_Y = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["y"]}]}

PROFILES: dict[str, Object] = {
    "plain": _profile("DefaultPreemption"),
    PREEMPTING: _profile(),
    "packing": _profile(
        "DefaultPreemption",
        NodeResourcesFit={"scoringStrategy": {"type": "MostAllocated", "resources": _MEASURED}},
        NodeResourcesBalancedAllocation={"resources": [{"name": each["name"], "weight": 1} for each in _MEASURED]},
        InterPodAffinity={"hardPodAffinityWeight": 30},
        PodTopologySpread={
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"},
                {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
            ],
        },
    ),
    "shaping": _profile(
        "DefaultPreemption",
        "ImageLocality",
        NodeResourcesFit={
            "ignoredResources": [GPU],
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": _MEASURED[:2],
                "requestedToCapacityRatio": {"shape": _LINE},
            },
        },
        InterPodAffinity={"ignorePreferredTermsOfExistingPods": True},
        NodeAffinity={
            "addedAffinity": {
                REQUIRED: {"nodeSelectorTerms": [_NOT_Y]},
                PREFERRED: [{"weight": 10, "preference": _NOT_X}],
            }
        },
        PodTopologySpread={"defaultingType": "List"},
    ),
}
WEIGHTS = {"plain": 3, PREEMPTING: 4, "packing": 2, "shaping": 1}
