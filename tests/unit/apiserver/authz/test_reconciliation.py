"""How an existing default role or binding is brought up to date."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apiserver.authz.bootstrap_policy.policy_objects import AUTO_UPDATE, default_policy
from headgate.apiserver.authz.bootstrap_policy.reconciliation import reconcile
from headgate.apiserver.authz.rules import rules_of, uncovered

BY_NAME = {(each["kind"], each["metadata"]["name"]): each for each in default_policy()}
VIEWER = BY_NAME["ClusterRole", "system:public-info-viewer"]
BINDING = BY_NAME["ClusterRoleBinding", "system:public-info-viewer"]
EDIT = BY_NAME["ClusterRole", "edit"]
OWN = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["things"]}


def changed(obj: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**obj, **fields}


@pytest.mark.parametrize("obj", default_policy(), ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_what_is_as_it_should_be_is_kept(obj: dict[str, Any]) -> None:
    assert reconcile(obj, obj).action == "keep"


def test_missing_rights_are_added_and_own_ones_kept() -> None:
    step = reconcile(changed(VIEWER, rules=[OWN]), VIEWER)
    assert step.action == "update"
    assert step.obj["rules"][0] == OWN
    assert uncovered(rules_of(step.obj), rules_of(VIEWER)) == []
    assert reconcile(step.obj, VIEWER).action == "keep"


def test_a_role_that_grants_more_is_left_as_it_is() -> None:
    wide = changed(VIEWER, rules=[{"verbs": ["*"], "nonResourceURLs": ["*"]}])
    assert reconcile(wide, VIEWER).action == "keep"


def test_missing_subjects_labels_and_annotations_are_added() -> None:
    bare = changed(BINDING, subjects=[{"kind": "User", "name": "eve"}], metadata={"name": "x", "labels": {"mine": "1"}})
    step = reconcile(bare, BINDING)
    assert step.action == "update"
    assert step.obj["subjects"] == [{"kind": "User", "name": "eve"}, *BINDING["subjects"]]
    assert step.obj["metadata"]["labels"] == {"mine": "1", **BINDING["metadata"]["labels"]}
    assert step.obj["metadata"]["annotations"] == BINDING["metadata"]["annotations"]


def test_what_is_marked_as_ones_own_is_left_alone() -> None:
    metadata = {**VIEWER["metadata"], "annotations": {AUTO_UPDATE: "false"}}
    assert reconcile(changed(VIEWER, rules=[], metadata=metadata), VIEWER).action == "keep"


def test_a_binding_to_another_role_is_deleted_and_created_again() -> None:
    step = reconcile(changed(BINDING, roleRef={**BINDING["roleRef"], "name": "cluster-admin"}), BINDING)
    assert (step.action, step.obj) == ("recreate", BINDING)


def test_a_sum_gets_its_selectors_back_and_keeps_further_ones() -> None:
    mine = {"matchLabels": {"a": "b"}}
    step = reconcile(changed(EDIT, aggregationRule={"clusterRoleSelectors": [mine]}), EDIT)
    selectors = step.obj["aggregationRule"]["clusterRoleSelectors"]
    assert selectors == [mine, *EDIT["aggregationRule"]["clusterRoleSelectors"]]


def test_a_role_that_should_be_no_sum_is_none() -> None:
    step = reconcile(changed(VIEWER, aggregationRule=EDIT["aggregationRule"]), VIEWER)
    assert step.action == "update"
    assert step.obj["aggregationRule"] is None
