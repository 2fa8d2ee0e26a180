"""docs/plugins.md shows the shipped files whole and names everything that the interface has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headgate.scheduling import framework, testing
from headgate.scheduling.config.plugin_registry import METHODS, QUEUE_METHODS
from headgate.scheduling.framework import (
    APIResource,
    ClusterEvent,
    NodeChange,
    NodeInfo,
    NodeMatrix,
    ObjectPatch,
    PodInfo,
    PodLike,
    PodShape,
    QueueUnit,
    Rejection,
    Unplaced,
)
from headgate.scheduling.framework.signature_checks import PARAMETERS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "plugins.md").read_text()
BLOCK = r"<!-- {}: (\S+) -->\n```\w+\n(.*?)```\n"
EXAMPLES = {"file": "hold-until", "file of queue-hours": "queue-hours"}
"""By the word before the path of a file on the page."""
CODE = re.compile(r"`([^`]+)`")


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables between a heading and the next one."""
    _, _, after = PAGE.partition(f"\n{heading}\n")
    assert after, f"there is no {heading}"
    section = re.split(r"\n#+ ", after)[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def named(heading: str) -> set[str]:
    """What the first cells of a table name."""
    return {name for cells in rows(heading) for name in CODE.findall(cells[0])}


@pytest.mark.parametrize("word", EXAMPLES)
def test_the_page_contains_every_file_of_an_example(word: str) -> None:
    shown = dict(re.findall(BLOCK.format(word), PAGE, re.DOTALL))
    example = ROOT / "examples" / "plugins" / EXAMPLES[word]
    shipped = {
        str(path.relative_to(example)): path.read_text()
        for path in example.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert shown == shipped


@pytest.mark.parametrize(
    "shown", [PodInfo, PodShape, NodeInfo, Rejection, ClusterEvent, NodeChange, Unplaced, ObjectPatch, QueueUnit]
)
def test_every_field_of_an_object_is_explained(shown: Any) -> None:
    assert named(f"### {shown.__name__}") == set(shown.__struct_fields__)


def test_every_field_of_a_watched_resource_is_explained() -> None:
    assert set(APIResource.__struct_fields__) <= named("## Watching other kinds")


def test_the_fields_that_pre_enqueue_sees_are_marked() -> None:
    marked = {name for cells in rows("### PodInfo") for name in re.findall(r"`(\w+)`\*", cells[0])}
    assert marked == {name for name in vars(PodLike) if isinstance(vars(PodLike)[name], property)}


def test_the_members_of_the_matrix_that_are_explained_exist() -> None:
    members = {name.split("(")[0] for name in named("### NodeMatrix")}
    functions = {name for name in members if hasattr(framework, name)}
    matrix = NodeMatrix()
    assert [name for name in members - functions - {"member", "function"} if not hasattr(matrix, name)] == []
    assert functions == {"asked_rows", "nodes_at", "label_values", "allocatable", "free"}


def test_every_method_is_documented_with_its_parameters() -> None:
    shown = {code for cells in rows("## Extension points") for cell in cells[1:2] for code in CODE.findall(cell)}
    called = {f"{method}({', '.join(parameters)})" for method, parameters in PARAMETERS.items()}
    assert {each for each in shown if each.endswith(")")} == called
    points = {name for cells in rows("## Extension points") for name in CODE.findall(cells[0])}
    assert METHODS.keys() | QUEUE_METHODS.keys() <= points


def test_every_name_of_the_interface_is_on_the_page() -> None:
    identifiers = set(re.findall(r"\w+", PAGE))
    assert [name for name in (*framework.__all__, *testing.__all__) if name not in identifiers] == []
