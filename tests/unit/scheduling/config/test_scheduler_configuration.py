"""Scheduler configurations: decoding, and all errors at once, each with its path."""

from __future__ import annotations

import copy
from typing import Any

from headgate.scheduling.config.plugin_registry import PluginEntry, Registry, with_plugins
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import (
    ExternalPluginArgs,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    NodeResourcesFitArgs,
)

Object = dict[str, Any]
HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def parsed(**fields: Any) -> KubeSchedulerConfiguration:
    configuration = parse_configuration({**HEADER, **fields})
    assert isinstance(configuration, KubeSchedulerConfiguration), [str(each) for each in configuration]
    return configuration


def errors_of(**fields: Any) -> list[str]:
    configuration = parse_configuration({**HEADER, **fields})
    assert not isinstance(configuration, KubeSchedulerConfiguration)
    return [str(each) for each in configuration]


def profile(plugins: Object) -> KubeSchedulerProfile:
    return parsed(profiles=[{"plugins": plugins}]).profiles[0]


def names(plugins: Object, point: str) -> list[str]:
    return [name for name, _ in profile(plugins).points[point]]


def test_an_empty_document_is_the_default_profile() -> None:
    only = parsed().profiles[0]
    assert only.name == "default-scheduler"
    assert only.points["preEnqueue"][0] == ("SchedulingGates", 0)
    assert dict(only.points["score"])["TaintToleration"] == 3
    assert only.args["NodeResourcesFit"] == NodeResourcesFitArgs()


def test_a_document_is_not_changed_by_reading_it() -> None:
    document = {**HEADER, "profiles": [{"plugins": {"score": {"enabled": [{"name": "NodeAffinity", "weight": None}]}}}]}
    before = copy.deepcopy(document)
    parse_configuration(document)
    assert document == before


def test_all_errors_are_reported_at_once() -> None:
    errors = errors_of(
        nonsense=1,
        parallelism="x",
        podInitialBackoffSeconds=0,
        leaderElection={"resourceLock": "endpoints"},
        profiles=[
            {"schedulerName": "a", "plugins": {"score": {"enabled": [{"name": "Nobody"}]}}},
            {"schedulerName": "a", "pluginConfig": [{"name": "InterPodAffinity", "args": {"more": 1}}]},
        ],
    )
    assert [each.split(": ")[0] for each in errors] == [
        "nonsense",
        "parallelism",
        "leaderElection.resourceLock",
        "profiles[0].plugins.score.enabled[0].name",
        "profiles[1].pluginConfig[0].args.more",
        "profiles[1].schedulerName",
        "podInitialBackoffSeconds",
    ]


def test_obsolete_names_are_rejected_with_the_current_names() -> None:
    errors = errors_of(profiles=[{"plugins": {"enqueue": {}, "preEnqueue": {"enabled": [{"name": "DefaultEnqueue"}]}}}])
    assert "profiles[0].plugins.enqueue: Forbidden: unknown field" in errors[0]
    assert "preEnqueue" in errors[0]
    assert "SchedulingGates" in errors[1]


def test_a_misspelt_name_gets_a_suggestion() -> None:
    errors = errors_of(
        percentageOfNodeToScore=1, profiles=[{"plugins": {"score": {"enabled": [{"name": "nodeaffinity"}]}}}]
    )
    assert errors[0].endswith("unknown field: is it percentageOfNodesToScore?")
    assert errors[1].endswith("no such plugin; is it NodeAffinity?")


def test_a_document_that_is_not_an_object_is_an_error() -> None:
    values: tuple[Any, ...] = (None, [], "text", 3)
    for value in values:
        configuration = parse_configuration(value)
        assert isinstance(configuration, list)
        assert configuration


def test_extenders_are_rejected() -> None:
    assert "extenders: Forbidden" in errors_of(extenders=[{"urlPrefix": "http://x"}])[0]
    assert parsed(extenders=[]).profiles


def test_an_extension_point_wins_over_multi_point_and_that_over_defaults() -> None:
    plugins = {
        "multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 8}, {"name": "ImageLocality", "weight": 6}]},
        "score": {"enabled": [{"name": "NodeAffinity", "weight": 4}]},
    }
    weights = dict(profile(plugins).points["score"])
    assert (weights["NodeAffinity"], weights["ImageLocality"], weights["TaintToleration"]) == (4, 6, 3)


def test_enabled_wins_over_disabled_in_the_same_list() -> None:
    plugins = {"filter": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeName"}]}}
    assert names(plugins, "filter") == ["NodeName"]


def test_at_an_extension_point_overridden_plugins_are_first_and_new_ones_last() -> None:
    plugins = {
        "multiPoint": {"disabled": [{"name": "NodePorts"}]},
        "filter": {"enabled": [{"name": "NodePorts"}, {"name": "InterPodAffinity"}]},
    }
    listed = names(plugins, "filter")
    assert (listed[0], listed[-1]) == ("InterPodAffinity", "NodePorts")


def test_settings_without_effect_get_remarks() -> None:
    configuration = parsed(
        profiles=[
            {
                "plugins": {"score": {"disabled": [{"name": "ImageLocallity"}]}},
                "pluginConfig": [{"name": "NodeName", "args": {"x": 1}}, {"name": "Nobody", "args": {}}],
            }
        ]
    )
    assert [each.split(": ")[0] for each in configuration.remarks] == [
        "profiles[0].plugins.score.disabled[0].name",
        "profiles[0].pluginConfig[0].args",
        "profiles[0].pluginConfig[1].name",
    ]


def with_external_plugin(name: str, *points: str) -> Registry:
    registry = with_plugins([PluginEntry(name, frozenset(points), "a-package")])
    assert not isinstance(registry, str)
    return registry


def test_an_external_plugin_runs_at_its_extension_points_with_its_arguments() -> None:
    document = {
        **HEADER,
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "HoldUntil"}]}},
                "pluginConfig": [{"name": "HoldUntil", "args": {"annotation": "x/y"}}],
            }
        ],
    }
    configuration = parse_configuration(document, with_external_plugin("HoldUntil", "preEnqueue"))
    assert isinstance(configuration, KubeSchedulerConfiguration)
    assert configuration.profiles[0].points["preEnqueue"][-1] == ("HoldUntil", 0)
    assert configuration.profiles[0].args["HoldUntil"] == ExternalPluginArgs({"annotation": "x/y"})
    assert not isinstance(parse_configuration(document), KubeSchedulerConfiguration)


def test_all_profiles_need_the_same_queue_sort_plugin() -> None:
    registry = with_external_plugin("Oldest", "queueSort")
    both = {**HEADER, "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Oldest"}]}}}]}
    errors = parse_configuration(both, registry)
    assert isinstance(errors, list)
    assert "but got 2" in errors[0].detail
    replaced = {"multiPoint": {"disabled": [{"name": "PrioritySort"}], "enabled": [{"name": "Oldest"}]}}
    differ = {**HEADER, "profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": replaced}]}
    errors = parse_configuration(differ, registry)
    assert isinstance(errors, list)
    assert "different queue sort plugins" in errors[0].detail


def test_two_plugins_of_one_name_are_a_problem() -> None:
    assert "NodeName" in str(with_plugins([PluginEntry("NodeName", frozenset({"filter"}), "a-package")]))
