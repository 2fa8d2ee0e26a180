"""Short hashes that end in names: of pod templates and of revisions.

They tell states of an object apart; they guard nothing. The sums are FNV's, in 32 bits, and the letters are the ones
that make no words. What is hashed is for the caller to say: ``owners/revisions.py`` and ``owners/deployments/``.
"""

from __future__ import annotations

from typing import Final

_OFFSET: Final = 2166136261
_PRIME: Final = 16777619
_MASK: Final = 0xFFFFFFFF
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


def fnv1(data: bytes) -> int:
    total = _OFFSET
    for byte in data:
        total = total * _PRIME & _MASK ^ byte
    return total


def fnv1a(data: bytes) -> int:
    total = _OFFSET
    for byte in data:
        total = (total ^ byte) * _PRIME & _MASK
    return total


def in_letters(number: int) -> str:
    """The decimal digits of a number, each as a letter or digit that is safe in a name."""
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in str(number).encode())
