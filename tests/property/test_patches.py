"""Patches against slow versions of themselves that copy everything at every step."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.apimachinery.patch.json_patch import apply_json_patch, is_same
from headgate.apimachinery.patch.merge_patch import apply_merge_patch
from headgate.apimachinery.patch.result import PatchError, PatchResult
from headgate.apimachinery.patch.strategic_merge_patch import apply_strategic
from headgate.kube.schema import Field, Schemas, Type, TypeDef

scalars = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["", "x", "y"]))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=10,
)
documents = st.dictionaries(st.sampled_from("abc"), values, max_size=3)
paths = st.lists(st.sampled_from(["a", "b", "c", "0", "1", "2", "-1", "-"]), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
operations = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": paths},
        optional={"from": paths, "value": values},
    ),
    max_size=5,
)


class DoesNotApply(Exception):
    pass


def find(document: Any, parts: list[str]) -> Any:
    for part in parts:
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list):
            document = document[place(document, part, len(document))]
        else:
            raise DoesNotApply
    return document


def place(items: list[Any], part: str, size: int) -> int:
    if part == "-" or not part.lstrip("-").isdigit() or not -size <= int(part) < size:
        raise DoesNotApply
    return int(part) % size


def holder(document: Any, path: str) -> tuple[Any, str]:
    *parents, key = path.split("/")[1:]
    found = find(document, parents)
    if not isinstance(found, dict | list):
        raise DoesNotApply
    return found, key


def insert(document: Any, path: str, value: Any) -> None:
    where, key = holder(document, path)
    if isinstance(where, dict):
        where[key] = value
    elif key == "-":
        where.append(value)
    else:
        where.insert(place(where, key, len(where) + 1), value)


def delete(document: Any, path: str) -> None:
    where, key = holder(document, path)
    if isinstance(where, dict):
        if key not in where:
            raise DoesNotApply
        del where[key]
    else:
        del where[place(where, key, len(where))]


def slowly(document: Any, operation: dict[str, Any]) -> Any:
    """One operation on a copy of everything."""
    document, operation = copy.deepcopy((document, operation))
    path, value = operation["path"], operation.get("value")
    if operation["op"] in ("move", "copy"):
        if "from" not in operation:
            raise DoesNotApply
        where, key = holder(document, operation["from"])
        value = copy.deepcopy(find(where, [key]))
    match operation["op"]:
        case "add" | "copy":
            insert(document, path, value)
        case "remove":
            delete(document, path)
        case "move":
            delete(document, operation["from"])
            insert(document, path, value)
        case "replace":
            where, key = holder(document, path)
            if isinstance(where, dict):
                where[key] = value
            else:
                where[place(where, key, len(where))] = value
        case "test":
            where, key = holder(document, path)
            actual = find(where, [key])
            if ("value" not in operation and actual is not None) or not is_same(actual, value):
                raise DoesNotApply
    return document


@settings(deadline=None)
@given(documents, operations)
def test_a_json_patch_does_what_its_operations_do_one_by_one(document: Any, patch: list[dict[str, Any]]) -> None:
    before = copy.deepcopy((document, patch))
    result = apply_json_patch(document, patch)
    assert (document, patch) == before
    expected = document
    try:
        for operation in patch:
            expected = slowly(expected, operation)
    except DoesNotApply:
        assert isinstance(result, PatchError)
        return
    assert isinstance(result, PatchResult)
    assert is_same(result.value, expected)


def merged(document: Any, patch: Any) -> Any:
    """The pseudo code of RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    target = copy.deepcopy(document) if isinstance(document, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merged(target.get(name), value)
    return target


plain_lists = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(scalars, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=10,
)


@settings(deadline=None)
@given(documents, st.dictionaries(st.sampled_from("abcd"), plain_lists, max_size=3))
def test_a_merge_patch_does_what_the_rfc_says(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    result = apply_merge_patch(document, patch)
    assert isinstance(result, PatchResult)
    assert is_same(result.value, merged(document, patch))
    assert (document, patch) == before


SCHEMAS = Schemas(
    (
        TypeDef(
            "x.Pod",
            (
                Field(
                    "items",
                    Type("list", items=Type("struct", ref="x.Item")),
                    patch_strategy=("merge",),
                    merge_key="name",
                ),
                Field("words", Type("list", items=Type("string")), patch_strategy=("merge",)),
                Field("atomic", Type("list", items=Type("string"))),
            ),
        ),
        TypeDef("x.Item", (Field("name", Type("string")), Field("v", Type("string")), Field("w", Type("string")))),
    ),
    {},
)

names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6)
Object = dict[str, Any]


@st.composite
def item_lists(draw: st.DrawFn) -> list[Object]:
    return [
        {"name": name, **draw(st.dictionaries(st.sampled_from(["v", "w"]), st.sampled_from("123"), max_size=2))}
        for name in draw(names)
    ]


def strategic(document: Object, patch: Object) -> Any:
    before = copy.deepcopy((document, patch))
    result = apply_strategic(SCHEMAS, "x.Pod", document, patch)
    assert isinstance(result, PatchResult), result
    assert (document, patch) == before
    return result.value


def in_order(wanted: list[str], actual: list[str]) -> bool:
    return [name for name in actual if name in wanted] == wanted


@settings(deadline=None)
@given(item_lists(), item_lists(), names)
def test_a_list_merges_by_key_and_keeps_both_orders(old: list[Object], new: list[Object], gone: list[str]) -> None:
    gone = [name for name in gone if name not in {item["name"] for item in new}]
    patch = [*new, *({"name": name, "$patch": "delete"} for name in gone)]
    result = strategic({"items": old}, {"items": patch})["items"]
    expected = {item["name"]: item for item in old if item["name"] not in gone}
    for item in new:
        expected[item["name"]] = {**expected.get(item["name"], {}), **item}
    assert {item["name"]: item for item in result} == expected
    assert len(result) == len(expected)
    actual = [item["name"] for item in result]
    assert in_order([item["name"] for item in new], actual)
    assert in_order(
        [name for name in (i["name"] for i in old) if name in expected and name not in {i["name"] for i in new}], actual
    )
    again = strategic({"items": result}, {"items": patch})["items"]
    assert {item["name"]: item for item in again} == expected


@settings(deadline=None)
@given(names, names, names)
def test_words_merge_as_sets_and_can_be_taken_out(old: list[str], new: list[str], gone: list[str]) -> None:
    result = strategic({"words": old}, {"words": new})["words"]
    assert sorted(result) == sorted({*old, *new})
    assert in_order(new, result)
    assert in_order([word for word in old if word not in new], result)
    without = strategic({"words": old}, {"$deleteFromPrimitiveList/words": gone})["words"]
    assert without == [word for word in old if word not in gone]
    assert strategic({"atomic": old}, {"atomic": new})["atomic"] == new


@settings(deadline=None)
@given(names.filter(bool), names.filter(bool))
def test_an_order_that_names_every_item_is_the_order_of_the_result(old: list[str], order: list[str]) -> None:
    known = [name for name in order if name in old] + [name for name in old if name not in order]
    result = strategic({"words": old}, {"$setElementOrder/words": known})["words"]
    assert result == known
    items = [{"name": name} for name in old]
    ordered = strategic({"items": items}, {"$setElementOrder/items": [{"name": name} for name in known]})["items"]
    assert [item["name"] for item in ordered] == known


@settings(deadline=None)
@given(item_lists(), names)
def test_an_empty_patch_changes_nothing(old: list[Object], words: list[str]) -> None:
    document = {"items": old, "words": words}
    assert strategic(document, {}) == document


directive_keys = st.sampled_from(
    ["items", "words", "atomic", "name", "v", "$patch", "$retainKeys", "$setElementOrder/items",
     "$setElementOrder/words", "$setElementOrder", "$deleteFromPrimitiveList/words", "$deleteFromPrimitiveList"]
)  # fmt: skip
hostile = st.recursive(
    st.one_of(scalars, st.sampled_from(["delete", "replace", "merge", "a", "b"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(directive_keys, inner, max_size=4)),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(directive_keys.filter(lambda key: "$" not in key), hostile, max_size=3), hostile)
def test_no_patch_at_all_makes_the_merge_fail(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    result = apply_strategic(SCHEMAS, "x.Pod", document, patch)
    assert isinstance(result, PatchResult) or result.code in (400, 422, 500)
    assert (document, patch) == before
