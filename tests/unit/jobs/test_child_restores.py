"""Child Jobs of a JobSet lose what an earlier admission has added to their templates, before the JobSet runs again."""

from __future__ import annotations

import copy

from headgate.kube.lenient_reader import get_path
from kueue_builders import Wire
from unit.controllers.crashing_world import CrashingWorld
from unit.controllers.kubelet import ENDS
from unit.jobs.fixtures import JOBS, is_complete
from unit.jobs.operators import path_of
from unit.jobs.queue_fixtures import PREEMPTION, create
from unit.jobs.test_framework_kinds import a_kind_world, add, is_running, the

OWN = "jobset.sigs.k8s.io"


def a_running_job_set(**more: str) -> tuple[CrashingWorld, Wire]:
    """A world with a JobSet that runs, and the template that its user wrote for the first job."""
    world = a_kind_world("JobSet", **PREEMPTION)
    before = add(world, "JobSet", "low", priority="low", **more)
    world.advance(3)
    assert is_running(world, "JobSet", "low")
    return world, before["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]


def add_child(world: CrashingWorld, *, ends: bool = False) -> None:
    """The child Job as the controller of JobSets creates it: with keys of its own."""
    owner = the(world, "JobSet", "low")
    template = copy.deepcopy(owner["spec"]["replicatedJobs"][0]["template"]["spec"]["template"])
    template["metadata"]["labels"][f"{OWN}/jobset-name"] = "low"
    template["spec"]["nodeSelector"][f"alpha.{OWN}/place"] = "here"
    template["spec"]["tolerations"] = [{"key": f"alpha.{OWN}/no-schedule", "operator": "Exists"}]
    if ends:
        template["metadata"]["annotations"][ENDS] = "Succeeded"
    reference = {"apiVersion": owner["apiVersion"], "kind": "JobSet", "name": "low", "uid": owner["metadata"]["uid"]}
    metadata = {"name": "child", "ownerReferences": [{**reference, "controller": True}]}
    create(world.server, JOBS, {"metadata": metadata, "spec": {"template": template}})
    world.advance(2)


def child_template(world: CrashingWorld) -> Wire:
    found: Wire = world.server.get(f"{JOBS}/child").body["spec"]["template"]
    return found


def test_a_suspended_child_has_the_template_of_its_user_and_the_keys_of_its_controller() -> None:
    world, original = a_running_job_set()
    add_child(world)
    assert child_template(world)["spec"]["nodeSelector"]["disk"] == "ssd"
    add(world, "JobSet", "high", priority="high")
    world.advance(6)
    assert is_running(world, "JobSet", "high")
    found = child_template(world)
    assert get_path(original, ("spec", "nodeSelector")) is None
    assert found["spec"]["nodeSelector"] == {f"alpha.{OWN}/place": "here"}
    assert found["spec"]["tolerations"] == [{"key": f"alpha.{OWN}/no-schedule", "operator": "Exists"}]
    assert not found["metadata"].get("annotations")
    assert {key.partition("/")[0] for key in found["metadata"]["labels"]} <= {
        OWN,
        "batch.kubernetes.io",
        "controller-uid",
        "job-name",
    }


def test_a_job_set_is_started_again_after_its_children_are_restored() -> None:
    world, _ = a_running_job_set()
    add_child(world)
    add(world, "JobSet", "high", priority="high")
    world.advance(6)
    seen: list[bool] = []
    world.check = lambda _: seen.append(
        is_running(world, "JobSet", "low") and "disk" in child_template(world)["spec"]["nodeSelector"]
    )
    world.server.delete(f"{path_of('JobSet')}/high")
    world.advance(6)
    assert is_running(world, "JobSet", "low")
    assert not any(seen)


def test_the_children_of_a_running_job_set_are_not_changed() -> None:
    world, _ = a_running_job_set()
    add_child(world)
    world.server.patch(f"{path_of('JobSet')}/low", {"metadata": {"annotations": {"x": "y"}}})
    world.advance(2)
    assert is_running(world, "JobSet", "low")
    assert child_template(world)["spec"]["nodeSelector"]["disk"] == "ssd"


def test_a_child_that_has_ended_is_left_as_it_is() -> None:
    world, _ = a_running_job_set()
    add_child(world, ends=True)
    world.advance(3)
    assert is_complete(world, "child")
    before = child_template(world)
    add(world, "JobSet", "high", priority="high")
    world.advance(6)
    assert is_running(world, "JobSet", "high")
    assert child_template(world) == before
