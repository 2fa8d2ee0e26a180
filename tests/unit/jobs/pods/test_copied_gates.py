"""The gate of a Deployment on its ReplicaSets is a copy: it does not hold pods."""

from __future__ import annotations

import pytest

from headgate.jobs.framework.management import known_ancestors
from headgate.jobs.framework.scheduling_gated_by import gated_by
from headgate.jobs.pods.ancestor_gates import AncestorGates
from headgate.jobs.pods.pod_cache import POD
from headgate.kube.api_resources import DEPLOYMENTS, REPLICA_SETS
from kueue_builders import Wire
from queued_objects import QUEUE, SCHEDULING_GATED, owned_by, queued
from unit.jobs.pods.fixtures import a_pod

KEY = (POD, "ns", "p")
GATE = {SCHEDULING_GATED: "example.com/a"}
SIZES = {"deployment.kubernetes.io/desired-replicas": "1", "deployment.kubernetes.io/revision": "1"}


def of(kind: str, name: str, annotations: dict[str, str], owner: Wire | None = None) -> Wire:
    made = queued(kind, name, annotations=annotations, owner=owner)
    made["metadata"] |= {"namespace": "ns", "uid": f"uid-{name}"}
    return made


def a_pod_of(owner: Wire) -> Wire:
    pod = a_pod("p")
    pod["metadata"] |= {"namespace": "ns", "uid": "uid-p", "ownerReferences": [owned_by(owner)]}
    return pod


@pytest.mark.parametrize("is_gated", [True, False])
def test_the_gate_of_the_deployment_counts_and_not_its_copy(is_gated: bool) -> None:
    above = AncestorGates(known_ancestors(), manages_all=False)
    deployment = of("Deployment", "web", GATE if is_gated else {"other": "x"})
    replica_set = of("ReplicaSet", "web-1", {**GATE, **SIZES}, deployment)
    above.put(DEPLOYMENTS, deployment)
    above.put(REPLICA_SETS, replica_set)
    assert above.gate_of_pod(a_pod_of(replica_set), KEY) == ("example.com/a" if is_gated else None)


def test_a_replica_set_that_was_orphaned_holds_no_pods() -> None:
    above = AncestorGates(known_ancestors(), manages_all=False)
    orphan = of("ReplicaSet", "web-1", {**GATE, **SIZES})
    assert orphan["metadata"]["labels"][QUEUE] == "lq"
    above.put(REPLICA_SETS, orphan)
    assert above.gate_of_pod(a_pod_of(orphan), KEY) is None


def test_a_gated_replica_set_of_a_user_holds_its_pods() -> None:
    above = AncestorGates(known_ancestors(), manages_all=False)
    alone = of("ReplicaSet", "alone", GATE)
    above.put(REPLICA_SETS, alone)
    assert above.gate_of_pod(a_pod_of(alone), KEY) == "example.com/a"
    assert gated_by(alone) == "example.com/a"
