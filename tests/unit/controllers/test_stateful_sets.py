"""StatefulSets on the embedded server, with a kubelet that the test controls."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.framework.effects import Create, Effect, EffectResponse
from unit.controllers.kubelet_steps import PODS, finish, names, pods, report, run
from unit.controllers.stateful_set_fixtures import LABELS, SETS, a_world
from unit.controllers.world import World

Object = dict[str, Any]
REVISIONS = "/apis/apps/v1/namespaces/a/controllerrevisions"


@pytest.fixture
def world() -> World:
    return a_world()


def a_set(replicas: int = 3, image: str = "v1", **spec: Any) -> Object:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": image}]}}
    whole = {"replicas": replicas, "serviceName": "dbs", "selector": {"matchLabels": LABELS}, "template": template}
    return {"metadata": {"name": "db"}, "spec": {**whole, **spec}}


def create(world: World, replicas: int = 3, **spec: Any) -> None:
    answer = world.server.post(SETS, a_set(replicas, **spec))
    assert answer.status == 201, answer.body
    rest(world)


def rest(world: World) -> World:
    return world.advance(0.5)


def run_all(world: World, rounds: int = 6) -> None:
    """The kubelet does its part until nothing moves any more."""
    for _ in range(rounds):
        finish(world)
        rest(world)
        run(world)
        rest(world)


def change(world: World, **spec: Any) -> None:
    answer = world.server.patch(f"{SETS}/db", {"spec": spec})
    assert answer.status == 200, answer.body
    rest(world)


def new_image(world: World, image: str) -> None:
    change(world, template={"spec": {"containers": [{"name": "c", "image": image}]}})


def status(world: World) -> Object:
    found: Object = world.server.get(f"{SETS}/db").body["status"]
    return found


def images(world: World) -> dict[str, str]:
    return {name: pod["spec"]["containers"][0]["image"] for name, pod in pods(world).items()}


def reasons(world: World) -> list[str]:
    return [each.reason for each in world.emitted]


def history(world: World) -> dict[str, int]:
    return {each["metadata"]["name"]: each["revision"] for each in world.server.get(REVISIONS).body["items"]}


def test_members_start_in_order_each_when_the_one_before_is_ready(world: World) -> None:
    create(world)
    assert names(world) == ["db-0"]
    report(world, "db-0", "Running")
    rest(world)
    assert names(world) == ["db-0"]
    run(world)
    rest(world)
    assert names(world) == ["db-0", "db-1"]
    run_all(world)
    assert names(world) == ["db-0", "db-1", "db-2"]
    told = status(world)
    counts = [told[each] for each in ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")]
    assert counts == [3, 3, 3, 3]
    assert told["currentRevision"] == told["updateRevision"]
    assert reasons(world) == ["SuccessfulCreate"] * 3
    assert world.emitted[0].message == "Create Pod db-0 in StatefulSet db successful"


def test_a_pod_has_name_labels_host_name_and_revision(world: World) -> None:
    create(world, 1, ordinals={"start": 7})
    (pod,) = pods(world).values()
    assert pod["metadata"]["name"] == "db-7"
    assert pod["metadata"]["labels"] == {
        "app": "db",
        "apps.kubernetes.io/pod-index": "7",
        "statefulset.kubernetes.io/pod-name": "db-7",
        "controller-revision-hash": status(world)["updateRevision"],
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("db-7", "dbs")


def test_in_parallel_all_start_at_once(world: World) -> None:
    create(world, 5, podManagementPolicy="Parallel")
    assert len(names(world)) == 5
    change(world, replicas=2)
    assert names(world) == ["db-0", "db-1"]


def test_scaling_down_deletes_the_highest_first_and_one_at_a_time(world: World) -> None:
    create(world)
    run_all(world)
    change(world, replicas=0)
    assert [name for name, pod in pods(world).items() if "deletionTimestamp" in pod["metadata"]] == ["db-2"]
    finish(world)
    rest(world)
    assert [name for name, pod in pods(world).items() if "deletionTimestamp" in pod["metadata"]] == ["db-1"]
    finish(world)
    rest(world)
    finish(world)
    assert names(world) == []


def test_an_unready_pod_blocks_scaling_down_unless_it_is_the_next_one(world: World) -> None:
    create(world)
    run_all(world)
    report(world, "db-0", "Running")
    change(world, replicas=1)
    assert names(world) == ["db-0", "db-1", "db-2"]
    assert not any("deletionTimestamp" in pod["metadata"] for pod in pods(world).values())
    report(world, "db-2", "Running")
    report(world, "db-0", "Running", ready=True)
    rest(world)
    assert "deletionTimestamp" in pods(world)["db-2"]["metadata"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_member_that_ended_is_replaced_under_its_name(world: World, phase: str) -> None:
    create(world)
    run_all(world)
    before = pods(world)["db-1"]["metadata"]["uid"]
    report(world, "db-1", phase)
    run_all(world)
    assert pods(world)["db-1"]["metadata"]["uid"] != before
    assert names(world) == ["db-0", "db-1", "db-2"]
    assert "SuccessfulDelete" in reasons(world)


def test_an_update_proceeds_from_the_highest_ordinal_and_waits_for_each_pod(world: World) -> None:
    create(world)
    run_all(world)
    new_image(world, "v2")
    assert [name for name, pod in pods(world).items() if "deletionTimestamp" in pod["metadata"]] == ["db-2"]
    finish(world)
    rest(world)
    assert images(world) == {"db-0": "v1", "db-1": "v1", "db-2": "v2"}
    rest(world)
    assert not any("deletionTimestamp" in pod["metadata"] for pod in pods(world).values()), "db-2 is not ready yet"
    told = status(world)
    assert (told["currentReplicas"], told["updatedReplicas"]) == (2, 1)
    assert told["currentRevision"] != told["updateRevision"]
    run_all(world)
    assert images(world) == dict.fromkeys(["db-0", "db-1", "db-2"], "v2")
    told = status(world)
    assert told["currentRevision"] == told["updateRevision"]
    assert told["currentReplicas"] == 3


def test_below_the_partition_no_pod_is_updated_and_replacements_keep_the_revision(world: World) -> None:
    create(world, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    run_all(world)
    new_image(world, "v2")
    run_all(world)
    assert images(world) == {"db-0": "v1", "db-1": "v1", "db-2": "v2"}
    world.server.delete(f"{PODS}/db-0")
    run_all(world)
    assert images(world) == {"db-0": "v1", "db-1": "v1", "db-2": "v2"}


def test_on_delete_updates_only_deleted_pods(world: World) -> None:
    create(world, updateStrategy={"type": "OnDelete"})
    run_all(world)
    new_image(world, "v2")
    run_all(world)
    assert set(images(world).values()) == {"v1"}
    world.server.delete(f"{PODS}/db-1")
    run_all(world)
    assert images(world) == {"db-0": "v1", "db-1": "v2", "db-2": "v1"}


def test_a_rollback_reuses_the_old_revision_with_a_new_number(world: World) -> None:
    create(world)
    run_all(world)
    (first,) = history(world)
    new_image(world, "v2")
    run_all(world)
    assert sorted(history(world).values()) == [1, 2]
    new_image(world, "v1")
    run_all(world)
    assert history(world)[first] == 3
    assert len(history(world)) == 2
    assert status(world)["currentRevision"] == first


def test_history_is_kept_to_its_limit_and_revisions_in_use_are_kept(world: World) -> None:
    create(world, 1, revisionHistoryLimit=1)
    for number in range(2, 6):
        new_image(world, f"v{number}")
        run_all(world)
    assert sorted(history(world).values()) == [4, 5]


def test_ready_for_long_enough_comes_before_the_next_start(world: World) -> None:
    create(world, 2, minReadySeconds=10)
    run(world)
    world.advance(9)
    assert names(world) == ["db-0"]
    assert status(world)["readyReplicas"] == 1
    assert status(world)["availableReplicas"] == 0
    world.advance(2)
    assert names(world) == ["db-0", "db-1"]
    assert status(world)["availableReplicas"] == 1


def test_a_rejected_pod_is_reported_and_retried(world: World) -> None:
    def refuse(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Create) and effect.resource.plural == "pods":
            return EffectResponse(403, {"message": "no"}, world.server.epoch_s)
        return None

    world.refuse = refuse
    create(world)
    assert names(world) == []
    assert "FailedCreate" in reasons(world)
    assert world.emitted[0].message == "Create Pod db-0 in StatefulSet db failed error: no"
    assert status(world)["replicas"] == 0
    assert status(world)["observedGeneration"] == 1, "what could not be done is no reason to say nothing"
    world.refuse = lambda effect: None
    world.advance(60)
    assert names(world) == ["db-0"]


def test_a_terminating_set_starts_no_pod(world: World) -> None:
    create(world)
    world.server.patch(f"{SETS}/db", {"metadata": {"finalizers": ["example.com/wait"]}})
    world.server.delete(f"{SETS}/db", {"propagationPolicy": "Orphan"})
    run(world)
    rest(world)
    assert names(world) == ["db-0"]
    assert status(world)["readyReplicas"] == 1


def test_orphans_are_adopted_by_name(world: World) -> None:
    for name in ("db-0", "other"):
        pod = {"metadata": {"name": name, "labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "v1"}]}}
        assert world.server.post(PODS, pod).status == 201
    create(world, 1)
    assert [each["name"] for each in pods(world)["db-0"]["metadata"]["ownerReferences"]] == ["db"]
    assert "ownerReferences" not in pods(world)["other"]["metadata"]
    run(world, "db-0")
    rest(world)
    labels = pods(world)["db-0"]["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-0"
