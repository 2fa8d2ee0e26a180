"""Kinds whose pods wait behind gates: LeaderWorkerSets in a queue, and what admission writes into their templates."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.cli.options.job_options import read_kinds
from kueue_builders import Wire
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs.leader_worker_sets import KIND, PATH, PREFIX, a_set, a_set_world
from unit.jobs.pods.fixtures import K, is_gated, pods, started, workloads
from unit.jobs.queue_fixtures import PREEMPTION, create
from unit.jobs.test_custom_kinds import GOOD


def add(world: CrashingWorld, name: str, **more: Any) -> Wire:
    body = create(world.server, PATH, a_set(name, **more))
    world.server.epoch_s += 1
    return body


def templates(obj: Wire) -> list[Wire]:
    group = obj["spec"]["leaderWorkerTemplate"]
    return [group["leaderTemplate"], group["workerTemplate"]]


def prefix_of(obj: Wire) -> str:
    found: str = templates(obj)[0]["metadata"]["annotations"]["headgate.dev/pod-group-prefix"]
    return found


def test_each_group_is_admitted_as_a_whole_and_waits_for_quota() -> None:
    world = a_set_world(cpu=5)
    add(world, "a", size=2, replicas=3)
    world.advance(5)
    assert len(workloads(world)) == 3
    assert len(started(world)) == 4, "two groups of two pods"
    waiting = [each for each in pods(world).values() if is_gated(each)]
    assert len({each["metadata"]["annotations"][f"{K}/pod-group-name"] for each in waiting}) == 1
    for each in workloads(world).values():
        assert sum(pod_set["count"] for pod_set in each["spec"]["podSets"]) == 2


def test_a_group_waits_until_all_its_pods_exist() -> None:
    world = a_set_world(cpu=5)
    body = add(world, "a", size=2)
    world.advance(3)
    assert len(started(world)) == 2
    annotations = templates(body)[0]["metadata"]["annotations"]
    assert annotations[f"{K}/pod-group-total-count"] == "2"
    assert annotations[f"{K}/pod-group-serving"] == "true"
    assert annotations[f"{K}/pod-suspending-parent"] == "leaderworkerset.x-k8s.io/leaderworkerset"


def test_a_preempted_group_is_created_again_behind_its_gates_and_runs_later() -> None:
    world = a_set_world(cpu=2, **PREEMPTION)
    before = add(world, "low", size=2, priority="low")
    world.advance(4)
    assert started(world) == ["low-0", "low-0-1"]
    add(world, "high", size=2, priority="high")
    world.advance(10)
    assert started(world) == ["high-0", "high-0-1"]
    assert is_gated(pods(world)["low-0"])
    assert world.server.get(f"{PATH}/low").body["spec"] == before["spec"], "the object is not written at all"
    world.server.delete(f"{PATH}/high")
    world.advance(10)
    assert started(world) == ["low-0", "low-0-1"]


def test_a_deleted_object_leaves_nothing() -> None:
    world = a_set_world()
    add(world, "a")
    world.advance(4)
    world.server.delete(f"{PATH}/a")
    world.advance(10)
    assert not pods(world)
    assert not workloads(world)


def test_a_gated_object_holds_its_pods() -> None:
    world = a_set_world()
    gate = f"{K}/scheduling-gated-by"
    body = a_set("a")
    body["metadata"]["annotations"] = {gate: "example.com/g"}
    create(world.server, PATH, body)
    world.advance(4)
    assert not workloads(world)
    world.server.patch(f"{PATH}/a", {"metadata": {"annotations": {gate: None}}})
    world.advance(4)
    assert len(started(world)) == 2


def test_a_new_template_begins_new_groups_and_a_new_number_of_replicas_does_not() -> None:
    world = a_set_world(cpu=8)
    before = add(world, "a")
    scaled = world.server.patch(f"{PATH}/a", {"spec": {"replicas": 2}}).body
    assert prefix_of(scaled) == prefix_of(before)
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]
    patch = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": containers}}}}}
    changed = world.server.patch(f"{PATH}/a", patch).body
    assert prefix_of(changed) != prefix_of(before)
    assert templates(changed)[1]["metadata"]["annotations"]["headgate.dev/pod-group-prefix"] == prefix_of(changed)


def test_an_object_without_a_queue_is_not_changed() -> None:
    world = a_set_world()
    body = a_set("a")
    del body["metadata"]["labels"]
    created = create(world.server, PATH, body)
    assert all("metadata" not in each for each in templates(created))
    world.advance(3)
    assert len(started(world)) == 2


def test_a_startup_policy_that_would_wait_for_ever_is_rejected() -> None:
    reply = a_set_world().server.post(PATH, a_set("a", startupPolicy="LeaderReady"))
    assert reply.status == 403
    assert "spec.startupPolicy: Invalid value" in reply.body["message"]
    assert "use LeaderCreated" in reply.body["message"]


def test_a_pod_that_does_not_say_which_group_it_is_in_is_rejected() -> None:
    world = a_set_world()
    body = add(world, "a")
    template = templates(body)[0]
    pod = {"metadata": {"name": "p", **template["metadata"]}, "spec": template["spec"]}
    reply = world.server.post("/api/v1/namespaces/ns/pods", pod)
    assert reply.status == 403
    assert f"none of the labels that name its group: {PREFIX}/group-index" in reply.body["message"]


def test_the_stateful_set_of_a_group_keeps_the_marks_of_its_template() -> None:
    world = a_set_world(cpu=0)
    queue = {"apiVersion": f"{K}/v1beta2", "kind": "LocalQueue", "metadata": {"name": "default"}}
    create(world.server, f"/apis/{K}/v1beta2/namespaces/ns/localqueues", {**queue, "spec": {"clusterQueue": "cq"}})
    template = templates(add(world, "a"))[1]
    template["metadata"]["labels"]["app"] = "x"
    selector = {"matchLabels": {"app": "x"}}
    body = {"metadata": {"name": "a-0"}, "spec": {"serviceName": "a", "selector": selector, "template": template}}
    created = create(world.server, "/apis/apps/v1/namespaces/ns/statefulsets", body)
    assert created["spec"]["template"]["metadata"]["annotations"] == template["metadata"]["annotations"]


def test_the_queue_of_an_object_whose_pods_run_is_immutable() -> None:
    world = a_set_world()
    add(world, "a")
    world.server.patch(f"{PATH}/a/status", {"status": {"readyReplicas": 1}})
    reply = world.server.patch(f"{PATH}/a", {"metadata": {"labels": {f"{K}/queue-name": "other"}}})
    assert reply.status == 403
    assert "field is immutable" in reply.body["message"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"suspend": "spec.suspend"}, "kinds[0].suspend: Forbidden: does not go with gate"),
        ({"succeeded": "status.done"}, "kinds[0].succeeded: Forbidden"),
        ({"gate": {"group": ["a/b"]}}, "kinds[0].gate.size: Required value"),
        ({"gate": {"size": 3}}, "kinds[0].gate.group: Required value"),
        ({"gate": "pods"}, "kinds[0].gate: Invalid value"),
        ({"podSets": [{"each": "spec.a", "nameFrom": "b", "template": "c"}]}, "podSets[0].each: Forbidden"),
        ({"podSets": [{**GOOD["podSets"][0], "replicas": 2}]}, "podSets[0].replicas: Forbidden"),
    ],
)
def test_a_kind_with_a_gate_has_no_field_that_would_have_no_effect(change: Wire, said: str) -> None:
    fields = {key: value for key, value in GOOD.items() if key not in ("suspend", "succeeded")}
    assert isinstance(read_kinds(msgspec.json.encode({"kinds": [{**fields, "gate": {}}]})), tuple)
    found = read_kinds(msgspec.json.encode({"kinds": [{**fields, "gate": {}, **change}]}))
    assert isinstance(found, list)
    assert any(said in each for each in found), found


def test_without_groups_each_pod_has_a_workload() -> None:
    assert KIND.gate is not None
    fields = {key: value for key, value in GOOD.items() if key not in ("suspend", "succeeded")}
    found = read_kinds(msgspec.json.encode({"kinds": [{**fields, "gate": {}}]}))
    assert isinstance(found, tuple)
    assert found[0].gate is not None
    assert (found[0].gate.group, KIND.gate.group != ()) == ((), True)
