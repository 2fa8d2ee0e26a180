"""Short hashes at the end of names: of pod templates and of revisions.

They distinguish states of an object; they are not for security. The hashes are 32-bit FNV, and the alphabet avoids
words. The callers decide what is hashed: ``controllers/ownership/controller_revisions.py`` and
``controllers/deployments/``.
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


def safe_encode(number: int) -> str:
    """The decimal digits of a number, each as a letter or digit that is safe in a name."""
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in str(number).encode())
