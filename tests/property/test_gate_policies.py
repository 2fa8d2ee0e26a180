"""Decisions of GatePolicies against slow references: every rule is one sentence, every count a loop over all pods."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.gate_policies.api import read_policy
from headgate.gate_policies.decision import Requester, gates_of, refuse_lifting, refuse_new_pod, refuse_new_template
from headgate.gate_policies.gate_ages import GateAges
from headgate.gate_policies.index import GatePolicyIndex
from headgate.gate_policies.names import OWN_GATES
from headgate.gate_policies.pod_counts import ADMISSION_LIFETIME_S, AdmittedPod, GatedPodCounts
from headgate.kube.timestamps import format_time
from unit.gate_policies.policies import a_gated_pod, a_policy

Object = dict[str, Any]

GATES = ("x.io/a", "x.io/b", "kueue.x-k8s.io/admission", "bad name")
USERS = ("alice", "system:serviceaccount:ns:robot", "headgate")
GROUPS = ("team", "system:authenticated")

subjects = st.one_of(
    st.sampled_from(USERS).map(lambda name: {"kind": "User", "name": name}),
    st.sampled_from(GROUPS).map(lambda name: {"kind": "Group", "name": name}),
    st.just({"kind": "ServiceAccount", "namespace": "ns", "name": "robot"}),
    st.just({"kind": "ServiceAccount", "name": "robot"}),
    st.just({"kind": "Robot", "name": "alice"}),
    st.just("alice"),
)
lists = st.one_of(st.none(), st.lists(subjects, max_size=3), st.just("alice"))
gate_sets = st.lists(st.sampled_from(GATES), max_size=3)
specs = st.fixed_dictionaries(
    {"gates": gate_sets},
    optional={
        "addedBy": lists,
        "liftedBy": lists,
        "maxPods": st.sampled_from([0, 1, 2, -1, "3", None]),
        "maxAge": st.sampled_from(["1h", "soon", None]),
        "onMaxAge": st.sampled_from(["Event", "Lift", "Delete", "Never"]),
    },
)
policies = st.lists(st.tuples(specs, st.integers(0, 2)), max_size=4)
requesters = st.builds(
    Requester,
    user=st.sampled_from(USERS),
    groups=st.lists(st.sampled_from(GROUPS), max_size=2).map(tuple),
    is_headgate=st.booleans(),
    creates_for_others=st.booleans(),
)


def build(listed: list[tuple[Object, int]]) -> list[Object]:
    """The policies on the wire; ``age``: the second of their creation."""
    wires = []
    for number, (spec, age) in enumerate(listed):
        wire = a_policy(f"p{number}", created=format_time(1_700_000_000 + age))
        wires.append({**wire, "spec": spec})
    return wires


# -- the reference


def policy_of(gate: str, wires: list[Object]) -> Object | None:
    """The spec of the oldest policy that names the gate, the first by name of equally old ones."""
    naming = [each for each in wires if gate in each["spec"]["gates"] and " " not in gate]
    naming.sort(key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))
    return naming[0]["spec"] if naming else None


def is_listed(listed: Any, requester: Requester) -> bool:
    if listed is None:
        return True
    for each in listed if isinstance(listed, list) else ():
        match each:
            case {"kind": "User", "name": name} if name == requester.user:
                return True
            case {"kind": "Group", "name": name} if name in requester.groups:
                return True
            case {"kind": "ServiceAccount", "namespace": namespace, "name": name}:
                if requester.user == f"system:serviceaccount:{namespace}:{name}":
                    return True
    return False


def may_add(gate: str, wires: list[Object], requester: Requester) -> bool:
    spec = policy_of(gate, wires)
    return spec is None or requester.creates_for_others or is_listed(spec.get("addedBy"), requester)


def may_lift(gate: str, wires: list[Object], requester: Requester) -> bool:
    spec = policy_of(gate, wires)
    if spec is None or is_listed(spec.get("liftedBy"), requester):
        return True
    lifts_old_ones = spec.get("maxAge") == "1h" and spec.get("onMaxAge") == "Lift"
    return requester.is_headgate and (gate in OWN_GATES or lifts_old_ones)


def has_room(gate: str, wires: list[Object], waiting: dict[str, int]) -> bool:
    limit = (policy_of(gate, wires) or {}).get("maxPods")
    return not isinstance(limit, int) or limit < 0 or waiting.get(gate, 0) < limit


@given(policies, requesters, gate_sets, gate_sets, st.dictionaries(st.sampled_from(GATES), st.integers(0, 3)))
def test_a_write_is_refused_if_and_only_if_a_policy_says_so(
    listed: list[tuple[Object, int]], requester: Requester, old: list[str], new: list[str], waiting: dict[str, int]
) -> None:
    wires, index = build(listed), GatePolicyIndex()
    for wire in reversed(wires):
        index.apply(read_policy(wire))
    find = index.of_gate
    refused = refuse_new_pod(requester, new, find, lambda gate: waiting.get(gate, 0))
    allowed = all(may_add(gate, wires, requester) and has_room(gate, wires, waiting) for gate in new)
    assert (refused is None) == allowed
    refused = refuse_new_template(requester, old, new, find, "spec.template.spec")
    assert (refused is None) == all(may_add(gate, wires, requester) for gate in set(new) - set(old))
    refused = refuse_lifting(requester, old, new, find)
    assert (refused is None) == all(may_lift(gate, wires, requester) for gate in set(old) - set(new))
    assert index.gates == {gate for gate in GATES if policy_of(gate, wires) is not None}


FIELDS = ("spec", "gates", "name", "kind", "schedulingGates", "metadata")
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
)


@given(anything)
def test_no_object_makes_reading_fail(found: Any) -> None:
    read_policy({"metadata": found, "spec": found})
    read_policy({"spec": {"gates": found, "addedBy": found, "maxPods": found, "maxAge": found, "ownerLease": found}})
    gates_of({"schedulingGates": found})
    GatedPodCounts().apply({"metadata": found, "spec": found, "status": found})
    GateAges().apply({"metadata": found, "spec": found, "status": found})


pod_steps = st.lists(
    st.tuples(
        st.sampled_from(["show", "show", "remove", "admit", "wait"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(["t", "u"]),
        st.lists(st.sampled_from(GATES[:2]), max_size=2, unique=True),
    ),
    max_size=40,
)


@given(pod_steps)
def test_counts_are_those_of_a_loop_over_all_pods(steps: list[tuple[str, str, str, list[str]]]) -> None:
    counts, now_s = GatedPodCounts(), 0.0
    shown: dict[tuple[str, str], list[str]] = {}
    admitted: dict[tuple[str, str], tuple[list[str], float]] = {}
    for step, name, namespace, gates in steps:
        key = namespace, name
        match step:
            case "show":
                wire = {"metadata": {"name": name, "namespace": namespace}}
                counts.apply({**wire, "spec": {"schedulingGates": [{"name": each} for each in gates]}})
                shown[key] = gates
                admitted.pop(key, None)
            case "remove":
                counts.remove(namespace, name)
                shown.pop(key, None)
            case "admit":
                counts.admit(AdmittedPod(namespace, name, frozenset(gates)), now_s)
                if not shown.get(key):
                    admitted[key] = gates, now_s + ADMISSION_LIFETIME_S
            case _:
                now_s += ADMISSION_LIFETIME_S / 2
                admitted = {key: each for key, each in admitted.items() if each[1] > now_s}
        for gate in GATES[:2]:
            for place in ("t", "u"):
                expected = sum(gate in gates for (where, _), gates in shown.items() if where == place)
                expected += sum(gate in gates for (where, _), (gates, _) in admitted.items() if where == place)
                assert counts.count(gate, place, now_s) == expected


age_steps = st.lists(
    st.tuples(
        st.sampled_from(["show", "show", "remove", "due", "reset"]),
        st.sampled_from(["a", "b", "c", "d"]),
        st.lists(st.sampled_from(GATES[:2]), max_size=2, unique=True),
        st.integers(0, 20),
    ),
    max_size=40,
)


@given(age_steps)
def test_overdue_pods_are_those_of_a_loop_over_all_pods(steps: list[tuple[str, str, list[str], int]]) -> None:
    start_s, ages = 1_700_000_000, GateAges()
    pods: dict[str, tuple[int, frozenset[str]]] = {}
    overdue: set[tuple[str, str]] = set()
    for step, name, gates, number in steps:
        uid = f"uid-{name}"
        match step:
            case "show":
                created = pods[uid][0] if uid in pods else number
                ages.apply(a_gated_pod(name, created=format_time(start_s + created)) | _spec(gates))
                pods[uid] = created, frozenset(gates)
                overdue = {(gate, each) for gate, each in overdue if each != uid or gate in gates}
                if not gates:
                    del pods[uid]
            case "remove":
                ages.remove(uid)
                pods.pop(uid, None)
                overdue = {(gate, each) for gate, each in overdue if each != uid}
            case "due":
                gate = GATES[number % 2]
                now = {each for each, (created, held) in pods.items() if gate in held and created + 5 <= number}
                found = [each.uid for each in ages.due(gate, 5.0, float(start_s + number))]
                assert set(found) == {each for each in now if (gate, each) not in overdue}
                assert found == sorted(found, key=lambda each: pods[each][0])
                overdue |= {(gate, each) for each in now}
            case _:
                ages.reset(GATES[number % 2])
                overdue = {(gate, each) for gate, each in overdue if gate != GATES[number % 2]}
        for gate in GATES[:2]:
            held = [created for created, gates_held in pods.values() if gate in gates_held]
            assert ages.count(gate) == len(held)
            assert ages.overdue_count(gate) == sum(each == gate for each, _ in overdue)
            assert ages.oldest_s(gate) == (start_s + min(held) if held else None)


def _spec(gates: list[str]) -> Object:
    return {"spec": {"schedulingGates": [{"name": each} for each in gates]}}
