"""Whether an owner renews its Lease, without a comparison of clocks."""

from __future__ import annotations

from typing import Any

from headgate.gate_policies.lease_health import LeaseHealth, missing_lease, observe_lease, unreadable_lease


def a_lease(renewed: str, holder: str = "pod-1", duration_s: int | None = 15, uid: str = "u") -> dict[str, Any]:
    spec = {"holderIdentity": holder, "renewTime": renewed}
    return {
        "metadata": {"uid": uid},
        "spec": spec | ({} if duration_s is None else {"leaseDurationSeconds": duration_s}),
    }


def observed(*looks: tuple[float, dict[str, Any]]) -> LeaseHealth:
    health: LeaseHealth | None = None
    for now_s, lease in looks:
        health = observe_lease("team/x", lease, health, now_s)
    assert health is not None
    return health


def test_the_answer_is_unknown_until_the_lease_changes() -> None:
    assert observed((0, a_lease("2099"))).status == "Unknown"
    assert observed((0, a_lease("2099")), (5, a_lease("2099"))).status == "Unknown"
    assert observed((0, a_lease("1999")), (5, a_lease("2000"))).status == "True"


def test_a_lease_that_does_not_change_for_its_duration_is_expired_whatever_its_times_say() -> None:
    health = observed((0, a_lease("2099")), (16, a_lease("2099")))
    assert (health.status, health.reason) == ("False", "LeaseExpired")
    renewed = observed((0, a_lease("1")), (5, a_lease("2")), (19, a_lease("2")))
    assert renewed.status == "True"
    assert observed((0, a_lease("1")), (5, a_lease("2")), (21, a_lease("2"))).reason == "LeaseExpired"


def test_an_expired_lease_that_changes_is_renewed() -> None:
    assert observed((0, a_lease("1")), (60, a_lease("1")), (90, a_lease("2"))).status == "True"


def test_a_lease_without_a_holder_is_released() -> None:
    assert observed((0, a_lease("1")), (5, a_lease("2")), (6, a_lease("3", holder=""))).reason == "LeaseReleased"


def test_a_lease_that_was_created_again_is_a_change() -> None:
    assert observed((0, a_lease("1")), (60, a_lease("1", uid="v"))).status == "True"


def test_renewed_leases_are_looked_at_several_times_in_their_duration_within_limits() -> None:
    def poll_after_s(duration_s: int | None) -> float:
        return observed((0, a_lease("1", duration_s=duration_s)), (1, a_lease("2", duration_s=duration_s))).poll_after_s

    assert poll_after_s(15) == 5.0
    assert poll_after_s(1) == 2.0
    assert poll_after_s(3600) == 30.0
    assert poll_after_s(None) == 5.0


def test_a_lease_is_looked_at_every_second_until_its_owner_is_known_to_be_alive() -> None:
    assert missing_lease("team/x").poll_after_s == 1.0
    assert observed((0, a_lease("1", duration_s=3600))).poll_after_s == 1.0
    assert observed((0, a_lease("1")), (60, a_lease("1"))).poll_after_s == 1.0
    assert observed((0, a_lease("1", holder=""))).poll_after_s == 1.0
    assert unreadable_lease("team/x", "no").poll_after_s == 30.0
