"""The plugins of a profile with queues: filters from predicates, scores from nodeorder and binpack."""

from __future__ import annotations

from typing import Any

from headgate.capacity.conf import DEFAULTS, Argument, PluginOption, SchedulerConf
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.cli.wiring.plugins import find_plugins
from headgate.cli.wiring.scheduler import default_configuration, scheduler_factory
from headgate.kube.feature_gates import FeatureGates
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.config.plugin_registry import DEFAULT_ENABLED, PluginEntry, with_plugins
from headgate.scheduling.config.queue_profile import queue_profile
from headgate.scheduling.config.types import (
    BinPackArgs,
    DefaultPreemptionArgs,
    KubeSchedulerProfile,
    NodeResourcesFitArgs,
    ResourceSpec,
    VolumeBindingArgs,
)
from headgate.scheduling.framework.effects import RemoveSchedulingGate
from headgate.scheduling.profile import new_framework
from unit.scheduling.queued_world import a_gated_pod, a_group, a_queue


def profile(*plugins: PluginOption, actions: tuple[str, ...] = ("allocate",), **more: Any) -> KubeSchedulerProfile:
    return queue_profile("headgate", SchedulerConf(actions, (plugins,), **more))


def names(found: KubeSchedulerProfile, point: str) -> set[str]:
    return {name for name, _ in found.points[point]}


def test_the_default_scores_are_those_of_volcano_and_kubernetes() -> None:
    usual = {name: weight for name, weight in DEFAULT_ENABLED if weight and name != "DynamicResources"}
    assert dict(queue_profile("headgate", DEFAULTS).points["score"]) == usual


def test_headgate_and_volcano_have_profiles_with_queues_and_other_names_do_not() -> None:
    found = default_configuration(("headgate", "volcano", "default-scheduler", "mine"), find_plugins([]))
    kinds = {each.name: each.queues is not None for each in found.profiles}
    assert kinds == {"headgate": True, "volcano": True, "default-scheduler": False, "mine": False}


def test_each_filter_of_predicates_can_be_disabled() -> None:
    off = {"predicate.TaintTolerationEnable": False, "predicate.PodAffinityEnable": False}
    found = profile(PluginOption("predicates", arguments=off))
    everything = names(profile(PluginOption("predicates")), "filter")
    assert everything - names(found, "filter") == {"TaintToleration", "InterPodAffinity"}
    assert "InterPodAffinity" not in names(found, "preFilter")


def test_without_predicates_only_the_mandatory_filters_run() -> None:
    expected = {"NodeName", "NodeResourcesFit", "VolumeBinding", "VolumeRestrictions", "DynamicResources"}
    assert names(profile(PluginOption("nodeorder")), "filter") == expected
    assert names(profile(PluginOption("predicates", frozenset({"predicate"}))), "filter") == expected


def test_nodeorder_gives_the_weights_and_none_means_no_score() -> None:
    given = {"nodeaffinity.weight": 7, "imagelocality.weight": 0}
    scores = dict(profile(PluginOption("nodeorder", arguments=given)).points["score"])
    assert scores["NodeAffinity"] == 7
    assert "ImageLocality" not in scores
    assert profile(PluginOption("predicates")).points["score"] == ()


def test_the_larger_of_least_and_most_requested_counts_with_the_difference() -> None:
    packed = profile(PluginOption("nodeorder", arguments={"leastrequested.weight": 1, "mostrequested.weight": 4}))
    assert dict(packed.points["score"])["NodeResourcesFit"] == 3
    assert packed.args["NodeResourcesFit"] == NodeResourcesFitArgs(strategy="MostAllocated")
    even = profile(PluginOption("nodeorder", arguments={"mostrequested.weight": 1}))
    assert "NodeResourcesFit" not in dict(even.points["score"])
    assert "NodeResourcesFit" in names(even, "filter")


def test_binpack_uses_the_weights_of_listed_resources() -> None:
    given: dict[str, Argument] = {
        "binpack.weight": 10,
        "binpack.cpu": 5,
        "binpack.resources": "nvidia.com/gpu, example.com/foo",
        "binpack.resources.nvidia.com/gpu": 2,
    }
    found = profile(PluginOption("binpack", arguments=given))
    assert found.points["score"] == (("BinPack", 10),)
    assert found.points["preScore"] == (("BinPack", 0),)
    weights = [("nvidia.com/gpu", 2), ("example.com/foo", 1), ("cpu", 5), ("memory", 1)]
    assert found.args["BinPack"] == BinPackArgs(tuple(ResourceSpec(*each) for each in weights))


def test_preemption_runs_only_with_the_action() -> None:
    assert "DefaultPreemption" not in profile(PluginOption("predicates")).plugins()
    given = {"preempt": {"minCandidateNodesAbsolute": 7}}
    found = profile(PluginOption("predicates"), actions=("allocate", "preempt"), action_arguments=given)
    assert found.args["DefaultPreemption"] == DefaultPreemptionArgs(10, 7)


def test_predicates_set_the_volume_bind_timeout() -> None:
    found = profile(PluginOption("predicates", arguments={"volumebinding.bindTimeoutSeconds": 30}))
    assert found.args["VolumeBinding"] == VolumeBindingArgs(30)


def test_every_plugin_of_a_profile_with_queues_exists() -> None:
    everything = tuple(PluginOption(name) for name in ("predicates", "nodeorder", "binpack"))
    assert new_framework(profile(*everything), Cluster()).unknown_plugins == ()


def test_an_external_plugin_cannot_have_the_name_of_a_queue_plugin() -> None:
    joined = with_plugins([PluginEntry("BinPack", frozenset({"score"}), "stranger")])
    assert isinstance(joined, str)
    assert "built-in" in joined


def test_the_feature_gate_gang_atomic_ungate_reaches_the_queues() -> None:
    found = find_plugins([])
    for gate in (True, False):
        features = FeatureGates(gang_atomic_ungate=gate)
        make = scheduler_factory(default_configuration(("headgate",), found), found, features)
        assert not isinstance(make, str)
        scheduler = make(lambda problem: None)
        pair = a_group("pair", 2)
        queue = a_queue("q", "1")
        for resource, wire in ((QUEUES, queue), (POD_GROUPS, pair)):
            scheduler.object_applied(resource, wire, 0.0)
        for name in ("a", "b"):
            pod = a_gated_pod(name, group="pair", schedulerName="headgate")
            scheduler.pod_applied(pod, 0.0)
        removals = [each for each in scheduler.step(0.0, 10) if isinstance(each, RemoveSchedulingGate)]
        assert len(removals) == (0 if gate else 1), "half of the pair fits"
