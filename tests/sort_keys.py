"""Keys of a map that are compared only to put them into order.

A sort of pairs compares keys for equality first. It takes several times as long as a sort of the keys, in one call into
C, and no other thread runs meanwhile.
"""

from __future__ import annotations

from typing import Any


class SortKey(str):
    """Refuses to be compared for equality with another key."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SortKey):
            raise AssertionError("pairs of keys and values are sorted")
        return str.__eq__(self, other)


def unsorted_map(value: Any) -> dict[str, Any]:
    return {SortKey(name): value for name in ("c", "a", "d", "b")}
