"""The only differences between the embedded and the real server that the comparison lets pass, each with its reason.

At most 20. An entry that no case meets in a full run fails that run (`tests/conftest.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.compare import ABSENT, Difference


@dataclass(frozen=True)
class Allowance:
    name: str
    reason: str
    allows: Callable[[Difference], bool]


def _column_description(difference: Difference) -> bool:
    return "columnDefinitions" in difference.path and difference.path[-1] == "description"


# From one of these on a text shows what only Go can show: types, parser offsets, struct diffs.
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


def _without_values(text: str) -> str:
    """A text whose shown values, objects and lists, are cut out one by one; what stands between them stays."""
    head, mark, rest = text.partition("Invalid value: ")
    if not mark:
        return text
    try:
        _, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        end = 0
    value = "<value>" if rest[:1] in ("{", "[") else rest[:end]
    return f"{head}{mark}{value}{_without_values(rest[end:])}"


def _internal_structs(difference: Difference) -> bool:
    """Both refuse the same field with the same words, and show the value: the real one as Go's internal type."""
    real, ours = difference.real, difference.ours
    if not isinstance(real, str) or not isinstance(ours, str) or not re.search(r'"[A-Z]\w*":', real):
        return False
    return _without_values(real) == _without_values(ours)


def _empties(difference: Difference) -> bool:
    real, ours = difference.real, difference.ours
    return isinstance(real, str) and isinstance(ours, str) and re.sub(r": (\{\}|\[\]): ", ": null: ", real) == ours


def _first_update_of_a_claim(difference: Difference) -> bool:
    return difference.case.startswith("PersistentVolumeClaim v1: ") and difference.path[-1] == "resourceVersion"


def _union_hints(difference: Difference) -> bool:
    schemas = difference.case.startswith("the schemas of ")
    return schemas and (
        "x-kubernetes-unions" in difference.path or "http" in difference.path or difference.real is ABSENT
    )


def _connects(difference: Difference) -> bool:
    return difference.case == "the operations of v1" and difference.path[-1] == "query" and difference.ours == []


def _class_description(difference: Difference) -> bool:
    return difference.path[-1] == "description" and "system critical pods" in str(difference.real)


def _fewer_groups(difference: Difference) -> bool:
    real, ours = difference.real, difference.ours
    listed = difference.path[-1] == "groups" and isinstance(real, list) and isinstance(ours, list)
    return listed and ours == [group for group in real if group in ours]


def _bounded(difference: Difference) -> bool:
    return difference.case in (
        "a body: deep nesting in an unknown field",
        "a patch that nests deeply",
        "a webhook that answers with a deep answer",
    )


def _huge_number(difference: Difference) -> bool:
    return difference.case == "a body: a huge number" and difference.path[-1] == "message"


def _own_build(difference: Difference) -> bool:
    if not isinstance(difference.ours, str) or "+headgate." not in difference.ours:
        return False
    return bool(re.sub(r"\+headgate\.[0-9.]*[0-9]", "", difference.ours) == difference.real)


def _undrawn_name(difference: Difference) -> bool:
    real, ours = difference.real, difference.ours
    return (
        isinstance(real, str) and isinstance(ours, str) and '-*" is' in ours and ours.replace('-*" is', '-" is') == real
    )


def _says_that_cel_is_not_evaluated(difference: Difference) -> bool:
    """Beside the real server's warnings ours has others, and all of them say this."""
    if difference.path[:2] != ("headers", "warning") or not isinstance(difference.ours, list):
        return False
    real = difference.real if isinstance(difference.real, list) else []
    rest = [each for each in difference.ours if "is not evaluated by the embedded API server" not in each]
    return rest == real


def _not_served(difference: Difference) -> bool:
    matrix = difference.case.startswith("every method on ") and difference.path == ("status",)
    place = re.search(r"/(log|exec|proxy)\b|/componentstatuses\b", difference.step)
    return matrix and place is not None and difference.ours == 501


ALLOWED: tuple[Allowance, ...] = (
    Allowance("the build", "the version names Headgate after the Kubernetes version it serves", _own_build),
    Allowance("column descriptions", "they are prose; ours is our own", _column_description),
    Allowance("texts of Go itself", "Go's types, parser offsets and struct diffs; equal up to there", _go_texts),
    Allowance("groups", "certificates, flow control, API registration and extensions are not served", _fewer_groups),
    Allowance("deep nesting", "documents of more than 250 levels are refused; the real bound is 10,000", _bounded),
    Allowance("huge numbers", "1e999 is refused while parsing, before a field is looked at", _huge_number),
    Allowance("values in texts", "the real server shows them as its internal Go types", _internal_structs),
    Allowance("explicit empties", "texts show an explicit [] or {} that was refused as null", _empties),
    Allowance("a claim's first update", "the real server rewrites it though nothing changed", _first_update_of_a_claim),
    Allowance("schema hints", "no union hints; some unused components; one $ref wrapped in allOf", _union_hints),
    Allowance("parameters of exec and logs", "these endpoints are refused whatever the parameters", _connects),
    Allowance(
        "names in refusals", "our controllers draw the names of pods, so that a refusal has all of it", _undrawn_name
    ),
    Allowance("warnings about CEL", "it is not evaluated, and clients are told", _says_that_cel_is_not_evaluated),
    Allowance("logs, exec, proxies, component status", "there is nothing behind them: 501 says so", _not_served),
    Allowance("descriptions of system priority classes", "they are prose; ours is our own", _class_description),
)
if len(ALLOWED) > 20:
    raise ValueError("too many allowed differences: repair some")
