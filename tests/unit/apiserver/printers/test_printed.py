"""Cells and columns against those of a kube-apiserver v1.35.8 for the same objects (``printed-v1.35.8.json``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.printers import table
from headgate.apiserver.printers.registry import PRINTERS

KINDS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "printed-v1.35.8.json").read_text())
ROWS = [(each, row) for each in KINDS for row in each["rows"]]


def the_kind(recorded: dict[str, Any]) -> ServedKind:
    kind = BUILTIN.by_resource(recorded["group"], recorded["version"], recorded["plural"])
    assert kind is not None
    return kind


def the_name(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    return str(value.get("plural") or value["object"]["metadata"]["name"])


@pytest.mark.parametrize(("recorded", "row"), ROWS, ids=the_name)
def test_an_object_is_printed_as_the_real_server_prints_it(recorded: dict[str, Any], row: dict[str, Any]) -> None:
    printed = table(the_kind(recorded), [row["object"]], row["now"], include_object="None", list_meta={})
    assert printed["rows"][0]["cells"] == row["cells"]
    assert printed["rows"][0].get("conditions") == row.get("conditions")


@pytest.mark.parametrize("recorded", KINDS, ids=the_name)
def test_columns_have_the_names_types_formats_and_priorities_of_the_real_server(recorded: dict[str, Any]) -> None:
    printed = table(the_kind(recorded), [], 0, include_object="None", list_meta={})
    ours = [[each["name"], each["type"], each["format"], each["priority"]] for each in printed["columnDefinitions"]]
    assert ours == recorded["columns"]


def test_every_listed_kind_was_compared_with_the_real_server() -> None:
    compared = {(each["group"], each["version"], each["plural"]) for each in KINDS if each["rows"]}
    listed = {(each.group, each.version, each.plural) for each in BUILTIN.kinds() if "list" in each.verbs}
    # Component statuses need components, and autoscaling/v1 prints what v2 prints; see test_tables.
    assert listed - compared == {("", "v1", "componentstatuses"), ("autoscaling", "v1", "horizontalpodautoscalers")}


@pytest.mark.parametrize("kind", [each for each in BUILTIN.kinds() if "list" in each.verbs], ids=lambda each: each.gvk)
def test_an_object_with_nothing_but_metadata_can_be_printed(kind: ServedKind) -> None:
    bookmark = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"resourceVersion": "5"}}
    printed = table(kind, [bookmark], 0, include_object="Metadata", list_meta={})
    assert len(printed["rows"][0]["cells"]) >= len(printed["columnDefinitions"])
    assert printed["rows"][0]["object"]["metadata"] == {"resourceVersion": "5"}


def test_no_printer_is_left_without_a_kind() -> None:
    served = {(each.stored_as[0], each.kind) for each in BUILTIN.kinds()}
    served |= {(sub.group, sub.kind) for each in BUILTIN.kinds() for sub in each.subresources}
    assert set(PRINTERS) <= served
