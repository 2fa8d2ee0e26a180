"""Field sets and apply against slow, obvious references: sets of paths, and laws that every apply must keep."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.apimachinery.apply import ApplyResult, apply_config, parseable_type, track_update
from headgate.apimachinery.apply.compare import compare
from headgate.apimachinery.apply.field_sets import (
    FieldSet,
    Path,
    difference,
    difference_below,
    from_paths,
    in_wire_order,
    intersection,
    paths_of,
    read,
    union,
)
from headgate.apimachinery.apply.merge_schema import merge_schema_of
from headgate.apimachinery.apply.owned_fields import owned_fields
from headgate.kube.schema import Field, GroupVersionKind, Schemas, TypeDef
from headgate.kube.schema import Type as T

ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"n":"x"}', 'k:{"n":10}', 'k:{"n":9}', 'v:"x"', "v:1", "i:0"])
PATHS = st.frozensets(st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple), max_size=8)


def members(fields: FieldSet) -> frozenset[Path]:
    return frozenset(paths_of(fields))


@given(PATHS)
def test_a_set_holds_the_paths_it_was_made_of(paths: frozenset[Path]) -> None:
    assert members(from_paths(paths)) == paths


@given(PATHS, PATHS)
def test_set_operations_are_those_of_sets_of_paths(left: frozenset[Path], right: frozenset[Path]) -> None:
    a, b = from_paths(left), from_paths(right)
    assert members(union(a, b)) == left | right
    assert members(intersection(a, b)) == left & right
    assert members(difference(a, b)) == left - right
    covered = {path for path in left if any(path[: len(parent)] == parent for parent in right)}
    assert members(difference_below(a, b)) == left - covered


@given(PATHS, PATHS)
def test_no_operation_leaves_an_empty_branch_or_changes_its_input(
    left: frozenset[Path], right: frozenset[Path]
) -> None:
    a, b = from_paths(left), from_paths(right)
    before = json.dumps([a, b])
    for result in (union(a, b), intersection(a, b), difference(a, b), difference_below(a, b)):
        assert from_paths(members(result)) == result
    assert json.dumps([a, b]) == before


@given(PATHS, st.randoms())
def test_reading_a_shuffled_set_gives_the_one_wire_form(paths: frozenset[Path], random: Any) -> None:
    fields = from_paths(paths)

    def shuffled(node: FieldSet) -> FieldSet:
        items = list(node.items())
        random.shuffle(items)
        return {element: shuffled(below) for element, below in items}

    mixed = shuffled(fields)
    assert json.dumps(read(mixed)) == json.dumps(in_wire_order(mixed)) == json.dumps(fields)
    assert read(fields) is fields


SCHEMAS = Schemas(
    (
        TypeDef(
            "Thing",
            (
                Field("apiVersion", T("string")),
                Field("kind", T("string")),
                Field("metadata", T("struct", ref="Meta")),
                Field("map", T("map", items=T("string"))),
                Field("whole", T("map", items=T("string")), map_atomic=True),
                Field("list", T("list", items=T("struct", ref="Item")), list_type="map", list_keys=("name",)),
                Field("set", T("list", items=T("string")), list_type="set"),
            ),
        ),
        TypeDef(
            "Meta",
            (
                Field("name", T("string")),
                Field("uid", T("string")),
                Field("managedFields", T("list", items=T("raw"))),
            ),
        ),
        TypeDef("Item", (Field("name", T("string"), omit="never"), Field("v", T("string")))),
    ),
    {GroupVersionKind("", "v1", "Thing"): "Thing"},
)
SHAPE = merge_schema_of(SCHEMAS, "Thing")
NAMES = st.sampled_from("abcd")
VALUES = st.sampled_from("12")
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "map": st.dictionaries(NAMES, VALUES, min_size=1, max_size=3),
    "whole": st.dictionaries(NAMES, VALUES, min_size=1, max_size=2),
    "list": st.lists(
        st.fixed_dictionaries({"name": NAMES}, optional={"v": VALUES}),
        min_size=1,
        max_size=4,
        unique_by=lambda item: item["name"],
    ),
    "set": st.lists(NAMES, min_size=1, max_size=4, unique=True),
}
CONFIGS = st.fixed_dictionaries({}, optional=PARTS).map(
    lambda parts: {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}, **parts}
)
MANAGERS = st.sampled_from(["m1", "m2", "m3"])
STEPS = st.lists(st.tuples(st.sampled_from(["apply", "force", "update"]), MANAGERS, CONFIGS), min_size=1, max_size=6)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """Every leaf of a thing but its metadata by a path of names: items of lists by their name."""
    if path == ("whole",):
        return {path: value}
    if path == ("metadata",):
        return {}
    if isinstance(value, dict):
        return {key: leaf for name, item in value.items() for key, leaf in leaves(item, (*path, name)).items()}
    if isinstance(value, list):
        out: dict[tuple[Any, ...], Any] = {}
        for item in value:
            name = item["name"] if isinstance(item, dict) else item
            out |= leaves(item, (*path, name))
        return out
    return {path: value}


def leaf_path(path: tuple[Any, ...]) -> Path:
    first, *rest = path
    elements = [f"f:{first}"]
    for depth, name in enumerate(rest):
        keyed = depth == 0 and first in ("list", "set")
        element = (f'k:{{"name":"{name}"}}' if first == "list" else f'v:"{name}"') if keyed else f"f:{name}"
        elements.append(element)
    return tuple(elements)


@given(CONFIGS, CONFIGS)
def test_comparing_finds_exactly_the_leaves_that_differ(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = leaves(old), leaves(new)
    added, removed, modified = (members(part) for part in compare(SHAPE, old, new))
    everything = {leaf_path(path) for path in before | after}
    assert added & everything == {leaf_path(path) for path in after.keys() - before.keys()}
    assert removed & everything == {leaf_path(path) for path in before.keys() - after.keys()}
    assert modified == {leaf_path(path) for path in before.keys() & after.keys() if before[path] != after[path]}


@given(CONFIGS)
def test_an_applier_owns_every_leaf_it_names(config: dict[str, Any]) -> None:
    assert members(owned_fields(SHAPE, config)) >= {leaf_path(path) for path in leaves(config)}


def play(steps: list[tuple[str, str, dict[str, Any]]]) -> list[tuple[str, str, dict[str, Any], Any, dict[str, Any]]]:
    """Run the steps; each with the live object before it and its result."""
    live: dict[str, Any] | None = None
    out = []
    for number, (how, manager, config) in enumerate(steps):
        now = f"2026-01-01T00:00:{number:02}Z"
        if how == "update":
            metadata = {**config["metadata"], **(live or {}).get("metadata", {})}
            new = track_update(
                parseable_type(SCHEMAS, "Thing"),
                live,
                {**config, "metadata": metadata},
                manager=manager,
                api_version="v1",
                now=now,
            )
        else:
            result = apply_config(
                parseable_type(SCHEMAS, "Thing"),
                live,
                config,
                manager=manager,
                api_version="v1",
                force=how == "force",
                now=now,
            )
            if not isinstance(result, ApplyResult):
                assert how == "apply"
                assert result.error.code == 409
                continue
            new = result.obj
        out.append((how, manager, config, live, new))
        live = {**cleaned(new), "metadata": {**new["metadata"], "uid": "u"}}
    return out


def cleaned(obj: dict[str, Any]) -> dict[str, Any]:
    """As decoding would leave it: without nulls."""
    return {name: value for name, value in obj.items() if value is not None}


@given(STEPS)
def test_after_an_apply_the_object_says_what_was_applied(steps: list[tuple[str, str, dict[str, Any]]]) -> None:
    for how, _, config, _, new in play(steps):
        if how != "update":
            assert leaves(config).items() <= leaves(cleaned(new)).items()


@given(STEPS)
def test_applied_items_keep_the_order_they_were_applied_in(steps: list[tuple[str, str, dict[str, Any]]]) -> None:
    for how, _, config, _, new in play(steps):
        if how == "update":
            continue
        for part in ("list", "set"):
            wanted = [json.dumps(_name(item)) for item in config.get(part, [])]
            found = [json.dumps(_name(item)) for item in new.get(part) or []]
            assert [name for name in found if name in wanted] == wanted


def _name(item: Any) -> Any:
    return item["name"] if isinstance(item, dict) else item


@given(STEPS)
def test_fields_of_other_managers_survive_any_apply_without_force(steps: list[tuple[str, str, dict[str, Any]]]) -> None:
    for how, manager, _, live, new in play(steps):
        if how != "apply" or live is None:
            continue
        others = frozenset[Path]().union(
            *(
                members(entry["fieldsV1"])
                for entry in live["metadata"].get("managedFields", [])
                if (entry["manager"], entry["operation"]) != (manager, "Apply")
            )
        )
        theirs = {
            path for path in leaves(cleaned(live)) if leaf_path(path) in others and keeps(others, leaf_path(path))
        }
        assert all(leaves(cleaned(new)).get(path) == leaves(live)[path] for path in theirs)


def keeps(owned: frozenset[Path], path: Path) -> bool:
    """A manager that drops a list item which only it owns removes the whole item: owning a field of it is not enough to
    keep it."""
    items = (path[: depth + 1] for depth, element in enumerate(path) if element.startswith("k:"))
    return all(item in owned for item in items)


@given(STEPS)
def test_applying_twice_is_applying_once(steps: list[tuple[str, str, dict[str, Any]]]) -> None:
    for how, manager, config, _, new in play(steps):
        if how == "update":
            continue
        live = {**cleaned(new), "metadata": {**new["metadata"], "uid": "u"}}
        again = apply_config(
            parseable_type(SCHEMAS, "Thing"),
            live,
            config,
            manager=manager,
            api_version="v1",
            now="2027-01-01T00:00:00Z",
        )
        assert again == ApplyResult(live, unchanged=True)


@given(STEPS)
def test_every_field_in_an_entry_exists(steps: list[tuple[str, str, dict[str, Any]]]) -> None:
    for *_, new in play(steps):
        obj = cleaned(new)
        everything = members(compare(SHAPE, {}, obj).added)
        for entry in obj["metadata"].get("managedFields", []):
            assert members(entry["fieldsV1"]) <= everything
