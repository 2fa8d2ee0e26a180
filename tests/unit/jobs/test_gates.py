"""Gates of every job kind: ``scheduling-gated-by`` prevents the Workload, ``admission-gated-by`` holds it."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.framework.effects import EmitEvent
from headgate.jobs.framework.job_controller import ManagedJobController
from headgate.kube import conditions
from headgate.kube.feature_gates import FeatureGates
from kueue_builders import Wire
from unit.controllers.world import World
from unit.jobs.fixtures import GATE, GATING, JOBS, a_job, a_world, add, job, running, workload
from unit.jobs.queue_fixtures import WORKLOADS, create
from unit.jobs.test_custom_kinds import PATH, a_child, a_training_world, run
from unit.jobs.training import a_run

HELD_BY = "kueue.x-k8s.io/admission-gated-by"
OFF = FeatureGates(admission_gated_by=False)


def count(world: World) -> int:
    return len(world.server.get(WORKLOADS).body["items"])


def gates(world: World, name: str) -> str | None:
    found = workload(world, name)
    assert found is not None
    value: str | None = (found["metadata"].get("annotations") or {}).get(HELD_BY)
    return value


def updates(world: World) -> list[EmitEvent]:
    return [each for each in world.emitted if each.reason == "UpdatedWorkload"]


def change(world: World, path: str, annotations: Wire) -> None:
    answer = world.server.patch(path, {"metadata": {"annotations": annotations}})
    assert answer.status == 200, answer.body
    world.advance(1)


# -- no Workload ---------------------------------------------------------------------------------------------------


def test_an_invented_kind_is_gated_like_any_other() -> None:
    world = a_training_world(features=GATING)
    body = a_run("a")
    body["metadata"]["annotations"] = {GATE: "example.com/g"}
    create(world.server, PATH, body)
    world.advance(3)
    assert count(world) == 0
    assert run(world, "a")["spec"]["suspend"] is True
    world.server.patch(f"{PATH}/a", {"spec": {"suspend": False}})
    world.advance(2)
    assert run(world, "a")["spec"]["suspend"] is True, "suspended again"
    assert world.server.patch(f"{PATH}/a", {"metadata": {"annotations": {GATE: "example.com/h"}}}).status == 403
    change(world, f"{PATH}/a", {GATE: None})
    assert run(world, "a")["spec"]["suspend"] is False


def test_a_child_of_a_gated_job_waits_with_it_and_has_no_gate_of_its_own() -> None:
    world = a_training_world(features=GATING)
    body = a_run("a")
    body["metadata"]["annotations"] = {GATE: "example.com/g"}
    create(world.server, PATH, body)
    a_child(world, run(world, "a"))
    world.advance(2)
    assert running(world) == []
    assert GATE not in job(world, "child")["metadata"].get("annotations", {})
    assert count(world) == 0
    change(world, f"{PATH}/a", {GATE: None})
    world.server.patch(f"{JOBS}/child", {"spec": {"suspend": False}})
    world.advance(2)
    assert running(world) == ["child"]
    assert count(world) == 1


def test_a_gated_job_blocks_no_other_in_a_strict_queue_and_leaves_no_workload() -> None:
    world = a_world(features=GATING, queueingStrategy="StrictFIFO")
    add(world, "gated", annotations={GATE: "example.com/g"})
    world.advance(1)
    add(world, "next")
    world.advance(2)
    assert running(world) == ["next"]
    assert world.server.delete(f"{JOBS}/gated", {"propagationPolicy": "Background"}).status == 200
    world.advance(2)
    assert world.server.get(f"{JOBS}/gated").status == 404
    assert count(world) == 1


def test_a_removed_gate_cannot_be_added_again() -> None:
    world = a_world(features=GATING)
    add(world, "a", annotations={GATE: "example.com/g"})
    change(world, f"{JOBS}/a", {GATE: None})
    answer = world.server.patch(f"{JOBS}/a", {"metadata": {"annotations": {GATE: "example.com/g"}}})
    assert answer.status == 403
    assert "cannot be added after creation" in answer.body["message"]


@pytest.mark.parametrize(("size", "is_fine"), [(63, True), (64, False)])
def test_a_gate_has_at_most_63_letters(size: int, is_fine: bool) -> None:
    world = a_world(features=GATING)
    name = "example.com/" + "g" * (size - len("example.com/"))
    assert (world.server.post(JOBS, a_job("a", annotations={GATE: name})).status == 201) is is_fine


def test_a_new_process_keeps_gating_and_emits_the_event_again() -> None:
    world = a_world(features=GATING)
    add(world, "a", annotations={GATE: "example.com/g"})
    world.advance(1)
    world.crash()
    world.advance(5)
    assert count(world) == 0
    assert running(world) == []


def test_a_gate_that_is_removed_while_no_process_runs_is_seen_by_the_next_one() -> None:
    world = a_world(features=GATING)
    add(world, "a", annotations={GATE: "example.com/g"})
    world.advance(1)
    assert count(world) == 0
    assert world.server.patch(f"{JOBS}/a", {"metadata": {"annotations": {GATE: None}}}).status == 200
    world.crash()
    world.advance(1)
    assert count(world) == 1
    assert running(world) == ["a"]


def test_gated_jobs_get_workloads_when_the_feature_is_disabled() -> None:
    features = [GATING]
    world = a_world(features=GATING)
    world._makers = (*world._makers[:1], lambda: ManagedJobController(features[0]), *world._makers[2:])
    world.crash()
    add(world, "a", annotations={GATE: "example.com/g"})
    world.advance(2)
    assert count(world) == 0
    features[0] = FeatureGates()
    world.crash()
    world.advance(2)
    assert running(world) == ["a"]


# -- a Workload that is held back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["example.com/a", "example.com/a,example.com/b"])
def test_a_workload_has_the_gates_of_its_job_and_waits(value: str) -> None:
    world = a_world()
    add(world, "a", annotations={HELD_BY: value})
    world.advance(2)
    assert gates(world, "a") == value
    found = workload(world, "a")
    assert found is not None
    waits = conditions.find(found["status"]["conditions"], "QuotaReserved")
    assert waits is not None
    assert (waits["reason"], waits["message"]) == ("AdmissionGated", f"Admission is gated by: {value}")
    assert running(world) == []


def test_removed_gates_are_removed_from_the_workload_with_one_event() -> None:
    world = a_world()
    add(world, "a", annotations={HELD_BY: "example.com/a,example.com/b"})
    world.advance(1)
    change(world, f"{JOBS}/a", {HELD_BY: "example.com/b"})
    assert gates(world, "a") == "example.com/b"
    assert running(world) == []
    change(world, f"{JOBS}/a", {HELD_BY: None})
    assert gates(world, "a") is None
    assert running(world) == ["a"]
    assert [each.message for each in updates(world)] == [
        'Updated workload AdmissionGatedBy to "example.com/b"',
        'Updated workload AdmissionGatedBy to ""',
    ]


def test_equal_gates_are_not_written() -> None:
    world = a_world()
    add(world, "a", annotations={HELD_BY: "example.com/a"})
    world.advance(1)
    before = len(world.requests)
    world.advance(20)
    assert [each for each in world.requests[before:] if each[0] != "GET"] == []
    assert updates(world) == []


def test_without_the_feature_gate_the_annotation_is_neither_copied_nor_honoured() -> None:
    world = a_world(features=OFF)
    add(world, "a", annotations={HELD_BY: "not a gate"})
    world.advance(2)
    assert gates(world, "a") is None
    assert running(world) == ["a"]


@pytest.mark.parametrize(("features", "is_refused"), [(FeatureGates(), True), (OFF, False)])
def test_without_the_feature_gate_the_annotation_of_a_workload_is_not_validated(
    features: FeatureGates, is_refused: bool
) -> None:
    world = a_world(features=features)
    add(world, "a", cpu="9")
    world.advance(1)
    found = workload(world, "a")
    assert found is not None
    path = f"{WORKLOADS}/{found['metadata']['name']}"
    answer = world.server.patch(path, {"metadata": {"annotations": {HELD_BY: "what? ever"}}})
    assert (answer.status == 403) is is_refused
    body: dict[str, Any] = {key: value for key, value in found.items() if key not in ("status", "metadata")}
    body["metadata"] = {"name": "own", "annotations": {HELD_BY: "what? ever"}}
    assert (world.server.post(WORKLOADS, body).status == 403) is is_refused
