"""Which nodes a pod tolerates, needs and prefers."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube import taints
from headgate.kube.node_affinity import (
    NodeSelectorTerm,
    preferred_scheduling_terms,
    read_node_selector,
    read_node_selector_term,
    required_node_affinity,
)

GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "disk", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Like", "value": "yes"}, False),
        ({}, False),
    ],
)
def test_a_toleration_fits_by_key_operator_value_and_effect(toleration: dict[str, str], tolerated: bool) -> None:
    assert taints.tolerates(toleration, GPU) is tolerated


@pytest.mark.parametrize(
    ("operator", "bound", "tolerated"), [("Lt", "6", True), ("Lt", "5", False), ("Gt", "4", True), ("Gt", "05", False)]
)
def test_comparisons_are_off_unless_asked_for(operator: str, bound: str, tolerated: bool) -> None:
    taint = {"key": "k", "value": "5", "effect": "NoSchedule"}
    toleration = {"key": "k", "operator": operator, "value": bound}
    assert taints.tolerates(toleration, taint, comparisons=True) is tolerated
    assert not taints.tolerates(toleration, taint)


def test_the_first_untolerated_hard_taint_is_returned() -> None:
    soft = {"key": "soft", "effect": "PreferNoSchedule"}
    evict = {"key": "e", "effect": "NoExecute"}
    assert taints.first_untolerated([soft, GPU, evict], []) == GPU
    assert taints.first_untolerated([soft, GPU, evict], [{"key": "gpu", "operator": "Exists"}]) == evict
    assert taints.first_untolerated([soft], None) is None
    assert taints.first_untolerated(None, None) is None
    assert taints.first_untolerated([soft], [], {taints.PREFER_NO_SCHEDULE}) == soft


def test_untolerated_preferences_are_counted() -> None:
    soft = [{"key": key, "effect": "PreferNoSchedule"} for key in "abc"]
    hard_only = {"key": "a", "operator": "Exists", "effect": "NoSchedule"}
    assert taints.count_untolerated_preferences([*soft, GPU], [{"key": "b", "operator": "Exists"}, hard_only]) == 2


def test_taints_are_identified_by_key_and_effect_and_described_as_kubectl_does() -> None:
    assert taints.is_same_taint(GPU, {**GPU, "value": "no"})
    assert not taints.is_same_taint(GPU, {**GPU, "effect": "NoExecute"})
    assert taints.describe(GPU) == "gpu=yes:NoSchedule"
    assert taints.describe({"key": "k", "effect": "NoExecute"}) == "k:NoExecute"
    assert taints.describe({"key": "k", "value": "v"}) == "k=v"


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def selector(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeSelectorTerms": list(terms)}


@pytest.mark.parametrize(
    ("requirement", "matches"),
    [
        (expression("zone", "In", "a", "b"), True),
        (expression("zone", "NotIn", "a"), False),
        (expression("disk", "NotIn", "a"), True),
        (expression("zone", "Exists"), True),
        (expression("zone", "DoesNotExist"), False),
        (expression("cores", "Gt", "7"), True),
        (expression("cores", "Lt", "8"), False),
        (expression("zone", "Gt", "7"), False),
    ],
)
def test_a_requirement_is_asked_of_the_nodes_labels(requirement: dict[str, Any], matches: bool) -> None:
    read = read_node_selector(selector({"matchExpressions": [requirement]}))
    assert read.matches({"zone": "a", "cores": "8"}, "n1") is matches


def test_terms_are_alternatives_and_requirements_within_one_all_hold() -> None:
    both = {"matchExpressions": [expression("a", "Exists"), expression("b", "Exists")]}
    either = selector(both, {"matchExpressions": [expression("c", "Exists")]})
    read = read_node_selector(either)
    assert read.matches({"a": "", "b": ""}, "n")
    assert read.matches({"c": ""}, "n")
    assert not read.matches({"a": ""}, "n")
    assert not read.matches(None, "n")


def test_a_field_requirement_is_asked_of_the_nodes_name() -> None:
    named = read_node_selector(selector({"matchFields": [expression("metadata.name", "In", "n1")]}))
    assert named.matches({}, "n1")
    assert not named.matches({}, "n2")
    others = read_node_selector(selector({"matchFields": [expression("metadata.name", "NotIn", "n1")]}))
    assert others.matches({}, "n2")
    unknown = read_node_selector_term({"matchFields": [expression("spec.x", "In", "v")]})
    assert unknown is not None
    assert not unknown.matches({}, "n1")


@pytest.mark.parametrize(
    "term",
    [
        {},
        {"matchExpressions": [expression("a", "Like")]},
        {"matchExpressions": [expression("a", "In")]},
        {"matchExpressions": [expression("-a", "Exists")]},
        {"matchFields": [expression("metadata.name", "In", "a", "b")]},
        {"matchFields": [expression("metadata.name", "Exists")]},
    ],
)
def test_an_empty_or_invalid_term_selects_nothing_and_does_not_affect_others(term: dict[str, Any]) -> None:
    assert read_node_selector_term(term) is None
    read = read_node_selector(selector(term, {"matchExpressions": [expression("a", "Exists")]}))
    assert read.matches({"a": ""}, "n")
    assert not read.matches({}, "n")


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def test_a_pod_without_affinity_may_run_anywhere() -> None:
    assert required_node_affinity(pod()).is_everything
    assert required_node_affinity({}).matches(None, "n")
    assert preferred_scheduling_terms(pod()).score({}, "n") == 0


def test_node_selector_and_required_affinity_both_hold() -> None:
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": selector({"matchExpressions": [expression("b", "Exists")]})
    }
    read = required_node_affinity(pod(nodeSelector={"a": "1"}, affinity={"nodeAffinity": affinity}))
    assert read.matches({"a": "1", "b": ""}, "n")
    assert not read.matches({"a": "1"}, "n")
    assert not read.matches({"b": ""}, "n")
    assert not read.is_everything


def test_required_affinity_without_terms_selects_no_node() -> None:
    affinity: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    assert not required_node_affinity(pod(affinity={"nodeAffinity": affinity})).matches({}, "n")


def test_preferences_add_up_their_weights() -> None:
    preferences = [
        {"weight": 3, "preference": {"matchExpressions": [expression("a", "Exists")]}},
        {"weight": 5, "preference": {"matchFields": [expression("metadata.name", "In", "n1")]}},
        {"weight": 0, "preference": {"matchExpressions": [expression("a", "Exists")]}},
        {"weight": 7, "preference": {}},
    ]
    read = preferred_scheduling_terms(
        pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferences}})
    )
    assert read.score({"a": ""}, "n1") == 8
    assert read.score({}, "n1") == 5
    assert read.score({}, "n2") == 0


def test_a_term_is_a_value() -> None:
    term = {"matchExpressions": [expression("a", "Exists")]}
    assert read_node_selector_term(term) == read_node_selector_term(dict(term))
    assert isinstance(read_node_selector_term(term), NodeSelectorTerm)
    assert len({read_node_selector_term(term), read_node_selector_term(term)}) == 1
