"""The labels and annotations of a pod for Kueue's queues."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.jobs import names
from headgate.jobs.pods import pod_metadata

Object = dict[str, Any]

PLAIN: Object = {"containers": [{"name": "c", "image": "i"}]}
RICH: Object = {
    "containers": [
        {
            "name": "c",
            "resources": {"requests": {"memory": "1024Mi", "cpu": "1000m"}},
            "ports": [
                {"containerPort": 80, "protocol": "TCP", "name": "http", "hostIP": "1.2.3.4", "hostPort": 8080},
            ],
        }
    ],
    "initContainers": [{"name": "i"}],
    "priority": 0,
    "nodeSelector": {"b": "2", "a": "1"},
    "tolerations": [
        {"tolerationSeconds": 300, "effect": "NoExecute", "operator": "Exists", "key": "node.kubernetes.io/not-ready"}
    ],
    "runtimeClassName": "gvisor",
    "overhead": {"cpu": "0.5"},
    "resourceClaims": [{"resourceClaimTemplateName": "t", "name": "gpu"}],
    "resources": {"requests": {"cpu": "2"}},
    "topologySpreadConstraints": [
        {
            "labelSelector": {"matchLabels": {"z": "1", "a": "b"}},
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "topologyKey": "zone",
            "matchLabelKeys": ["x"],
            "minDomains": 2,
        }
    ],
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "podAffinityTerm": {
                        "topologyKey": "h",
                        "labelSelector": {
                            "matchExpressions": [{"values": ["<a>&"], "operator": "In", "key": "k"}],
                        },
                        "namespaces": ["n"],
                        "namespaceSelector": {},
                    },
                    "weight": 5,
                }
            ]
        },
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "preference": {
                        "matchFields": [{"values": ["n"], "operator": "In", "key": "metadata.name"}],
                        "matchExpressions": [{"operator": "Exists", "key": "k"}],
                    },
                    "weight": 1,
                }
            ],
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]}]
            },
        },
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
    },
}


def a_pod(annotations: Object | None = None, labels: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"annotations": annotations or {}, "labels": labels or {}}, "spec": spec}


@pytest.mark.parametrize(("spec", "expected"), [(PLAIN, "7aa6c7b8"), (RICH, "4c5923d9")])
def test_a_role_is_kueues_hash(spec: Object, expected: str) -> None:
    """The expected values come from Kueue's formula in Go, with k8s.io/api's types."""
    assert pod_metadata.role_hash(spec) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodeSelector", {"a": "1"}),
        ("tolerations", [{"operator": "Exists"}]),
        ("priority", 5),
        ("runtimeClassName", "gvisor"),
        ("containers", [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]),
        ("resources", {"requests": {"cpu": "1"}}),
    ],
)
def test_what_matters_for_admission_makes_another_role(field: str, value: Any) -> None:
    assert pod_metadata.role_hash({**PLAIN, field: value}) != pod_metadata.role_hash(PLAIN)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schedulingGates", [{"name": "example.com/a"}]),
        ("nodeName", "n"),
        ("containers", [{"name": "other", "image": "other", "env": []}]),
    ],
)
def test_what_does_not_matter_makes_no_other_role(field: str, value: Any) -> None:
    assert pod_metadata.role_hash({**PLAIN, field: value}) == pod_metadata.role_hash(PLAIN)


def test_equal_amounts_are_one_role_however_they_are_written() -> None:
    one, other = ({"containers": [{"resources": {"requests": {"cpu": each}}}]} for each in ("1", "1000m"))
    assert pod_metadata.role_hash(one) == pod_metadata.role_hash(other)


def test_a_recorded_role_has_precedence() -> None:
    assert pod_metadata.role_of(a_pod({names.ROLE_HASH: "12345678"}, **RICH)) == "12345678"
    assert pod_metadata.role_of(a_pod(**PLAIN)) == "7aa6c7b8"


def test_a_group_is_named_by_label_or_by_annotation_and_the_annotation_wins() -> None:
    label, annotation = {names.POD_GROUP_NAME: "by-label"}, {names.POD_GROUP_NAME: "by-annotation"}
    assert pod_metadata.group_of(a_pod()) == ""
    assert pod_metadata.group_of(a_pod(labels=label)) == "by-label"
    assert pod_metadata.group_of(a_pod(annotation)) == "by-annotation"
    assert pod_metadata.group_of(a_pod(annotation, label)) == "by-annotation"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("3", 3),
        ("+3", 3),
        ("many", 'strconv.Atoi: parsing "many": invalid syntax'),
        ("1.5", 'strconv.Atoi: parsing "1.5": invalid syntax'),
        ("9" * 50, f'strconv.Atoi: parsing "{"9" * 50}": value out of range'),
        (
            "0",
            "incorrect annotation value 'kueue.x-k8s.io/pod-group-total-count=0':"
            " group total count should be greater than zero",
        ),
    ],
)
def test_a_total_count_is_a_whole_number_above_zero(written: str, expected: int | str) -> None:
    assert pod_metadata.total_count(a_pod({names.POD_GROUP_NAME: "g", names.TOTAL_COUNT: written})) == expected


def test_a_total_count_needs_a_group_and_a_group_needs_a_total_count() -> None:
    lonely = pod_metadata.total_count(a_pod({names.TOTAL_COUNT: "1"}))
    assert lonely == "pod doesn't have a 'kueue.x-k8s.io/pod-group-name' annotation/label"
    uncounted = pod_metadata.total_count(a_pod(labels={names.POD_GROUP_NAME: "g"}))
    assert uncounted == "failed to extract 'kueue.x-k8s.io/pod-group-total-count' annotation"


def flags(pod: Object) -> tuple[bool, ...]:
    return (
        pod_metadata.is_serving(pod),
        pod_metadata.has_fast_admission(pod),
        pod_metadata.is_unretriable(pod),
        pod_metadata.is_managed(pod),
    )


def test_flags_need_their_exact_values() -> None:
    said = {names.SERVING: "true", names.FAST_ADMISSION: "true", names.RETRIABLE_IN_GROUP: "false"}
    assert flags(a_pod(said, {names.MANAGED: "true"})) == (True, True, True, True)
    assert flags(a_pod(dict.fromkeys(said, "True"), {names.MANAGED: "True"})) == (False, False, False, False)


def test_a_pod_may_wait_for_its_parent() -> None:
    assert pod_metadata.suspending_parent(a_pod({names.SUSPENDING_PARENT: "deployment"})) == "deployment"
    assert pod_metadata.suspending_parent(a_pod()) == ""


def test_a_pod_is_gated_only_by_headgates_gate() -> None:
    assert pod_metadata.is_gated(a_pod(schedulingGates=[{"name": "x.io/y"}, {"name": names.ADMISSION_GATE}]))
    assert not pod_metadata.is_gated(a_pod(schedulingGates=[{"name": "x.io/y"}]))
    assert not pod_metadata.is_gated(a_pod())


@pytest.mark.parametrize("broken", [{}, {"metadata": None, "spec": None}, {"metadata": {"labels": []}}])
def test_a_pod_without_metadata_has_no_options(broken: Object) -> None:
    assert (pod_metadata.group_of(broken), pod_metadata.is_managed(broken), pod_metadata.is_gated(broken)) == (
        "",
        False,
        False,
    )
