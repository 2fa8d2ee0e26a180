from __future__ import annotations

from typing import Any

from headgate.apimachinery.apply import (
    ApplyResult,
    ConvertedObject,
    apply_config,
    manager_name,
    parseable_type,
    track_update,
)
from headgate.apimachinery.apply.merge_schema import merge_schema_of
from headgate.kube.schema import Field, GroupVersionKind, Schemas, TypeDef
from headgate.kube.schema import Type as T
from unit.apimachinery.apply.objects import EARLY, NOON, owners, with_uid


def test_an_explicit_manager_name_is_used() -> None:
    assert manager_name("me", "kubectl/v1") == "me"


def test_the_default_manager_name_is_the_program_in_the_user_agent() -> None:
    assert manager_name("", "kubectl/v1.35.8 (linux/amd64)") == "kubectl"
    assert manager_name("", "a\x00b\x7fc/1") == "abc"
    assert manager_name("", "é" * 100) == "é" * 64
    assert manager_name("", "/x") == ""


# One kind in two versions: what v1 calls `size`, v2 calls `width`.
META = Field("metadata", T("map", items=T("raw")))
COMMON = (Field("apiVersion", T("string")), Field("kind", T("string")), META, Field("color", T("string")))
SCHEMAS = Schemas(
    (TypeDef("V1", (*COMMON, Field("size", T("string")))), TypeDef("V2", (*COMMON, Field("width", T("string"))))),
    {GroupVersionKind("x", "v1", "Box"): "V1", GroupVersionKind("x", "v2", "Box"): "V2"},
)


def convert(obj: dict[str, Any], version: str) -> ConvertedObject | None:
    names = {"x/v1": ("width", "size", "V1"), "x/v2": ("size", "width", "V2")}
    if version not in names:
        return None
    before, after, type_name = names[version]
    return ConvertedObject(
        merge_schema_of(SCHEMAS, type_name),
        {after if k == before else k: v for k, v in obj.items()} | {"apiVersion": version},
    )


def box(version: str, **fields: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "Box", "metadata": {"name": "a"}, **fields}


def made_in_v1(**fields: str) -> dict[str, Any]:
    return with_uid(
        track_update(
            parseable_type(SCHEMAS, "V1"),
            None,
            box("x/v1", **fields),
            manager="old",
            api_version="x/v1",
            now=EARLY,
            convert=convert,
        )
    )


def in_v2(obj: dict[str, Any]) -> dict[str, Any]:
    converted = convert(obj, "x/v2")
    assert converted is not None
    return converted.obj


def test_a_change_in_one_version_is_seen_in_the_other() -> None:
    live = in_v2(made_in_v1(size="1", color="red"))
    assert owners(live) == {"Update old": {"f:color": {}, "f:size": {}}}
    new = {**live, "width": "2"}
    tracked = track_update(
        parseable_type(SCHEMAS, "V2"), live, new, manager="new", api_version="x/v2", now=NOON, convert=convert
    )
    assert owners(tracked) == {"Update old": {"f:color": {}}, "Update new": {"f:width": {}}}


def test_a_conflict_has_the_path_in_the_version_of_its_owner() -> None:
    live = in_v2(made_in_v1(size="1"))
    result = apply_config(
        parseable_type(SCHEMAS, "V2"),
        live,
        box("x/v2", width="2"),
        manager="m",
        api_version="x/v2",
        now=NOON,
        convert=convert,
    )
    assert not isinstance(result, ApplyResult)
    assert result.error.message == 'Apply failed with 1 conflict: conflict with "old" using x/v1: .size'


def test_fields_applied_in_one_version_are_pruned_in_another() -> None:
    first = apply_config(
        parseable_type(SCHEMAS, "V1"),
        None,
        box("x/v1", size="1", color="red"),
        manager="m",
        api_version="x/v1",
        now=EARLY,
        convert=convert,
    )
    assert isinstance(first, ApplyResult)
    live = in_v2(with_uid(first.obj))
    second = apply_config(
        parseable_type(SCHEMAS, "V2"),
        live,
        box("x/v2", color="red"),
        manager="m",
        api_version="x/v2",
        now=NOON,
        convert=convert,
    )
    assert isinstance(second, ApplyResult)
    assert "width" not in second.obj
    assert second.obj["color"] == "red"
    assert second.obj["metadata"]["managedFields"][0]["apiVersion"] == "x/v2"
