"""Profiles become plugins."""

from __future__ import annotations

from typing import Any

from clusters import HEADER, a_framework
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.config.plugin_registry import PluginEntry, with_plugins
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.framework.framework import Framework
from headgate.scheduling.plugins.noderesources.fit import NodeResourcesFit
from headgate.scheduling.plugins.registry import IN_TREE_PLUGINS
from headgate.scheduling.profile import new_framework

FILTERS = (
    *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
    *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity"),
)
SCORES = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def team(**profile: Any) -> Framework:
    return a_framework(Cluster(), **profile)


def test_the_default_profile_asks_in_the_order_and_with_the_weights_of_kubernetes() -> None:
    made = team()
    assert [each.name for each in made.cycle_plugins.filters] == [each for each in FILTERS if each in IN_TREE_PLUGINS]
    weighed = [(each.name, weight) for each, weight in made.cycle_plugins.scores]
    assert weighed == [each for each in SCORES.items() if each[0] in IN_TREE_PLUGINS]
    assert [each.name for each in made.pre_enqueue] == ["SchedulingGates", "DefaultPreemption"]
    assert made.queue_sort.name == "PrioritySort"


def test_a_plugin_is_made_once_for_all_its_points() -> None:
    cycle_plugins = team().cycle_plugins
    (filters,) = (each for each in cycle_plugins.filters if each.name == "NodeAffinity")
    (scores,) = (each for each, _ in cycle_plugins.scores if each.name == "NodeAffinity")
    assert id(filters) == id(scores)


def test_a_plugin_without_a_factory_is_named() -> None:
    fewer = {name: make for name, make in IN_TREE_PLUGINS.items() if name != "ImageLocality"}
    configuration = parse_configuration(HEADER)
    assert isinstance(configuration, KubeSchedulerConfiguration)
    assert "ImageLocality" in new_framework(configuration.profiles[0], Cluster(), fewer).unknown_plugins
    assert not set(team().unknown_plugins) & IN_TREE_PLUGINS.keys()


def test_arguments_reach_their_plugin() -> None:
    for strategy in ("MostAllocated", "RequestedToCapacityRatio"):
        scoring = {
            "type": strategy,
            "resources": [{"name": "x.y/z", "weight": 3}],
            "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
        }
        cycle_plugins = team(
            pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}}]
        ).cycle_plugins
        (fit,) = (each for each in cycle_plugins.filters if each.name == "NodeResourcesFit")
        assert isinstance(fit, NodeResourcesFit)


def test_plugins_from_elsewhere_are_made_from_a_mapping_and_name_their_annotations() -> None:
    class Holds:
        name = "Holds"

        def __init__(self, args: Any) -> None:
            self.annotations = (args["annotation"],)

        def pre_enqueue(self, pod: object, /) -> None:
            return None

    registry = with_plugins([PluginEntry("Holds", frozenset({"preEnqueue"}))])
    assert not isinstance(registry, str)
    profile = {
        "plugins": {"preEnqueue": {"enabled": [{"name": "Holds"}]}},
        "pluginConfig": [{"name": "Holds", "args": {"annotation": "a/b"}}],
    }
    configuration = parse_configuration({**HEADER, "profiles": [profile]}, registry)
    assert isinstance(configuration, KubeSchedulerConfiguration)
    made = new_framework(
        configuration.profiles[0], Cluster(), {**IN_TREE_PLUGINS, "Holds": lambda args, cluster: Holds(args)}
    )
    assert [each.name for each in made.pre_enqueue] == ["SchedulingGates", "DefaultPreemption", "Holds"]
    assert made.annotations == {"a/b"}
