"""Which policy is in effect for a gate."""

from __future__ import annotations

from headgate.gate_policies.api import read_policy
from headgate.gate_policies.index import GatePolicyIndex
from unit.gate_policies.policies import GATE, OTHER_GATE, a_policy

OLD, NEW = "2024-01-01T00:00:00Z", "2024-01-01T00:00:01Z"


def in_effect(index: GatePolicyIndex, gate: str = GATE) -> str | None:
    found = index.of_gate(gate)
    return None if found is None else found.name


def test_the_older_policy_is_in_effect_and_the_younger_one_after_it() -> None:
    index = GatePolicyIndex()
    index.apply(read_policy(a_policy("z-old", GATE, created=OLD)))
    index.apply(read_policy(a_policy("a-new", GATE, OTHER_GATE, created=NEW)))
    assert (in_effect(index), in_effect(index, OTHER_GATE)) == ("z-old", "a-new")
    assert index.naming(GATE) == ("a-new", "z-old")
    assert index.remove("z-old") == {GATE}
    assert in_effect(index) == "a-new"


def test_of_equally_old_policies_the_first_by_name_is_in_effect() -> None:
    index = GatePolicyIndex()
    for name in ("b", "a", "c"):
        index.apply(read_policy(a_policy(name, GATE, created=OLD)))
    assert in_effect(index) == "a"


def test_a_policy_without_a_time_displaces_no_other() -> None:
    index = GatePolicyIndex()
    index.apply(read_policy(a_policy("a", GATE, created="")))
    index.apply(read_policy(a_policy("b", GATE, created=NEW)))
    assert in_effect(index) == "b"


def test_a_change_of_gates_reports_the_old_and_the_new_ones() -> None:
    index = GatePolicyIndex()
    index.apply(read_policy(a_policy("a", GATE)))
    assert index.gates == {GATE}
    assert index.apply(read_policy(a_policy("a", OTHER_GATE))) == {GATE, OTHER_GATE}
    assert index.gates == {OTHER_GATE}
    assert in_effect(index) is None
    assert index.remove("a") == {OTHER_GATE}
    assert index.remove("a") == frozenset()
    assert index.gates == frozenset()
