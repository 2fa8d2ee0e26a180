"""``headgate.scheduling.framework`` is all that a plugin of another package has to import."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from headgate.scheduling import framework
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.config.plugin_registry import METHODS, QUEUE_METHODS, points_served
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.framework import (
    AwaitingPreBindPlugin,
    BindPlugin,
    ClusterVersionedPlugin,
    EnqueueExtensions,
    FeasibleNodesState,
    FilterPlugin,
    IncrementalState,
    KeyedPlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueAdmissionPlugin,
    QueueOrderPlugin,
    QueueReservePlugin,
    QueueSortPlugin,
    ReleasingPermitPlugin,
    ReservePlugin,
    ResourceEventHandler,
    ScoreExtensions,
    ScorePlugin,
    signature_checks,
)
from headgate.scheduling.plugins.registry import IN_TREE_PLUGINS
from headgate.scheduling.testing import VirtualScheduler, a_node, a_pod, a_queue
from unit.plugins import every_point
from unit.plugins.every_point import (
    POWERED,
    RACK,
    WINDOWS,
    Admission,
    Cheap,
    Evicts,
    Licences,
    Order,
    Racked,
    Racks,
    Shifts,
)

ROOT = Path(__file__).parents[3]
FOREIGN = [Path(every_point.__file__), *sorted((ROOT / "examples" / "plugins").rglob("*.py"))]
ONE = {"cpu": "1"}
PUBLIC = {"headgate.scheduling.framework", "headgate.scheduling.testing"}

# The type checker compares each plugin with the protocol that the interface exports.
PRE_ENQUEUE: PreEnqueuePlugin = Admission()
WATCHES: ResourceEventHandler = Admission()
QUEUE_SORT: QueueSortPlugin = Order()
PRE_FILTER: PreFilterPlugin = Racks()
FILTER: FilterPlugin = Racks()
PRE_SCORE: PreScorePlugin = Racks()
SCORE: ScorePlugin = Racks()
NORMALIZE: ScoreExtensions = Racks()
KEYED: KeyedPlugin = Racks()
STAMPED: ClusterVersionedPlugin = Racks()
WAKES: EnqueueExtensions = Racks()
FOLLOWS: IncrementalState = Racked("")
SEES_FEASIBLE: FeasibleNodesState = Racked("")
POST_FILTER: PostFilterPlugin = Evicts()
RESERVE: ReservePlugin = Licences()
PERMIT: PermitPlugin = Licences()
RELEASES: ReleasingPermitPlugin = Licences()
PRE_BIND: PreBindPlugin = Licences()
AWAITS: AwaitingPreBindPlugin = Licences()
BIND: BindPlugin = Licences()
POST_BIND: PostBindPlugin = Licences()
QUEUE_ADMISSION: QueueAdmissionPlugin = Shifts()
QUEUE_RESERVE: QueueReservePlugin = Shifts()
QUEUE_ORDER: QueueOrderPlugin = Shifts()


def every_plugin() -> list[Any]:
    return [Admission(), Order(), Racks(), Evicts(), Licences(), Cheap()]


def scheduler(*plugins: Any) -> VirtualScheduler:
    used = plugins or every_plugin()
    replaced = {"PrioritySort": Order, "DefaultPreemption": Evicts}
    disabled = [name for name, other in replaced.items() if any(isinstance(each, other) for each in used)]
    virtual = VirtualScheduler(*used, disabled=disabled)
    virtual.apply_node(
        a_node("node-a", labels={RACK: "r1", POWERED: "true"}, cpu="4"),
        a_node("node-b", labels={RACK: "r2", POWERED: "true"}, cpu="8"),
        a_node("node-c", cpu="2"),
    )
    return virtual


def imported(path: Path) -> set[str]:
    """The modules of Headgate that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
    return {name for name in found if name.split(".")[0] == "headgate"}


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.name)
def test_external_plugins_import_only_the_interface(path: Path) -> None:
    assert imported(path) <= PUBLIC


def test_every_name_of_the_interface_exists_and_is_listed_once() -> None:
    names = framework.__all__
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(framework, name)] == []


def test_the_interface_lists_every_name_that_it_has() -> None:
    public = {name for name, value in vars(framework).items() if name[0] != "_" and not isinstance(value, ModuleType)}
    assert public == set(framework.__all__)


def test_the_plugins_here_serve_every_extension_point() -> None:
    served = {point for each in (*every_plugin(), Shifts()) for point in points_served(each)}
    assert served == METHODS.keys() | QUEUE_METHODS.keys()
    methods = {name for each in (*every_plugin(), Shifts()) for name in dir(each)}
    assert methods >= signature_checks.METHODS


def test_a_watched_object_releases_the_pods_that_wait_for_it_alone() -> None:
    virtual = scheduler()
    virtual.apply_pod(a_pod("day", annotations={"example.com/window": "day"}), a_pod("night", requests=ONE))
    virtual.advance(5)
    assert (virtual.node_of("day"), virtual.node_of("night")) == (None, "node-b")
    assert virtual.events("day") == ['PreEnqueueRejected: PreEnqueue plugin "Admission": window day is not open']
    virtual.apply(WINDOWS, {"metadata": {"name": "other"}})
    virtual.run()
    assert virtual.node_of("day") is None
    virtual.apply(WINDOWS, {"metadata": {"name": "day"}})
    virtual.run()
    assert virtual.node_of("day") is not None
    virtual.delete(WINDOWS, "day")


def test_a_filter_refuses_nodes_with_its_reasons_and_its_wakers_bring_the_pod_back() -> None:
    virtual = scheduler()
    virtual.apply_pod(a_pod("p", labels={RACK: "r3"}))
    virtual.advance(5)
    condition = virtual.condition("p")
    assert condition is not None
    assert condition["message"].startswith(
        "0/3 nodes are available: 1 node(s) are not powered, 3 node(s) are in another rack."
    )
    virtual.apply_node(a_node("node-d", labels={RACK: "r3", POWERED: "true"}))
    virtual.advance(20)
    assert virtual.node_of("p") == "node-d"


@pytest.mark.parametrize(("rack", "node"), [("r1", "node-a"), ("r2", "node-b"), ("only", "node-b"), ("none", None)])
def test_each_result_of_pre_filter_is_used(rack: str, node: str | None) -> None:
    virtual = scheduler()
    virtual.apply_pod(a_pod("p", labels={RACK: rack}, requests=ONE))
    virtual.advance(5)
    assert virtual.node_of("p") == node


def test_a_post_filter_names_a_victim_and_the_pod_is_scheduled() -> None:
    virtual = scheduler()
    virtual.apply_pod(*(a_pod(f"low{i}", requests={"cpu": cpu}) for i, cpu in enumerate(("8", "4", "2"))))
    virtual.run()
    virtual.apply_pod(a_pod("high", requests={"cpu": "3"}, priority=10, labels={RACK: "r1"}))
    virtual.advance(60)
    assert (virtual.preempted, virtual.node_of("high")) == (["default/low1"], "node-a")


def test_permit_holds_pods_until_they_are_released_and_writes_surround_the_binding() -> None:
    virtual = scheduler()
    virtual.apply_pod(a_pod("first", labels={"licence": "pair"}))
    virtual.advance(5)
    assert virtual.node_of("first") is None
    virtual.apply_pod(a_pod("second", labels={"licence": "pair"}))
    virtual.run()
    assert virtual.node_of("first") is not None
    assert virtual.node_of("second") is not None
    values = [each.body["metadata"]["annotations"]["example.com/licence"] for each in virtual.writes]
    assert sorted(values) == ["bound", "bound", "reserved", "reserved"]


def test_a_pod_that_is_held_by_permit_for_too_long_is_unreserved() -> None:
    licences = Licences()
    virtual = scheduler(licences)
    virtual.apply_pod(a_pod("first", labels={"licence": "pair"}))
    virtual.run()
    assert licences.reserved
    virtual.advance(30.5)
    assert any("timed out waiting on permit" in each for each in virtual.events("first"))


def test_a_rejection_of_reserve_reaches_the_condition() -> None:
    virtual = scheduler()
    virtual.apply_pod(a_pod("p", labels={"licence": "none"}))
    virtual.advance(1)
    condition = virtual.condition("p")
    assert condition is not None
    assert "there is no licence" in condition["message"]


def test_awaited_is_called_again_after_its_event() -> None:
    licences = Licences()
    virtual = scheduler(licences, Admission())
    virtual.apply_pod(a_pod("p", labels={"licence": "slow"}, requests=ONE))
    virtual.advance(5)
    assert virtual.node_of("p") is None
    licences.ready.add("uid-default-p")
    virtual.apply(WINDOWS, {"metadata": {"name": "any"}})
    virtual.run()
    assert virtual.node_of("p") == "node-b"


def test_the_queue_is_ordered_by_the_plugin() -> None:
    virtual = VirtualScheduler(Order(), disabled=["PrioritySort"])
    virtual.apply_node(a_node("node-a", pods="1"))
    virtual.apply_pod(a_pod("b"), a_pod("a"))
    virtual.run()
    assert (virtual.node_of("a"), virtual.node_of("b")) == ("node-a", None)


def test_a_plugin_that_config_check_refuses_is_refused_in_tests_as_well() -> None:
    class Late:
        name = "Late"

        async def pre_enqueue(self, pod: Any) -> None: ...

    with pytest.raises(ValueError, match="plugin Late: pre_enqueue is async"):
        VirtualScheduler(Late())


def test_built_in_plugins_satisfy_the_contract_of_external_plugins() -> None:
    configuration = parse_configuration(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    )
    assert isinstance(configuration, KubeSchedulerConfiguration)
    args, cluster = configuration.profiles[0].args, Cluster()
    virtual = {name: IN_TREE_PLUGINS[name](args.get(name), cluster) for name in configuration.profiles[0].plugins()}
    assert len(virtual) > 15
    problems = {name: signature_checks.problems(each, name) for name, each in virtual.items()}
    assert {name: found for name, found in problems.items() if found} == {}


def test_a_watched_object_lets_in_the_units_of_one_queue() -> None:
    shifts = Shifts()
    virtual = VirtualScheduler(shifts)
    virtual.apply_node(a_node("node-a"))
    virtual.apply_queue(a_queue("day"), a_queue("night"))
    virtual.apply_pod(a_pod("d", queue="day"), a_pod("n", queue="night", gated=True))
    virtual.advance(5)
    assert (virtual.node_of("d"), virtual.node_of("n")) == (None, None)
    message = 'QueueAdmission plugin "Shifts": window night is not open'
    assert virtual.events("n") == [f"QueueAdmissionRejected: {message}"]
    virtual.apply(WINDOWS, {"metadata": {"name": "night"}, "spec": {"open": True}})
    virtual.run()
    assert (virtual.node_of("d"), virtual.node_of("n")) == (None, "node-a")
    assert shifts.pods == {"night": {"uid-default-n"}}
    virtual.delete_pod("n")
    virtual.run()
    assert shifts.pods == {"night": set()}
