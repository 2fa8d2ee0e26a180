"""The result of a schema check, before the path of the checked value is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.kube.field_errors import MAX_REPORTED_CHARACTERS, FieldError

if TYPE_CHECKING:
    from headgate.apimachinery.structural.ratcheting import CorrelatedObject


class SchemaViolation(NamedTuple):
    """``message`` identifies it (equal messages are reported once), ``error`` makes a field error of it.

    ``path`` is the path below the checked value; None: kube-apiserver reports no path.
    """

    message: str
    path: str | None
    error: Callable[[str], FieldError]


class ViolationList(list[SchemaViolation]):
    """The violations found so far, up to the text that a response can contain.

    A message may contain a long list of the schema for every part of an object, so a check that is :attr:`full` does
    not visit further parts.
    """

    __slots__ = ("_remaining",)

    def __init__(self) -> None:
        super().__init__()
        self._remaining = MAX_REPORTED_CHARACTERS

    @property
    def full(self) -> bool:
        return self._remaining <= 0

    def append(self, problem: SchemaViolation) -> None:
        self._remaining -= len(problem.message)
        super().append(problem)

    def add_all(self, others: Iterable[SchemaViolation]) -> None:
        for problem in others:
            self.append(problem)


Check = Callable[[Any, str, "CorrelatedObject | None", ViolationList], int]
