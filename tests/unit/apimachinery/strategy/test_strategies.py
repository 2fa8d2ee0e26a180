"""Properties of strategies: create by PUT, kept and reset fields, graceful deletion."""

from __future__ import annotations

import pytest

from headgate.apimachinery.strategy import STRATEGIES
from unit.apimachinery.strategy.server import NOW, Object, all_schemas, create, update

CREATED_BY_PUT = {
    ("", "Endpoints"),
    ("", "Event"),
    ("", "LimitRange"),
    ("", "Service"),
    ("coordination.k8s.io", "Lease"),
    ("events.k8s.io", "Event"),
    ("node.k8s.io", "RuntimeClass"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
}
NEEDS_A_REVISION = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("coordination.k8s.io", "Lease"),
    ("node.k8s.io", "RuntimeClass"),
    ("policy", "PodDisruptionBudget"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("storage.k8s.io", "VolumeAttachment"),
}


def test_only_these_kinds_are_created_by_a_put() -> None:
    assert {key for key, strategy in STRATEGIES.items() if strategy.allow_create_on_update} == CREATED_BY_PUT


def test_only_these_kinds_need_a_resource_version_for_an_update() -> None:
    assert {key for key, strategy in STRATEGIES.items() if not strategy.unconditional_update} == NEEDS_A_REVISION


def test_every_kind_of_the_schema_tables_that_is_stored_has_a_strategy() -> None:
    served = {(kind.group, kind.kind) for kind in all_schemas().kinds}
    requests = {"APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "List", "Status", "WatchEvent", "Table"}
    unnamed = {
        kind
        for group, kind in served - set(STRATEGIES)
        if group != "meta.k8s.io" and not kind.endswith(("List", "Options")) and kind not in requests
    }
    assert unnamed <= {"ComponentStatus", "RangeAllocation", "SerializedReference", "PodStatusResult"}


def test_only_a_pod_is_deleted_gracefully() -> None:
    assert [key for key, strategy in STRATEGIES.items() if strategy.graceful_delete] == [("", "Pod")]


def _namespace(**extra: object) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, **extra}


def test_a_new_namespace_is_active_with_label_and_finalizer() -> None:
    body = create(_namespace(status={"phase": "Terminating"}, spec={"finalizers": ["a.example/b"]})).body
    assert body["status"] == {"phase": "Active"}
    assert body["spec"]["finalizers"] == ["a.example/b", "kubernetes"]
    assert body["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}


def test_only_the_finalize_endpoint_changes_the_finalizers_of_a_namespace() -> None:
    old = create(_namespace()).body
    released = {**old, "spec": {}}
    assert update(released, old).body["spec"]["finalizers"] == ["kubernetes"]
    assert update(released, old, "finalize").body["spec"] == {}
    assert update(released, old, "status").body["spec"]["finalizers"] == ["kubernetes"]


def test_the_phase_of_a_namespace_matches_its_deletion() -> None:
    old = create(_namespace()).body
    ended = {**old, "status": {"phase": "Terminating"}}
    assert update(ended, old, "status").problems == [
        [
            "status.Phase",
            "FieldValueInvalid",
            "Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
        ]
    ]


def test_a_node_is_created_with_its_status_and_updates_it_separately() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "0.5"}}}
    old = create(node).body
    assert old["status"]["allocatable"] == {"cpu": "500m"}
    cordoned = {**old, "spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "9"}}}
    assert update(cordoned, old).body["status"]["capacity"] == {"cpu": "500m"}
    assert update(cordoned, old, "status").body["spec"] == {}
    assert update(cordoned, old, "status").body["status"]["capacity"] == {"cpu": "9"}


def test_the_generation_of_a_deployment_increases_with_annotations_but_not_labels() -> None:
    labels = {"app": "a"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    old = create(manifest).body
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"x": "y"}}}
    noted = {**old, "metadata": {**old["metadata"], "annotations": {"x": "y"}}}
    assert update(labelled, old).body["metadata"]["generation"] == 1
    assert update(noted, old).body["metadata"]["generation"] == 2


def test_a_daemon_set_has_its_template_generation_in_an_annotation() -> None:
    labels = {"app": "a"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    manifest: Object = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    old = create(manifest).body
    key = "deprecated.daemonset.template.generation"
    assert old["metadata"]["annotations"] == {key: "1"}
    changed = {**manifest["spec"], "template": {**pod, "spec": {"containers": [{"name": "c", "image": "j"}]}}}
    assert update({**old, "spec": changed}, old).body["metadata"]["annotations"] == {key: "2"}
    relimited = {**old, "spec": {**old["spec"], "revisionHistoryLimit": 3}}
    result = update(relimited, old).body["metadata"]
    assert (result["annotations"], result["generation"]) == ({key: "1"}, 2)


def test_the_server_sets_the_time_of_a_phase_change_of_a_volume() -> None:
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}},
    }
    old = create(volume).body
    assert old["status"] == {"phase": "Pending", "lastPhaseTransitionTime": NOW}
    earlier = {**old, "status": {"phase": "Pending", "lastPhaseTransitionTime": "2020-01-01T00:00:00Z"}}
    same = update({**earlier, "status": {"phase": "Pending"}}, earlier, "status").body
    assert same["status"]["lastPhaseTransitionTime"] == "2020-01-01T00:00:00Z"
    moved = update({**earlier, "status": {"phase": "Available"}}, earlier, "status").body
    assert moved["status"]["lastPhaseTransitionTime"] == NOW


def test_string_data_of_a_secret_is_moved_to_data() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"a": "eA=="},
        "stringData": {"a": "b", "c": "ü"},
    }
    body = create(secret).body
    assert body["data"] == {"a": "Yg==", "c": "w7w="}
    assert "stringData" not in body
    assert body["type"] == "Opaque"


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_immutable_config_maps_and_secrets_cannot_change(kind: str) -> None:
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "c"}, "data": {"a": "eA=="}, "immutable": True}
    old = create(body).body
    changed = {**old, "data": {"a": "eQ=="}, "immutable": False}
    text = "Forbidden: field is immutable when `immutable` is set"
    assert update(changed, old).problems == [
        ["immutable", "FieldValueForbidden", text],
        ["data", "FieldValueForbidden", text],
    ]


def test_a_config_map_may_have_one_mebibyte() -> None:
    def config_map(size: int) -> Object:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "x" * size}}

    assert not create(config_map(1024 * 1024)).is_error
    assert create(config_map(1024 * 1024 + 1)).problems[0][1:] == [
        "FieldValueTooLong",
        "Too long: may not be more than 1048576 bytes",
    ]


def test_a_limit_range_without_a_name_gets_one() -> None:
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {}, "spec": {"limits": []}}
    assert create(body).body["metadata"]["name"]


def test_system_priorities_are_reserved() -> None:
    def priority(name: str, value: int) -> Object:
        return {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }

    assert not create(priority("system-node-critical", 2_000_001_000)).is_error
    assert (
        create(priority("system-node-critical", 5))
        .problems[0][2]
        .endswith("error: value of system-node-critical PriorityClass must be 2000001000")
    )
    assert (
        create(priority("system-mine", 5))
        .problems[0][2]
        .endswith("error: system-mine is not a known system priority class")
    )
    assert create(priority("mine", 1_000_000_001)).problems == [
        ["value", "FieldValueForbidden", "Forbidden: maximum allowed value of a user defined priority is 1000000000"]
    ]
    old = create(priority("mine", 7)).body
    assert update({**old, "value": 8}, old).problems == [
        ["value", "FieldValueForbidden", "Forbidden: may not be changed in an update."]
    ]
