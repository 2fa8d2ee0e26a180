"""Preparation of a new pod: selectors from label keys, AppArmor fields, fields of disabled features."""

from __future__ import annotations

from typing import Any

from headgate.apimachinery.pods.app_armor import app_armor_warnings
from headgate.apimachinery.pods.preparation import prepare_pod_template
from unit.apimachinery.validation.pod.pods import (
    GATES_OFF,
    PREFERRED,
    REQUIRED,
    defaulted,
    make_gates,
    make_pod,
    stored,
)

ANNOTATION = "container.apparmor.security.beta.kubernetes.io/c"


def test_a_new_pod_has_generation_one() -> None:
    assert stored(make_pod(metadata={"generation": 9}))["metadata"]["generation"] == 1


def test_only_the_qos_class_of_a_clients_status_is_used() -> None:
    pod = make_pod()
    pod["status"] = {"phase": "Running", "qosClass": "Guaranteed", "message": "hi"}
    assert stored(pod)["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}


def test_match_label_keys_become_part_of_the_selector() -> None:
    term: dict[str, Any] = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"x": "y"}},
        "matchLabelKeys": ["app", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }
    pod = stored(
        make_pod(
            metadata={"labels": {"app": "web", "tenant": "t1"}},
            affinity={
                "podAffinity": {REQUIRED: [term]},
                "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {"matchLabelKeys": ["app"]}}]},
            },
            topologySpreadConstraints=[{"labelSelector": {}, "matchLabelKeys": ["app"]}],
        )
    )
    is_web = {"key": "app", "operator": "In", "values": ["web"]}
    assert pod["spec"]["affinity"]["podAffinity"][REQUIRED][0]["labelSelector"] == {
        "matchLabels": {"x": "y"},
        "matchExpressions": [is_web, {"key": "tenant", "operator": "NotIn", "values": ["t1"]}],
    }
    assert pod["spec"]["topologySpreadConstraints"][0]["labelSelector"] == {"matchExpressions": [is_web]}
    without_selector = pod["spec"]["affinity"]["podAntiAffinity"][PREFERRED][0]["podAffinityTerm"]
    assert "labelSelector" not in without_selector


def test_preparing_a_pod_twice_adds_its_label_keys_once() -> None:
    constraint = {"labelSelector": {}, "matchLabelKeys": ["app"]}
    pod = make_pod(metadata={"labels": {"app": "web"}}, topologySpreadConstraints=[constraint])
    first, second = stored({**pod}), stored({**pod})
    assert first == second
    assert constraint == {"labelSelector": {}, "matchLabelKeys": ["app"]}


def test_an_app_armor_annotation_becomes_the_field_with_a_warning() -> None:
    pod = defaulted(make_pod(metadata={"annotations": {ANNOTATION: "localhost/profile"}}))
    assert app_armor_warnings(pod) == [
        f'metadata.annotations[{ANNOTATION}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    ]
    profile = {"type": "Localhost", "localhostProfile": "profile"}
    assert stored(pod)["spec"]["containers"][0]["securityContext"] == {"appArmorProfile": profile}


def test_an_app_armor_annotation_equal_to_the_pod_profile_sets_no_field() -> None:
    pod = defaulted(
        make_pod(
            metadata={"annotations": {ANNOTATION: "unconfined"}},
            securityContext={"appArmorProfile": {"type": "Unconfined"}},
        )
    )
    assert app_armor_warnings(pod) == []
    assert "securityContext" not in stored(pod)["spec"]["containers"][0]


def test_app_armor_annotations_of_a_windows_pod_are_ignored() -> None:
    pod = defaulted(make_pod(metadata={"annotations": {ANNOTATION: "unconfined"}}, os={"name": "windows"}))
    assert app_armor_warnings(pod) == []


def test_fields_of_features_that_are_off_are_dropped() -> None:
    sources = [{"clusterTrustBundle": {"name": "x"}}, {"podCertificate": {}}]
    pod = stored(
        make_pod(
            container={"lifecycle": {"stopSignal": "SIGTERM"}},
            volumes=[{"name": "v", "projected": {"sources": sources}}],
            workloadRef={"name": "w"},
        )
    )
    assert "workloadRef" not in pod["spec"]
    assert "lifecycle" not in pod["spec"]["containers"][0]
    assert pod["spec"]["volumes"][0]["projected"]["sources"] == [{}, {}]


def test_disabled_gates_are_dropped_from_templates_too() -> None:
    template = {"spec": {"schedulingGates": make_gates("foo")}}
    prepare_pod_template(template, {"spec": {"schedulingGates": make_gates("foo", "bar")}}, GATES_OFF)
    assert template["spec"] == {"schedulingGates": make_gates("foo")}
    prepare_pod_template(template, None, GATES_OFF)
    assert template["spec"] == {}
