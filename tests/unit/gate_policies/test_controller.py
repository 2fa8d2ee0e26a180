"""The controller of GatePolicies: ages, Leases, status and metrics, on the embedded API server."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.controllers.framework.effects import Delete, Effect, EffectResponse, Get, Patch
from headgate.kube.api_resources import LEASES as LEASE_RESOURCE
from headgate.kube.api_resources import PODS as POD_RESOURCE
from unit.controllers.world import World
from unit.gate_policies.policies import GATE, OTHER_GATE, account
from unit.gate_policies.policy_world import (
    PODS,
    POLICIES,
    a_server,
    a_world,
    conditions_of,
    create_pod,
    create_policy,
    lift,
    message_of,
)

LEASES = "/apis/coordination.k8s.io/v1/namespaces/t/leases"
OK = ("True", "Accepted")


def gates(world: World, name: str) -> list[str]:
    return [each["name"] for each in world.server.get(f"{PODS}/{name}").body["spec"].get("schedulingGates", [])]


def reasons(world: World) -> list[tuple[str, str]]:
    return [(each.about["name"], each.reason) for each in world.emitted]


def test_a_good_policy_is_accepted_and_counts_its_pods() -> None:
    world, metrics = a_world()
    create_policy(world.server, "p", maxAge="1h", liftedBy=[account("team", "robot")])
    create_pod(world.server, "a")
    create_pod(world.server, "b", OTHER_GATE)
    world.advance(10)
    assert conditions_of(world) == {"Accepted": OK, "WithinMaxAge": ("True", "WithinMaxAge")}
    status = world.server.get(f"{POLICIES}/p").body["status"]
    assert (status["pods"], status["overduePods"]) == (1, 0)
    page = metrics.page(world.server.epoch_s).decode()
    assert f'headgate_gate_policy_pods{{policy="p",gate="{GATE}"}} 1' in page
    assert f'headgate_gate_policy_oldest_seconds{{policy="p",gate="{GATE}"}} 10' in page
    lift(world.server, "a", "robot")
    world.advance(2)
    assert world.server.get(f"{POLICIES}/p").body["status"]["pods"] == 0


def test_a_status_that_is_right_is_not_written_again() -> None:
    world, _ = a_world()
    create_policy(world.server, "p")
    world.advance(10)
    world.requests.clear()
    world.crash().advance(100)
    assert [each for each in world.requests if each[0] != "GET"] == []


def test_many_pods_at_once_are_one_write_of_the_status() -> None:
    world, _ = a_world()
    create_policy(world.server, "p")
    world.advance(10)
    for number in range(50):
        create_pod(world.server, f"pod-{number}")
    world.requests.clear()
    world.advance(5)
    assert len([each for each in world.requests if each[0] == "PATCH"]) == 1
    assert world.server.get(f"{POLICIES}/p").body["status"]["pods"] == 50


def test_an_invalid_duration_is_named_and_the_rest_is_in_effect() -> None:
    world, _ = a_world()
    create_policy(world.server, "p", maxAge="soon", liftedBy=[])
    create_policy(world.server, "q", OTHER_GATE)
    create_pod(world.server, "a")
    world.advance(5)
    assert conditions_of(world) == {"Accepted": ("False", "Invalid")}
    assert 'spec.maxAge: time: invalid duration "soon"' in message_of(world, "p", "Accepted")
    assert conditions_of(world, "q") == {"Accepted": OK}
    assert lift(world.server, "a", "robot").status == 403
    world.server.patch(f"{POLICIES}/p", {"spec": {"maxAge": "1h"}})
    world.advance(5)
    assert conditions_of(world)["Accepted"] == OK


def test_the_younger_of_two_policies_names_the_conflict_until_the_older_is_deleted() -> None:
    world, _ = a_world()
    create_policy(world.server, "z-old", GATE)
    world.server.epoch_s += 5
    create_policy(world.server, "a-new", GATE, OTHER_GATE)
    create_pod(world.server, "a", GATE, OTHER_GATE)
    world.advance(5)
    assert conditions_of(world, "z-old") == {"Accepted": OK}
    assert conditions_of(world, "a-new") == {"Accepted": ("False", "Conflict")}
    assert 'belongs to the older GatePolicy "z-old"' in message_of(world, "a-new", "Accepted")
    counted = {name: world.server.get(f"{POLICIES}/{name}").body["status"]["pods"] for name in ("z-old", "a-new")}
    assert counted == {"z-old": 1, "a-new": 1}
    world.server.delete(f"{POLICIES}/z-old")
    world.advance(5)
    assert conditions_of(world, "a-new") == {"Accepted": OK}
    assert world.server.get(f"{POLICIES}/a-new").body["status"]["pods"] == 2


def test_an_overdue_pod_gets_one_event_and_stays() -> None:
    world, metrics = a_world()
    create_policy(world.server, "p", maxAge="1h")
    create_pod(world.server, "a")
    world.advance(3590)
    assert reasons(world) == []
    world.advance(20)
    assert reasons(world) == [("a", "GateOverdue")]
    world.advance(3600)
    assert reasons(world) == [("a", "GateOverdue")]
    assert gates(world, "a") == [GATE]
    assert conditions_of(world)["WithinMaxAge"] == ("False", "Overdue")
    assert world.server.get(f"{POLICIES}/p").body["status"]["overduePods"] == 1
    assert 'headgate_gate_policy_actions_total{policy="p",action="Event"} 1' in metrics.page(0.0).decode()


def test_an_overdue_gate_is_lifted_by_name_and_others_stay() -> None:
    world, _ = a_world()
    create_policy(world.server, "p", GATE, maxAge="1h", onMaxAge="Lift", liftedBy=[account("team", "robot")])
    create_pod(world.server, "a", OTHER_GATE, GATE)
    world.advance(3610)
    assert gates(world, "a") == [OTHER_GATE]
    assert reasons(world) == [("a", "OverdueGateLifted")]
    world.advance(10)
    assert conditions_of(world)["WithinMaxAge"][0] == "True"


def test_an_overdue_pod_is_deleted() -> None:
    world, _ = a_world()
    create_policy(world.server, "p", maxAge="1h", onMaxAge="Delete")
    create_pod(world.server, "a")
    create_pod(world.server, "b", OTHER_GATE)
    world.advance(3610)
    assert world.server.get(f"{PODS}/a").status == 404
    assert gates(world, "b") == [OTHER_GATE]
    assert reasons(world) == [("a", "OverduePodDeleted")]


def test_a_pod_whose_gate_is_lifted_a_moment_before_is_not_deleted() -> None:
    world, _ = a_world()
    create_policy(world.server, "p", maxAge="1h", onMaxAge="Delete")
    create_pod(world.server, "a")

    def lift_first(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Delete):
            lift(world.server, "a", "robot")
        return None

    world.refuse = lift_first
    world.advance(3700)
    assert gates(world, "a") == []
    assert reasons(world) == []


def test_a_gate_that_its_owner_lifts_a_moment_before_is_not_reported_as_overdue() -> None:
    world, metrics = a_world()
    create_policy(world.server, "p", maxAge="1h", onMaxAge="Lift")
    create_pod(world.server, "a")

    def lift_first(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Patch) and effect.resource == POD_RESOURCE:
            lift(world.server, "a", "robot")
        return None

    world.refuse = lift_first
    world.advance(3700)
    assert gates(world, "a") == []
    assert reasons(world) == []
    assert b"actions_total{" not in metrics.page(world.server.epoch_s)


def test_a_pod_of_the_same_name_keeps_its_gate() -> None:
    world, _ = a_world()
    create_policy(world.server, "p", maxAge="1h", onMaxAge="Lift")
    create_pod(world.server, "a")

    def replace(effect: Effect) -> EffectResponse | None:
        if isinstance(effect, Patch) and effect.resource == POD_RESOURCE:
            world.refuse = lambda effect: None
            world.server.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
            create_pod(world.server, "a")
        return None

    world.refuse = replace
    world.advance(3700)
    assert gates(world, "a") == [GATE]
    assert reasons(world) == []


def test_a_pod_that_cannot_be_patched_does_not_stop_the_others() -> None:
    world, _ = a_world()
    create_policy(world.server, "p", maxAge="1h", onMaxAge="Lift")
    for name in ("a", "b", "c"):
        create_pod(world.server, name)

    def refuse(effect: Effect) -> EffectResponse | None:
        is_first = isinstance(effect, Patch) and effect.name == "a"
        return EffectResponse(403, {"message": "denied the request"}, world.server.epoch_s) if is_first else None

    world.refuse = refuse
    world.advance(3610)
    assert (gates(world, "a"), gates(world, "b"), gates(world, "c")) == ([GATE], [], [])
    world.refuse = lambda effect: None
    world.advance(200)
    assert gates(world, "a") == []


def test_a_changed_limit_counts_for_pods_that_wait() -> None:
    world, _ = a_world()
    create_policy(world.server, "p", maxAge="10h")
    create_pod(world.server, "a")
    world.advance(7200)
    world.server.patch(f"{POLICIES}/p", {"spec": {"maxAge": "1h"}})
    world.advance(5)
    assert reasons(world) == [("a", "GateOverdue")]
    world.server.patch(f"{POLICIES}/p", {"spec": {"onMaxAge": "Lift"}})
    world.advance(5)
    assert gates(world, "a") == []
    create_pod(world.server, "b")
    world.server.patch(f"{POLICIES}/p", {"spec": {"maxAge": None}})
    world.advance(7200)
    assert gates(world, "b") == [GATE]
    assert conditions_of(world) == {"Accepted": OK}


def test_pods_of_a_deleted_policy_wait_on_and_nothing_happens_to_them() -> None:
    world, metrics = a_world()
    create_policy(world.server, "p", maxAge="1h", onMaxAge="Delete", liftedBy=[])
    create_pod(world.server, "a")
    world.advance(1800)
    world.server.delete(f"{POLICIES}/p")
    world.advance(7200)
    assert gates(world, "a") == [GATE]
    assert b"headgate_gate_policy" not in metrics.page(world.server.epoch_s)
    assert lift(world.server, "a", "alice").status == 200


def test_a_killed_controller_finishes_what_it_had_begun() -> None:
    world, _ = a_world()
    create_policy(world.server, "p", maxAge="1h", onMaxAge="Lift")
    for number in range(5):
        create_pod(world.server, f"pod-{number}")
    world.advance(3590)
    world.server.epoch_s += 60
    world.settle(steps=3)
    world.crash().advance(5)
    assert [gates(world, f"pod-{number}") for number in range(5)] == [[]] * 5


def test_without_the_kind_the_controller_watches_nothing() -> None:
    server = a_server()
    server.delete("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gatepolicies.headgate.dev")
    world, _ = a_world(server)
    create_pod(server, "a")
    world.advance(100)
    assert list(world.controllers[0].watches()) == []


# -- Leases


def renew(world: World, **spec: Any) -> None:
    body = {"spec": {"holderIdentity": "pod-1", "leaseDurationSeconds": 15, **spec}}
    if world.server.patch(f"{LEASES}/owner", body).status == 404:
        assert world.server.post(LEASES, {"metadata": {"name": "owner"}, **body}).status == 201


def with_lease() -> World:
    world, _ = a_world()
    create_policy(world.server, "p", ownerLease={"namespace": "t", "name": "owner"})
    return world


def test_a_lease_that_does_not_exist_is_named_until_it_does() -> None:
    world = with_lease().advance(5)
    assert conditions_of(world) == {"Accepted": OK, "OwnerAlive": ("False", "LeaseNotFound")}
    assert "Lease t/owner does not exist" in message_of(world, "p", "OwnerAlive")
    for second in range(10, 50, 5):
        renew(world, renewTime=f"2023-01-01T00:00:{second}.000000Z")
        world.advance(5)
    assert conditions_of(world)["OwnerAlive"] == ("True", "LeaseRenewed")


def test_the_first_lease_of_an_owner_and_its_first_renewal_are_heard_within_a_second() -> None:
    world = with_lease().advance(100)
    renew(world, renewTime="2023-01-01T00:00:10.000000Z", leaseDurationSeconds=3600)
    world.advance(1)
    assert conditions_of(world)["OwnerAlive"] == ("Unknown", "LeaseObserved")
    renew(world, renewTime="2023-01-01T00:00:11.000000Z", leaseDurationSeconds=3600)
    world.advance(1)
    assert conditions_of(world)["OwnerAlive"] == ("True", "LeaseRenewed")


def test_the_leases_of_many_owners_that_never_start_are_read_at_a_limited_rate() -> None:
    world, _ = a_world()
    for number in range(20):
        lease = {"namespace": "t", "name": f"owner-{number}"}
        create_policy(world.server, f"p{number}", f"example.com/{number}", ownerLease=lease)
    world.advance(20)
    world.requests.clear()
    world.advance(20)
    reads = [path for method, path in world.requests if method == "GET" and "/leases/" in path]
    assert 80 <= len(reads) <= 110


def test_an_owner_that_renews_no_more_is_reported_and_one_that_stops_at_once() -> None:
    world = with_lease()
    for second in range(10, 40, 5):
        renew(world, renewTime=f"2023-01-01T00:00:{second}.000000Z")
        world.advance(5)
    assert conditions_of(world)["OwnerAlive"] == ("True", "LeaseRenewed")
    world.advance(30)
    assert conditions_of(world)["OwnerAlive"] == ("False", "LeaseExpired")
    renew(world, holderIdentity="", renewTime="2023-01-01T00:01:00.000000Z")
    world.advance(10)
    assert conditions_of(world)["OwnerAlive"] == ("False", "LeaseReleased")


def test_a_policy_that_names_a_lease_no_more_has_no_condition_about_it() -> None:
    world = with_lease().advance(5)
    world.server.patch(f"{POLICIES}/p", {"spec": {"ownerLease": None}})
    world.advance(5)
    assert conditions_of(world) == {"Accepted": OK}
    world.requests.clear()
    world.advance(300)
    assert world.requests == []


@pytest.mark.parametrize("status", [403, 500])
def test_a_lease_that_cannot_be_read_is_unknown(status: int) -> None:
    world = with_lease()

    def refuse(effect: Effect) -> EffectResponse | None:
        is_lease = isinstance(effect, Get) and effect.resource == LEASE_RESOURCE
        return EffectResponse(status, {"message": "no"}, world.server.epoch_s) if is_lease else None

    world.refuse = refuse
    world.advance(5)
    assert conditions_of(world)["OwnerAlive"] == ("Unknown", "LeaseNotReadable")
