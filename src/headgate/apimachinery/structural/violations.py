"""The result of a schema check, before the path of the checked value is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.kube.field_errors import MAX_REPORTED_CHARACTERS, FieldError

if TYPE_CHECKING:
    from headgate.apimachinery.structural.ratcheting import CorrelatedObject


class SchemaViolation(NamedTuple):
    """``message`` names it (two with the same message are one), ``error`` makes a field error of it.

    ``place`` is the path below the checked value; None: the real server does not say where.
    """

    message: str
    place: str | None
    error: Callable[[str], FieldError]


class ViolationList(list[SchemaViolation]):
    """Violations as they are found, until there is more text than a response would contain.

    A message may repeat a list as long as the schema for every part of an object, so a check that is :attr:`full` does
    not visit further parts.
    """

    __slots__ = ("_room",)

    def __init__(self) -> None:
        super().__init__()
        self._room = MAX_REPORTED_CHARACTERS

    @property
    def full(self) -> bool:
        return self._room <= 0

    def append(self, problem: SchemaViolation) -> None:
        self._room -= len(problem.message)
        super().append(problem)

    def take(self, others: Iterable[SchemaViolation]) -> None:
        for problem in others:
            self.append(problem)


Check = Callable[[Any, str, "CorrelatedObject | None", ViolationList], int]
