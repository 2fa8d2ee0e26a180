"""The managed ancestor of a job: chains of controllers with and without queues, broken chains, cycles, deep chains."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.jobs.framework.management import (
    CYCLE,
    MAX_DEPTH,
    NOT_FOUND,
    TOO_DEEP,
    UnknownAncestor,
    known_ancestors,
    managed_ancestor,
)
from headgate.kube.api_resources import DEPLOYMENTS, JOBS, REPLICA_SETS, APIResource

Object = dict[str, Any]
KNOWN = known_ancestors()
KINDS = {JOBS: ("batch/v1", "Job"), DEPLOYMENTS: ("apps/v1", "Deployment"), REPLICA_SETS: ("apps/v1", "ReplicaSet")}


class Family:
    def __init__(self) -> None:
        self.there: dict[tuple[APIResource, str, str], Object] = {}

    def add(self, resource: APIResource, name: str, owner: Object | None = None, queue: str = "") -> Object:
        api_version, kind = KINDS[resource]
        metadata: Object = {"namespace": "ns", "name": name, "uid": f"uid-{name}"}
        if queue:
            metadata["labels"] = {"kueue.x-k8s.io/queue-name": queue}
        if owner is not None:
            metadata["ownerReferences"] = [reference(owner)]
        made = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
        self.there[resource, "ns", name] = made
        return made

    def find(self, resource: APIResource, namespace: str, name: str) -> Object | None:
        return self.there.get((resource, namespace, name))

    def top_of(self, obj: Object, manages_all: bool = False) -> str | UnknownAncestor | None:
        found = managed_ancestor(obj, self.find, KNOWN, manages_all=manages_all)
        return found if found is None or isinstance(found, UnknownAncestor) else str(found["metadata"]["name"])


def reference(owner: Object, **other: Any) -> Object:
    metadata = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, "controller": True, **other}


def a_pod(*owners: Object) -> Object:
    return {"metadata": {"namespace": "ns", "name": "p", "uid": "uid-p", "ownerReferences": list(owners)}}


def test_an_object_without_a_controller_has_no_managed_ancestor() -> None:
    family = Family()
    assert family.top_of(family.add(JOBS, "a", queue="lq")) is None


@pytest.mark.parametrize(
    ("middle", "top", "manages_all", "expected"),
    [
        ("", "", False, None),
        ("lq", "", False, "middle"),
        ("", "lq", False, "top"),
        ("lq", "lq", False, "top"),
        ("", "", True, "top"),
        ("lq", "", True, "top"),
    ],
)
def test_the_topmost_ancestor_with_a_queue_is_the_managed_one(
    middle: str, top: str, manages_all: bool, expected: str | None
) -> None:
    family = Family()
    above = family.add(DEPLOYMENTS, "top", queue=top)
    between = family.add(JOBS, "middle", above, queue=middle)
    assert family.top_of(a_pod(reference(between)), manages_all) == expected


def test_a_job_of_a_cron_job_has_no_managed_ancestor() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u", "controller": True}
    assert Family().top_of(a_pod(owner)) is None


def test_an_owner_that_is_not_the_controller_is_no_ancestor() -> None:
    family = Family()
    job = family.add(JOBS, "a", queue="lq")
    assert family.top_of(a_pod(reference(job, controller=False))) is None


def test_an_object_with_the_owners_name_and_another_uid_is_no_ancestor() -> None:
    family = Family()
    job = family.add(JOBS, "a", queue="lq")
    assert family.top_of(a_pod(reference(job, uid="another"))) is None


def test_an_owner_of_another_version_is_the_same() -> None:
    family = Family()
    job = family.add(JOBS, "a", queue="lq")
    assert family.top_of(a_pod(reference(job, apiVersion="batch/v2"))) == "a"


def test_an_owner_that_is_not_known_yet_gives_an_unknown_ancestor() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u", "controller": True}
    found = Family().top_of(a_pod(owner))
    assert isinstance(found, UnknownAncestor)
    assert found.reason == NOT_FOUND
    assert found.message == "Job ns/a, which controls it, is not known"


def test_a_cycle_of_owners_is_reported() -> None:
    family = Family()
    first = family.add(JOBS, "a", queue="lq")
    second = family.add(JOBS, "b", first)
    first["metadata"]["ownerReferences"] = [reference(second)]
    found = family.top_of(second)
    assert isinstance(found, UnknownAncestor)
    assert found.reason == CYCLE


@pytest.mark.parametrize(("levels", "is_found"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_at_most_ten_ancestors_are_searched(levels: int, is_found: bool) -> None:
    family = Family()
    owner: Object | None = None
    for level in range(levels):
        owner = family.add(JOBS, f"a{level}", owner, queue="" if level else "lq")
    assert owner is not None
    found = family.top_of(a_pod(reference(owner)))
    if is_found:
        assert found == "a0"
    else:
        assert isinstance(found, UnknownAncestor)
        assert found.reason == TOO_DEEP
        assert found.message.endswith("exceeded limit of 10")


def test_the_queue_of_a_replica_set_with_an_owner_is_that_of_its_pods() -> None:
    family = Family()
    alone = family.add(REPLICA_SETS, "alone", queue="lq")
    owned = family.add(REPLICA_SETS, "owned", family.add(DEPLOYMENTS, "d"), queue="lq")
    assert family.top_of(a_pod(reference(alone))) == "alone"
    assert family.top_of(a_pod(reference(owned))) is None
