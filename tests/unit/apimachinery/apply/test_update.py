from __future__ import annotations

import pytest

from headgate.apimachinery.apply.managed_fields import (
    MAX_UPDATERS,
    ManagerIdentity,
    Managers,
    VersionedFieldSet,
    cap_update_managers,
)
from unit.apimachinery.apply.objects import (
    CONFIG_MAP,
    DEPLOYMENT,
    EARLY,
    LATE,
    NOON,
    POD,
    create,
    encoded,
    make_config_map,
    make_pod,
    owners,
    times,
    update,
    with_uid,
)


def test_the_creator_owns_its_fields_but_not_the_identity() -> None:
    assert owners(create(CONFIG_MAP, make_config_map(x="1"))) == {"Update creator": {"f:data": {".": {}, "f:x": {}}}}


def test_required_parents_are_not_owned_but_optional_ones_are() -> None:
    pod = make_pod({"name": "main", "image": "i", "ports": [{"containerPort": 80}]}, volumes=[{"name": "v"}])
    fields = owners(create(POD, pod))["Update creator"]["f:spec"]
    assert fields["f:containers"]['k:{"name":"main"}']["f:ports"] == {
        ".": {},
        'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
    }
    assert "." not in fields["f:containers"]
    assert fields["f:volumes"] == {".": {}, 'k:{"name":"v"}': {".": {}, "f:name": {}}}


def test_entries_and_fields_are_in_wire_order() -> None:
    live = create(CONFIG_MAP, make_config_map(z="1", a="1"), "zoe", EARLY)
    live = with_uid(update(CONFIG_MAP, live, {**live, "data": {"z": "1", "a": "1", "m": "1"}}, "amy", LATE))
    entries = live["metadata"]["managedFields"]
    assert [entry["manager"] for entry in entries] == ["zoe", "amy"]
    assert list(entries[0]["fieldsV1"]["f:data"]) == [".", "f:a", "f:z"]
    assert list(entries[0]) == ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"]


def test_the_manager_that_changes_a_value_owns_it() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1", y="1"))
    new = update(CONFIG_MAP, live, {**live, "data": {"x": "2", "y": "1"}}, "other")
    assert owners(new) == {
        "Update creator": {"f:data": {".": {}, "f:y": {}}},
        "Update other": {"f:data": {"f:x": {}}},
    }
    assert times(new) == {"creator": EARLY, "other": NOON}


def test_a_manager_left_without_fields_loses_its_entry() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1"))
    assert owners(update(CONFIG_MAP, live, {k: v for k, v in live.items() if k != "data"}, "other")) == {}


def test_removing_a_field_changes_no_other_entry() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1", y="1"))
    new = update(CONFIG_MAP, live, {**live, "data": {"x": "1"}}, "creator")
    assert owners(new) == {"Update creator": {"f:data": {".": {}, "f:x": {}}}}
    assert times(new) == {"creator": EARLY}


def test_a_write_that_changes_nothing_changes_no_entry() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1"))
    assert update(CONFIG_MAP, live, live, "other") == live


def test_neither_object_is_changed() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1"))
    new = {**live, "data": {"x": "2"}}
    before = repr((live, new))
    update(CONFIG_MAP, live, new, "other")
    assert repr((live, new)) == before


def test_fields_that_the_endpoint_resets_are_never_owned() -> None:
    pod = encoded(POD, make_pod())
    pod["status"] = {"phase": "Running"}
    live = create(POD, pod, reset=(("status",),))
    assert "f:status" not in owners(live)["Update creator"]
    changed = {**live, "spec": {**live["spec"], "hostname": "h"}, "status": {"phase": "Failed"}}
    new = update(POD, live, changed, "kubelet", subresource="status", reset=(("spec",),))
    assert owners(new)["Update kubelet/status"] == {"f:status": {"f:phase": {}}}


def test_a_subresource_cannot_rewrite_the_entries() -> None:
    live = create(POD, make_pod())
    forged = {**live, "metadata": {**live["metadata"], "managedFields": [{}]}, "status": {"phase": "Running"}}
    new = update(POD, live, forged, "kubelet", subresource="status", reset=(("spec",),))
    assert set(owners(new)) == {"Update creator", "Update kubelet/status"}


@pytest.mark.parametrize("given", [[], [{}]])
def test_an_empty_list_of_entries_ends_tracking(given: list[object]) -> None:
    live = create(CONFIG_MAP, make_config_map(x="1"))
    ended = with_uid(
        update(CONFIG_MAP, live, {**live, "metadata": {**live["metadata"], "managedFields": given}}, "other")
    )
    assert "managedFields" not in ended["metadata"]
    assert "managedFields" not in update(CONFIG_MAP, ended, {**ended, "data": {"x": "2"}}, "other")["metadata"]


@pytest.mark.parametrize(
    "entry",
    [
        {"manager": "x", "operation": "Bad", "apiVersion": "v1", "fieldsType": "FieldsV1"},
        {"manager": "x", "operation": "Update", "fieldsType": "FieldsV1"},
        {"manager": "x", "operation": "Update", "apiVersion": "v1"},
        {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2"},
        {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}},
    ],
)
def test_with_invalid_entries_those_of_the_live_object_are_used(entry: dict[str, object]) -> None:
    live = create(CONFIG_MAP, make_config_map(x="1"))
    forged = {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}
    assert owners(update(CONFIG_MAP, live, forged, "other")) == owners(live)


def test_a_client_may_change_the_manager_of_its_fields() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1"))
    entry = {**live["metadata"]["managedFields"][0], "manager": "heir", "operation": "Apply"}
    given = {**live, "metadata": {**live["metadata"], "managedFields": [entry]}}
    assert owners(update(CONFIG_MAP, live, given, "other")) == {"Apply heir": {"f:data": {".": {}, "f:x": {}}}}


def test_a_manager_of_a_removed_version_loses_its_entry() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1"))
    entry = {**live["metadata"]["managedFields"][0], "manager": "old", "apiVersion": "v0"}
    live["metadata"]["managedFields"].append(entry)
    assert set(owners(update(CONFIG_MAP, live, {**live, "data": {"x": "2"}}, "other"))) == {
        "Update creator",
        "Update other",
    }


def test_entries_are_dropped_if_ownership_cannot_be_computed() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1"))
    live["metadata"]["managedFields"][0]["apiVersion"] = "a/b/c"
    assert "managedFields" not in update(CONFIG_MAP, live, {**live, "data": {"x": "2"}}, "other")["metadata"]


def test_a_manager_without_a_name_is_called_unknown() -> None:
    assert list(owners(create(CONFIG_MAP, make_config_map(x="1"), ""))) == ["Update unknown"]


def test_the_oldest_of_many_updaters_become_ancient_changes() -> None:
    live = create(CONFIG_MAP, make_config_map(k00="v"), "m00", "2026-01-01T00:00:00Z")
    for number in range(1, 14):
        new = {**live, "data": {**live["data"], f"k{number:02}": "v"}}
        live = with_uid(update(CONFIG_MAP, live, new, f"m{number:02}", f"2026-01-01T00:00:{number:02}Z"))
    entries = live["metadata"]["managedFields"]
    assert len(entries) == 10
    assert entries[0]["manager"] == "ancient-changes"
    assert entries[0]["time"] == "2026-01-01T00:00:04Z"
    assert list(entries[0]["fieldsV1"]["f:data"]) == [".", "f:k00", "f:k01", "f:k02", "f:k03", "f:k04"]
    assert [entry["manager"] for entry in entries[1:]] == [f"m{number:02}" for number in range(5, 14)]


def test_many_surplus_updaters_are_merged_at_once() -> None:
    managers: Managers = {
        ManagerIdentity(f"m{number:02}", "Update", "v1", ""): VersionedFieldSet(
            {f"f:{number}": {}}, "v1", f"2026-01-01T00:00:{number:02}Z"
        )
        for number in range(14)
    }
    managers[ManagerIdentity("applier", "Apply", "", "")] = VersionedFieldSet({"f:a": {}}, "v1", EARLY)
    left = cap_update_managers(managers)
    assert len(left) == MAX_UPDATERS + 1
    assert left[ManagerIdentity("ancient-changes", "Update", "v1", "")].fields == {
        f"f:{number}": {} for number in range(5)
    }
    assert len(managers) == 15


def test_a_duplicate_environment_variable_is_owned_as_a_whole() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    fields = owners(create(POD, make_pod({"name": "main", "env": env})))["Update creator"]
    assert fields["f:spec"]["f:containers"]['k:{"name":"main"}']["f:env"] == {".": {}, 'k:{"name":"A"}': {}}


def test_a_selector_is_atomic() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c"}]}}},
    }
    assert owners(create(DEPLOYMENT, deployment))["Update creator"]["f:spec"]["f:selector"] == {}
