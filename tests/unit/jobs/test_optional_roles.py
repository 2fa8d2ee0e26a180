"""Job kinds from a file whose objects lack a role, or have an invalid template."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.cli.options.job_options import read_kinds
from kueue_builders import Wire
from unit.controllers.crashing_world import CrashingWorld
from unit.jobs.queue_fixtures import PREEMPTION, WORKLOADS, create
from unit.jobs.test_custom_kinds import GOOD, PATH, a_training_world, is_true, run, workload
from unit.jobs.training import a_run


def sets(*templates: Any) -> Wire:
    return {"podSets": [{"name": f"set-{n}", "template": each} for n, each in enumerate(templates)]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (sets("spec.tasks[0].template"), "must lead through maps only: a list cannot be entered"),
        (sets("spec.tasks.0.template"), "must lead through maps only: a list cannot be entered"),
        (sets(["spec", "tasks", "0", "template"]), "must lead through maps only: a list cannot be entered"),
        (sets("spec.tasks.*.template"), "must lead through maps only: a list cannot be entered"),
        ({"active": "status.conditions[0].status"}, "must lead through maps only: a list cannot be entered"),
        ({"suspend": "spec.flags[0]"}, "must lead through maps only: a list cannot be entered"),
        ({"suspend": "status.suspend"}, "must not be in status"),
        (sets("metadata.template"), "must not be in metadata"),
        (sets("spec.suspend.template"), "clashes with suspend, spec.suspend: one is inside the other"),
        (sets("spec"), "clashes with suspend, spec.suspend: one is inside the other"),
        (sets("spec.template", "spec.template"), "clashes with the template spec.template: its pods would count twice"),
        (sets("spec.a", "spec.a.b"), "clashes with the template spec.a: its pods would count twice"),
    ],
)
def test_a_path_that_no_object_can_have_is_refused_when_the_file_is_read(change: Wire, said: str) -> None:
    read = read_kinds(msgspec.json.encode({"kinds": [{**GOOD, **change}]}))
    assert isinstance(read, list)
    assert any(said in each for each in read), read


def add(world: CrashingWorld, spec: Wire, priority: str = "") -> Wire:
    body = a_run("r")
    if priority:
        body["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
    body["spec"] = {key: value for key, value in {**body["spec"], **spec}.items() if value is not None}
    return create(world.server, PATH, body)


def said(world: CrashingWorld) -> list[str]:
    return [each.message for each in world.emitted if each.reason == "ErrWorkloadCompose"]


@pytest.mark.parametrize("absent", [{"leader": None}, {"leader": {}}, {"leader": {"template": None}}])
def test_a_role_that_is_absent_is_no_pod_set_and_is_not_written_into_the_object(absent: Wire) -> None:
    world = a_training_world(cpu=1, **PREEMPTION)
    before = add(world, absent, priority="low")
    world.advance(2)
    assert run(world, "r")["spec"]["suspend"] is False
    assert [each["name"] for each in workload(world, "r")["spec"]["podSets"]] == ["workers"]
    assert run(world, "r")["spec"].get("leader") == before["spec"].get("leader")
    assert is_true(workload(world, "r"), "PodsReady"), "all pods that it has"
    other = a_run("high")
    other["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    del other["spec"]["leader"]
    create(world.server, PATH, other)
    world.advance(5)
    assert run(world, "high")["spec"]["suspend"] is False
    stopped = run(world, "r")["spec"]
    assert stopped == {**before["spec"], "suspend": True}, "stopped, and again what its user wrote"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"leader": {"template": {}}}, "spec.leader.template is not a pod template with containers"),
        ({"leader": {"template": {"spec": {"containers": []}}}}, "spec.leader.template is not a pod template"),
        ({"leader": {"template": [{"spec": {}}]}}, "spec.leader.template is not a pod template"),
        ({"leader": [{"template": {"spec": {}}}]}, "spec.leader is not a map, so spec.leader.template cannot be read"),
        ({"leader": "big"}, "spec.leader is not a map, so spec.leader.template cannot be read"),
        ({"leader": None, "workers": None}, "the job has no pod template: spec.leader.template, spec.workers.template"),
        (
            {"leader": None, "workers": {**a_run("r")["spec"]["workers"], "replicas": "3"}},
            "spec.workers.replicas is '3'",
        ),
    ],
)
def test_a_job_whose_pods_cannot_be_counted_is_not_started_and_reports_why(spec: Wire, message: str) -> None:
    world = a_training_world()
    before = add(world, spec)
    world.advance(2)
    assert world.server.get(WORKLOADS).body["items"] == []
    assert run(world, "r")["spec"] == before["spec"]
    (told,) = said(world)
    assert message in told


def test_a_pending_job_without_containers_loses_its_workload() -> None:
    world = a_training_world(cpu=1)
    add(world, {})
    world.advance(2)
    assert workload(world, "r")
    world.server.patch(f"{PATH}/r", {"spec": {"leader": {"template": {"spec": {"containers": []}}}}})
    world.advance(2)
    assert world.server.get(WORKLOADS).body["items"] == []
    assert "spec.leader.template is not a pod template with containers" in said(world)[0]
