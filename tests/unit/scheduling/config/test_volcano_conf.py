"""``volcano-scheduler.conf``: accepted settings, and errors with their lines."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest
from click.testing import CliRunner

from headgate.capacity.conf import EXTENSION_POINTS, PluginOption, SchedulerConf
from headgate.cli.main import main
from headgate.cli.wiring.scheduler_config import read_configuration
from headgate.scheduling.config.plugin_registry import BUILT_IN
from headgate.scheduling.config.types import KubeSchedulerConfiguration

VOLCANOS_OWN = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
SMALL = "actions: allocate\ntiers: [{plugins: [{name: predicates}, {name: capacity}]}]\n"


def read(text: str) -> KubeSchedulerConfiguration:
    found = read_configuration(dedent(text).encode(), BUILT_IN, ("batch",))
    assert isinstance(found, KubeSchedulerConfiguration), [each.at("-") for each in found]
    return found


def conf(text: str) -> SchedulerConf:
    (profile,) = read(text).profiles
    assert profile.queues is not None
    return profile.queues


def errors_of(text: str) -> list[str]:
    found = read_configuration(dedent(text).encode(), BUILT_IN, ("batch",))
    assert not isinstance(found, KubeSchedulerConfiguration)
    return [each.at("f") for each in found]


def plugin(text: str) -> str:
    return f"actions: allocate\ntiers:\n- plugins:\n  - name: predicates\n  - name: capacity\n  - {text}\n"


def test_the_waiting_time_of_sla_is_read() -> None:
    found = conf(plugin("name: sla\n    arguments: {sla-waiting-time: 1h30m}"))
    assert (found.has_sla, found.sla_s) == (True, 5400.0)
    assert "sla" in found.order("jobOrder")
    without_default = conf(plugin("name: sla"))
    assert (without_default.has_sla, without_default.sla_s) == (True, None)
    assert (conf(SMALL).has_sla, conf(SMALL).sla_s) == (False, None)


def test_the_default_conf_of_volcano_is_accepted() -> None:
    found = conf(VOLCANOS_OWN)
    assert found.actions == ("enqueue", "allocate", "backfill")
    assert [[each.name for each in tier] for tier in found.tiers] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"],
    ]
    assert found.plugin("gang") == PluginOption("gang", frozenset({"preemptable"}))
    assert found.overcommit_factor == 1.2
    assert [each.partition(":")[0] for each in read(VOLCANOS_OWN).remarks] == ["overcommit"]


def test_the_scheduler_names_are_given_by_the_caller() -> None:
    found = read_configuration(VOLCANOS_OWN.encode(), BUILT_IN, ("headgate", "volcano"))
    assert isinstance(found, KubeSchedulerConfiguration)
    assert [profile.name for profile in found.profiles] == ["headgate", "volcano"]
    assert found.profiles[0].queues == found.profiles[1].queues


def test_a_conf_in_a_config_map_is_accepted() -> None:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: volcano-scheduler-configmap}\ndata:\n"
    inside = head + "  volcano-scheduler.conf: |\n" + indent(VOLCANOS_OWN, "    ")
    assert conf(inside) == conf(VOLCANOS_OWN)
    assert errors_of(inside.replace("name: drf", "name: proportoin")) == [
        'f:15: tiers[1].plugins[1].name: Invalid value: "proportoin": no such plugin: is it proportion?'
    ]
    (quoted,) = errors_of(head + '  x.conf: "actions: alocate\\ntiers: [{plugins: [{name: gang}]}]"\n')
    assert quoted.startswith("f:5: data.x.conf: actions: Invalid value")
    (none,) = errors_of(head + "  other: x\n")
    assert none.startswith("f:4: data: Invalid value: []: must have exactly one text whose name ends in .conf")
    (garbled,) = errors_of(head + "  x.conf: |\n    a: [\n")
    assert garbled.startswith("f:5: data.x.conf: Invalid value: this is neither YAML nor JSON")


WRONG = {
    "an unknown action": (SMALL.replace("allocate", "enqueue, alocate"), 1, "no such action: is it allocate?"),
    "another action": (SMALL.replace("allocate", "allocate, shuffle"), 1, "the action is not supported"),
    "a gang action": (SMALL.replace("allocate", "gangpreempt"), 1, "use preempt"),
    "an action twice": (SMALL.replace("allocate", "allocate,allocate"), 1, "Duplicate value"),
    "no actions": (SMALL.replace("actions: allocate", ""), 1, "actions: Required value: such as enqueue"),
    "no allocate": (SMALL.replace("allocate", "enqueue, backfill"), 1, "allocate is missing"),
    "actions as a list": (SMALL.replace("allocate", "[allocate]"), 1, "must be a string"),
    "no tiers": ("actions: allocate\n", 1, "tiers: Required value"),
    "another plugin": (plugin("name: cdp"), 6, 'Unsupported value: "cdp": supported values: "priority", "gang"'),
    "a waiting time that is none": (
        plugin("name: sla\n    arguments:\n      sla-waiting-time: soon"),
        8,
        "must be a duration above 0",
    ),
    "the plugin of time windows": (plugin("name: tdm"), 6, 'Unsupported value: "tdm": supported values: "priority"'),
    "a misspelt plugin": (plugin("name: nodeOrderr"), 6, "is it nodeorder?"),
    "a plugin without a name": (plugin("enableJobOrder: true"), 6, "name: Required value"),
    "a plugin twice": (plugin("name: predicates"), 6, 'Duplicate value: "predicates"'),
    "two kinds of limits": (plugin("name: proportion"), 6, "keep one of them"),
    "a misspelt option": (plugin("name: gang\n    enabledJobOrder: true"), 7, "is it enableJobOrder?"),
    "an option that is no switch": (plugin("name: gang\n    enableJobOrder: maybe"), 7, "must be true or false"),
    "what cannot be off": (plugin("name: gang\n    enableJobReady: false"), 7, "leave the plugin gang out"),
    "drf over a tree": (plugin("name: drf\n    enableHierarchy: true"), 7, "use the plugin capacity"),
    "an unknown argument": (plugin("name: gang\n    arguments:\n      a: 1"), 8, "the plugin gang takes no arguments"),
    "a misspelt argument": (
        plugin("name: nodeorder\n    arguments:\n      nodeafinity.weight: 1"),
        8,
        "is it nodeaffinity.weight?",
    ),
    "a weight below zero": (
        plugin("name: nodeorder\n    arguments:\n      nodeaffinity.weight: -1"),
        8,
        "must be from 0 to 1000000",
    ),
    "a weight that is no number": (
        plugin("name: nodeorder\n    arguments:\n      nodeaffinity.weight: 1.5"),
        8,
        "must be a whole number",
    ),
    "a factor that is none": (
        plugin("name: overcommit\n    arguments: {overcommit-factor: .5}"),
        7,
        "must be a number from 1",
    ),
    "shared devices": (
        plugin("name: nodeorder").replace(
            "predicates\n", "predicates\n    arguments: {predicate.GPUSharingEnable: true}\n"
        ),
        5,
        "shared devices are not supported",
    ),
    "a resource that binpack does not list": (
        plugin("name: binpack\n    arguments: {binpack.resources.nvidia.com/gpu: 2}"),
        7,
        "name the resource in binpack.resources, too",
    ),
    "an unknown action's arguments": (SMALL + "configurations:\n- name: shuffle\n", 4, "Unsupported value"),
    "an unknown argument of an action": (
        SMALL + "configurations:\n- name: preempt\n  arguments:\n    minCandidateNodes: 1\n",
        6,
        "the action preempt has no such argument: is it minCandidateNodesAbsolute?",
    ),
    "metrics": (SMALL + "metrics: {type: prometheus}\n", 3, "only the plugin usage reads it"),
    "an unknown field": (SMALL + "tires: []\n", 3, "unknown field: is it tiers?"),
    "a field twice": (SMALL + "actions: allocate\n", 3, 'key "actions" already set in map'),
}


@pytest.mark.parametrize(("text", "line", "words"), WRONG.values(), ids=WRONG)
def test_unsupported_settings_are_rejected_with_their_line(text: str, line: int, words: str) -> None:
    errors = errors_of(text)
    assert any(each.startswith(f"f:{line}: ") and words in each for each in errors), errors


def test_all_errors_are_reported_at_once_in_order_of_lines() -> None:
    errors = errors_of("actions: x\ntiers:\n- plugins:\n  - name: q\n    z: 1\n  - name: gang\n    arguments: {a: 1}\n")
    assert [each.split(": ")[0] for each in errors] == ["f:1", "f:4", "f:5", "f:7"]


def test_settings_without_effect_get_remarks() -> None:
    text = """\
        actions: "allocate, enqueue"
        tiers:
        - plugins:
          - name: nodeorder
            enablePreemptable: true
        configurations:
        - name: preempt
          arguments: {maxCandidateNodesAbsolute: 10}
        """
    errors = read(text).remarks
    assert [each.partition(": ")[0] for each in errors] == [
        "actions",
        "tiers[0].plugins[0].enablePreemptable",
        "configurations[0].name",
        "configurations[0].arguments.maxCandidateNodesAbsolute",
        "actions",
        "tiers",
        "tiers",
    ]


def test_numbers_and_booleans_may_be_strings() -> None:
    found = conf(plugin('name: binpack\n    arguments: {binpack.weight: "10", binpack.cpu: 5}'))
    assert found.plugin("binpack") == PluginOption("binpack", arguments={"binpack.weight": 10, "binpack.cpu": 5})


def test_an_option_set_to_true_changes_nothing() -> None:
    for name in EXTENSION_POINTS.keys() - {"capacity", "predicates", "proportion"}:
        assert conf(plugin(f"name: {name}\n    enableJobOrder: true")).plugin(name) == PluginOption(name)


def test_config_check_prints_the_profile_of_a_conf(tmp_path: Path) -> None:
    file = tmp_path / "volcano-scheduler.conf"
    file.write_text(VOLCANOS_OWN)
    run = CliRunner().invoke(main, ["config", "check", str(file)])
    assert run.exit_code == 0, run.output
    assert "profile headgate of queues\n  actions     enqueue, allocate, backfill\n" in run.output
    assert "jobOrder    priority gang drf\n" in run.output
    assert "BinPack(1)" in run.output
    file.write_text(VOLCANOS_OWN.replace("name: drf", "name: cdp"))
    run = CliRunner().invoke(main, ["config", "check", str(file)])
    assert run.exit_code == 1
    assert run.output.startswith(f"{file}:10: tiers[1].plugins[1].name: Unsupported value")
