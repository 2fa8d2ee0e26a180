"""DaemonSets: incremental counts of nodes equal a full recount, and updates never stop too many pods at once."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from embedded import all_schemas
from headgate.controllers.daemon_sets.controller import DaemonSetController
from headgate.controllers.daemon_sets.daemon_nodes import DaemonNodes
from headgate.controllers.daemon_sets.node_state import DaemonPod, DaemonSetRules, NodeUpdateState
from headgate.controllers.daemon_sets.placement import PlacementNode, placement_of, target_of
from headgate.controllers.daemon_sets.rolling_update import DaemonRolloutLimits, replace
from headgate.controllers.deployments.template_hash import TemplateHash
from headgate.controllers.framework import effects
from headgate.controllers.framework.effects import Create, Delete
from headgate.kube.timestamps import format_time
from property.random_steps import Drawn, chooser
from unit.controllers.kubelet_steps import finish, pods, run

Object = dict[str, Any]
hashed = TemplateHash(all_schemas())
SETS = "/apis/apps/v1/namespaces/a/daemonsets"
LABELS = {"app": "log"}
T0_S = 1_700_000_000
PLACEMENT = placement_of({"spec": {"nodeSelector": {"role": "edge"}}})
NAMES = ["a", "b", "c", "d"]
TAINTS = [(), ({"key": "k", "effect": "NoSchedule"},), ({"key": "k", "effect": "NoExecute"},)]


def a_pod(number: int, node: str, bits: int) -> DaemonPod:
    """Ready or not, new or old, bound or not, ended or not, terminating or not: all from a few bits."""
    since = format_time(T0_S - bits % 20)
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": since}] if bits & 1 else []
    labels = {"controller-revision-hash": "new" if bits & 2 else "old"}
    metadata = {"name": f"p{number}", "labels": labels, "creationTimestamp": since}
    spec = {"nodeName": node} if bits & 4 else {}
    phase = "Failed" if bits & 24 == 24 else "Running"
    return DaemonPod(
        {"metadata": metadata, "spec": spec, "status": {"phase": phase, "conditions": ready}}, bool(bits & 32)
    )


@given(
    moves=st.lists(
        st.tuples(st.sampled_from(["node", "gone", "pod", "drop", "look"]), st.sampled_from(NAMES), st.integers(0, 63)),
        max_size=40,
    ),
    surges=st.booleans(),
)
def test_counts_that_are_kept_are_those_of_a_recount(moves: list[tuple[str, str, int]], surges: bool) -> None:
    nodes: dict[str, PlacementNode] = {}
    rules = DaemonSetRules(PLACEMENT, "new", None, 10, surges)
    board, places, now_s = DaemonNodes(nodes), dict[str, tuple[str, DaemonPod]](), float(T0_S)
    for what, name, bits in moves:
        uid = f"u{bits % 6}"
        match what:
            case "node":
                nodes[name] = PlacementNode(name, {"role": "edge" if bits % 3 else "core"}, tuple(TAINTS[bits % 3]))
                board.node_changed(name)
            case "gone":
                nodes.pop(name, None)
                board.node_changed(name)
            case "pod":
                if uid in places and places[uid][0] != name:
                    board.drop(places[uid][0], uid)
                places[uid] = name, a_pod(bits % 6, name, bits)
                board.put(name, uid, places[uid][1])
            case "drop" if uid in places:
                board.drop(places.pop(uid)[0], uid)
            case "look":
                now_s += bits / 8
                board.refresh(rules, now_s)
    board.refresh(rules, now_s)
    again = DaemonNodes(nodes)
    for uid, (name, pod) in places.items():
        again.put(name, uid, pod)
    again.refresh(rules, now_s)
    assert board.counts == again.counts
    assert board.groups == again.groups
    assert all(board.fit(name) == again.fit(name) for name in NAMES if name in nodes)


GROUPS = st.dictionaries(
    st.tuples(st.sampled_from([turn for turn in NodeUpdateState if turn != NodeUpdateState.NONE]), st.booleans()),
    st.integers(0, 4),
)


@given(sizes=GROUPS, surge=st.integers(0, 3), unavailable=st.integers(1, 4))
def test_no_more_are_taken_than_may_be_missed(
    sizes: dict[tuple[NodeUpdateState, bool], int], surge: int, unavailable: int
) -> None:
    numbers = count()
    groups = {group: {f"n{next(numbers):02}" for _ in range(size)} for group, size in sizes.items()}
    desired = sum(len(nodes) for (_, wanted), nodes in groups.items() if wanted)
    taken = replace(groups, DaemonRolloutLimits(surge, unavailable), desired, serving=desired)
    of = {name: group for group, nodes in groups.items() for name in nodes}
    if surge == 0:
        assert not taken.creates
        down = sum(
            len(nodes) for (turn, _), nodes in groups.items() if turn not in (NodeUpdateState.NEW, NodeUpdateState.OLD)
        )
        good = [name for name in taken.deletes if of[name][0] == NodeUpdateState.OLD]
        assert {of[name][0] for name in taken.deletes} <= {NodeUpdateState.OLD, NodeUpdateState.OLD_WAITING}
        assert len(good) == min(max(unavailable - down, 0), sum(turn == NodeUpdateState.OLD for turn, _ in of.values()))
    else:
        beside = [name for name in taken.creates if of[name][0] == NodeUpdateState.OLD]
        already = sum(turn in (NodeUpdateState.MIXED, NodeUpdateState.BOTH_WAITING) for turn, _ in of.values())
        assert len(beside) <= max(surge - already, 0)
        assert all(of[name][1] for name in taken.creates)
        assert {of[name][0] for name in taken.deletes} <= {NodeUpdateState.BOTH, NodeUpdateState.OLD_WAITING}


@settings(max_examples=25)  # an example is a whole update on an embedded server, up to 250 steps
@given(
    limits=st.sampled_from([{"maxUnavailable": 1}, {"maxUnavailable": 2}, {"maxUnavailable": 0, "maxSurge": 1}]),
    acts=st.lists(st.integers(0, 255), max_size=50),
    tape=st.lists(st.integers(0, 7), max_size=200),
)
def test_an_update_in_any_order_of_events_keeps_to_its_limits(
    limits: dict[str, int], acts: list[int], tape: list[int]
) -> None:
    numbers = count()
    world, choose = Drawn(lambda: DaemonSetController(lambda: f"{next(numbers):05}", hashed)), chooser(tape)
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    for name in NAMES:
        world.server.post("/api/v1/nodes", {"metadata": {"name": name}})
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "v0"}]}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": limits}
    spec = {"selector": {"matchLabels": LABELS}, "template": template, "updateStrategy": strategy}
    assert world.server.post(SETS, {"metadata": {"name": "log"}, "spec": spec}).status == 201
    world.advance(1.0)
    run_all(world)
    world.advance(1.0)

    def judge(effect: effects.RequestEffect) -> None:
        there = pods(world)
        if isinstance(effect, Delete) and effect.resource.plural == "pods" and is_good(there.get(effect.name)):
            good = {target_of(pod) for name, pod in there.items() if is_good(pod) and name != effect.name}
            assert len(good) >= len(NAMES) - limits["maxUnavailable"]
        if isinstance(effect, Create) and effect.resource.plural == "pods":
            staying = [target_of(pod) for pod in there.values() if "deletionTimestamp" not in pod["metadata"]]
            assert staying.count(target_of(effect.obj)) <= ("maxSurge" in limits)

    world.judge = judge
    image = 0
    for act in acts:
        for _ in range(act % 4):
            world.move(choose)
        world.pass_a_moment()
        match act // 16 % 6:
            case 0 | 1:
                run_all(world, only=act)
            case 2:
                finish(world)
            case 3:
                image = act % 3
                containers = [{"name": "c", "image": f"v{image}"}]
                world.server.patch(f"{SETS}/log", {"spec": {"template": {"spec": {"containers": containers}}}})
            case 4:
                world.die()
            case 5:
                world.cut_pods()
    for _ in range(20):
        world.advance(1.0)
        finish(world)
        run_all(world)
    left = pods(world).values()
    assert sorted(str(target_of(pod)) for pod in left) == NAMES
    assert {pod["spec"]["containers"][0]["image"] for pod in left} == {f"v{image}"}
    status = world.server.get(f"{SETS}/log").body["status"]
    assert (status["numberAvailable"], status["updatedNumberScheduled"]) == (4, 4)


def run_all(world: Drawn, only: int | None = None) -> None:
    there = sorted(pods(world).items())
    for at, (name, pod) in enumerate(there):
        if "deletionTimestamp" not in pod["metadata"] and (only is None or at == only % len(there)):
            run(world, name, node=str(target_of(pod)))


def is_good(pod: Object | None) -> bool:
    if pod is None or "deletionTimestamp" in pod["metadata"]:
        return False
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions") or ())
