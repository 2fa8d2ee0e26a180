"""The shadow of Kueue: decisions of both are the same, or a difference says why."""

from __future__ import annotations

from typing import Any

import pytest

from real.kueue_random_clusters import RandomCluster
from shadowed_quota import PATIENCE_S, ShadowedQuota


def a_world(*listed: Any, **spec: Any) -> ShadowedQuota:
    world = ShadowedQuota()
    for flavor in ("spot", "fixed"):
        world.flavor(flavor)
    world.queue("cq", *(listed or ({"default": {"cpu": 2}},)), **spec)
    world.begin()
    return world


def test_an_admission_that_headgate_would_make_is_the_same() -> None:
    world = a_world()
    world.submit("a")
    world.cycle()
    assert world.outcomes() == {"admission same": 1}
    assert world.shadow.open_decisions() == {"admission": 0, "eviction": 0}


def test_what_was_admitted_before_the_begin_is_a_fact() -> None:
    world = ShadowedQuota()
    world.queue("cq", {"default": {"cpu": 2}})
    world.submit("a", cpu=2)
    world.cycle()
    world.begin()
    world.submit("b")
    world.cycle()
    assert world.outcomes() == {}
    world.finish("a")
    world.cycle()
    assert world.outcomes() == {"admission same": 1}


def test_an_admission_that_headgate_would_not_make_has_its_reason_and_what_it_would_admit() -> None:
    world = a_world()
    world.submit("first", cpu=2)
    world.submit("second", cpu=2)
    world.admit("second", cpu=2)
    (found,) = world.compared
    assert (found.outcome, found.name, found.headgate) == ("only_other", "second", "waits")
    assert found.instead == ("ns/first",)
    assert "1 more needed" in found.message or "2 more needed" in found.message
    world.outcomes()
    world.finish("second")
    world.cycle()
    assert world.outcomes() == {"admission same": 1}, "the engine follows the facts"


def test_another_flavor_is_a_difference_with_both_flavors() -> None:
    world = a_world({"spot": {"cpu": 2}, "fixed": {"cpu": 2}})
    world.submit("a")
    world.admit("a", flavor="fixed", cpu=1)
    (found,) = world.compared
    assert found.outcome == "other_flavors"
    assert (found.other, found.headgate) == (
        "admitted: main 1 pods, cpu in fixed",
        "admitted: main 1 pods, cpu in spot",
    )
    world.outcomes()
    world.submit("b", cpu=2)
    world.cycle()
    assert world.outcomes() == {"admission same": 1}, "the flavor that the other took is in use, ours is free"


def test_a_decision_that_the_other_does_not_make_is_reported_once_after_the_patience() -> None:
    world = a_world()
    world.submit("a")
    assert world.shadow.step(world.now_s) == world.now_s + PATIENCE_S
    world.now_s += PATIENCE_S / 2
    world.shadow.step(world.now_s)
    assert world.outcomes() == {}
    world.now_s += PATIENCE_S / 2
    for _ in range(3):
        world.shadow.step(world.now_s)
    assert world.outcomes() == {"admission only_headgate": 1}
    world.cycle()
    assert world.outcomes() == {"admission late": 1}


def test_a_decision_that_is_no_longer_possible_is_not_reported() -> None:
    """The queue became smaller before the other decided."""
    world = a_world()
    world.submit("a", cpu=2)
    world.queue("cq", {"default": {"cpu": 1}})
    world.now_s += PATIENCE_S
    world.shadow.step(world.now_s)
    assert world.outcomes() == {}
    assert world.shadow.open_decisions()["admission"] == 0


def test_a_decision_about_an_earlier_state_is_the_same() -> None:
    """The other decided before it saw a workload of higher priority."""
    world = a_world()
    world.submit("low", cpu=2)
    world.submit("high", cpu=2, priority=5)
    world.admit("low", cpu=2)
    assert world.outcomes() == {"admission same": 1}


def test_a_decision_about_the_present_state_is_the_same_although_another_was_planned_before() -> None:
    world = a_world()
    world.submit("low", cpu=2)
    world.submit("high", cpu=2, priority=5)
    world.admit("high", cpu=2)
    assert world.outcomes() == {"admission same": 1}


def test_the_same_preemption_is_the_same_until_its_preemptor_has_quota() -> None:
    world = a_world(preemption={"withinClusterQueue": "LowerPriority"})
    world.submit("low", cpu=2)
    world.cycle()
    world.submit("high", cpu=2, priority=5)
    world.cycle()
    assert world.outcomes() == {"admission same": 1, "eviction same": 1}
    world.gone("low")
    world.cycle()
    assert world.outcomes() == {"admission same": 1}


def test_another_victim_for_the_same_preemptor_is_a_difference() -> None:
    world = a_world(preemption={"withinClusterQueue": "LowerPriority"})
    for number, name in enumerate(("older", "newer")):
        world.submit(name, cpu=1, at_s=number)
        world.cycle()
        world.now_s += 10
    world.outcomes()
    world.submit("high", cpu=1, priority=5)
    world.preempt("older", "high")
    (found,) = world.compared
    assert (found.outcome, found.name, found.preemptor) == ("other_victims", "older", "ns/high")
    assert found.headgate == "evicts ns/newer for ns/high"
    world.outcomes()
    world.now_s += PATIENCE_S
    world.shadow.step(world.now_s)
    assert world.outcomes() == {}, "with the other victim gone, Headgate needs none"
    world.gone("older")
    world.admit("high", cpu=1)
    assert world.outcomes() == {"admission same": 1}


def test_a_preemption_that_headgate_would_not_make_is_a_difference() -> None:
    world = a_world({"default": {"cpu": 2}}, preemption={"withinClusterQueue": "LowerPriority"})
    world.submit("low", cpu=1)
    world.cycle()
    world.submit("high", cpu=1, priority=5)
    world.outcomes()
    world.preempt("low", "high")
    (found,) = world.compared
    assert found.outcome == "only_other"
    assert found.headgate == "admits ns/high without an eviction: admitted: main 1 pods, cpu in default"


def test_an_eviction_that_the_other_does_not_make_is_reported() -> None:
    world = a_world()
    world.submit("a")
    world.cycle()
    world.outcomes()
    world.lag = True  # the other does not see that the workload was deactivated
    world.objects["workload", "ns/a"] = {
        **world.objects["workload", "ns/a"],
        "spec": {**world.objects["workload", "ns/a"]["spec"], "active": False},
    }
    world.now_s += PATIENCE_S
    world.shadow.step(world.now_s)
    assert world.outcomes() == {"eviction only_headgate": 1}


def test_a_workload_that_is_deactivated_before_the_other_decides_is_not_reported() -> None:
    world = a_world()
    world.submit("a")
    assert world.shadow.open_decisions()["admission"] == 1
    world.change("a", lambda wire: wire["spec"].update(active=False))
    assert world.shadow.open_decisions()["admission"] == 0
    world.now_s += PATIENCE_S
    world.shadow.step(world.now_s)
    assert world.outcomes() == {}
    world.change("a", lambda wire: wire["spec"].update(active=True))
    world.now_s += PATIENCE_S / 2
    world.shadow.step(world.now_s)
    assert world.outcomes() == {}, "the patience begins again"
    world.cycle()
    assert world.outcomes() == {"admission same": 1}


def test_a_workload_that_is_created_again_under_its_name_is_compared_as_another_one() -> None:
    world = a_world()
    world.submit("a")
    again = {**world.objects["workload", "ns/a"]}
    again["metadata"] = {**again["metadata"], "uid": "uid-again", "resourceVersion": "99"}
    world.shadow.applied(_workloads(), again, world.now_s)
    assert world.shadow.open_decisions() == {"admission": 1, "eviction": 0}


def test_a_workload_that_can_no_longer_be_read_is_not_reported() -> None:
    world = a_world()
    world.submit("a")
    broken = {**world.objects["workload", "ns/a"], "spec": 5}
    world.shadow.applied(_workloads(), broken, world.now_s)
    world.now_s += PATIENCE_S
    world.shadow.step(world.now_s)
    assert world.outcomes() == {}
    assert world.shadow.open_decisions()["admission"] == 0


def test_a_workload_that_cannot_be_read_does_not_stop_the_others() -> None:
    world = a_world()
    world.shadow.applied(_workloads(), {"metadata": {"namespace": "ns", "name": "bad", "uid": "u"}, "spec": 5}, 0.0)
    world.submit("a")
    world.cycle()
    assert world.outcomes() == {"admission same": 1}


def _workloads() -> Any:
    from headgate.quota.kinds.names import WORKLOADS

    return WORKLOADS


@pytest.mark.parametrize("seed", range(40))
def test_an_engine_agrees_with_its_own_shadow_on_random_clusters(seed: int) -> None:
    """The other is the same engine: nothing differs, whatever happens, and nothing stays open."""
    cluster, world = RandomCluster(seed, 7), ShadowedQuota()
    world.namespace("default")
    kinds = {"ResourceFlavor": "flavor", "Cohort": "cohort", "ClusterQueue": "cluster_queue"}
    for wire in cluster.objects():
        if wire["kind"] in kinds:
            world._put(kinds[wire["kind"]], wire["metadata"]["name"], wire)
        elif wire["kind"] == "LocalQueue":
            world._put("local_queue", f"default/{wire['metadata']['name']}", wire)
    world.begin()
    for _ in range(25):
        workloads = {wire["metadata"]["name"]: wire for (kind, _), wire in world.objects.items() if kind == "workload"}
        what, wire = cluster.next_act(workloads)
        key = f"default/{wire['metadata']['name']}"
        match what:
            case "plant":
                world._put("workload", key, {**wire, "status": {}})
            case "resize" | "stop" if wire["kind"] == "ClusterQueue":
                world._put("cluster_queue", wire["metadata"]["name"], wire)
            case "stop":
                world._put("local_queue", key, wire)
            case "finish":
                done = {**world.objects["workload", key]}
                done["status"] = {**done["status"], "conditions": [*done["status"]["conditions"], _finished()]}
                world._put("workload", key, done)
        world.now_s += 1
        world.cycle()
        for (kind, name), each in list(world.objects.items()):
            conditions = {one["type"]: one["status"] for one in each.get("status", {}).get("conditions", [])}
            if kind == "workload" and conditions.get("Evicted") == conditions.get("QuotaReserved") == "True":
                _release(world, name)
        world.cycle()
        world.shadow.step(world.now_s)
    differences = [each for each in world.compared if each.differs]
    assert not differences
    world.now_s += PATIENCE_S + 1
    world.cycle()
    world.shadow.step(world.now_s)
    assert not [each for each in world.compared if each.differs]


def _finished() -> dict[str, str]:
    return {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": ""}


def _release(world: ShadowedQuota, key: str) -> None:
    """As the reconcile of an evicted job does."""
    wire = {**world.objects["workload", key]}
    status = {**wire["status"]}
    status.pop("admission", None)
    wire["status"] = status
    world._condition(wire, "QuotaReserved", False, "Pending", "")
    world._condition(wire, "Admitted", False, "NoReservation", "")
    world._condition(wire, "Requeued", True, "Preempted", "")
    world._put("workload", key, wire)
