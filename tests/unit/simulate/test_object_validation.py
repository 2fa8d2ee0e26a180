"""What the API server would refuse is refused in traces, snapshots and variants, with the field."""

from __future__ import annotations

from typing import Any

import pytest

from headgate import schemas
from headgate.kube.schema import Schemas
from headgate.simulate.object_validation import ObjectValidation
from headgate.simulate.snapshot import SnapshotError, read_snapshot
from headgate.simulate.trace import TraceJob
from headgate.simulate.variants import Variant, snapshot_of
from simulated_clusters import machines, volcano_queue


@pytest.fixture(scope="module")
def validation() -> ObjectValidation:
    return ObjectValidation(Schemas.load(schemas.read()))


def job(**fields: Any) -> TraceJob:
    return TraceJob(**{"submit": 0, "run": 1, "queue": "q", "requests": {"cpu": "1"}, "name": "a", **fields})


TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}


def test_valid_rules_are_accepted(validation: ObjectValidation) -> None:
    found = job(
        requests={"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"},
        affinity={"nodeAffinity": REQUIRED},
        tolerations=({"key": "gpu", "operator": "Exists"},),
        topology_spread_constraints=(
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}},
        ),
        node_selector={"zone": "a"},
        labels={"app": "x"},
        preemption_policy="Never",
    )
    assert validation.job_problem(found) == ""


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"affinity": {"nodeAffinty": REQUIRED}}, 'unknown field "affinity.nodeAffinty"'),
        ({"affinity": {"nodeAffinity": {"requiredDuringScheduling": {}}}}, "requiredDuringScheduling"),
        ({"affinity": {"nodeAffinity": []}}, "cannot unmarshal array"),
        ({"tolerations": ({"key": "a", "operator": "Is"},)}, "tolerations[0].operator"),
        ({"tolerations": ({"keys": "a"},)}, 'unknown field "tolerations[0].keys"'),
        ({"topology_spread_constraints": ({"maxSkew": 0},)}, "topologySpreadConstraints[0].maxSkew"),
        ({"node_selector": {"not a key": "x"}}, "nodeSelector"),
        ({"labels": {"a": "not a label"}}, "labels"),
        ({"annotations": {"": "x"}}, "annotations"),
        ({"requests": {"nvidia.com/gpu": "500m"}}, "requests[nvidia.com/gpu]"),
        ({"requests": {"cpus": "1"}}, "requests[cpus]"),
        ({"namespace": "a.b"}, "namespace"),
    ],
)
def test_invalid_rules_are_refused_with_their_field(
    validation: ObjectValidation, fields: dict[str, Any], problem: str
) -> None:
    assert problem in validation.job_problem(job(**fields))


def node(**fields: Any) -> dict[str, Any]:
    return {**machines(1)[0], **fields}


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        (node(spec={"taints": [{"key": "a", "effect": "No"}]}), "taints[0].effect"),
        (node(spec="none"), "Node"),
        (node(status={"capacity": {"cpu": "-1"}}), 'status.capacity.cpu: Invalid value: "-1"'),
        (node(status={"allocatable": {"cpu": "much"}}), "quantities must match"),
        (node(apiVersion="example.com/v1"), "its apiVersion is example.com/v1, and v1 is simulated"),
        ({"kind": "Namespace", "metadata": {"name": "Not A Name"}}, "metadata.name"),
        ({**volcano_queue("q"), "spec": {"capability": {"cpu": []}}}, "spec.capability.cpu"),
        ({**volcano_queue("q"), "spec": {"weight": "1"}}, "spec.weight"),
        ({**volcano_queue("q"), "status": 3}, "status"),
        ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": []}}, "spec.containers"),
    ],
)
def test_invalid_objects_of_a_snapshot_are_refused(
    validation: ObjectValidation, obj: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SnapshotError) as raised:
        read_snapshot([obj], validation.object_problem)
    assert problem in str(raised.value)
    with pytest.raises(SnapshotError, match="variant v") as raised:
        snapshot_of(read_snapshot([]), Variant("v", add=(obj,)), validation.object_problem)
    assert problem in str(raised.value)


def test_unknown_fields_of_a_snapshot_are_named(validation: ObjectValidation) -> None:
    """A snapshot may be from a newer cluster."""
    given = node(spec={"taint": []}), {**volcano_queue("q"), "spec": {"weigth": 1}}
    first, second = read_snapshot(given, validation.object_problem).unknown
    assert 'unknown field "spec.taint"' in first
    assert 'Queue q: unknown field "spec.weigth"' in second
