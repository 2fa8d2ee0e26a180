"""The console blocks of a page: commands after a prompt, each with the output that the page shows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_AGE = re.compile(r"\b(?:\d+[smhd])+\b")
_COLUMN_GAP = re.compile(r" {2,}")
_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


@dataclass
class PageStep:
    command: str
    shown: list[str] = field(default_factory=list)


def page_steps(text: str) -> list[PageStep]:
    """A command that ends with a backslash continues in the next line."""
    steps: list[PageStep] = []
    for block in _BLOCK.findall(text):
        for line in block.replace("\\\n", "").splitlines():
            if line.startswith("$ "):
                steps.append(PageStep(line[2:]))
            else:
                steps[-1].shown.append(line)
    return steps


def session(page: Path, first: str, last: str) -> list[PageStep]:
    """The commands of a page from the one to the other."""
    steps = page_steps(page.read_text())
    commands = [step.command for step in steps]
    return steps[commands.index(first) : commands.index(last) + 1]


def settled(line: str) -> str:
    """A line without its ages, and without the padding that their width decides."""
    return _COLUMN_GAP.sub("  ", _AGE.sub("<age>", line)).rstrip()
