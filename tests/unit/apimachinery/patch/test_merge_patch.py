"""JSON Merge Patch: the cases of RFC 7386, and the errors for invalid patches."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.patch.merge_patch import apply_merge_patch
from headgate.apimachinery.patch.result import PatchError, PatchResult


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "text"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({"a": None}, {"a": {"b": None}}, {"a": {}}),
        ({}, {"a": [{"b": None}, None]}, {"a": [{}, None]}),
        ({"a": {}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
    ],
)
def test_objects_merge_null_deletes_and_all_else_replaces(document: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch(document, patch) == PatchResult(result)


@pytest.mark.parametrize(("patch", "word"), [([1], "array"), ("x", "string"), (5, "number"), (True, "bool")])
def test_a_patch_that_is_not_an_object_is_a_bad_request(patch: Any, word: str) -> None:
    assert apply_merge_patch({}, patch) == PatchError(
        400,
        "BadRequest",
        f"error decoding patch: json: cannot unmarshal {word} into Go value of type map[string]interface {{}}",
    )


def test_null_is_never_a_patch() -> None:
    assert apply_merge_patch({}, None) == PatchError(400, "BadRequest", "Invalid JSON Patch")


def test_without_field_validation_a_list_replaces_the_document_and_a_scalar_is_no_patch() -> None:
    assert apply_merge_patch({"a": 1}, [{"b": None}], strict_decoding=False) == PatchResult([{}])
    assert apply_merge_patch({"a": 1}, 5, strict_decoding=False) == PatchError(400, "BadRequest", "Invalid JSON Patch")


def test_the_document_is_not_changed_and_unchanged_parts_are_shared() -> None:
    document = {"a": {"b": {"c": 1}}, "keep": [1]}
    result = apply_merge_patch(document, {"a": {"b": {"c": 2}}})
    assert isinstance(result, PatchResult)
    assert document == {"a": {"b": {"c": 1}}, "keep": [1]}
    assert result.value["keep"] is document["keep"]
