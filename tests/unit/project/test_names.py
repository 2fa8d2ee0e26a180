"""Names and lines: a public class name exists once, and Markdown is wrapped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
COLUMNS = 120
UNWRAPPED = re.compile(r"\s*(\||\[[^\]]*\]: |(?:[-*] )?\[[^\]]*\]\([^)]*\)\S*$|<|\S+$)")
"""Tables, links, HTML, and a word that is longer than a line."""


def public_classes(source: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(source.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, str(path.relative_to(source))


def test_a_public_class_name_exists_once() -> None:
    places: dict[str, list[str]] = {}
    for name, path in public_classes(ROOT / "src" / "headgate"):
        places.setdefault(name, []).append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def long_lines(text: str) -> Iterator[int]:
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*(```|~~~)", line):
            is_code = not is_code
        elif not is_code and len(line) > COLUMNS and not UNWRAPPED.match(line):
            yield number


def test_markdown_is_wrapped_at_120_columns_except_for_tables_links_and_code() -> None:
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    found = [f"{path.relative_to(ROOT)}:{number}" for path in files for number in long_lines(path.read_text())]
    assert found == []


def test_a_long_line_of_markdown_is_found() -> None:
    long = "word " * 30
    assert list(long_lines(f"{long}\n```\n{long}\n```\n| {long} |\n- {long}\n")) == [1, 6]
