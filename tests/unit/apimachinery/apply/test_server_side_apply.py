from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.apply import ApplyResult, keep_unchanged_times, not_convertible
from unit.apimachinery.apply.objects import (
    CONFIG_MAP,
    DEPLOYMENT,
    EARLY,
    LATE,
    NOON,
    POD,
    applied,
    apply,
    apply_error,
    create,
    encoded,
    make_config_map,
    make_pod,
    owners,
    times,
    update,
    with_uid,
)


def test_applying_a_missing_object_creates_it() -> None:
    made = applied(CONFIG_MAP, None, make_config_map(x="1"), "m")
    assert made["data"] == {"x": "1"}
    assert owners(made) == {"Apply m": {"f:data": {"f:x": {}}}}


def test_two_appliers_share_fields_with_equal_values() -> None:
    live = applied(CONFIG_MAP, None, make_config_map(x="1"), "m")
    both = applied(CONFIG_MAP, live, make_config_map(x="1"), "n", LATE)
    assert owners(both) == {"Apply m": {"f:data": {"f:x": {}}}, "Apply n": {"f:data": {"f:x": {}}}}
    # The object did not change, so the second entry has no time.
    assert times(both) == {"m": NOON, "n": None}


def test_a_field_of_another_manager_is_a_conflict() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1"), "kubectl")
    error = apply_error(CONFIG_MAP, live, make_config_map(x="2"), "m").error
    assert error.body() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "kubectl" using v1: .data.x',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "kubectl" using v1',
                    "field": ".data.x",
                }
            ]
        },
        "code": 409,
    }


def test_many_conflicts_are_grouped_by_owner() -> None:
    live = applied(CONFIG_MAP, None, make_config_map(x="1", y="1"), "b")
    live = with_uid(update(CONFIG_MAP, live, {**live, "data": {**live["data"], "z": "1"}}, "a"))
    error = apply_error(CONFIG_MAP, live, make_config_map(x="2", y="2", z="2"), "m").error
    assert error.message == (
        'Apply failed with 3 conflicts: conflicts with "a" using v1:\n- .data.z\n'
        'conflicts with "b":\n- .data.x\n- .data.y'
    )


def test_the_conflict_contains_the_subresource_of_the_owner() -> None:
    live = create(POD, make_pod())
    running = {**live, "status": {"phase": "Running"}}
    live = with_uid(update(POD, live, running, "kubelet", subresource="status", reset=(("spec",),)))
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"phase": "Failed"}}
    error = apply_error(POD, live, config, "m", subresource="status", reset=(("spec",),)).error
    assert error.message.endswith('conflict with "kubelet" with subresource "status" using v1: .status.phase')


def test_force_changes_the_owner_of_the_field() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1", y="1"), "other")
    taken = applied(CONFIG_MAP, live, make_config_map(x="2"), "m", force=True)
    assert taken["data"] == {"x": "2", "y": "1"}
    assert owners(taken) == {"Apply m": {"f:data": {"f:x": {}}}, "Update other": {"f:data": {".": {}, "f:y": {}}}}


def test_a_field_that_its_only_applier_drops_is_removed() -> None:
    live = applied(CONFIG_MAP, None, make_config_map(x="1", y="1"), "m")
    assert applied(CONFIG_MAP, live, make_config_map(x="1"), "m")["data"] == {"x": "1"}


def test_a_field_of_two_appliers_stays_when_one_drops_it() -> None:
    live = applied(CONFIG_MAP, None, make_config_map(x="1", y="1"), "m")
    live = applied(CONFIG_MAP, live, make_config_map(y="1"), "n")
    left = applied(CONFIG_MAP, live, make_config_map(x="1"), "m")
    assert left["data"] == {"x": "1", "y": "1"}
    assert owners(left) == {"Apply m": {"f:data": {"f:x": {}}}, "Apply n": {"f:data": {"f:y": {}}}}


def test_a_container_with_fields_of_others_loses_only_the_fields_of_its_applier() -> None:
    live = applied(CONFIG_MAP, None, make_config_map(x="1"), "m")
    live = with_uid(update(CONFIG_MAP, live, {**live, "data": {"x": "1", "y": "1"}}, "other"))
    nothing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    left = applied(CONFIG_MAP, live, nothing, "m")
    assert left["data"] == {"y": "1"}
    assert owners(left) == {"Update other": {"f:data": {"f:y": {}}}}


def test_defaults_without_an_owner_are_removed_with_their_item() -> None:
    live = applied(POD, None, make_pod({"name": "a"}, {"name": "b"}), "m")
    for container in live["spec"]["containers"]:
        container["terminationMessagePath"] = "/dev/termination-log"
    left = applied(POD, live, make_pod({"name": "b"}), "m")
    assert left["spec"]["containers"] == [
        {"name": "b", "resources": {}, "terminationMessagePath": "/dev/termination-log"}
    ]


def test_a_gate_that_one_of_two_owners_drops_stays() -> None:
    live = applied(POD, None, make_pod(schedulingGates=[{"name": "x/a"}, {"name": "x/b"}]), "m")
    live = applied(POD, live, make_pod(schedulingGates=[{"name": "x/b"}]), "n")
    left = applied(POD, live, make_pod(), "m")
    assert left["spec"]["schedulingGates"] == [{"name": "x/b"}]


def test_an_object_without_entries_was_written_before_the_first_apply() -> None:
    live = with_uid(encoded(CONFIG_MAP, make_config_map(x="1")))
    result = applied(CONFIG_MAP, live, make_config_map(y="1"), "m")
    assert owners(result) == {
        "Apply m": {"f:data": {"f:y": {}}},
        "Update before-first-apply": {"f:data": {".": {}, "f:x": {}}},
    }
    error = apply_error(CONFIG_MAP, live, make_config_map(x="2"), "m").error
    assert 'conflict with "before-first-apply" using v1: .data.x' in error.message


def test_applying_the_same_configuration_again_changes_nothing() -> None:
    live = applied(CONFIG_MAP, None, make_config_map(x="1"), "m")
    again = apply(CONFIG_MAP, live, make_config_map(x="1"), "m", LATE)
    assert again == ApplyResult(live, unchanged=True)


def test_the_result_shares_nothing_with_the_inputs() -> None:
    live = applied(CONFIG_MAP, None, make_config_map(x="1"), "m")
    config = make_config_map(x="2")
    for result in (apply(CONFIG_MAP, live, config, "m"), apply(CONFIG_MAP, live, make_config_map(x="1"), "m")):
        assert isinstance(result, ApplyResult)
        result.obj["data"]["new"] = result.obj["metadata"]["labels"] = "changed"
    assert live["data"] == {"x": "1"}
    assert config["data"] == {"x": "2"}


def test_the_old_time_is_kept_if_nothing_else_differs() -> None:
    live = applied(CONFIG_MAP, None, make_config_map(x="1"), "m")
    entries = [{**live["metadata"]["managedFields"][0], "time": LATE}]
    newer = {**live, "metadata": {**live["metadata"], "managedFields": entries}}
    assert keep_unchanged_times(newer, live) == live
    changed = {**newer, "data": {"x": "2"}}
    assert keep_unchanged_times(changed, live) is changed
    assert keep_unchanged_times(live, live) is live


def test_applying_an_empty_list_or_map_to_an_absent_field_owns_it() -> None:
    config = {**make_config_map(), "metadata": {"name": "a", "labels": {}}}
    result = apply(CONFIG_MAP, create(CONFIG_MAP, make_config_map(x="1")), config, "m")
    assert isinstance(result, ApplyResult)
    assert result.obj["metadata"]["labels"] == {}
    # An existing map is not cleared by an empty one.
    assert owners(result.obj)["Apply m"] == {"f:data": {}, "f:metadata": {"f:labels": {}}}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"kind": "Pod"}, 400, "invalid object type: /v1, Kind=Pod"),
        ({"apiVersion": "v2"}, 400, "invalid object type: /v2, Kind=ConfigMap"),
        ({"apiVersion": "a/b/c"}, 400, "invalid object type: /, Kind="),
        ({"metadata": {"name": "a", "managedFields": []}}, 400, "metadata.managedFields must be nil"),
        (
            {"foo": 1},
            500,
            "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .foo: field not declared in schema",
        ),
        (
            {"metadata": {"name": "a", "namespace": "n", "finalizers": ["x", "x"]}},
            500,
            "failed to create typed patch object (n/a; /v1, Kind=ConfigMap): "
            '.metadata.finalizers: duplicate entries for key [="x"]',
        ),
        (
            {"metadata": "x"},
            500,
            "failed to create typed patch object (/; /v1, Kind=ConfigMap): .metadata: expected map, got &{x}",
        ),
    ],
)
def test_a_configuration_that_cannot_be_applied(change: dict[str, Any], code: int, message: str) -> None:
    error = apply_error(CONFIG_MAP, None, {**make_config_map(x="1"), **change}, "m").error
    assert (error.code, error.message) == (code, message)
    assert error.reason == ("BadRequest" if code == 400 else "")


def test_a_null_for_the_entries_is_not_a_list_of_entries() -> None:
    config = {**make_config_map(x="1"), "metadata": {"name": "a", "managedFields": None}}
    assert owners(applied(CONFIG_MAP, None, config, "m")) == {"Apply m": {"f:data": {"f:x": {}}}}


def test_an_apply_fails_if_the_live_entries_are_invalid() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1"))
    live["metadata"]["managedFields"][0]["operation"] = "Bad"
    error = apply_error(CONFIG_MAP, live, make_config_map(x="1"), "m").error
    assert (error.code, error.message) == (
        500,
        "failed to decode managed fields: operation must be `Apply` or `Update`",
    )


def test_the_error_for_an_object_that_cannot_be_decoded_contains_its_name() -> None:
    assert not_convertible(make_config_map(), "why").error.message == (
        "failed to convert new object (/a; /v1, Kind=ConfigMap) to proper version: "
        "unable to convert unstructured object to /v1, Kind=ConfigMap: why"
    )


def test_a_quantity_is_compared_as_it_is_written() -> None:
    def pod(cpu: str) -> dict[str, Any]:
        return make_pod({"name": "main", "resources": {"requests": {"cpu": cpu}}})

    live = create(POD, pod("1"))
    assert "conflict" in apply_error(POD, live, pod("1000m"), "m").error.message
    assert owners(applied(POD, live, pod("1"), "m"))["Apply m"]


def test_the_applier_of_a_deployment_does_not_own_its_status() -> None:
    config = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"replicas": 3},
        "status": {"replicas": 7},
    }
    made = applied(DEPLOYMENT, None, config, "m", EARLY, reset=(("status",),))
    assert owners(made) == {"Apply m": {"f:spec": {"f:replicas": {}}}}
