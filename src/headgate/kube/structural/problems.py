"""What a schema check finds, before it is known under which path the checked value lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.kube.errors import FieldError

if TYPE_CHECKING:
    from headgate.kube.structural.ratchet import Old


class Problem(NamedTuple):
    """``message`` names it (two with the same message are one), ``error`` makes a field error of it.

    ``place`` is the path below the checked value; None: the real server does not say where.
    """

    message: str
    place: str | None
    error: Callable[[str], FieldError]


Out = list[Problem]
Check = Callable[[Any, str, "Old | None", Out], int]
