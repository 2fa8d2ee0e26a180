"""Rules and policies that are stored and not evaluated give a warning."""

from __future__ import annotations

from typing import Any

import pytest

from embedded import Embedded

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RULE = {"x-kubernetes-validations": [{"rule": "self.size > 1"}]}


def a_definition(spec_schema: dict[str, Any], plain: bool = False) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec_schema}}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    if plain:
        without = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        versions.insert(0, {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": without}})
    names = {"kind": "Box", "plural": "boxes", "singular": "box", "listKind": "BoxList"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": "boxes.example.com"}, "spec": spec}


def a_policy(expression: str = "true") -> dict[str, Any]:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": expression}]}
    return {"metadata": {"name": "p"}, "spec": spec}


def test_a_definition_with_rules_is_answered_with_a_warning_for_each_version_that_has_some() -> None:
    response = Embedded().post(
        DEFINITIONS, a_definition({"properties": {"size": {"type": "integer"}}, **RULE}, plain=True)
    )
    assert response.status == 201
    assert response.warnings == [
        '299 - "spec.versions[1].schema.openAPIV3Schema: x-kubernetes-validations is not evaluated by the embedded API'
        ' server: objects that violate its rule are accepted"'
    ]


@pytest.mark.parametrize(
    "below",
    [
        {"properties": {"a": {"type": "object", "properties": {"size": {"type": "integer"}}, **RULE}}},
        {"properties": {"a": {"type": "array", "items": {"type": "object", **RULE}}}},
        {"properties": {"a": {"type": "object", "additionalProperties": {"type": "object", **RULE}}}},
        {"properties": {"x-kubernetes-validations": {"type": "object", **RULE}}},
    ],
)
def test_a_rule_is_found_wherever_it_is(below: dict[str, Any]) -> None:
    response = Embedded().post(DEFINITIONS, a_definition(below))
    assert response.status == 201, response.body
    assert len(response.warnings) == 1


def test_a_definition_without_rules_is_answered_without_a_warning() -> None:
    named_like_rules = {"properties": {"x-kubernetes-validations": {"type": "array", "items": {"type": "string"}}}}
    assert Embedded().post(DEFINITIONS, a_definition(named_like_rules)).warnings == []


def test_an_update_of_a_definition_is_warned_of_when_its_rules_change() -> None:
    server = Embedded()
    server.post(DEFINITIONS, a_definition({"properties": {"size": {"type": "integer"}}}))
    path = f"{DEFINITIONS}/boxes.example.com"
    rules = [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations"}]
    added = server.patch(path, [{**rules[0], "value": [{"rule": "self.size > 1"}, {"rule": "self.size < 9"}]}], "json")
    assert added.status == 200
    assert "its 2 rules" in added.warnings[0]
    labelled = server.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert (labelled.status, labelled.warnings) == (200, [])
    changed = server.patch(path, [{**rules[0], "value": [{"rule": "self.size > 2"}]}], "json")
    assert len(changed.warnings) == 1


def test_a_policy_and_its_binding_are_answered_with_a_warning_when_they_are_created_or_changed() -> None:
    server = Embedded()
    made = server.post(f"{ADMISSION}/validatingadmissionpolicies", a_policy())
    assert made.status == 201
    assert made.warnings == [
        '299 - "spec: an admission policy is not evaluated by the embedded API server: requests that violate it are not'
        ' denied or audited and cause no warning"'
    ]
    path = f"{ADMISSION}/validatingadmissionpolicies/p"
    assert server.patch(path, {"metadata": {"labels": {"a": "b"}}}).warnings == []
    assert len(server.patch(path, {"spec": {"validations": [{"expression": "false"}]}}).warnings) == 1
    assert server.patch(f"{path}/status", {"status": {"observedGeneration": 1}}).warnings == []
    binding = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    bound = server.post(f"{ADMISSION}/validatingadmissionpolicybindings", binding)
    assert bound.status == 201
    assert bound.warnings == [
        '299 - "spec.policyName: an admission policy is not evaluated by the embedded API server: its binding has no'
        ' effect"'
    ]
    path = f"{ADMISSION}/validatingadmissionpolicybindings/b"
    assert len(server.patch(path, {"spec": {"validationActions": ["Warn"]}}).warnings) == 1
