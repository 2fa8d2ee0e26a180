"""The life cycle of definitions."""

from __future__ import annotations

from typing import Any

from embedded import Embedded, events
from headgate.apimachinery.validation.apiextensions.definition import validate_definition_update
from unit.apiserver.custom.definitions import DEFINITIONS, WIDGETS, a_definition, a_version, a_widget, serving

SPEC = {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}}
NAME = f"{DEFINITIONS}/widgets.example.com"


def conditions(server: Embedded, path: str = NAME) -> dict[str, tuple[str, str]]:
    status = server.get(path).body["status"]
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def test_a_definition_is_established_when_its_creation_is_answered() -> None:
    server = serving()
    assert conditions(server) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert server.get(WIDGETS).body["items"] == []


def test_watchers_see_each_step_of_it() -> None:
    server = Embedded()
    watch = server.watch(DEFINITIONS)
    assert events(watch) == []
    server.post(DEFINITIONS, a_definition())
    seen = [(kind, len(obj["status"]["conditions"] or ())) for kind, obj in events(watch) if kind != "BOOKMARK"]
    assert seen == [("ADDED", 0), ("MODIFIED", 2), ("MODIFIED", 2)]


def test_objects_are_pruned_and_defaulted() -> None:
    server = serving(a_version(properties=SPEC))
    created = server.post(WIDGETS, a_widget(spec={"other": 1}, more={"a": 1}))
    assert created.body["spec"] == {"size": 1}
    assert "more" not in created.body
    assert [each.partition('"')[2] for each in created.warnings] == [
        'unknown field \\"more\\""',
        'unknown field \\"spec.other\\""',
    ]


def test_a_name_that_is_taken_keeps_a_definition_waiting_until_it_is_free() -> None:
    server = serving(names={"shortNames": ["w"]})
    other = a_definition(names={"plural": "gadgets", "kind": "Gadget", "shortNames": ["w"]})
    server.post(DEFINITIONS, other)
    path = f"{DEFINITIONS}/gadgets.example.com"
    assert conditions(server, path) == {
        "NamesAccepted": ("False", "ShortNamesConflict"),
        "Established": ("False", "NotAccepted"),
    }
    assert server.get("/apis/example.com/v1/namespaces/t/gadgets").status == 404
    server.delete(NAME)
    assert conditions(server, path)["Established"] == ("True", "InitialNamesAccepted")
    assert server.get("/apis/example.com/v1/namespaces/t/gadgets").status == 200


def test_a_definition_takes_its_objects_with_it() -> None:
    server = serving(a_version(properties=SPEC))
    server.post(WIDGETS, a_widget())
    watch = server.watch(WIDGETS)
    assert [kind for kind, _ in events(watch)] == ["ADDED"]
    gone = server.delete(NAME)
    assert gone.status == 200
    assert gone.body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert [kind for kind, _ in events(watch)] == ["DELETED"]
    assert server.get(NAME).status == 404
    assert server.get(WIDGETS).status == 404
    server.post(DEFINITIONS, a_definition())
    assert server.get(WIDGETS).body["items"] == []


def test_an_object_with_a_finalizer_keeps_its_definition() -> None:
    server = serving(a_version(properties=SPEC))
    held: dict[str, Any] = a_widget()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    server.post(WIDGETS, held)
    server.delete(NAME)
    assert conditions(server)["Terminating"] == ("True", "InstanceDeletionInProgress")
    refused = server.post(WIDGETS, a_widget("b"))
    assert refused.status == 403
    assert "create not allowed while custom resource definition is terminating" in refused.body["message"]
    server.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})
    assert server.get(NAME).status == 404


def test_a_change_of_the_schema_counts_for_what_is_stored_already() -> None:
    server = serving(a_version(properties=SPEC))
    server.post(WIDGETS, a_widget(spec={"size": 3}))
    new = {"spec": {"type": "object", "properties": {"color": {"type": "string", "default": "red"}}}}
    changed = server.patch(NAME, {"spec": {"versions": [a_version(properties=new)]}})
    assert changed.status == 200, changed.body
    assert server.get(f"{WIDGETS}/a").body["spec"] == {"color": "red"}
    assert server.get(WIDGETS).body["items"][0]["spec"] == {"color": "red"}


def test_objects_are_seen_in_every_version() -> None:
    versions = (a_version("v1", SPEC), a_version("v2", SPEC, storage=False))
    server = serving(*versions)
    server.post("/apis/example.com/v2/namespaces/t/widgets", a_widget(version="v2", spec={"size": 2}))
    assert server.get(f"{WIDGETS}/a").body["apiVersion"] == "example.com/v1"
    assert server.get("/apis/example.com/v2/widgets").body["items"][0]["apiVersion"] == "example.com/v2"
    group = server.get("/apis/example.com").body
    assert [each["version"] for each in group["versions"]] == ["v2", "v1"]


def test_one_manager_applies_through_every_version() -> None:
    server = serving(a_version("v1", SPEC), a_version("v2", SPEC, storage=False))
    for version, size in (("v2", 2), ("v1", 3), ("v2", 4), ("v1", 4)):
        path = f"/apis/example.com/{version}/namespaces/t/widgets/a"
        applied = server.apply(path, a_widget(version=version, spec={"size": size}), "one")
        assert applied.status in (200, 201), applied.body
        assert (applied.body["apiVersion"], applied.body["spec"]["size"]) == (f"example.com/{version}", size)
        (owner,) = applied.body["metadata"]["managedFields"]
        assert owner["apiVersion"] == f"example.com/{version}"


def test_a_watch_ends_when_its_definition_changes() -> None:
    server = serving(a_version(properties=SPEC))
    watch, other = server.watch(WIDGETS), server.watch("/api/v1/namespaces/t/pods")
    server.post(WIDGETS, a_widget())
    assert [kind for kind, _ in events(watch)] == ["ADDED"]
    server.patch(NAME, {"metadata": {"labels": {"a": "b"}}})
    assert (events(watch), watch.ended) == ([], False)
    server.patch(NAME, {"spec": {"versions": [a_version()]}})
    assert (events(watch), watch.ended) == ([], True)
    assert (events(other), other.ended) == ([], False)


def test_a_group_of_the_community_needs_its_approval() -> None:
    server = Embedded()
    manifest = a_definition(group="sig.k8s.io")
    assert server.post(DEFINITIONS, manifest).status == 422
    manifest["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
    path = f"{DEFINITIONS}/{server.post(DEFINITIONS, manifest).body['metadata']['name']}"
    assert list(conditions(server, path)) == ["KubernetesAPIApprovalPolicyConformant", "NamesAccepted", "Established"]
    assert conditions(server, path)["KubernetesAPIApprovalPolicyConformant"] == ("False", "UnapprovedAnnotation")
    server.patch(path, {"metadata": {"annotations": {"api-approved.kubernetes.io": "https://example.com/1"}}})
    assert conditions(server, path)["KubernetesAPIApprovalPolicyConformant"] == ("True", "ApprovedAnnotation")


def test_what_is_stored_can_be_selected_by_fields_that_came_later() -> None:
    colors = {"spec": {"type": "object", "properties": {"color": {"type": "string", "default": "red"}}}}
    server = serving(a_version(properties=colors))
    server.post(WIDGETS, a_widget("a", spec={"color": "blue"}))
    server.post(WIDGETS, a_widget("b", spec={}))
    assert server.get(WIDGETS, fieldSelector="spec.color=blue").status == 400
    later = a_version(properties=colors, selectableFields=[{"jsonPath": ".spec.color"}])
    assert server.patch(NAME, {"spec": {"versions": [later]}}).status == 200
    found = {color: server.get(WIDGETS, fieldSelector=f"spec.color={color}").body["items"] for color in ("blue", "red")}
    assert {color: [each["metadata"]["name"] for each in items] for color, items in found.items()} == {
        "blue": ["a"],
        "red": ["b"],
    }
    watch = server.watch(WIDGETS, fieldSelector="spec.color=blue", resourceVersion="0")
    assert [(kind, obj["metadata"]["name"]) for kind, obj in events(watch)] == [("ADDED", "a")]
    server.patch(f"{WIDGETS}/a", {"spec": {"color": "green"}})
    assert [(kind, obj["metadata"]["name"]) for kind, obj in events(watch)] == [("DELETED", "a")]


def test_unknown_fields_are_preserved_by_the_schema_and_not_by_the_old_field_of_the_definition() -> None:
    server = serving()
    text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    said = f"spec.preserveUnknownFields: Invalid value: true: {text}"
    refused = server.patch(NAME, {"spec": {"preserveUnknownFields": True}})
    assert refused.status == 422
    assert said in refused.body["message"]
    assert server.patch(NAME, {"spec": {"preserveUnknownFields": False}}).status == 200
    created = Embedded().post(DEFINITIONS, a_definition(preserveUnknownFields=True))
    assert created.status == 422
    assert said in created.body["message"]


def test_a_definition_that_already_preserves_unknown_fields_may_keep_doing_so() -> None:
    old = {**a_definition(preserveUnknownFields=True), "status": {"storedVersions": ["v1"]}}
    fresh = {**a_definition(preserveUnknownFields=False), "status": {"storedVersions": ["v1"]}}

    def said(new: dict[str, Any], before: dict[str, Any]) -> list[str]:
        found = validate_definition_update(new, before)
        return [each.path for each in found if each.path == "spec.preserveUnknownFields"]

    assert said(old, old) == []
    assert said(fresh, old) == []
    assert said(old, fresh) == ["spec.preserveUnknownFields"]
