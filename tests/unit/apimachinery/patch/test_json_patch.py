"""JSON Patch: the RFC, the deviations of the API server, and its errors."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.patch.json_patch import MAX_OPERATIONS, apply_json_patch, is_same
from headgate.apimachinery.patch.result import REJECTED, PatchError, PatchResult

DOCUMENT: dict[str, Any] = {"a": {"b": [1, 2, 3], "c": None}, "s": "text", "x/y": {"~": 1}}


def patched(*operations: dict[str, Any], document: Any = None) -> Any:
    result = apply_json_patch(DOCUMENT if document is None else document, list(operations))
    assert isinstance(result, PatchResult), result
    return result.value


def patch_error(*operations: Any) -> PatchError:
    result = apply_json_patch(DOCUMENT, list(operations))
    assert isinstance(result, PatchError), result
    return result


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def test_values_are_added_to_objects_and_into_lists() -> None:
    assert patched(add("/new", 1))["new"] == 1
    assert patched(add("/a/b/0", 0))["a"]["b"] == [0, 1, 2, 3]
    assert patched(add("/a/b/3", 4))["a"]["b"] == [1, 2, 3, 4]
    assert patched(add("/a/b/-", 4))["a"]["b"] == [1, 2, 3, 4]
    assert patched({"op": "add", "path": "/n"})["n"] is None


def test_negative_indexes_count_from_the_end() -> None:
    assert patched({"op": "remove", "path": "/a/b/-1"})["a"]["b"] == [1, 2]
    assert patched(add("/a/b/-1", 9))["a"]["b"] == [1, 2, 3, 9]
    assert patched({"op": "replace", "path": "/a/b/-3", "value": 9})["a"]["b"] == [9, 2, 3]


def test_keys_are_unescaped() -> None:
    assert patched({"op": "replace", "path": "/x~1y/~0", "value": 2})["x/y"] == {"~": 2}


def test_text_before_the_first_slash_is_ignored() -> None:
    assert patched(add("junk/new", 1))["new"] == 1


def test_replacing_a_missing_key_adds_it() -> None:
    assert patched({"op": "replace", "path": "/a/new", "value": 1})["a"]["new"] == 1


def test_the_whole_document_can_be_replaced_by_an_object_or_a_list() -> None:
    assert patched({"op": "replace", "path": "", "value": {"z": 1}}) == {"z": 1}
    assert patched({"op": "replace", "path": "", "value": []}) == []
    assert patch_error({"op": "replace", "path": "", "value": "text"})


def test_values_move_and_copy() -> None:
    moved = patched({"op": "move", "from": "/a/b", "path": "/b"})
    assert (moved["b"], moved["a"]) == ([1, 2, 3], {"c": None})
    copied = patched({"op": "copy", "from": "/a/b", "path": "/b"}, add("/b/-", 4), add("/a/b/0", 0))
    assert (copied["b"], copied["a"]["b"]) == ([1, 2, 3, 4], [0, 1, 2, 3])
    assert patched({"op": "copy", "from": "/nowhere", "path": "/b"})["b"] is None


def test_a_copy_does_not_change_with_its_source() -> None:
    result = patched(
        add("/a/d", {"e": []}),
        add("/a/d/e/-", 1),
        {"op": "copy", "from": "/a/d", "path": "/f"},
        add("/a/d/e/-", 2),
        add("/f/e/-", 3),
    )
    assert (result["a"]["d"], result["f"]) == ({"e": [1, 2]}, {"e": [1, 3]})


def test_a_test_passes_on_equal_values_and_on_null_for_a_missing_key() -> None:
    patched({"op": "test", "path": "/a/b", "value": [1, 2, 3]})
    patched({"op": "test", "path": "", "value": DOCUMENT})
    patched({"op": "test", "path": "/missing", "value": None})
    patched({"op": "test", "path": "/missing"})
    patched({"op": "test", "path": "/a/c", "value": None})


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/nope"},
        {"op": "remove", "path": "/a/b/3"},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "path": "/a/b/4", "value": 1},
        {"op": "add", "path": "/a/b/x", "value": 1},
        {"op": "add", "path": "/nope/x", "value": 1},
        {"op": "add", "path": "/s/x", "value": 1},
        {"op": "add", "path": "/a/c/x", "value": 1},
        {"op": "add", "path": "/a/b/-5", "value": 1},
        {"op": "replace", "path": "/a/b/3", "value": 1},
        {"op": "replace", "path": "/a/b/-", "value": 1},
        {"op": "move", "from": "/nope", "path": "/x"},
        {"op": "move", "from": "/a", "path": "/a/b/0"},
        {"op": "move", "path": "/x"},
        {"op": "copy", "path": "/x"},
        {"op": "copy", "from": "/a/b/9", "path": "/x"},
        {"op": "test", "path": "/s", "value": "other"},
        {"op": "test", "path": "/s"},
        {"op": "test", "path": "/missing", "value": 1},
        {"op": "test", "path": "/a/b/9", "value": None},
        {"op": "bogus", "path": "/s"},
        {"path": "/s"},
        {"op": "remove"},
        None,
    ],
)
def test_an_operation_that_does_not_apply_is_refused_without_a_reason(operation: Any) -> None:
    problem = patch_error(add("/new", 1), operation)
    assert (problem.code, problem.reason, problem.message) == (422, "Invalid", REJECTED)
    assert problem.error.body()["details"] == {}


def test_document_and_patch_are_not_changed_and_unchanged_parts_are_shared() -> None:
    document = {"a": {"b": [1]}, "keep": {"deep": [1]}}
    value = {"v": [1]}
    result = patched(add("/a/b/-", value), add("/a/b/1/v/-", 2), document=document)
    assert document == {"a": {"b": [1]}, "keep": {"deep": [1]}}
    assert value == {"v": [1]}
    assert result["a"]["b"][1] == {"v": [1, 2]}
    assert result["keep"] is document["keep"]


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ({"a": 1}, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("x", "json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
        ([5], "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([True], "json: cannot unmarshal bool into Go value of type handlers.jsonPatchOp"),
        ([[]], "json: cannot unmarshal array into Go value of type handlers.jsonPatchOp"),
        ([{"op": 5}], "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ],
)
def test_a_patch_of_the_wrong_form_is_a_bad_request(operations: Any, message: str) -> None:
    assert apply_json_patch(DOCUMENT, operations) == PatchError(400, "BadRequest", f"error decoding patch: {message}")


def test_without_field_validation_operations_are_not_checked_in_advance() -> None:
    assert apply_json_patch({}, {}, strict_decoding=False) == PatchError(
        400, "BadRequest", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
    )
    assert apply_json_patch({}, [5], strict_decoding=False) == PatchError(
        400, "BadRequest", "json: cannot unmarshal number into Go value of type jsonpatch.Operation"
    )
    loose = apply_json_patch({}, [{"op": 5}], strict_decoding=False)
    assert isinstance(loose, PatchError)
    assert loose.code == 422


def test_an_unknown_field_of_an_operation_is_a_strict_error() -> None:
    result = apply_json_patch({}, [add("/a", 1), {**add("/b", 2), "foo": 1}])
    assert result == PatchResult({"a": 1, "b": 2}, ('json patch unknown field "[1].foo"',))
    assert apply_json_patch({}, [{**add("/b", 2), "foo": 1}], strict_decoding=False) == PatchResult({"b": 2})


def test_no_operations_change_nothing() -> None:
    assert apply_json_patch(DOCUMENT, None) == apply_json_patch(DOCUMENT, []) == PatchResult(DOCUMENT)


def test_too_many_operations_are_too_large_a_request() -> None:
    problem = apply_json_patch({}, [{"op": "test", "path": "/a"}] * (MAX_OPERATIONS + 1))
    assert problem == PatchError(
        413,
        "RequestEntityTooLarge",
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
    )


def test_the_size_of_copies_is_limited() -> None:
    doubling: list[dict[str, Any]] = [{"op": "copy", "from": "/a", "path": f"/a/{i}"} for i in range(30)]
    problem = apply_json_patch({"a": {"text": "x" * 1000}}, doubling)
    assert isinstance(problem, PatchError)
    assert problem.code == 422


@pytest.mark.parametrize(
    "nesting",
    [
        [{"op": "copy", "from": "/a", "path": "/a/a"}] * 300,
        [add("/a" * i, {}) for i in range(2, 400)],
        [add("/a" * i, {}) for i in range(2, 20)] + [{"op": "copy", "from": "/a", "path": "/a" * 19}] * 30,
    ],
)
def test_operations_cannot_nest_deeper_than_a_body_may(nesting: list[dict[str, Any]]) -> None:
    problem = apply_json_patch({"a": {}}, nesting)
    assert isinstance(problem, PatchError)
    assert problem.code == 422


def test_documents_of_the_maximum_depth_are_patched() -> None:
    assert isinstance(apply_json_patch({"a": {}}, [add("/a" * i, {}) for i in range(2, 200)]), PatchResult)


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (True, 1), (0, False), (None, 0), ("1", 1), ([1], [1.0]), ({"a": 1}, {})]
)
def test_values_are_compared_as_json_text(one: Any, other: Any) -> None:
    assert is_same(one, one)
    assert not is_same(one, other)
    assert not is_same(other, one)
