"""The result of a schema check, before the path of the checked value is known, and the work that is left for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headgate.kube.field_errors import MAX_REPORTED_CHARACTERS, FieldError

if TYPE_CHECKING:
    from headgate.apimachinery.structural.ratcheting import CorrelatedObject


class SchemaViolation(NamedTuple):
    """``message``: violations with equal messages are reported once. ``path``: the path below the checked value; None
    if kube-apiserver reports no path. ``error``: makes a field error at the path of its argument.
    """

    message: str
    path: str | None
    error: Callable[[str], FieldError]


MAX_CHECKS: Final = 1_000_000
MAX_PATTERN_STEPS: Final = 100_000_000
"""Both take about a second."""
_CHARACTERS_PER_CHECK: Final = 1024  # of a message, which may list all values of an enumeration


class TooManyChecks(Exception):
    """The validation of one value takes more work than the limits allow."""


class RemainingWork:
    """How many checks and steps of patterns the validation of one object may still take. An object may have as many
    values as its schema has alternatives, and each value is checked against each of them."""

    __slots__ = ("_checks", "_pattern_steps")

    def __init__(self) -> None:
        self._checks = MAX_CHECKS
        self._pattern_steps = MAX_PATTERN_STEPS

    def spend(self, checks: int) -> None:
        self._checks -= checks
        if self._checks < 0:
            raise TooManyChecks

    def spend_steps(self, steps: int) -> None:
        self._pattern_steps -= steps
        if self._pattern_steps < 0:
            raise TooManyChecks


class ViolationList(list[SchemaViolation]):
    """The violations found so far.

    A message may contain a long list of the schema, and every part of an object may have one. When the list is
    :attr:`full`, because a response cannot contain more text, a check visits no further parts.
    """

    __slots__ = ("_remaining", "work")

    def __init__(self, work: RemainingWork) -> None:
        super().__init__()
        self._remaining = MAX_REPORTED_CHARACTERS
        self.work: Final = work

    def inner(self) -> ViolationList:
        """A list for one alternative, or one part, whose violations may be dropped."""
        return ViolationList(self.work)

    @property
    def full(self) -> bool:
        return self._remaining <= 0

    def append(self, problem: SchemaViolation) -> None:
        self._remaining -= len(problem.message)
        self.work.spend(len(problem.message) // _CHARACTERS_PER_CHECK)
        super().append(problem)

    def add_all(self, others: Iterable[SchemaViolation]) -> None:
        for problem in others:
            self.append(problem)


Check = Callable[[Any, str, "CorrelatedObject | None", ViolationList], int]
