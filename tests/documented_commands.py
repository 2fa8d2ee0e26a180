"""Every `headgate …` command of README.md and docs/*.md, as one list.

In a code block a command is a line, with or without a prompt, or the part of a line after `&&`; in text it is what is
between backticks. A comment, a pipe and what follows them are not part of the command.
"""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))

_FENCE = re.compile(r"^ *```")
_INDENTED = re.compile(r"^    (\$ )?headgate ")
_INLINE = re.compile(r"`([^`]+)`")
_END = re.compile(r"\s+#.*$|\s+\|.*$|\s+2?>.*$|\s*;.*$")


def documented_commands() -> dict[str, list[str]]:
    """Commands, each with the pages that name it. A bare name (`headgate queues`) is a command, too."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        for command in _commands(page.read_text()):
            pages = found.setdefault(command, [])
            name = str(page.relative_to(REPOSITORY))
            if name not in pages:
                pages.append(name)
    return found


def _commands(text: str) -> list[str]:
    found: list[str] = []
    in_block = False
    prose: list[str] = []
    for line in text.splitlines():
        if _FENCE.match(line):
            in_block = not in_block
        elif in_block or _INDENTED.match(line):
            for part in line.strip().removeprefix("$ ").split("&&"):
                found += _command(part)
        else:
            prose.append(line)
    for code in _INLINE.findall("\n".join(prose)):
        found += _command(code)
    return found


def _command(code: str) -> list[str]:
    words = _END.sub("", code.strip()).split()
    return [" ".join(words)] if words[:1] == ["headgate"] and len(words) > 1 and words[1][0].islower() else []
