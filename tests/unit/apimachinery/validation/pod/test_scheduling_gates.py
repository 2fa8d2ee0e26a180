"""Scheduling gates in the API: names, the condition, updates of gated pods, binding, and the disabled feature."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.api_errors import StatusError
from headgate.apimachinery.pods.binding import bind_pod
from headgate.apimachinery.pods.preparation import prepare_pod_create, prepare_pod_update
from headgate.kube.feature_gates import DEFAULTS as GATES_ON
from unit.apimachinery.validation.pod.pods import (
    GATES_OFF,
    NOW,
    PREFERRED,
    REQUIRED,
    changed,
    copy_of,
    create_errors,
    defaulted,
    make_gates,
    make_pod,
    stored,
    update_errors,
)

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
FORBIDDEN = "spec: Forbidden: pod updates may not change fields other than "
BINDING = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}


def duplicates(*indexes: int) -> list[str]:
    names = {2: "foo", 4: "foo", 5: "bar"}
    return [f'spec.schedulingGates[{index}]: Duplicate value: "{names[index]}"' for index in indexes]


def test_a_pod_without_gates_is_valid() -> None:
    assert create_errors(make_pod()) == []


def test_two_valid_gates_give_no_errors() -> None:
    assert create_errors(make_pod(schedulingGates=make_gates("foo", "bar"))) == []


def test_an_empty_gate_name_gives_two_causes() -> None:
    assert create_errors(make_pod(schedulingGates=make_gates("foo", ""))) == [
        'spec.schedulingGates[1]: Invalid value: "": name part must be non-empty',
        f'spec.schedulingGates[1]: Invalid value: "": {NAME_RULE}',
    ]


def test_a_gate_name_with_a_line_break_is_invalid() -> None:
    assert create_errors(make_pod(schedulingGates=make_gates("foo", "\nbar"))) == [
        f'spec.schedulingGates[1]: Invalid value: "\\nbar": {NAME_RULE}'
    ]


def test_a_repeated_gate_is_a_duplicate() -> None:
    assert create_errors(make_pod(schedulingGates=make_gates("foo", "bar", "bar"))) == [
        'spec.schedulingGates[2]: Duplicate value: "bar"'
    ]


def test_every_repetition_is_reported_at_its_own_index() -> None:
    names = make_gates("foo", "bar", "foo", "baz", "foo", "bar")
    assert create_errors(make_pod(schedulingGates=names)) == duplicates(2, 4, 5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/x", "prefix part must be non-empty"),
        ("x" * 64, "name part must be no more than 63 bytes"),
        (
            "a/b/c",
            f"a valid label key {NAME_RULE.removeprefix('name part ')} with an optional DNS subdomain prefix and ",
        ),
        ("Ex.com/x", "prefix part a lowercase RFC 1123 subdomain must consist of "),
    ],
)
def test_a_gate_is_named_like_a_label_key(name: str, message: str) -> None:
    (error,) = create_errors(make_pod(schedulingGates=make_gates(name)))
    assert error.startswith(f'spec.schedulingGates[0]: Invalid value: "{name}": {message}')


def test_a_new_pod_may_not_have_both_a_node_and_a_gate() -> None:
    assert create_errors(make_pod(schedulingGates=make_gates("foo"), nodeName="n1")) == [
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"
    ]


def test_a_new_gated_pod_has_the_condition() -> None:
    pod = stored(make_pod(schedulingGates=make_gates("foo")))
    assert pod["status"] == {
        "phase": "Pending",
        "qosClass": "BestEffort",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": NOW,
            }
        ],
    }


def test_a_new_pod_without_gates_has_no_conditions() -> None:
    assert stored(make_pod())["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_the_condition_that_a_client_sends_is_replaced() -> None:
    pod = make_pod(schedulingGates=make_gates("foo"))
    pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
    assert [each["reason"] for each in stored(pod)["status"]["conditions"]] == ["SchedulingGated"]


@pytest.mark.parametrize(
    ("old", "new", "added"),
    [
        ((), ("foo",), ((0, "foo"),)),
        (("foo",), ("bar",), ((0, "bar"),)),
        (("foo", "bar"), ("baz",), ((0, "baz"),)),
        (("foo",), ("foo", "x", "y"), ((1, "x"), (2, "y"))),
    ],
)
def test_gates_cannot_be_added_or_renamed(
    old: tuple[str, ...], new: tuple[str, ...], added: tuple[tuple[int, str], ...]
) -> None:
    before = stored(make_pod(schedulingGates=make_gates(*old)))
    assert update_errors(changed(before, schedulingGates=make_gates(*new)), before) == [
        f"spec.schedulingGates[{index}].name: Forbidden: "
        f"only deletion is allowed, but found new scheduling gate '{name}'"
        for index, name in added
    ]


@pytest.mark.parametrize("left", [(), ("foo",), ("bar",), ("bar", "foo")])
def test_gates_can_be_removed_and_reordered(left: tuple[str, ...]) -> None:
    before = stored(make_pod(schedulingGates=make_gates("foo", "bar")))
    assert update_errors(changed(before, schedulingGates=make_gates(*left)), before) == []


def test_removing_a_gate_increases_the_generation_and_keeps_the_condition() -> None:
    before = stored(make_pod(schedulingGates=make_gates("foo", "bar")))
    after = changed(before, schedulingGates=make_gates("bar"))
    after["status"] = {}
    prepare_pod_update(after, before, GATES_OFF)
    assert after["metadata"]["generation"] == 2
    assert after["status"] == before["status"]


def test_a_gated_pod_may_get_more_node_selector_keys() -> None:
    before = stored(make_pod(schedulingGates=make_gates("foo"), nodeSelector={"a": "1"}))
    assert update_errors(changed(before, nodeSelector={"a": "1", "b": "2"}), before) == []


def test_a_pod_without_gates_may_not_get_more_node_selector_keys() -> None:
    before = stored(make_pod(nodeSelector={"a": "1"}))
    (error,) = update_errors(changed(before, nodeSelector={"a": "1", "b": "2"}), before)
    assert error.startswith(FORBIDDEN)


@pytest.mark.parametrize(
    ("selector", "printed"), [({"a": "2"}, '{"a":"2"}'), ({"b": "1"}, '{"b":"1"}'), ({}, "{}"), (None, "null")]
)
def test_a_gated_pods_node_selector_may_only_grow(selector: dict[str, str] | None, printed: str) -> None:
    before = stored(make_pod(schedulingGates=make_gates("foo"), nodeSelector={"a": "1"}))
    assert update_errors(changed(before, nodeSelector=selector), before) == [
        f"spec.nodeSelector: Invalid value: {printed}: "
        "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    ]


@pytest.mark.parametrize("selector", [{"a": "2"}, {"b": "1"}])
def test_without_gates_a_changed_selector_is_simply_forbidden(selector: dict[str, str]) -> None:
    before = stored(make_pod(nodeSelector={"a": "1"}))
    (error,) = update_errors(changed(before, nodeSelector=selector), before)
    assert error.startswith(FORBIDDEN)


def test_the_last_gate_may_be_removed_together_with_a_stricter_selector() -> None:
    before = stored(make_pod(schedulingGates=make_gates("foo"), nodeSelector={"a": "1"}))
    assert update_errors(changed(before, schedulingGates=None, nodeSelector={"a": "1", "b": "2"}), before) == []


EXPRESSION = {"key": "disk", "operator": "In", "values": ["ssd"]}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
MORE = {"key": "zone", "operator": "Exists"}
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def node_affinity(*terms: dict[str, Any], preferred: list[Any] | None = None) -> dict[str, Any]:
    affinity: dict[str, Any] = {REQUIRED: {"nodeSelectorTerms": list(terms)}} if terms else {}
    return {"nodeAffinity": affinity | ({PREFERRED: preferred} if preferred is not None else {})}


def affinity_errors(old: Any, new: Any, *, gated: bool = True, ungate: bool = False) -> list[str]:
    before = stored(make_pod(schedulingGates=make_gates("foo") if gated else [], affinity=old))
    after = changed(before, affinity=new)
    if ungate:
        after["spec"]["schedulingGates"] = []
    return update_errors(after, before)


def test_a_gated_pod_may_get_more_affinity_expressions_and_fields() -> None:
    old = node_affinity({"matchExpressions": [EXPRESSION], "matchFields": [FIELD]})
    more_field = {**FIELD, "operator": "NotIn"}
    new = node_affinity({"matchExpressions": [EXPRESSION, MORE], "matchFields": [FIELD, more_field]})
    assert affinity_errors(old, new) == []
    assert affinity_errors(old, new, ungate=True) == []
    (error,) = affinity_errors(old, new, gated=False)
    assert error.startswith(FORBIDDEN)


def test_required_affinity_may_not_disappear() -> None:
    (error,) = affinity_errors(node_affinity({"matchExpressions": [EXPRESSION]}), None)
    assert (
        error == f"{TERMS}: Invalid value: null: no additions/deletions to non-empty NodeSelectorTerms list are allowed"
    )


def test_a_second_term_would_be_an_alternative_and_is_refused() -> None:
    term = {"matchExpressions": [EXPRESSION]}
    (error,) = affinity_errors(node_affinity(term), node_affinity(term, {"matchExpressions": [MORE]}))
    assert error == (
        f'{TERMS}: Invalid value: [{{"MatchExpressions":[{{"Key":"disk","Operator":"In","Values":["ssd"]}}],'
        '"MatchFields":null},{"MatchExpressions":[{"Key":"zone","Operator":"Exists","Values":null}],"MatchFields":null}]'
        ": no additions/deletions to non-empty NodeSelectorTerms list are allowed"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"matchExpressions": [EXPRESSION, MORE]}, {"matchExpressions": [EXPRESSION]}),
        ({"matchExpressions": [EXPRESSION], "matchFields": [FIELD]}, {"matchExpressions": [EXPRESSION]}),
        ({"matchExpressions": [EXPRESSION]}, {"matchExpressions": [MORE]}),
        ({"matchFields": [FIELD]}, {"matchFields": [{**FIELD, "values": ["n2"]}]}),
        ({}, {"matchExpressions": [MORE]}),
    ],
    ids=["an expression less", "a field less", "another expression", "another field", "an empty term filled"],
)
def test_a_term_may_only_grow(old: dict[str, Any], new: dict[str, Any]) -> None:
    (error,) = affinity_errors(node_affinity(old), node_affinity(new))
    assert error.startswith(f"{TERMS}[0]: Invalid value: ")
    assert error.endswith(": only additions are allowed (no mutations or deletions)")


@pytest.mark.parametrize(
    "preferred",
    [[], [{"weight": 1, "preference": {"matchExpressions": [MORE]}}]],
    ids=["removed", "changed"],
)
def test_preferred_node_affinity_of_a_gated_pod_changes_freely(preferred: list[Any]) -> None:
    old = node_affinity(preferred=[{"weight": 9, "preference": {"matchExpressions": [EXPRESSION]}}])
    assert affinity_errors(old, node_affinity(preferred=preferred)) == []


def test_a_gated_pod_without_affinity_may_get_any_node_affinity() -> None:
    assert affinity_errors(None, node_affinity({"matchExpressions": [EXPRESSION]}, {"matchExpressions": [MORE]})) == []


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_pod_affinity_of_a_gated_pod_stays(kind: str) -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    old = {kind: {REQUIRED: [term]}}
    (error,) = affinity_errors(old, {kind: {REQUIRED: [{**term, "topologyKey": "rack"}]}})
    assert error.startswith(FORBIDDEN)


def test_an_invalid_label_value_is_rejected_if_new_and_tolerated_if_stored() -> None:
    bad = node_affinity({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["-1"]}]})
    (error,) = create_errors(make_pod(affinity=copy_of(bad)))
    assert error.startswith(f'{TERMS}[0].matchExpressions[0].values[0]: Invalid value: "-1": a valid label must be')
    before = defaulted(make_pod(affinity=bad, schedulingGates=make_gates("foo")))
    before["metadata"].update(uid="u1", resourceVersion="7")
    assert update_errors(changed(before, schedulingGates=[]), before) == []


def test_binding_a_gated_pod_is_a_conflict() -> None:
    result = bind_pod(stored(make_pod(schedulingGates=make_gates("foo"))), BINDING, GATES_ON, NOW)
    assert isinstance(result, StatusError)
    assert (result.code, result.reason) == (409, "Conflict")
    assert result.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p has non-empty .spec.schedulingGates'
    )


def test_binding_a_pod_without_gates_works() -> None:
    bound = bind_pod(stored(make_pod()), BINDING, GATES_ON, NOW)
    assert isinstance(bound, dict)
    assert bound["spec"]["nodeName"] == "n1"


def test_with_the_feature_off_new_pods_lose_their_gates_and_get_no_condition() -> None:
    pod = defaulted(make_pod(schedulingGates=make_gates("foo"), nodeName="n1"))
    prepare_pod_create(pod, GATES_OFF, NOW)
    assert "schedulingGates" not in pod["spec"]
    assert "conditions" not in pod["status"]
    assert create_errors(pod, GATES_OFF) == []


def test_with_the_feature_off_an_old_pod_keeps_its_gates_until_they_are_removed() -> None:
    before = stored(make_pod(schedulingGates=make_gates("foo", "bar")))
    after = changed(before, schedulingGates=make_gates("bar"))
    prepare_pod_update(after, before, GATES_OFF)
    assert after["spec"]["schedulingGates"] == make_gates("bar")
    assert update_errors(after, before, GATES_OFF) == []


def test_with_the_feature_off_an_update_cannot_add_gates() -> None:
    before = stored(make_pod())
    after = changed(before, schedulingGates=make_gates("foo"))
    prepare_pod_update(after, before, GATES_OFF)
    assert "schedulingGates" not in after["spec"]
    assert after["metadata"]["generation"] == 1


def test_with_the_feature_off_a_gated_pod_can_be_bound() -> None:
    assert isinstance(bind_pod(stored(make_pod(schedulingGates=make_gates("foo"))), BINDING, GATES_OFF, NOW), dict)


def test_with_the_feature_off_a_gated_pod_cannot_change_its_selector() -> None:
    before = stored(make_pod(schedulingGates=make_gates("foo")))
    (error,) = update_errors(changed(before, nodeSelector={"a": "1"}), before, GATES_OFF)
    assert error.startswith(FORBIDDEN)
