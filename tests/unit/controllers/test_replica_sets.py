"""ReplicaSets on the embedded server: the requested number of pods in spite of failures."""

from __future__ import annotations

import pytest

from headgate.controllers.framework.effects import Create, Delete, Effect, EffectResponse, Patch
from headgate.controllers.replica_sets.controller import ReplicaSetController
from headgate.kube.api_resources import PODS as POD_RESOURCE
from unit.controllers.workload_fixtures import (
    A_WHILE_S,
    PODS,
    SETS,
    a_set,
    a_world,
    delete_terminating,
    force_delete,
    get,
    name_suffixes,
    names,
    patch,
    pods,
    put,
    reasons,
    run,
    set_ready,
    template,
)
from unit.controllers.world import World

REFUSED = EffectResponse(403, {"message": 'pods "x" is forbidden: exceeded quota'}, 0.0)


@pytest.fixture
def world() -> World:
    draw = name_suffixes()
    return a_world(lambda: ReplicaSetController(draw))


def status(world: World, name: str = "web") -> dict[str, int]:
    found = get(world, f"{SETS}/{name}")["status"]
    return {key: value for key, value in found.items() if key != "conditions"}


def test_the_requested_number_of_pods_is_created_and_counted(world: World) -> None:
    put(world, SETS, a_set())
    world.advance(A_WHILE_S)
    assert len(names(world)) == 3
    pod = pods(world)[0]
    assert pod["metadata"]["generateName"] == "web-"
    assert pod["metadata"]["labels"] == {"app": "web"}
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"], owner["blockOwnerDeletion"]) == ("ReplicaSet", True, True)
    counted = {"replicas": 3, "fullyLabeledReplicas": 3, "terminatingReplicas": 0, "observedGeneration": 1}
    assert status(world) == counted
    run(world)
    world.advance(A_WHILE_S)
    assert status(world) == {**counted, "readyReplicas": 3, "availableReplicas": 3}
    assert reasons(world) == ["SuccessfulCreate"] * 3
    assert {each.component for each in world.emitted} == {"replicaset-controller"}


def test_a_finished_or_deleted_pod_is_replaced(world: World) -> None:
    put(world, SETS, a_set())
    run(world.advance(A_WHILE_S))
    first, second, third = names(world)
    force_delete(world, first)
    set_ready(world, second, ready=False, phase="Failed")
    world.server.delete(f"{PODS}/{third}")
    world.advance(A_WHILE_S)
    assert len(names(world)) == 5, "one is gone, one has failed, one is leaving, three are new"
    assert status(world)["replicas"] == 3
    assert status(world)["terminatingReplicas"] == 1


def test_scaling_down_follows_the_deletion_order(world: World) -> None:
    put(world, SETS, a_set(replicas=5))
    world.advance(A_WHILE_S)
    unscheduled, pending, unready, cheap, dear = names(world)
    for name in (pending, unready, cheap, dear):
        run(world, name)
    set_ready(world, pending, ready=False, phase="Pending")
    set_ready(world, unready, ready=False)
    patch(world, f"{PODS}/{dear}", {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "5"}}})
    world.advance(A_WHILE_S)
    for replicas, gone in ((4, unscheduled), (3, pending), (2, unready), (1, cheap)):
        patch(world, f"{SETS}/web", {"spec": {"replicas": replicas}})
        world.advance(A_WHILE_S)
        delete_terminating(world)
        world.advance(A_WHILE_S)
        assert gone not in names(world)
        assert len(names(world)) == replicas
    assert reasons(world).count("SuccessfulDelete") == 4


def test_more_pods_than_one_reconcile_creates_follow_in_the_next() -> None:
    draw = name_suffixes()
    world = a_world(lambda: ReplicaSetController(draw, burst=5))
    put(world, SETS, a_set(replicas=17))
    assert len(names(world.settle())) == 17, "without waiting for any watch"
    patch(world, f"{SETS}/web", {"spec": {"replicas": 0}})
    world.advance(A_WHILE_S)
    assert [pod for pod in pods(world) if "deletionTimestamp" not in pod["metadata"]] == []


def test_pods_are_available_when_they_have_been_ready_for_long_enough(world: World) -> None:
    put(world, SETS, a_set(replicas=2, minReadySeconds=30))
    first, second = names(world.advance(A_WHILE_S))
    run(world, first)
    world.advance(10)
    run(world, second)
    world.advance(19)
    assert (status(world)["readyReplicas"], status(world).get("availableReplicas", 0)) == (2, 0)
    world.advance(1)
    assert status(world)["availableReplicas"] == 1
    world.advance(10)
    assert status(world)["availableReplicas"] == 2
    writes = len(world.requests)
    world.advance(3600)
    assert len(world.requests) == writes, "and then nothing is left to wait for"


def test_matching_orphans_are_adopted_and_other_pods_released(world: World) -> None:
    for name in ("one", "two"):
        put(world, PODS, {"metadata": {"name": name, **template()["metadata"]}, "spec": template()["spec"]})
    put(world, SETS, a_set(replicas=2))
    assert names(world.advance(A_WHILE_S)) == ["one", "two"]
    patch(world, f"{PODS}/one", {"metadata": {"labels": {"app": "other"}}})
    world.advance(A_WHILE_S)
    assert len(names(world)) == 3
    assert "ownerReferences" not in get(world, f"{PODS}/one")["metadata"]
    assert status(world)["replicas"] == 2


def test_pods_that_have_ended_are_neither_adopted_nor_released(world: World) -> None:
    put(world, PODS, {"metadata": {"name": "free", **template()["metadata"]}, "spec": template()["spec"]})
    set_ready(world, "free", ready=False, phase="Succeeded")
    put(world, SETS, a_set(replicas=1))
    (mine,) = (name for name in names(world.advance(A_WHILE_S)) if name != "free")
    set_ready(world, mine, ready=False, phase="Failed")
    patch(world, f"{PODS}/{mine}", {"metadata": {"labels": {"app": "other"}}})
    world.advance(A_WHILE_S)
    assert "ownerReferences" not in get(world, f"{PODS}/free")["metadata"]
    assert "ownerReferences" in get(world, f"{PODS}/{mine}")["metadata"]


def test_a_pod_without_all_labels_of_the_template_is_counted_but_not_as_fully_labelled(world: World) -> None:
    put(world, SETS, a_set(template=template(app="web", tier="front")))
    name = names(world.advance(A_WHILE_S))[0]
    patch(world, f"{PODS}/{name}", {"metadata": {"labels": {"tier": "back"}}})
    world.advance(A_WHILE_S)
    assert (status(world)["replicas"], status(world)["fullyLabeledReplicas"]) == (3, 2)
    patch(world, f"{SETS}/web", {"spec": {"template": {"metadata": {"labels": {"tier": "back"}}}}})
    world.advance(A_WHILE_S)
    assert (status(world)["replicas"], status(world)["fullyLabeledReplicas"]) == (3, 1)


def test_rejected_pods_are_reported_and_few_are_tried(world: World) -> None:
    world.refuse = lambda effect: REFUSED if isinstance(effect, Create) and effect.resource == POD_RESOURCE else None
    put(world, SETS, a_set(replicas=50))
    world.settle()
    (condition,) = get(world, f"{SETS}/web")["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
    assert condition["message"] == REFUSED.message
    assert set(reasons(world)) == {"FailedCreate"}
    assert len(reasons(world)) <= 2, "one pod was tried, and once more when the status had been written"
    assert world.emitted[0].message == f"Error creating: {REFUSED.message}"
    world.refuse = lambda effect: None
    world.advance(A_WHILE_S)
    assert "conditions" not in get(world, f"{SETS}/web")["status"]
    assert len(names(world)) == 50


def test_a_rejected_deletion_is_reported_and_retried(world: World) -> None:
    put(world, SETS, a_set())
    world.advance(A_WHILE_S)
    world.refuse = lambda effect: REFUSED if isinstance(effect, Delete) else None
    patch(world, f"{SETS}/web", {"spec": {"replicas": 2}})
    world.settle()
    (condition,) = get(world, f"{SETS}/web")["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("FailedDelete", f"unable to delete pods: {REFUSED.message}")
    world.refuse = lambda effect: None
    world.advance(A_WHILE_S)
    assert len(names(world)) == 2
    assert "conditions" not in get(world, f"{SETS}/web")["status"]


def test_a_terminating_set_creates_no_pods(world: World) -> None:
    put(world, SETS, a_set(replicas=2))
    world.advance(A_WHILE_S)
    patch(world, f"{SETS}/web", {"metadata": {"finalizers": ["example.com/hold"]}})
    world.server.delete(f"{SETS}/web", {"propagationPolicy": "Orphan"})
    force_delete(world, names(world)[0])
    world.advance(A_WHILE_S)
    assert len(names(world)) == 1


def test_a_set_deleted_during_a_create_leaves_no_unconfirmed_writes(world: World) -> None:
    def interrupt(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Create):
            world.refuse = lambda effect: None
            world.server.delete(f"{SETS}/web", {"propagationPolicy": "Orphan"})
            world.server.patch(f"{SETS}/web", {"metadata": {"finalizers": None}})
            world.deliver_all()
        return None

    world.refuse = interrupt
    put(world, SETS, a_set(replicas=1))
    world.advance(A_WHILE_S)
    assert len(names(world)) == 1, "the collector would take it"


def test_a_late_watch_creates_no_pod_twice(world: World) -> None:
    put(world, SETS, a_set())
    world.settle(delayed=(POD_RESOURCE,))
    for annotation in ("1", "2", "3"):
        patch(world, f"{SETS}/web", {"metadata": {"annotations": {"touched": annotation}}})
        world.settle(delayed=(POD_RESOURCE,))
    assert len(names(world)) == 3


def test_creates_of_unknown_outcome_create_no_pod_twice(world: World) -> None:
    lost: list[Effect] = []

    def lose(effect: Effect) -> bool:
        if isinstance(effect, Create) and effect.resource == POD_RESOURCE and len(lost) < 2:
            lost.append(effect)
            return True
        return False

    world.loses_response = lose
    put(world, SETS, a_set())
    world.advance(60)
    assert len(lost) == 2
    assert len(names(world)) == 3


def test_after_a_crash_nothing_is_created_twice(world: World) -> None:
    put(world, SETS, a_set())
    world.settle(steps=3)
    world.crash().advance(A_WHILE_S)
    assert len(names(world)) == 3
    run(world)
    world.crash().advance(A_WHILE_S)
    assert status(world)["availableReplicas"] == 3


def test_a_change_that_a_written_status_brings_along_is_not_overlooked(world: World) -> None:
    put(world, SETS, a_set())
    world.deliver_all()
    world.refuse = lambda effect: scale(effect)

    def scale(effect: Effect) -> None:
        if isinstance(effect, Patch) and effect.subresource == "status":
            world.refuse = lambda effect: None
            patch(world, f"{SETS}/web", {"spec": {"replicas": 1}})

    world.advance(A_WHILE_S)
    assert len([pod for pod in pods(world) if "deletionTimestamp" not in pod["metadata"]]) == 1


def test_an_idle_set_sends_no_requests(world: World) -> None:
    put(world, SETS, a_set(replicas=10))
    run(world.advance(A_WHILE_S))
    world.advance(A_WHILE_S)
    before = len(world.requests)
    world.advance(3600)
    assert len(world.requests) == before
