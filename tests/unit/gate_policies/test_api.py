"""A GatePolicy from the wire: what it says, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gate_policies.api import GatePolicy, OwnerLease, read_policy
from headgate.kube.scheduling_gates import QUEUE_ALLOCATION_GATE
from unit.gate_policies.policies import GATE, OTHER_GATE, a_policy, account, group, user


def read(**spec: Any) -> GatePolicy:
    return read_policy(a_policy(**spec))


def test_a_whole_policy_is_read() -> None:
    policy = read(
        addedBy=[group("batch-users")],
        liftedBy=[account("team", "controller"), user("root")],
        maxPods=10,
        maxAge="1h30m",
        onMaxAge="Delete",
        ownerLease={"namespace": "team", "name": "controller"},
    )
    assert policy.problems == ()
    assert (policy.gates, policy.max_pods, policy.max_age_s, policy.action) == ((GATE,), 10, 5400.0, "Delete")
    assert policy.lease == OwnerLease("team", "controller")
    assert policy.lifted_by is not None
    assert policy.lifted_by.users == {"system:serviceaccount:team:controller", "root"}
    assert policy.lifted_by.display_names == ("serviceaccount team/controller", "user root")
    assert policy.added_by is not None
    assert policy.added_by.include("alice", ("x", "batch-users"))
    assert not policy.added_by.include("batch-users", ())


def test_absent_lists_allow_every_user_and_empty_lists_allow_none() -> None:
    assert read().lifted_by is None
    nobody = read(liftedBy=[]).lifted_by
    assert nobody is not None
    assert not nobody.include("alice", ("system:masters",))


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"maxAge": "1 hour"}, "spec.maxAge"),
        ({"maxAge": "-5m"}, "spec.maxAge"),
        ({"maxAge": "1ms"}, "spec.maxAge"),
        ({"maxAge": 5}, "spec.maxAge"),
        ({"maxPods": -1}, "spec.maxPods"),
        ({"maxPods": True}, "spec.maxPods"),
        ({"onMaxAge": "Explode"}, "spec.onMaxAge"),
        ({"ownerLease": {"name": "x"}}, "spec.ownerLease"),
        ({"ownerLease": "x"}, "spec.ownerLease"),
        ({"liftedBy": [{"kind": "ServiceAccount", "name": "x"}]}, "spec.liftedBy[0]"),
        ({"liftedBy": [user("a"), {"kind": "Robot", "name": "x"}]}, "spec.liftedBy[1].kind"),
        ({"addedBy": [user("")]}, "spec.addedBy[0].name"),
        ({"addedBy": ["alice"]}, "spec.addedBy[0].kind"),
    ],
)
def test_a_part_that_cannot_be_read_is_named_and_the_rest_counts(spec: dict[str, Any], path: str) -> None:
    policy = read_policy(a_policy("p", GATE, **{"maxPods": 3, **spec}))
    (problem,) = policy.problems
    assert problem.startswith(f"{path}: ")
    assert policy.gates == (GATE,)
    assert policy.max_pods == (None if path == "spec.maxPods" else 3)


@pytest.mark.parametrize("found", ["alice", {"kind": "User"}, 5])
def test_subjects_that_cannot_be_read_allow_no_user(found: Any) -> None:
    policy = read(liftedBy=found)
    assert policy.lifted_by is not None
    assert not policy.lifted_by.include("alice", ("system:masters",))
    assert policy.problems


@pytest.mark.parametrize("wire", [{}, {"metadata": {}}, {"metadata": None, "spec": []}, {"spec": {"gates": {}}}])
def test_an_object_without_any_gate_is_a_policy_for_nothing(wire: dict[str, Any]) -> None:
    policy = read_policy(wire)
    assert policy.gates == ()
    assert any("names no gate" in problem for problem in policy.problems)


def test_names_that_no_gate_can_have_are_left_out() -> None:
    policy = read_policy(a_policy("p", "a b", OTHER_GATE, OTHER_GATE))
    assert policy.gates == (OTHER_GATE,)
    assert len(policy.problems) == 1


def test_gates_of_headgate_are_not_lifted_for_their_age() -> None:
    policy = read_policy(a_policy("p", QUEUE_ALLOCATION_GATE, GATE, onMaxAge="Lift", maxAge="1h"))
    assert policy.action_for(QUEUE_ALLOCATION_GATE) == "Event"
    assert policy.action_for(GATE) == "Lift"
    assert "Lift is not possible" in policy.problems[0]
    deleting = read_policy(a_policy("p", QUEUE_ALLOCATION_GATE, onMaxAge="Delete", maxAge="1h"))
    assert (deleting.action_for(QUEUE_ALLOCATION_GATE), deleting.problems) == ("Delete", ())
