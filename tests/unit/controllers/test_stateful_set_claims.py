"""The claims of StatefulSets: created before their pods, and owned by the retention policy."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.framework.effects import Create, Effect, EffectResponse
from headgate.controllers.stateful_sets.claim_cache import ClaimCache
from headgate.controllers.stateful_sets.claim_retention import wanted_owners
from unit.controllers.kubelet_steps import PODS, names, pods, run
from unit.controllers.stateful_set_fixtures import CLAIMS, LABELS, SETS, a_world
from unit.controllers.world import World

Object = dict[str, Any]


@pytest.fixture
def world() -> World:
    return a_world()


def create(world: World, replicas: int = 2, **spec: Any) -> None:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"metadata": {"name": "data", "labels": {"of": "data"}}, "spec": storage}
    whole = {
        "replicas": replicas,
        "serviceName": "db",
        "selector": {"matchLabels": LABELS},
        "template": template,
        "volumeClaimTemplates": [claim],
        "podManagementPolicy": "Parallel",
    }
    answer = world.server.post(SETS, {"metadata": {"name": "db"}, "spec": {**whole, **spec}})
    assert answer.status == 201, answer.body
    world.advance(0.5)


def policy(scaled: str, deleted: str) -> Object:
    return {"persistentVolumeClaimRetentionPolicy": {"whenScaled": scaled, "whenDeleted": deleted}}


def claims(world: World) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in world.server.get(CLAIMS).body["items"]}


def owners(world: World) -> dict[str, list[str]]:
    found = {name: each["metadata"].get("ownerReferences") or [] for name, each in claims(world).items()}
    return {name: [f"{each['kind']} {each['name']}" for each in references] for name, references in found.items()}


def change(world: World, **spec: Any) -> None:
    assert world.server.patch(f"{SETS}/db", {"spec": spec}).status == 200
    world.advance(0.5)


def test_claims_are_created_before_their_pods(world: World) -> None:
    create(world)
    assert {name: each["metadata"]["labels"] for name, each in claims(world).items()} == {
        "data-db-0": {"of": "data", "app": "db"},
        "data-db-1": {"of": "data", "app": "db"},
    }
    volumes = pods(world)["db-1"]["spec"]["volumes"]
    assert [each["persistentVolumeClaim"]["claimName"] for each in volumes if each["name"] == "data"] == ["data-db-1"]
    posted = [path.rpartition("/")[2] for method, path in world.requests if method == "POST"]
    assert posted.index("persistentvolumeclaims") < posted.index("pods")


def test_a_pod_whose_claim_is_rejected_is_not_created(world: World) -> None:
    def refuse(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Create) and effect.resource.plural == "persistentvolumeclaims":
            return EffectResponse(403, {"message": "no"}, world.server.epoch_s)
        return None

    world.refuse = refuse
    create(world)
    assert names(world) == []
    assert world.emitted[0].message == "Create Claim data-db-0 for Pod db-0 in StatefulSet db failed error: no"
    assert world.emitted[1].message == (
        "Create Pod db-0 in StatefulSet db failed error: failed to create PVC data-db-0: no"
    )


def test_a_deleted_claim_of_a_pending_pod_is_recreated(world: World) -> None:
    create(world, 1)
    path = f"{CLAIMS}/data-db-0"
    world.server.patch(path, {"metadata": {"finalizers": None}})
    world.server.delete(path)
    world.server.patch(f"{PODS}/db-0", {"metadata": {"labels": {"touched": "true"}}})
    world.advance(0.5)
    assert list(claims(world)) == ["data-db-0"]


@pytest.mark.parametrize(
    ("scaled", "deleted", "kept", "condemned"),
    [
        ("Retain", "Retain", [], []),
        ("Retain", "Delete", ["StatefulSet db"], ["StatefulSet db"]),
        ("Delete", "Retain", [], ["Pod db-1"]),
        ("Delete", "Delete", ["StatefulSet db"], ["Pod db-1"]),
    ],
)
def test_the_retention_policy_decides_the_owner_of_a_claim(
    world: World, scaled: str, deleted: str, kept: list[str], condemned: list[str]
) -> None:
    create(world, **policy(scaled, deleted))
    assert owners(world) == {"data-db-0": kept, "data-db-1": kept}
    run(world)
    change(world, replicas=1)
    assert owners(world) == {"data-db-0": kept, "data-db-1": condemned}


def test_a_policy_that_changes_changes_the_owners(world: World) -> None:
    create(world, **policy("Retain", "Delete"))
    run(world)
    change(world, **policy("Retain", "Retain"))
    assert owners(world) == {"data-db-0": [], "data-db-1": []}
    assert "SuccessfulUpdate" in [each.reason for each in world.emitted]


def test_a_new_pod_waits_until_the_claim_of_its_predecessor_is_deleted(world: World) -> None:
    create(world, **policy("Delete", "Retain"))
    change(world, replicas=1)
    assert names(world) == ["db-0"]
    change(world, replicas=2)
    assert names(world) == ["db-0"]
    world.server.patch(f"{CLAIMS}/data-db-1", {"metadata": {"finalizers": None}})
    world.server.delete(f"{CLAIMS}/data-db-1")
    world.advance(0.5)
    assert names(world) == ["db-0", "db-1"]


def test_a_claim_with_another_controller_is_not_changed(world: World) -> None:
    create(world, 1)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": True}
    world.server.patch(f"{CLAIMS}/data-db-0", {"metadata": {"ownerReferences": [other]}})
    change(world, **policy("Delete", "Delete"))
    assert owners(world) == {"data-db-0": ["ConfigMap x"]}


def test_own_writes_count_at_once_and_older_events_change_nothing() -> None:
    known = ClaimCache()

    def claim(revision: int, uid: str = "u") -> Object:
        return {"metadata": {"namespace": "a", "name": "c", "uid": uid, "resourceVersion": str(revision)}}

    known.observe_write(claim(5))
    known.applied(claim(3))
    assert known.get("a", "c") == claim(5)
    known.applied(claim(7))
    assert known.get("a", "c") == claim(7)
    assert known.removed("a", "c", "another") == []
    assert known.get("a", "c") == claim(7)
    known.wait_until_gone("a", "c", ("a", "db"))
    assert known.removed("a", "c", "u") == [("a", "db")]
    known.observe_write(claim(9, "v"))
    known.synced("8")
    assert known.get("a", "c") == claim(9, "v")
    known.synced("9")
    assert known.get("a", "c") is None, "a whole list did not have it"


def test_owners_that_are_right_are_not_written_again() -> None:
    set_ = {"metadata": {"name": "db", "uid": "s"}, "spec": policy("Delete", "Delete")}
    pod = {"metadata": {"name": "db-0", "uid": "p"}}
    claim: Object = {"metadata": {"name": "data-db-0"}}
    wanted = wanted_owners(claim, set_, pod, is_scaled_down=False)
    assert [each["uid"] for each in wanted or ()] == ["s"]
    owned: Object = {"metadata": {"name": "data-db-0", "ownerReferences": wanted}}
    assert wanted_owners(owned, set_, pod, is_scaled_down=False) is None
    again = wanted_owners(owned, set_, pod, is_scaled_down=True)
    assert [each["uid"] for each in again or ()] == ["p"]
    stale = {"metadata": {"name": "db", "uid": "another"}, "spec": policy("Delete", "Delete")}
    assert wanted_owners(owned, stale, pod, is_scaled_down=True) is None, (
        "a namesake's claims are the collector's business"
    )
    mixed = [*(wanted or ()), {"apiVersion": "v1", "kind": "Pod", "name": "db-0", "uid": "p", "controller": False}]
    torn: Object = {"metadata": {"name": "data-db-0", "ownerReferences": mixed}}
    assert wanted_owners(torn, stale, pod, is_scaled_down=True) is None
