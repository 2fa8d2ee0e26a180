"""Characters and classes of characters of ``re2.py``, written so that they mean one thing only."""

from __future__ import annotations

from typing import Final

_DIGIT: Final = ((0x30, 0x39),)
_SPACE: Final = ((0x9, 0xA), (0xC, 0xD), (0x20, 0x20))
_WORD: Final = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
Ranges = tuple[tuple[int, int], ...]

PERL: Final[dict[str, Ranges]] = {"d": _DIGIT, "s": _SPACE, "w": _WORD, "D": _DIGIT, "S": _SPACE, "W": _WORD}
_POSIX: Final[dict[str, Ranges]] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0x0, 0x7F),),
    "blank": ((0x9, 0x9), (0x20, 0x20)),
    "cntrl": ((0x0, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x9, 0xD), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": _WORD,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
POSIX: Final = {f"[:{sign}{name}:]": (sign, ranges) for name, ranges in _POSIX.items() for sign in ("", "^")}


def character(char: str) -> str:
    return rf"\x{{{ord(char):X}}}"


def shown_range(low: int, high: int) -> str:
    """Surrogates are no characters: what a range has of them matches nothing."""
    if 0xD800 <= low <= 0xDFFF:
        low = 0xE000
    if 0xD800 <= high <= 0xDFFF:
        high = 0xD7FF
    return rf"\x{{{low:X}}}-\x{{{high:X}}}" if low <= high else ""


def perl(letter: str, *, folds: bool) -> str:
    return _shown(PERL[letter], letter.isupper(), folds)


def posix(name: str, *, folds: bool) -> str:
    sign, ranges = POSIX[name]
    return _shown(ranges, bool(sign), folds)


def _shown(ranges: Ranges, negated: bool, folds: bool) -> str:
    """``folds``: case does not matter, and what is not in a class is what is in it in no case."""
    if negated:
        ranges = _others(_folded(ranges) if folds else ranges)
    return "".join(rf"\x{{{low:X}}}-\x{{{high:X}}}" for low, high in ranges)


def _folded(ranges: Ranges) -> Ranges:
    """The classes here are of ASCII, whose letters have their other case there, too, but for two signs."""
    codes = {code for low, high in ranges for code in range(low, high + 1)}
    codes |= {ord(chr(code).swapcase()) for code in codes}
    codes |= {sign for letter, sign in ((0x6B, 0x212A), (0x73, 0x17F)) if letter in codes}
    return tuple((code, code) for code in sorted(codes))


def _others(ranges: Ranges) -> Ranges:
    """All characters that are in none of the ranges, which are in order."""
    out, begin = [], 0
    for low, high in ranges:
        if begin < low:
            out.append((begin, low - 1))
        begin = high + 1
    return (*out, (begin, 0xD7FF), (0xE000, 0x10FFFF))
