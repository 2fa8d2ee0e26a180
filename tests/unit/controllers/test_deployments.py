"""Deployments and ReplicaSets on the embedded server: rollouts, undo, pause, history, collisions."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.deployments.controller import DeploymentController
from headgate.controllers.framework.effects import Effect, EffectResponse, Replace
from headgate.controllers.replica_sets.controller import ReplicaSetController
from headgate.kube.api_resources import REPLICA_SETS
from unit.controllers.workload_fixtures import (
    A_WHILE_S,
    DEPLOYMENTS,
    PODS,
    SETS,
    a_world,
    delete_terminating,
    get,
    name_suffixes,
    patch,
    pods,
    put,
    reasons,
    run,
    template,
)
from unit.controllers.world import Object, World

PATH = f"{DEPLOYMENTS}/web"


def hashed(template: Object, collisions: int | None) -> str:
    image: str = template["spec"]["containers"][0]["image"]
    return image if collisions is None else f"{image}-{collisions}"


@pytest.fixture
def world() -> World:
    draw = name_suffixes()
    return a_world(lambda: ReplicaSetController(draw), lambda: DeploymentController(hashed))


def a_deployment(replicas: int = 3, **spec: Any) -> Object:
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": selector, "template": template(), **spec},
    }


def rolling(surge: int | str, missing: int | str) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}


def go_on(world: World, rounds: int = 1) -> World:
    """Pods run, terminating pods are deleted, and the controllers see it."""
    for _ in range(rounds):
        world.advance(A_WHILE_S)
        delete_terminating(world)
        run(world)
        world.advance(A_WHILE_S)
    return world


def change_image(world: World, image: str) -> None:
    patch(world, PATH, {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})


def sizes(world: World) -> dict[str, int]:
    return {each["metadata"]["name"]: each["spec"]["replicas"] for each in get(world, SETS)["items"]}


def notes(world: World, name: str) -> dict[str, str]:
    found = get(world, f"{SETS}/{name}")["metadata"]["annotations"]
    return {key.removeprefix("deployment.kubernetes.io/"): value for key, value in found.items()}


def told(world: World) -> dict[str, tuple[str, str]]:
    conditions = get(world, PATH)["status"].get("conditions") or []
    return {each["type"]: (each["status"], each["reason"]) for each in conditions}


def counted(world: World) -> Object:
    return {key: value for key, value in get(world, PATH)["status"].items() if key != "conditions"}


def texts(world: World) -> list[str]:
    return [each.message for each in world.emitted if each.reason == "ScalingReplicaSet"]


def test_a_deployment_creates_a_replica_set_and_reports_its_availability(world: World) -> None:
    put(world, DEPLOYMENTS, a_deployment())
    world.settle(delayed=(REPLICA_SETS,))
    assert told(world)["Progressing"] == ("True", "NewReplicaSetCreated")
    world.advance(A_WHILE_S)
    assert told(world) == {
        "Available": ("False", "MinimumReplicasUnavailable"),
        "Progressing": ("True", "ReplicaSetUpdated"),
    }
    go_on(world)
    made = get(world, f"{SETS}/web-one")
    assert made["metadata"]["labels"] == {"app": "web", "pod-template-hash": "one"}
    assert made["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": "one"}}
    assert notes(world, "web-one") == {"revision": "1", "desired-replicas": "3", "max-replicas": "4"}
    assert get(world, PATH)["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
    assert told(world) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    numbers = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 3)
    assert counted(world) == {**numbers, "terminatingReplicas": 0, "observedGeneration": 1}
    assert texts(world) == ["Scaled up replica set web-one from 0 to 3"]


def test_a_new_template_is_rolled_out_within_its_limits(world: World) -> None:
    put(world, DEPLOYMENTS, a_deployment(4, strategy=rolling(1, 1)))
    go_on(world)
    change_image(world, "two")
    world.advance(A_WHILE_S)
    assert sizes(world) == {"web-one": 3, "web-two": 2}, "one more and one less"
    for _ in range(8):
        go_on(world)
        standing = [pod for pod in pods(world) if "deletionTimestamp" not in pod["metadata"]]
        assert len(standing) <= 5
    assert sizes(world) == {"web-one": 0, "web-two": 4}
    assert told(world)["Progressing"] == ("True", "NewReplicaSetAvailable")
    assert get(world, PATH)["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    assert texts(world)[1:4] == [
        "Scaled up replica set web-two from 0 to 1",
        "Scaled down replica set web-one from 4 to 3",
        "Scaled up replica set web-two from 1 to 2",
    ]


def test_undo_reuses_the_old_replica_set_with_a_new_revision(world: World) -> None:
    put(world, DEPLOYMENTS, a_deployment())
    go_on(world)
    change_image(world, "two")
    go_on(world, 6)
    change_image(world, "one")
    go_on(world, 6)
    assert sizes(world) == {"web-one": 3, "web-two": 0}
    assert notes(world, "web-one")["revision"] == "3"
    assert notes(world, "web-one")["revision-history"] == "1"
    assert notes(world, "web-two")["revision"] == "2"
    assert get(world, PATH)["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


def test_a_template_that_never_becomes_ready_stops_the_rollout(world: World) -> None:
    put(world, DEPLOYMENTS, a_deployment(4, strategy=rolling("25%", "25%"), progressDeadlineSeconds=60))
    go_on(world)
    change_image(world, "two")
    world.advance(A_WHILE_S)
    assert sizes(world) == {"web-one": 3, "web-two": 2}
    world.advance(61)
    assert told(world)["Progressing"] == ("False", "ProgressDeadlineExceeded")
    assert told(world)["Available"] == ("True", "MinimumReplicasAvailable")
    assert sizes(world) == {"web-one": 3, "web-two": 2}
    change_image(world, "one")
    go_on(world, 4)
    assert sizes(world) == {"web-one": 4, "web-two": 0}
    assert told(world)["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_the_deadline_does_not_run_while_a_queue_holds_pods(world: World) -> None:
    gated = template()
    gated["spec"]["schedulingGates"] = [{"name": "headgate.dev/queue"}]
    put(world, DEPLOYMENTS, a_deployment(2, template=gated, progressDeadlineSeconds=60))
    world.advance(3600)
    assert told(world)["Progressing"] == ("True", "WaitingForQueue")
    world.crash().advance(3600)
    assert told(world)["Progressing"] == ("True", "WaitingForQueue"), "who starts anew knows it, too"
    for pod in pods(world):
        patch(world, f"{PODS}/{pod['metadata']['name']}", {"spec": {"schedulingGates": []}})
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        patch(world, f"{PODS}/{pod['metadata']['name']}/status", {"status": {"conditions": [condition]}})
    world.advance(50)
    assert told(world)["Progressing"] == ("True", "ReplicaSetUpdated"), "the deadline starts anew"
    world.advance(15)
    assert told(world)["Progressing"] == ("False", "ProgressDeadlineExceeded")


def test_recreate_waits_until_the_old_pods_are_deleted(world: World) -> None:
    put(world, DEPLOYMENTS, a_deployment(strategy={"type": "Recreate"}))
    go_on(world)
    change_image(world, "two")
    world.advance(A_WHILE_S)
    assert sizes(world) == {"web-one": 0}
    assert all("deletionTimestamp" in pod["metadata"] for pod in pods(world))
    world.advance(60)
    assert sizes(world) == {"web-one": 0}, "they are still there"
    delete_terminating(world)
    world.advance(A_WHILE_S)
    assert sizes(world) == {"web-one": 0, "web-two": 3}
    go_on(world)
    assert told(world)["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_a_paused_rollout_only_scales_in_proportion(world: World) -> None:
    put(world, DEPLOYMENTS, a_deployment(10, strategy=rolling(3, 2)))
    go_on(world)
    change_image(world, "two")
    world.advance(A_WHILE_S)
    assert sizes(world) == {"web-one": 8, "web-two": 5}
    patch(world, PATH, {"spec": {"paused": True}})
    go_on(world, 2)
    assert sizes(world) == {"web-one": 8, "web-two": 5}
    assert told(world)["Progressing"] == ("Unknown", "DeploymentPaused")
    patch(world, PATH, {"spec": {"replicas": 20}})
    go_on(world)
    assert sizes(world) == {"web-one": 14, "web-two": 9}, "23 may be there at once; rounding goes to the largest"
    patch(world, PATH, {"spec": {"paused": False}})
    go_on(world, 8)
    assert sizes(world) == {"web-one": 0, "web-two": 20}
    assert told(world)["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_old_replica_sets_are_kept_up_to_the_history_limit(world: World) -> None:
    put(world, DEPLOYMENTS, a_deployment(1, revisionHistoryLimit=2))
    go_on(world)
    for image in ("two", "three", "four", "five"):
        change_image(world, image)
        go_on(world, 4)
    assert sizes(world) == {"web-three": 0, "web-four": 0, "web-five": 1}


def test_a_name_that_is_taken_increments_the_collision_count(world: World) -> None:
    put(world, SETS, {"metadata": {"name": "web-one"}, "spec": {"replicas": 0, **_selecting("other")}})
    put(world, DEPLOYMENTS, a_deployment(1))
    go_on(world)
    assert sizes(world) == {"web-one": 0, "web-one-1": 1}
    assert counted(world)["collisionCount"] == 1


def _selecting(app: str) -> Object:
    return {"selector": {"matchLabels": {"app": app}}, "template": template(app=app)}


def test_matching_replica_sets_are_adopted(world: World) -> None:
    put(
        world,
        SETS,
        {"metadata": {"name": "mine", "labels": {"app": "web"}}, "spec": {"replicas": 2, **_selecting("web")}},
    )
    put(world, DEPLOYMENTS, a_deployment(2))
    go_on(world)
    assert sizes(world) == {"mine": 2}
    assert notes(world, "mine")["revision"] == "1"
    assert told(world)["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_scaling_alone_creates_no_new_revision(world: World) -> None:
    put(world, DEPLOYMENTS, a_deployment())
    go_on(world)
    patch(world, PATH, {"spec": {"replicas": 5}})
    go_on(world)
    assert sizes(world) == {"web-one": 5}
    assert notes(world, "web-one") == {"revision": "1", "desired-replicas": "5", "max-replicas": "7"}
    patch(world, PATH, {"spec": {"replicas": 0}})
    go_on(world, 2)
    assert (sizes(world), pods(world)) == ({"web-one": 0}, [])
    assert told(world)["Available"] == ("True", "MinimumReplicasAvailable")
    assert reasons(world).count("ScalingReplicaSet") == 3


def test_annotations_and_minimal_readiness_reach_the_new_replica_set(world: World) -> None:
    put(world, DEPLOYMENTS, a_deployment())
    go_on(world)
    cause = {"kubernetes.io/change-cause": "because"}
    patch(world, PATH, {"metadata": {"annotations": cause}, "spec": {"minReadySeconds": 7}})
    go_on(world)
    assert notes(world, "web-one")["kubernetes.io/change-cause"] == "because"
    assert get(world, f"{SETS}/web-one")["spec"]["minReadySeconds"] == 7


def test_a_late_response_does_not_restore_a_deleted_deployment(world: World) -> None:
    """It was deleted while its status was being written, and the watch delivered the deletion first."""
    put(world, DEPLOYMENTS, a_deployment())
    go_on(world)

    def interrupt(effect: Effect) -> EffectResponse | None:
        if not isinstance(effect, Replace):
            return None
        world.refuse = lambda effect: None
        answer = world.perform(effect)
        world.server.delete(PATH)
        world.deliver_all()
        return answer

    world.refuse = interrupt
    patch(world, PATH, {"spec": {"replicas": 4}})
    world.advance(A_WHILE_S)
    world.server.delete(f"{SETS}/web-one")
    world.advance(A_WHILE_S)
    assert sizes(world) == {}, "nobody makes it again"


def test_an_idle_deployment_sends_no_requests(world: World) -> None:
    put(world, DEPLOYMENTS, a_deployment())
    go_on(world)
    before = len(world.requests)
    world.advance(7200)
    assert len(world.requests) == before
    world.crash()
    begun = len(world.requests)
    world.advance(7200)
    assert len(world.requests) == begun, "nor when it starts anew"
