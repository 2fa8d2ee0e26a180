"""Profiles become plugins."""

from __future__ import annotations

from typing import Any

from headgate.scheduling.cluster import Cluster
from headgate.scheduling.configuration.parsing import parse_configuration
from headgate.scheduling.configuration.registry import Entry, with_plugins
from headgate.scheduling.configuration.values import Configuration
from headgate.scheduling.contract import Lineup
from headgate.scheduling.plugins.lineup import default_lineup
from headgate.scheduling.plugins.node_resources_fit import NodeResourcesFit
from headgate.scheduling.profile import MAKERS, Team, assemble

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def team(**profile: Any) -> Team:
    read = parse_configuration({**HEADER, "profiles": [profile]})
    assert isinstance(read, Configuration), [str(each) for each in read]
    return assemble(read.profiles[0], Cluster())


def names(lineup: Lineup) -> list[list[Any]]:
    return [
        [each.name for each in lineup.pre_filters],
        [each.name for each in lineup.filters],
        [each.name for each in lineup.pre_scores],
        [(each.name, weight) for each, weight in lineup.scores],
    ]


def test_the_default_profile_is_the_default_lineup() -> None:
    made = team()
    assert names(made.lineup) == names(default_lineup())
    assert [each.name for each in made.pre_enqueue] == ["SchedulingGates"]
    assert made.queue_sort.name == "PrioritySort"


def test_a_plugin_is_made_once_for_all_its_points() -> None:
    lineup = team().lineup
    (filters,) = (each for each in lineup.filters if each.name == "NodeAffinity")
    (scores,) = (each for each, _ in lineup.scores if each.name == "NodeAffinity")
    assert id(filters) == id(scores)


def test_what_nobody_can_make_is_named() -> None:
    assert "DefaultBinder" in team().absent
    assert not set(team().absent) & MAKERS.keys()


def test_arguments_reach_their_plugin() -> None:
    for strategy in ("MostAllocated", "RequestedToCapacityRatio"):
        scoring = {
            "type": strategy,
            "resources": [{"name": "x.y/z", "weight": 3}],
            "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]},
        }
        lineup = team(pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}}]).lineup
        (fit,) = (each for each in lineup.filters if each.name == "NodeResourcesFit")
        assert isinstance(fit, NodeResourcesFit)


def test_plugins_from_elsewhere_are_made_from_a_mapping_and_name_their_annotations() -> None:
    class Holds:
        name = "Holds"

        def __init__(self, args: Any) -> None:
            self.annotations = (args["annotation"],)

        def pre_enqueue(self, pod: object, /) -> None:
            return None

    registry = with_plugins([Entry("Holds", frozenset({"preEnqueue"}))])
    assert not isinstance(registry, str)
    profile = {
        "plugins": {"preEnqueue": {"enabled": [{"name": "Holds"}]}},
        "pluginConfig": [{"name": "Holds", "args": {"annotation": "a/b"}}],
    }
    read = parse_configuration({**HEADER, "profiles": [profile]}, registry)
    assert isinstance(read, Configuration)
    made = assemble(read.profiles[0], Cluster(), {**MAKERS, "Holds": lambda args, cluster: Holds(args)})
    assert [each.name for each in made.pre_enqueue] == ["SchedulingGates", "Holds"]
    assert made.annotations == {"a/b"}
