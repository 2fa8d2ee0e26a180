"""The objects of a load: names, labels, and what follows from the options."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.cli.loads.load_objects import LABEL, LoadShape, name_problem, planned_objects
from headgate.nodes.node_template import NodeTemplate, make_nodes

SHAPE = LoadShape("burst", "team", {"pod": 3}, {"cpu": "1"}, image="example.com/main")


def shape(**changes: Any) -> LoadShape:
    values = {name: getattr(SHAPE, name) for name in SHAPE.__struct_fields__}
    return LoadShape(**{**values, **changes})


def test_names_are_fixed_and_every_object_has_the_label() -> None:
    made = list(planned_objects(shape(counts={"pod": 1, "job": 1, "node": 1, "queue": 2})))
    assert [(each.kind, each.namespace, each.name) for each in made] == [
        ("node", "", "burst-node-00001"),
        ("queue", "", "burst-queue-00001"),
        ("queue", "", "burst-queue-00002"),
        ("job", "team", "burst-job-00001"),
        ("pod", "team", "burst-pod-00001"),
    ]
    assert {each.obj["metadata"]["labels"][LABEL] for each in made} == {"burst"}
    assert made == list(planned_objects(shape(counts={"pod": 1, "job": 1, "node": 1, "queue": 2})))


def test_pods_take_the_queues_of_the_load_in_turn_and_opt_in() -> None:
    pods = [each.obj for each in planned_objects(shape(counts={"pod": 3, "queue": 2})) if each.kind == "pod"]
    queues = [each["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] for each in pods]
    assert queues == ["burst-queue-00001", "burst-queue-00002", "burst-queue-00001"]
    assert pods[0]["metadata"]["annotations"]["scheduling.volcano.sh/queue-allocation-gate"] == "true"
    assert pods[0]["spec"]["schedulerName"] == "volcano"


def test_a_pod_has_what_the_options_say() -> None:
    changes = {"gates": ("example.com/a",), "run_for": "5s", "requests": {"cpu": "1", "nvidia.com/gpu": "2"}}
    pod = next(iter(planned_objects(shape(**changes, local_queue="lq", scheduler_name="other")))).obj
    assert pod["spec"]["schedulingGates"] == [{"name": "example.com/a"}]
    assert pod["metadata"]["annotations"] == {"headgate.dev/run-for": "5s"}
    assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "lq"
    assert pod["spec"]["schedulerName"] == "other"
    assert pod["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "nvidia.com/gpu": "2"},
        "limits": {"nvidia.com/gpu": "2"},
    }


def test_a_job_of_a_local_queue_is_suspended_and_its_pods_are_not_queued_again() -> None:
    job = next(iter(planned_objects(shape(counts={"job": 1}, local_queue="lq", pods_per_job=4)))).obj
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "lq"
    assert (job["spec"]["suspend"], job["spec"]["parallelism"], job["spec"]["completions"]) == (True, 4, 4)
    assert job["spec"]["template"]["metadata"]["labels"] == {LABEL: "burst"}


def test_nodes_of_a_load_that_goes_on_keep_their_networks_apart_from_those_of_others() -> None:
    existing = make_nodes(2, NodeTemplate())
    made = [each.obj for each in planned_objects(shape(counts={"node": 2}, node_resources={"cpu": "4"}), existing)]
    assert [each["spec"]["podCIDR"] for each in made] == ["10.128.2.0/24", "10.128.3.0/24"]
    assert made[0]["metadata"]["labels"]["kubernetes.io/hostname"] == "burst-node-00001"
    again = planned_objects(shape(counts={"node": 2}, node_resources={"cpu": "4"}), [*existing, *made])
    assert [each.obj for each in again] == made


@pytest.mark.parametrize("name", ["", "Burst", "a_b", "-a", "a-", "a" * 41, "a.b"])
def test_a_name_that_cannot_be_part_of_names_is_refused(name: str) -> None:
    assert "is not a name of a load" in name_problem(name)


@pytest.mark.parametrize("name", ["a", "burst-1", "a" * 40])
def test_other_names_are_accepted(name: str) -> None:
    assert name_problem(name) == ""
