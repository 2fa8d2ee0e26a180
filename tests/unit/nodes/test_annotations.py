"""One table of annotations and labels: what simulated nodes read, what `headgate annotations` prints, what the page
says."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli.main import main
from headgate.nodes.annotations import HOLLOW, KWOK_NODE, NODE_GROUP, PREFIX, SUPPORTED_ANNOTATIONS, SupportedAnnotation
from headgate.nodes.behaviour import (
    HELP,
    NodeBehaviour,
    PodBehaviour,
    annotation_problems,
    is_hollow,
    node_behaviour,
    pod_behaviour,
)

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "simulated-nodes.md"
SOURCES = sorted((ROOT / "src" / "headgate" / "nodes").rglob("*.py"))
ANNOTATIONS = [row for row in SUPPORTED_ANNOTATIONS if row.kind == "annotation" and row.key != KWOK_NODE]


def test_the_page_lists_the_table() -> None:
    rows = re.findall(r"^\| `(\S+/\S+)` \| ([a-z ()]+) \| `(.+?)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(row.key, _on(row), row.example, row.what) for row in SUPPORTED_ANNOTATIONS]


def test_the_command_prints_the_table() -> None:
    printed = CliRunner().invoke(main, ["annotations"])
    assert printed.exit_code == 0, printed.output
    lines = [re.split(r" {3,}", line) for line in printed.output.splitlines()]
    assert lines == [
        ["NAME", "ON", "EXAMPLE", "WHAT"],
        *([row.key, _on(row), row.example, row.what] for row in SUPPORTED_ANNOTATIONS),
    ]
    document = json.loads(CliRunner().invoke(main, ["annotations", "-o", "json"]).output)
    assert [each["key"] for each in document] == [row.key for row in SUPPORTED_ANNOTATIONS]


def test_every_name_that_the_code_reads_is_in_the_table() -> None:
    read = {key for path in SOURCES if path.name != "annotations.py" for key in _named_in(path)}
    assert read <= {row.key for row in SUPPORTED_ANNOTATIONS}
    assert {row.key for row in ANNOTATIONS if row.key.startswith(PREFIX)} == {f"{PREFIX}{name}" for name in HELP}


@pytest.mark.parametrize("row", ANNOTATIONS, ids=lambda row: row.key)
def test_every_annotation_of_the_table_is_read_and_its_example_is_sound(row: SupportedAnnotation) -> None:
    metadata = {"annotations": {row.key: row.example}}
    assert annotation_problems(metadata) == []
    if "pod" in row.on:
        assert pod_behaviour(metadata) != PodBehaviour()
    if "node" in row.on:
        assert node_behaviour(metadata) != NodeBehaviour()


def test_every_mark_of_a_simulated_node_in_the_table_makes_one() -> None:
    assert is_hollow({"metadata": {"annotations": {KWOK_NODE: "fake"}}})
    assert is_hollow({"metadata": {"labels": {HOLLOW: "true"}}})
    assert not is_hollow({"metadata": {"labels": {NODE_GROUP: "machine"}}})


def _on(row: SupportedAnnotation) -> str:
    return row.on if row.kind == "annotation" else f"{row.on} ({row.kind})"


def _named_in(path: Path) -> Iterator[str]:
    """Whole names, and names that are put together from the prefix."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(rf"^{re.escape(PREFIX)}[a-z-]+$", node.value)
        if isinstance(node, ast.JoinedStr) and len(node.values) == 2:
            first, rest = node.values
            is_prefix = isinstance(first, ast.FormattedValue) and getattr(first.value, "id", "") == "PREFIX"
            if is_prefix and isinstance(rest, ast.Constant) and isinstance(rest.value, str):
                yield f"{PREFIX}{rest.value}"
