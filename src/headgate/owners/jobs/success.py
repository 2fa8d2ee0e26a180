"""Whether the indexes that succeeded are enough for a job's success policy: the first rule that is met says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headgate.owners.jobs.indexes import Indexes

Object = dict[str, Any]


def met(rules: Iterable[Object], completions: int, succeeded: Indexes) -> str | None:
    """The message that names the rule, or ``None``."""
    if not succeeded:
        return None
    for number, rule in enumerate(rules):
        if _is_met(rule, completions, succeeded):
            return f"Matched rules at index {number}"
    return None


def _is_met(rule: Object, completions: int, succeeded: Indexes) -> bool:
    needed: int | None = rule.get("succeededCount")
    text = rule.get("succeededIndexes")
    if text is None:
        return needed is not None and len(succeeded) >= needed
    wanted = Indexes.parse(text, completions)
    there = wanted.common(succeeded)
    return bool(wanted) and (there == len(wanted) or (needed is not None and there >= needed))
