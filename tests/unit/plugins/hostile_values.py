"""What plugins of other authors raise and return at their worst."""

from __future__ import annotations

import asyncio
from typing import Any


class Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit("even this")


class Recursive:
    def __repr__(self) -> str:
        return repr(self)


def recurse(*args: Any) -> Any:
    return recurse(*args)


RAISED: dict[str, BaseException] = {
    "SystemExit": SystemExit(1),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "CancelledError": asyncio.CancelledError(),
    "GeneratorExit": GeneratorExit(),
    "StopIteration": StopIteration("stop"),
    "MemoryError": MemoryError(),
    "Unprintable": Unprintable(),
    "a surrogate": ValueError("\ud800"),
    "a long text": ValueError("x" * 10_000_000),
}
