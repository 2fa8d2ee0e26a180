"""A kind that is held by a value of a field, and whose pod sets are a map, in a queue."""

from __future__ import annotations

from headgate.kube import conditions
from headgate.kube.lenient_reader import get_path
from unit.jobs.model_server import PATH, a_model_server, a_server_world, add, is_running, the, the_kind
from unit.jobs.operators import encoded
from unit.jobs.queue_fixtures import PREEMPTION, WORKLOADS


def test_a_new_object_is_held_and_started_when_it_is_admitted() -> None:
    world = a_server_world()
    body = add(world, "a")
    assert body["spec"]["runState"] == "Halted"
    world.advance(2)
    assert is_running(world, "a")
    add(world, "b")
    world.advance(3)
    assert not is_running(world, "b")
    world.server.delete(f"{PATH}/a")
    world.advance(3)
    assert is_running(world, "b")


def test_the_pod_sets_of_a_map_are_named_by_its_keys() -> None:
    world = a_server_world(cpu=4)
    add(world, "a", replicas=3)
    world.advance(3)
    (workload,) = world.server.get(WORKLOADS).body["items"]
    assert [(each["name"], each["count"]) for each in workload["spec"]["podSets"]] == [("router", 1), ("workers", 3)]
    assert conditions.is_true(workload["status"]["conditions"], "PodsReady")


def test_an_element_that_is_not_enabled_has_no_pods() -> None:
    body = a_model_server("a")
    body["spec"]["roles"]["router"]["enabled"] = False
    assert [each.name for each in the_kind().pod_sets(body).found] == ["workers"]


def test_a_preempted_object_is_paused_and_byte_for_byte_what_its_user_wrote() -> None:
    world = a_server_world(cpu=4, **PREEMPTION)
    before = add(world, "low", replicas=5, least=2, priority="low")
    world.advance(3)
    assert get_path(the(world, "low"), ("spec", "roles", "Workers", "replicas")) == 3, "as many as there is quota for"
    add(world, "high", replicas=2, priority="high")
    world.advance(5)
    assert is_running(world, "high")
    assert encoded(the(world, "low")["spec"]) == encoded(before["spec"])


def test_an_object_that_a_file_refuses_is_rejected_with_its_text() -> None:
    world = a_server_world()
    reply = world.server.post(PATH, a_model_server("a", runState="Draining"))
    assert reply.status == 201, "admission pauses it before it is checked"
    reply = world.server.patch(f"{PATH}/a", {"spec": {"runState": "Draining"}})
    assert reply.status == 403
    assert 'spec.runState: Invalid value: "Draining": a server in a queue is halted or runs' in reply.body["message"]


def test_an_object_that_was_created_without_admission_is_paused() -> None:
    world = a_server_world(cpu=1, has_admission=False)
    add(world, "a", runState="Running")
    world.advance(3)
    assert the(world, "a")["spec"]["runState"] == "Halted"
