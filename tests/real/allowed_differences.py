"""The only differences between the embedded and the real server that the comparison lets pass, each with its reason.

At most 20. An entry that no case meets in a full run fails that run (`tests/conftest.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.compare import Difference


@dataclass(frozen=True)
class Allowance:
    name: str
    reason: str
    allows: Callable[[Difference], bool]


def _column_description(difference: Difference) -> bool:
    return "columnDefinitions" in difference.path and difference.path[-1] == "description"


def _go_types(difference: Difference) -> bool:
    """Both texts are equal up to the point where Go prints its own types or a parser's offset."""
    real, ours = difference.real, difference.ours
    if not isinstance(real, str) or not isinstance(ours, str):
        return False
    for mark in ("json: cannot unmarshal ", "error converting YAML to JSON: ", "invalid character "):
        before, found, _ = real.partition(mark)
        if found:
            return ours.startswith(before)
    return False


def _own_build(difference: Difference) -> bool:
    told = difference.path[-1] == "gitVersion" and isinstance(difference.ours, str)
    return told and difference.ours.startswith(f"{difference.real}+headgate.")


ALLOWED: tuple[Allowance, ...] = (
    Allowance("the build", "the version names Headgate after the Kubernetes version it serves", _own_build),
    Allowance("column descriptions", "they are prose; ours is our own", _column_description),
    Allowance("texts of Go's parsers", "they name Go types and parser offsets; equal up to there", _go_types),
)
if len(ALLOWED) > 20:
    raise ValueError("too many allowed differences: repair some")
