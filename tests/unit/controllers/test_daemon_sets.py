"""DaemonSets on the embedded server, with nodes and a kubelet that the test controls."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from embedded import all_schemas
from headgate.controllers.daemon_sets.controller import DaemonSetController
from headgate.controllers.daemon_sets.placement import target_of
from headgate.controllers.deployments.template_hash import TemplateHash
from headgate.controllers.framework.effects import Create, Effect, EffectResponse
from headgate.kube.api_resources import PODS as POD_RESOURCE
from unit.controllers.kubelet_steps import PODS, finish, pods, report
from unit.controllers.kubelet_steps import run as run_pods
from unit.controllers.world import World

Object = dict[str, Any]
hashed = TemplateHash(all_schemas())
SETS = "/apis/apps/v1/namespaces/a/daemonsets"
REVISIONS = "/apis/apps/v1/namespaces/a/controllerrevisions"
NODES = "/api/v1/nodes"
LABELS = {"app": "log"}


def a_world(nodes: int = 3, burst: int = 250) -> World:
    numbers = count(1)
    world = World(lambda: DaemonSetController(lambda: f"{next(numbers):05}", hashed, burst))
    world.server.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    for number in range(nodes):
        add_node(world, f"n{number}")
    return world.settle()


@pytest.fixture
def world() -> World:
    return a_world()


def add_node(world: World, name: str, labels: dict[str, str] | None = None, *taints: Object) -> None:
    node = {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": list(taints)}}
    assert world.server.post(NODES, node).status == 201


def taint(world: World, name: str, key: str = "example.com/mine", effect: str = "NoSchedule") -> None:
    assert world.server.patch(f"{NODES}/{name}", {"spec": {"taints": [{"key": key, "effect": effect}]}}).status == 200
    rest(world)


def a_set(image: str = "v1", pod_spec: Object | None = None, **spec: Any) -> Object:
    inner = {"containers": [{"name": "c", "image": image}], **(pod_spec or {})}
    template = {"metadata": {"labels": LABELS}, "spec": inner}
    return {"metadata": {"name": "log"}, "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec}}


def create(world: World, **spec: Any) -> None:
    answer = world.server.post(SETS, a_set(**spec))
    assert answer.status == 201, answer.body
    rest(world)


def rest(world: World) -> World:
    return world.advance(0.5)


def run(world: World, *nodes: str) -> None:
    """Bind and run the pods that are meant for these nodes; for all, if none is named."""
    for name, pod in pods(world).items():
        node = target_of(pod)
        if node is not None and (node in nodes or not nodes) and "deletionTimestamp" not in pod["metadata"]:
            run_pods(world, name, node=node)
    rest(world)


def turn(world: World, rounds: int = 6) -> None:
    """Kubelets do their part until nothing moves any more."""
    for _ in range(rounds):
        finish(world)
        rest(world)
        run(world)


def new_image(world: World, image: str) -> None:
    body = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}
    assert world.server.patch(f"{SETS}/log", body).status == 200
    rest(world)


def where(world: World, image: str | None = None) -> list[str]:
    """The nodes of the pods that stay."""
    found = [
        str(target_of(pod))
        for pod in pods(world).values()
        if "deletionTimestamp" not in pod["metadata"] and image in (None, pod["spec"]["containers"][0]["image"])
    ]
    return sorted(found)


def status(world: World) -> Object:
    found: Object = world.server.get(f"{SETS}/log").body["status"]
    return found


def counts(world: World) -> tuple[int, ...]:
    told = status(world)
    names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable", "numberMisscheduled")
    return tuple(told.get(name, 0) for name in names)


def reasons(world: World) -> list[str]:
    return [each.reason for each in world.emitted]


def history(world: World) -> dict[str, int]:
    return {each["metadata"]["name"]: each["revision"] for each in world.server.get(REVISIONS).body["items"]}


def test_every_node_gets_one_pod_that_requires_it_by_name(world: World) -> None:
    create(world)
    assert where(world) == ["n0", "n1", "n2"]
    pod = next(iter(pods(world).values()))
    assert pod["metadata"]["generateName"] == "log-"
    labels = pod["metadata"]["labels"]
    assert labels.keys() == {"app", "controller-revision-hash", "pod-template-generation"}
    assert "nodeName" not in pod["spec"]
    tolerated = {each["key"].removeprefix("node.kubernetes.io/") for each in pod["spec"]["tolerations"]}
    assert tolerated == {
        "not-ready",
        "unreachable",
        "disk-pressure",
        "memory-pressure",
        "pid-pressure",
        "unschedulable",
    }
    assert counts(world) == (3, 3, 0, 0, 0)
    run(world)
    assert counts(world) == (3, 3, 3, 3, 0)
    assert reasons(world) == ["SuccessfulCreate"] * 3


def test_pods_follow_added_removed_and_changed_nodes(world: World) -> None:
    create(world, pod_spec={"nodeSelector": {"role": "edge"}})
    assert where(world) == []
    add_node(world, "n3", {"role": "edge"})
    rest(world)
    assert where(world) == ["n3"]
    world.server.patch(f"{NODES}/n0", {"metadata": {"labels": {"role": "edge"}}})
    rest(world)
    assert where(world) == ["n0", "n3"]
    world.server.patch(f"{NODES}/n3", {"metadata": {"labels": {"role": "core"}}})
    rest(world)
    assert where(world) == ["n0"]
    assert counts(world) == (1, 1, 0, 0, 0)
    world.server.delete(f"{NODES}/n0")
    rest(world)
    assert where(world) == [], "one that was never bound would wait for ever"
    assert counts(world) == (0, 0, 0, 0, 0)


def test_no_schedule_taints_keep_new_pods_away_and_no_execute_taints_evict_old_ones(world: World) -> None:
    create(world)
    run(world)
    taint(world, "n0")
    assert where(world) == ["n0", "n1", "n2"]
    assert counts(world) == (2, 2, 2, 2, 1)
    taint(world, "n1", effect="NoExecute")
    assert where(world) == ["n0", "n2"]
    taint(world, "n2", key="node.kubernetes.io/unschedulable")
    assert where(world) == ["n0", "n2"]
    world.server.patch(f"{NODES}/n0", {"spec": {"taints": None}})
    rest(world)
    assert counts(world)[0] == 2


def test_a_change_of_one_node_costs_that_node_only(world: World) -> None:
    create(world)
    run(world)
    before = len(world.requests)
    add_node(world, "n9")
    rest(world)
    assert [method for method, _ in world.requests[before:]] == ["POST", "PUT"]
    before = len(world.requests)
    assert world.server.patch(f"{NODES}/n9", {"metadata": {"labels": {"any": "thing"}}}).status == 200
    rest(world)
    assert world.requests[before:] == []


def test_an_update_replaces_as_many_as_may_be_unavailable(world: World) -> None:
    create(world)
    run(world)
    new_image(world, "v2")
    assert where(world) == ["n1", "n2"]
    finish(world)
    rest(world)
    assert where(world, "v2") == ["n0"]
    assert where(world, "v1") == ["n1", "n2"], "the new one is not available yet"
    turn(world)
    assert where(world, "v2") == ["n0", "n1", "n2"]
    assert status(world)["updatedNumberScheduled"] == 3


def test_old_pods_that_are_not_available_are_replaced_at_once(world: World) -> None:
    create(world)
    run(world, "n1")
    new_image(world, "v2")
    assert where(world, "v1") == ["n1"]


def test_a_share_of_the_nodes_may_be_unavailable() -> None:
    world = a_world(10)
    create(world, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}})
    run(world)
    new_image(world, "v2")
    assert where(world, "v1") == [f"n{number}" for number in range(3, 10)]


def test_surge_starts_the_new_pod_beside_the_old_one(world: World) -> None:
    surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    create(world, updateStrategy=surge)
    run(world)
    new_image(world, "v2")
    assert where(world, "v1") == ["n0", "n1", "n2"]
    assert where(world, "v2") == ["n0"]
    run(world, "n0")
    assert where(world, "v1") == ["n1", "n2"]
    turn(world)
    assert where(world, "v2") == ["n0", "n1", "n2"]
    assert where(world, "v1") == []


def test_on_delete_replaces_only_deleted_pods(world: World) -> None:
    create(world, updateStrategy={"type": "OnDelete"})
    run(world)
    new_image(world, "v2")
    turn(world)
    assert where(world, "v1") == ["n0", "n1", "n2"]
    name = next(name for name, pod in pods(world).items() if target_of(pod) == "n1")
    world.server.delete(f"{PODS}/{name}")
    turn(world)
    assert where(world, "v2") == ["n1"]


def test_a_failed_pod_is_replaced_with_back_off(world: World) -> None:
    create(world, pod_spec={"nodeSelector": {"kubernetes.io/hostname": "n0"}})
    assert where(world) == []
    world.server.patch(f"{NODES}/n0", {"metadata": {"labels": {"kubernetes.io/hostname": "n0"}}})
    rest(world)
    ends = []
    for _ in range(4):
        run(world)
        (name,) = pods(world)
        report(world, name, "Failed")
        since_s = world.server.epoch_s
        while name in pods(world):
            assert world.server.epoch_s < since_s + 60, "it is never replaced"
            world.advance(0.1)
        ends.append(world.server.epoch_s - since_s)
    assert ends[0] < 0.3
    assert ends[1] < ends[2] < ends[3]
    assert reasons(world).count("FailedDaemonPod") == 4


def test_a_pod_that_succeeded_is_replaced(world: World) -> None:
    create(world)
    run(world)
    name = min(pods(world))
    report(world, name, "Succeeded")
    turn(world)
    assert name not in pods(world)
    assert where(world) == ["n0", "n1", "n2"]
    assert "SucceededDaemonPod" in reasons(world)


def test_of_two_pods_on_a_node_the_oldest_stays(world: World) -> None:
    create(world)
    run(world)
    world.advance(5)
    twin = next(pod for pod in pods(world).values() if target_of(pod) == "n1")
    kept = twin["metadata"]["name"]
    meta = {key: twin["metadata"][key] for key in ("labels", "ownerReferences")}
    body = {"metadata": {"name": "twin", **meta}, "spec": {**twin["spec"], "nodeName": "n1"}}
    assert world.server.post(PODS, body).status == 201
    rest(world)
    assert where(world) == ["n0", "n1", "n2"]
    assert "deletionTimestamp" not in pods(world)[kept]["metadata"]


def test_available_only_after_being_ready_for_long_enough(world: World) -> None:
    create(world, minReadySeconds=10)
    run(world)
    assert counts(world) == (3, 3, 3, 0, 0)
    world.advance(7)
    assert counts(world)[3] == 0
    world.advance(4)
    assert counts(world) == (3, 3, 3, 3, 0)


def test_at_most_a_burst_is_created_at_a_time() -> None:
    world = a_world(7, burst=3)
    create(world)
    assert len(where(world)) == 7


def test_a_rejection_stops_the_batch_and_is_reported(world: World) -> None:
    def refuse(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Create) and effect.resource == POD_RESOURCE:
            return EffectResponse(403, {"message": "no"}, world.server.epoch_s)
        return None

    world.refuse = refuse
    create(world)
    assert where(world) == []
    assert reasons(world)[0] == "FailedCreate"
    world.refuse = lambda effect: None
    world.advance(60)
    assert where(world) == ["n0", "n1", "n2"]


def test_a_rollback_reuses_the_old_revision_with_a_new_number(world: World) -> None:
    create(world)
    run(world)
    (first,) = history(world)
    new_image(world, "v2")
    turn(world)
    new_image(world, "v1")
    turn(world)
    assert history(world)[first] == 3
    assert len(history(world)) == 2


def test_history_is_kept_to_its_limit(world: World) -> None:
    create(world, revisionHistoryLimit=1)
    for number in range(2, 5):
        new_image(world, f"v{number}")
        turn(world)
    assert sorted(history(world).values()) == [3, 4]


def test_a_revision_in_use_is_never_deleted(world: World) -> None:
    create(world, revisionHistoryLimit=0, updateStrategy={"type": "OnDelete"})
    run(world)
    for image in ("v2", "v3"):
        new_image(world, image)
    assert sorted(history(world).values()) == [1, 3]


def test_after_a_crash_nothing_is_created_twice(world: World) -> None:
    create(world)
    run(world)
    before = sorted(pods(world))
    world.crash().deliver_all()
    rest(world)
    assert sorted(pods(world)) == before
    assert counts(world) == (3, 3, 3, 3, 0)


def test_matching_orphans_are_adopted_and_other_pods_released(world: World) -> None:
    create(world)
    run(world)
    name = min(pods(world))
    world.server.patch(f"{PODS}/{name}", {"metadata": {"labels": {"app": "other"}}})
    rest(world)
    assert "ownerReferences" not in pods(world)[name]["metadata"]
    assert len(pods(world)) == 4
    world.server.patch(f"{PODS}/{name}", {"metadata": {"labels": {"app": "log"}}})
    rest(world)
    assert where(world) == ["n0", "n1", "n2"]
