"""Links in Markdown: the file exists, and so does the heading or the anchor in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^\s*(```|~~~).*?^\s*\1", "", text, flags=re.DOTALL | re.MULTILINE))


def links(text: str) -> Iterator[str]:
    """The targets in this repository. A link may be wrapped, so its text may contain a line break."""
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if "://" not in target and not target.startswith("mailto:"):
            yield target


def anchors(text: str) -> set[str]:
    """The names that GitHub gives to headings, and those of ``<a id="…">``."""
    found: dict[str, int] = {}
    for heading in re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    ):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).strip().replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    numbered = {
        name if not number else f"{name}-{number}" for name, last in found.items() for number in range(last + 1)
    }
    return numbered | set(re.findall(r'<a id="([^"]+)">', text))


def broken_links(page: Path) -> Iterator[str]:
    for target in links(page.read_text()):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file.read_text())):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_of_the_repository_leads_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b` c\n[1](page.md#a-b-c) [2](#nothing) [wrap\nped](gone.md) `[x](code.md)` [y](https://x/#z)\n"
    )
    assert list(broken_links(page)) == ["#nothing", "gone.md"]
