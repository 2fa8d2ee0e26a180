"""Texts that are looked up by their hash, and never compared one by one with all others."""

from __future__ import annotations


class HashedText(str):
    """Refuses to be compared with a text that has another hash."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and hash(other) != hash(self):
            raise AssertionError(f"{self} is compared with {other}")
        return str.__eq__(self, other)
