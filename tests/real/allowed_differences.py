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


# From one of these on, a text shows what only Go can show: its types, its parsers' offsets, its structs and their diffs.
GO_MARKS = (
    "json: cannot unmarshal ",
    "error converting YAML to JSON: ",
    "invalid character ",
    "cannot restore ",
    "unrecognized type: ",
    "converting (",
    "illegal base64 data ",
    "\n@@ ",
    "couldn't get version/kind; json parse error: ",
)


def _go_texts(difference: Difference) -> bool:
    real, ours = difference.real, difference.ours
    if not isinstance(real, str) or not isinstance(ours, str):
        return False
    starts = [real.find(mark) for mark in GO_MARKS if mark in real]
    return bool(starts) and ours.startswith(real[: min(starts)])


def _class_description(difference: Difference) -> bool:
    return difference.path[-1] == "description" and "system critical pods" in str(difference.real)


def _fewer_groups(difference: Difference) -> bool:
    real, ours = difference.real, difference.ours
    listed = difference.path[-1] == "groups" and isinstance(real, list) and isinstance(ours, list)
    return listed and ours == [group for group in real if group in ours]


def _bounded(difference: Difference) -> bool:
    return difference.case in ("a body: deep nesting in an unknown field", "a patch that nests deeply")


def _huge_number(difference: Difference) -> bool:
    return difference.case == "a body: a huge number" and difference.path[-1] == "message"


def _own_build(difference: Difference) -> bool:
    told = difference.path[-1] == "gitVersion" and isinstance(difference.ours, str)
    return told and difference.ours.startswith(f"{difference.real}+headgate.")


ALLOWED: tuple[Allowance, ...] = (
    Allowance("the build", "the version names Headgate after the Kubernetes version it serves", _own_build),
    Allowance("column descriptions", "they are prose; ours is our own", _column_description),
    Allowance("texts of Go itself", "Go's types, parser offsets and struct diffs; equal up to there", _go_texts),
    Allowance("groups", "certificates, flow control, API registration and extensions are not served", _fewer_groups),
    Allowance("deep nesting", "documents of more than 250 levels are refused; the real bound is 10,000", _bounded),
    Allowance("huge numbers", "1e999 is refused while parsing, before a field is looked at", _huge_number),
    Allowance("descriptions of system priority classes", "they are prose; ours is our own", _class_description),
)
if len(ALLOWED) > 20:
    raise ValueError("too many allowed differences: repair some")
