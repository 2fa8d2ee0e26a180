"""The configuration of queues: plugins by extension point, and their order."""

from __future__ import annotations

from capacity_builders import Queues, a_queue, a_task
from headgate.capacity.conf import DEFAULTS, ENABLE_OPTIONS, EXTENSION_POINTS, PluginOption, SchedulerConf


def test_plugins_by_tier_keeps_the_order_and_leaves_out_disabled_plugins() -> None:
    tiers = (
        (PluginOption("gang", frozenset({"preemptable"})), PluginOption("conformance")),
        (PluginOption("nodeorder"),),
        (PluginOption("priority"),),
    )
    conf = SchedulerConf(tiers=tiers)
    assert conf.plugins_by_tier("preemptable") == (("conformance",), ("priority",))
    assert conf.order("jobOrder") == ("gang", "priority")
    assert not conf.is_enabled_at("gang", "preemptable")
    assert not conf.has_limits


def test_by_default_jobs_are_ordered_by_priority_then_unready_gangs_then_share() -> None:
    assert DEFAULTS.order("jobOrder") == ("priority", "gang", "drf")
    assert DEFAULTS.order("taskOrder") == ("priority",)
    assert DEFAULTS.order("queueOrder") == ("capacity",)
    assert DEFAULTS.has_limits
    assert DEFAULTS.overcommit_factor is None
    assert not DEFAULTS.runs("reclaim")


def test_arguments_are_read_by_their_names() -> None:
    factor, level = {"overcommit-factor": 2.5}, {"ancestorReclaimLevel": 2}
    conf = SchedulerConf(
        tiers=((PluginOption("overcommit", arguments=factor), PluginOption("capacity", arguments=level)),)
    )
    assert (conf.overcommit_factor, conf.ancestor_reclaim_level) == (2.5, 2)
    assert SchedulerConf(tiers=((PluginOption("overcommit"),),)).overcommit_factor == 1.2


def test_with_proportion_queues_alternate_by_weight() -> None:
    conf = SchedulerConf(tiers=((PluginOption("proportion"),),))
    tasks = [a_task(f"{queue}{i}", queue=queue, created_s=i) for queue in "ab" for i in range(4)]
    queues = Queues(a_queue("a", weight=1), a_queue("b", weight=3), *tasks, conf=conf)
    assert queues.admit() == ["a0", "b0", "b1", "b2", "a1", "b3", "a2", "a3"]


def test_without_capacity_or_proportion_queues_have_no_limits() -> None:
    conf = SchedulerConf(tiers=((PluginOption("priority"),),))
    assert Queues(a_queue("a", cpu=1), a_task("p", 5, queue="a"), conf=conf).admit() == ["p"]


def test_every_enable_option_is_an_extension_point_of_a_plugin() -> None:
    assert {point for points in EXTENSION_POINTS.values() for point in points} >= ENABLE_OPTIONS
