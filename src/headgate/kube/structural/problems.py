"""What a schema check finds, before it is known under which path the checked value lies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.kube.errors import MAX_TOLD_CHARACTERS, FieldError

if TYPE_CHECKING:
    from headgate.kube.structural.ratchet import Old


class Problem(NamedTuple):
    """``message`` names it (two with the same message are one), ``error`` makes a field error of it.

    ``place`` is the path below the checked value; None: the real server does not say where.
    """

    message: str
    place: str | None
    error: Callable[[str], FieldError]


class Out(list[Problem]):
    """Problems as they are found, until there is more text than an answer would tell.

    A message may repeat a list as long as the schema for every part of an object, so a check that is :attr:`full` does
    not look at further parts.
    """

    __slots__ = ("_room",)

    def __init__(self) -> None:
        super().__init__()
        self._room = MAX_TOLD_CHARACTERS

    @property
    def full(self) -> bool:
        return self._room <= 0

    def append(self, problem: Problem) -> None:
        self._room -= len(problem.message)
        super().append(problem)

    def take(self, others: Iterable[Problem]) -> None:
        for problem in others:
            self.append(problem)


Check = Callable[[Any, str, "Old | None", Out], int]
