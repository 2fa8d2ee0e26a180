"""Strategic merge patch: objects, lists by key, directives, and the errors for invalid patches."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.patch.result import REJECTED, PatchError, PatchResult, undecodable
from headgate.apimachinery.patch.strategic_merge_patch import apply_strategic
from unit.apimachinery.patch.schemas import SCHEMAS


def patched(document: dict[str, Any], patch: Any) -> Any:
    result = apply_strategic(SCHEMAS, "x.Thing", document, patch)
    assert isinstance(result, PatchResult), result
    return result.value


def spec(document: dict[str, Any], patch: dict[str, Any]) -> Any:
    return patched({"spec": document}, {"spec": patch})["spec"]


def meta(document: dict[str, Any], patch: dict[str, Any]) -> Any:
    return patched({"metadata": document}, {"metadata": patch})["metadata"]


def patch_error(document: dict[str, Any], patch: Any) -> PatchError:
    result = apply_strategic(SCHEMAS, "x.Thing", document, patch)
    assert isinstance(result, PatchError), result
    return result


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def test_objects_and_maps_merge_and_null_deletes() -> None:
    document = {"metadata": {"name": "n", "labels": {"a": "1", "b": "2"}}}
    assert patched(document, {"metadata": {"labels": {"a": None, "c": "3"}}}) == {
        "metadata": {"name": "n", "labels": {"b": "2", "c": "3"}}
    }
    assert patched(document, None) == patched(document, {}) == document


def test_a_new_value_loses_its_nulls_and_its_directives() -> None:
    new = {
        "containers": [{"name": "c", "image": None}, {"$patch": "delete", "name": "d"}],
        "whole": {"$patch": "replace"},
    }
    assert patched({}, {"spec": new}) == {"spec": {"containers": [{"name": "c"}]}}


def test_items_merge_by_their_key_and_new_ones_come_first() -> None:
    containers = [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]
    patch = [{"name": "new"}, {"name": "b", "image": "3"}]
    assert spec({"containers": containers}, {"containers": patch})["containers"] == [
        {"name": "new"},
        {"name": "a", "image": "1"},
        {"name": "b", "image": "3"},
    ]


def test_a_new_gate_comes_first() -> None:
    assert spec({"gates": named("a", "b")}, {"gates": named("new")})["gates"] == named("new", "a", "b")


def test_items_of_the_patch_keep_its_order_and_the_others_keep_the_documents() -> None:
    assert spec({"gates": named("a", "b", "c", "d")}, {"gates": named("d", "b")})["gates"] == named("a", "c", "d", "b")


def test_nested_lists_merge_by_their_own_keys() -> None:
    containers = [{"name": "a", "env": named("X", "Y")}]
    patch = [{"name": "a", "env": [{"name": "Y", "$patch": "delete"}, {"name": "Z"}]}]
    assert spec({"containers": containers}, {"containers": patch})["containers"] == [
        {"name": "a", "env": named("Z", "X")}
    ]


def test_a_list_without_a_merge_strategy_is_replaced() -> None:
    assert spec({"tolerations": named("a")}, {"tolerations": named("b")})["tolerations"] == named("b")
    containers = [{"name": "a", "args": ["1", "2"]}]
    assert spec({"containers": containers}, {"containers": [{"name": "a", "args": ["3"]}]})["containers"][0][
        "args"
    ] == ["3"]


def test_an_object_with_the_replace_strategy_is_replaced() -> None:
    assert spec({"whole": {"type": "a"}}, {"whole": {"rolling": {}}})["whole"] == {"rolling": {}}


def test_directives_delete_and_replace_items_and_objects() -> None:
    gates = {"gates": named("a", "b")}
    assert spec(gates, {"gates": [{"name": "a", "$patch": "delete"}]})["gates"] == named("b")
    assert spec(gates, {"gates": [{"name": "z", "$patch": "delete"}]})["gates"] == named("a", "b")
    assert spec(gates, {"gates": [{"$patch": "replace"}, {"name": "x"}]})["gates"] == named("x")
    assert spec({"strategy": {"type": "a"}}, {"strategy": {"$patch": "replace", "rolling": {}}}) == {
        "strategy": {"rolling": {}}
    }
    assert spec({"strategy": {"type": "a"}}, {"strategy": {"$patch": "delete"}}) == {"strategy": {}}
    assert patched({"spec": {}}, {"$patch": "replace", "raw": 1}) == {"raw": 1}


def test_scalars_merge_as_a_set() -> None:
    assert meta({"finalizers": ["a", "b"]}, {"finalizers": ["c", "b"]})["finalizers"] == ["c", "a", "b"]
    assert meta({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]})["finalizers"] == ["b"]
    assert meta({"finalizers": ["a"]}, {"finalizers": ["b"], "$deleteFromPrimitiveList/finalizers": ["a"]})[
        "finalizers"
    ] == ["b"]
    assert "finalizers" not in meta({"name": "n"}, {"$deleteFromPrimitiveList/finalizers": ["a"]})


def test_the_order_of_a_list_can_be_set_with_and_without_a_change() -> None:
    order = {"$setElementOrder/gates": named("c", "a")}
    assert spec({"gates": named("a", "b", "c")}, order)["gates"] == named("b", "c", "a")
    assert spec({"gates": named("a", "b")}, {**order, "gates": named("c")})["gates"] == named("c", "a", "b")
    assert spec({"strategy": {}}, {**order, "gates": named("c", "a")})["gates"] == named("c", "a")
    assert spec({"strategy": {}}, order) == {"strategy": {}}
    assert meta({"finalizers": ["a", "b"]}, {"$setElementOrder/finalizers": ["b", "a"]})["finalizers"] == ["b", "a"]


def test_retain_keys_drops_what_it_does_not_list() -> None:
    document = {"strategy": {"type": "Rolling", "rolling": {"name": "x"}}}
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate", "rolling": None}}
    assert spec(document, patch) == {"strategy": {"type": "Recreate"}}


def test_a_value_of_another_type_replaces() -> None:
    assert patched({"metadata": {"labels": None}}, {"metadata": {"labels": {"a": "1", "b": None}}}) == {
        "metadata": {"labels": {"a": "1"}}
    }
    assert patched({"spec": {"gates": "text"}}, {"spec": {"gates": named("a")}}) == {"spec": {"gates": named("a")}}


def test_document_and_patch_are_not_changed() -> None:
    document = {"spec": {"gates": named("a", "b"), "containers": [{"name": "c", "env": named("X")}]}}
    patch = {
        "spec": {
            "$setElementOrder/gates": named("b"),
            "gates": named("b"),
            "containers": [{"name": "c", "env": named("Y")}],
        }
    }
    before = repr(document), repr(patch)
    patched(document, patch)
    assert (repr(document), repr(patch)) == before


BAD = {
    "retainKeys": "invalid patch format of retainKeys",
    "order": "invalid patch format of setElementOrder list",
    "primitive": "invalid patch format of primitive list",
}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"spec": {"$retainKeys": 5}}, BAD["retainKeys"]),
        ({"spec": {"$retainKeys": ["gates"], "strategy": {}}}, BAD["retainKeys"]),
        ({"spec": {"$setElementOrder": []}}, BAD["order"]),
        ({"spec": {"$setElementOrderX/gates": []}}, BAD["order"]),
        ({"metadata": {"$deleteFromPrimitiveList": ["a"]}}, BAD["primitive"]),
        ([1], "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("x", "json: cannot unmarshal string into Go value of type map[string]interface {}"),
    ],
)
def test_a_malformed_directive_or_patch_is_a_bad_request(patch: Any, message: str) -> None:
    document: dict[str, Any] = {"metadata": {}, "spec": {}}
    assert patch_error(document, patch) == PatchError(400, "BadRequest", message)


DOCUMENT: dict[str, Any] = {
    "metadata": {"finalizers": ["f"], "labels": {"a": "b"}},
    "spec": {"gates": named("a"), "tolerations": named("t"), "byName": {"x": {"type": "y"}}},
    "raw": {"any": {"thing": 1}},
}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"$patch": "bogus"}, "unknown patch type: bogus in map: map[$patch:bogus]"),
        ({"$patch": 5}, "unknown patch type: %!s(int64=5) in map: map[$patch:5]"),
        ({"$patch": None}, "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]"),
        ({"spec": {"gates": [{"image": "x"}]}}, "map: map[image:x] does not contain declared merge key: name"),
        ({"spec": {"gates": [{"$patch": "delete"}]}},
         "map: map[$patch:delete] does not contain declared merge key: name"),
        ({"spec": {"gates": [{"$patch": "merge"}]}}, "merging lists cannot yet be specified in the patch"),
        ({"spec": {"gates": [{"$patch": "x"}]}}, "unknown patch type: x in map: map[$patch:x]"),
        ({"spec": {"gates": [5]}}, "list element types are not identical: [[map[name:a]] [5]]"),
        ({"spec": {"gates": [None]}}, "list element types are not identical: [[map[name:a]] [<nil>]]"),
        ({"spec": {"$setElementOrder/gates": 5}}, "expected a []interface {}, but received a int64"),
        ({"spec": {"$setElementOrder/gates": [], "gates": "x"}}, "expected a []interface {}, but received a string"),
        ({"spec": {"$setElementOrder/gates": named("b"), "gates": named("c")}},
         "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n"),
        ({"spec": {"$setElementOrder/nope": []}}, 'unable to find api field in struct Spec for the json field "nope"'),
        ({"spec": {"$setElementOrder/tolerations": []}}, "map: map[name:t] does not contain declared merge key: "),
        ({"spec": {"byName": {"x": {"type": "z"}}}},
         "merging an object in json but data type is not struct, instead is: map"),
        ({"raw": {"any": {"thing": 2}}}, 'unable to find api field in struct RawExtension for the json field "any"'),
    ],
)  # fmt: skip
def test_errors_that_kubernetes_does_not_classify_are_internal_errors(patch: Any, message: str) -> None:
    assert patch_error(DOCUMENT, patch) == PatchError(500, "", message)


def test_a_list_of_lists_cannot_be_merged() -> None:
    document = {"spec": {"matrix": [["a"]]}}
    problem = patch_error(document, {"spec": {"matrix": [["b"]]}})
    assert problem == PatchError(500, "", "unexpected slice of slice")
    problem = patch_error({"metadata": {"finalizers": [["a"]]}}, {"metadata": {"finalizers": [["b"]]}})
    assert problem == PatchError(422, "Invalid", REJECTED)


def test_a_list_that_begins_with_null_is_rejected() -> None:
    assert patch_error({"metadata": {"finalizers": []}}, {"metadata": {"finalizers": [None]}}).code == 500


def test_a_patched_document_that_cannot_be_decoded_is_an_error_of_the_field_patch() -> None:
    body = undecodable("map[spec:5]", "cannot restore struct from: int64").body()
    assert body["message"] == ' "" is invalid: patch: Invalid value: "map[spec:5]": cannot restore struct from: int64'
    assert [cause["field"] for cause in body["details"]["causes"]] == ["patch"]
