"""Differences that a comparison allows: where each may be met, what both servers say there, and how often.

An allowance has one reason and one or more forms. A form names the test modules, the cases and the steps it belongs to,
the JSON path, and a pattern for the value of each server. What the patterns capture under one name has to be the same
on both sides. `real/allowed_differences.py` holds the allowances, `conftest.py` counts how often each is met.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.compare import ABSENT, Difference

FACTOR = 2
"""A run fails if an allowance is met more often than this times the most that was seen in the recorded runs."""


@dataclass(frozen=True)
class Form:
    """Every pattern has to match the whole text; a dot also matches the end of a line. `alike` compares both values
    where patterns cannot."""

    suites: str
    path: str
    real: str
    ours: str
    cases: str = ".*"
    steps: str = ".*"
    alike: Callable[[Any, Any], bool] = lambda real, ours: True

    def matches(self, suite: str, difference: Difference) -> bool:
        named = ((self.suites, suite), (self.cases, difference.case), (self.steps, difference.step))
        if not all(_whole(pattern, text) for pattern, text in (*named, (self.path, difference.where))):
            return False
        real, ours = _whole(self.real, _text(difference.real)), _whole(self.ours, _text(difference.ours))
        if real is None or ours is None:
            return False
        captured = ours.groupdict()
        if any(name in captured and captured[name] != value for name, value in real.groupdict().items()):
            return False
        return self.alike(difference.real, difference.ours)


@dataclass(frozen=True)
class Allowance:
    """`met`: how often each recorded run, with the default draws, met it."""

    name: str
    reason: str
    met: tuple[int, ...]
    forms: tuple[Form, ...]

    @property
    def at_most(self) -> int:
        return FACTOR * max(self.met)

    def allows(self, suite: str, difference: Difference) -> bool:
        return any(form.matches(suite, difference) for form in self.forms)


def current_suite() -> str:
    """The name of the test module that runs now, without its suffix."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0].rpartition("/")[2].removesuffix(".py")


def unmet(allowances: Iterable[Allowance], met: Counter[str]) -> list[str]:
    return [each.name for each in allowances if not met[each.name]]


def exceeded(allowances: Iterable[Allowance], met: Counter[str], scale: float = 1.0) -> list[str]:
    """``scale``: how many times as many cases are drawn as in the recorded runs."""
    return [
        f"{each.name}: {met[each.name]} times, at most {int(each.at_most * scale)}"
        for each in allowances
        if met[each.name] > each.at_most * scale
    ]


def summary_lines(allowances: Sequence[Allowance], met: Counter[str]) -> list[str]:
    """One line for each allowance that was met."""
    return [f"{met[each.name]:5} of {each.at_most:5}  {each.name}" for each in allowances if met[each.name]]


def _whole(pattern: str, text: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, text, re.DOTALL)


def _text(value: Any) -> str:
    if value is ABSENT:
        return repr(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
