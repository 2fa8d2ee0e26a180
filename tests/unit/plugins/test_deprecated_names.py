"""``headgate.plugins`` and the former members of the handle still work for one release, with a warning."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import headgate.plugins
from headgate.scheduling import framework, testing
from headgate.scheduling.framework import node_rows
from headgate.scheduling.framework.scheduling_cycle import SchedulingCycle
from headgate.scheduling.testing import VirtualScheduler, a_node, a_pod

RENAMED = {
    "Awaits": "AwaitingPreBindPlugin",
    "Bind": "BindPlugin",
    "Binding": "Bind",
    "Change": "NodeChange",
    "Ends": "PostFilterUnresolvable",
    "Event": "ClusterEvent",
    "Filter": "FilterPlugin",
    "Follows": "IncrementalState",
    "Ground": "Handle",
    "Guard": "QueueingHint",
    "Image": "ContainerImage",
    "Keyed": "KeyedPlugin",
    "NoWay": "PostFilterUnschedulable",
    "Node": "NodeInfo",
    "Nominated": "PostFilterNomination",
    "Normalize": "ScoreExtensions",
    "Only": "PreFilterResult",
    "Pending": "PreBindPending",
    "Permit": "PermitPlugin",
    "Pod": "PodInfo",
    "PostBind": "PostBindPlugin",
    "PostFilter": "PostFilterPlugin",
    "PreBind": "PreBindPlugin",
    "PreEnqueue": "PreEnqueuePlugin",
    "PreFilter": "PreFilterPlugin",
    "PreScore": "PreScorePlugin",
    "QueueSort": "QueueSortPlugin",
    "Reason": "FilterReason",
    "Refusal": "PreFilterRejection",
    "Releases": "ReleasingPermitPlugin",
    "Reserve": "ReservePlugin",
    "Resource": "APIResource",
    "Scheduled": "PodScheduledCondition",
    "Score": "ScorePlugin",
    "SeesFeasible": "FeasibleNodesState",
    "Shape": "PodShape",
    "Stamped": "ClusterVersionedPlugin",
    "Trial": "DryRun",
    "Wait": "PermitWait",
    "Waker": "ClusterEventWithHint",
    "Wakes": "EnqueueExtensions",
    "Watches": "ResourceEventHandler",
    "Write": "ObjectPatch",
}
UNCHANGED = [
    *("ADD", "ALL", "ASSIGNED_POD", "CSI_DRIVER", "CSI_NODE", "CSI_STORAGE_CAPACITY", "DELETE", "NODE"),
    *("NODE_ALLOCATABLE", "NODE_ANNOTATION", "NODE_CONDITION", "NODE_LABEL", "NODE_TAINT", "PERSISTENT_VOLUME"),
    *("PERSISTENT_VOLUME_CLAIM", "POD", "POD_GATES_ELIMINATED", "POD_LABEL", "POD_SCALE_DOWN", "POD_TOLERATION"),
    *("READS_NODE", "READS_PODS", "SKIP", "STORAGE_CLASS", "UNSCHEDULABLE_POD", "UPDATE", "VOLUME_ATTACHMENT"),
    *("ChangeLog", "Ints", "Mask", "NodeMatrix", "PodLike", "Reads", "Rejection", "Rows", "Skip", "State", "Unplaced"),
    *("allocatable", "asked_rows", "free", "label_values", "named", "nodes_at", "on", "on_one", "own_update"),
]
OLD_NAMES = {**{name: name for name in UNCHANGED}, **RENAMED}
ROWS = ("allocatable", "asked_rows", "free", "label_values", "nodes_at")
TESTING = ("Clock", "VirtualScheduler", "a_node", "a_pod")

OLD_PLUGIN = '''
from headgate.plugins import Ground, Nominated, NoWay, Pod, PostFilter, Unplaced


class Evicts(PostFilter):
    """A plugin as it was written before the names changed."""

    name = "Evicts"

    def __init__(self):
        self.seen = []

    def post_filter(self, pod: Pod, unplaced: Unplaced, ground: Ground):
        self.seen = [ground.promised_node(pod), ground.promised(pod), ground.question(pod)[1], ground.promise_log]
        for name in unplaced.resolvable:
            row = ground.matrix.row_of(name)
            for victim in ground.matrix.pods_on(row).values():
                with ground.trial(pod, row) as trial:
                    trial.take(victim)
                    if victim.priority < pod.priority and not trial.reasons():
                        return Nominated(name, (victim,))
        return NoWay("no pod has to go")
'''


NEVER_OLD = ("QUEUE_RESERVATION", "QueueAdmissionPlugin", "QueueOrderPlugin", "QueueReservePlugin", "QueueUnit")
"""Names that were added after the former module was deprecated."""


@contextmanager
def recorded() -> Iterator[list[warnings.WarningMessage]]:
    """The deprecation warnings of a block, all of them."""
    with warnings.catch_warnings(record=True, category=DeprecationWarning, action="always") as found:
        yield found


def imported(module: str, name: str) -> Any:
    """The object that ``from module import name`` binds."""
    scope: dict[str, Any] = {}
    exec(f"from {module} import {name}", scope)
    return scope[name]


@pytest.mark.parametrize("old", OLD_NAMES)
def test_an_old_name_is_the_object_of_the_new_name_and_warns(old: str) -> None:
    new = OLD_NAMES[old]
    with recorded() as warned:
        found = imported("headgate.plugins", old)
    assert found is getattr(framework, new)
    texts = {str(each.message) for each in warned}
    assert texts == {
        f"headgate.plugins.{old} is deprecated and works for one release: import {new} from "
        "headgate.scheduling.framework"
    }


def test_the_warning_names_the_file_that_imports_an_old_name() -> None:
    with recorded() as warned:
        headgate.plugins.Pod  # noqa: B018 - to read the name is what warns
    assert [each.filename for each in warned] == [__file__]


def test_no_old_name_is_forgotten_and_every_new_name_is_public() -> None:
    assert sorted(headgate.plugins.__all__) == sorted(OLD_NAMES)
    assert sorted(framework.__all__) == sorted([*OLD_NAMES.values(), *NEVER_OLD])


@pytest.mark.parametrize("name", ROWS)
def test_a_function_of_node_rows_is_found_in_its_old_module_and_warns(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"import {name} from headgate.scheduling.framework$"):
        found = imported("headgate.plugins.node_rows", name)
    assert found is getattr(node_rows, name)


@pytest.mark.parametrize("name", TESTING)
def test_a_name_of_testing_is_found_in_its_old_module_and_warns(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"import {name} from headgate.scheduling.testing$"):
        found = imported("headgate.plugins.testing", name)
    assert found is getattr(testing, name)


@pytest.mark.parametrize("module", ["headgate.plugins", "headgate.plugins.node_rows", "headgate.plugins.testing"])
def test_a_name_that_never_was_public_is_an_import_error(module: str) -> None:
    with pytest.raises(ImportError, match="cannot import name 'Nonsense'"):
        imported(module, "Nonsense")
    assert not hasattr(importlib.import_module(module), "Nonsense")


def test_an_old_plugin_that_uses_the_former_members_of_the_handle_still_preempts() -> None:
    scope: dict[str, Any] = {"__name__": "old_plugin"}
    with recorded():
        exec(OLD_PLUGIN, scope)
    plugin = scope["Evicts"]()
    scheduler = VirtualScheduler(plugin, disabled=["DefaultPreemption"])
    scheduler.apply_node(a_node("node-a", cpu="4"))
    scheduler.apply_pod(a_pod("low", requests={"cpu": "4"}))
    scheduler.run()
    scheduler.apply_pod(a_pod("high", requests={"cpu": "3"}, priority=10))
    with recorded() as warned:
        scheduler.advance(60)
    assert (scheduler.preempted, scheduler.node_of("high"), scheduler.log) == (["default/low"], "node-a", [])
    assert plugin.seen[:3] == ["", {}, False]
    assert plugin.seen[3] is not None
    new_names = ("nominated_node", "nominated_pods", "cycle_state_key", "nomination_log", "dry_run")
    texts = {str(each.message) for each in warned}
    assert {text.rsplit(" ", 1)[1] for text in texts} == set(new_names)
    assert all(hasattr(SchedulingCycle, name) for name in new_names)
