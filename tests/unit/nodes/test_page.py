"""docs/simulated-nodes.md lists every annotation that simulated nodes and their pods understand, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from headgate.nodes.wishes import HELP

PAGE = Path(__file__).parents[3] / "docs" / "simulated-nodes.md"


def test_the_page_lists_the_annotations_that_there_are() -> None:
    rows = re.findall(r"^\| `headgate\.dev/([a-z-]+)` \| ([a-z ]+) \|", PAGE.read_text(), re.MULTILINE)
    assert dict(rows) == {name: text.partition(":")[0] for name, text in HELP.items()}
