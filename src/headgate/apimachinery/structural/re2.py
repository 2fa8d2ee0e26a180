"""Parses regular expressions as Go's RE2 does, with its error messages, and translates them for another engine.

:func:`translate` parses an expression and writes it in the syntax of Rust's ``regex`` without ambiguity: every
character is a code point, every class is spelled out, flags are applied. Captures and greediness do not affect whether
a text matches, and are dropped. ``patterns.py`` runs the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

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


_MAX_CODE: Final = 0x10FFFF
_ANY: Final = rf"[\x{{0}}-\x{{{_MAX_CODE:X}}}]"
_NONE: Final = rf"[^\x{{0}}-\x{{{_MAX_CODE:X}}}]"


def character(char: str) -> str:
    """Surrogates are no characters, and match nothing."""
    return _NONE if 0xD800 <= ord(char) <= 0xDFFF else rf"\x{{{ord(char):X}}}"


def format_range(low: int, high: int) -> str:
    """Surrogates in a range match nothing."""
    if 0xD800 <= low <= 0xDFFF:
        low = 0xE000
    if 0xD800 <= high <= 0xDFFF:
        high = 0xD7FF
    return rf"\x{{{low:X}}}-\x{{{high:X}}}" if low <= high else ""


def perl(letter: str, *, ignore_case: bool) -> str:
    return _format_ranges(PERL[letter], letter.isupper(), ignore_case)


def posix(name: str, *, ignore_case: bool) -> str:
    sign, ranges = POSIX[name]
    return _format_ranges(ranges, bool(sign), ignore_case)


def _format_ranges(ranges: Ranges, negated: bool, ignore_case: bool) -> str:
    """With ``ignore_case``, a negated class excludes both cases of its characters."""
    if negated:
        ranges = _complement(_folded(ranges) if ignore_case else ranges)
    return "".join(rf"\x{{{low:X}}}-\x{{{high:X}}}" for low, high in ranges)


def _folded(ranges: Ranges) -> Ranges:
    """Adds the other case of each letter, and the two characters outside ASCII that fold to ASCII letters."""
    codes = {code for low, high in ranges for code in range(low, high + 1)}
    codes |= {ord(chr(code).swapcase()) for code in codes}
    codes |= {sign for letter, sign in ((0x6B, 0x212A), (0x73, 0x17F)) if letter in codes}
    return tuple((code, code) for code in sorted(codes))


def _complement(ranges: Ranges) -> Ranges:
    """All characters that are in none of the sorted ranges."""
    out, begin = [], 0
    for low, high in ranges:
        if begin < low:
            out.append((begin, low - 1))
        begin = high + 1
    return (*out, (begin, 0xD7FF), (0xE000, 0x10FFFF))


MAX_REPEAT: Final = 1000
MAX_DEPTH: Final = 1000
_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_OCTAL: Final = "01234567"
_HEX: Final = "0123456789abcdefABCDEF"
_ASSERTIONS: Final = {"A": r"\A", "z": r"\z", "b": r"(?-u:\b)", "B": r"(?-u:\B)"}


class InvalidExpression(Exception):
    """The error, with Go's message."""

    def __init__(self, problem: str, fragment: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{fragment}`")


class Translation(NamedTuple):
    """``states``: about as many as an automaton of the expression has. Matching a text takes at most as many steps for
    each of its characters."""

    text: str
    states: int


class _Piece(NamedTuple):
    """``repeats``: the largest product of repeat counts in it."""

    text: str
    repeats: int = 1
    states: int = 1


class _Group:
    """An open parenthesis: the flags before it, and the pieces in it."""

    __slots__ = ("alternatives", "flags")

    def __init__(self, flags: frozenset[str]) -> None:
        self.flags = flags
        self.alternatives: list[list[_Piece]] = [[]]

    def joined(self) -> _Piece:
        pieces = [piece for alternative in self.alternatives for piece in alternative]
        return _Piece(
            "|".join("".join(piece.text for piece in alternative) for alternative in self.alternatives),
            max((piece.repeats for piece in pieces), default=1),
            sum(piece.states for piece in pieces) + len(self.alternatives),
        )


class _Parser:
    def __init__(self, text: str, is_known_class: Callable[[str], bool]) -> None:
        self._text: Final = text
        self._is_known_class: Final = is_known_class
        self._position = 0
        self._flags: frozenset[str] = frozenset()
        self._groups = [_Group(self._flags)]

    def parse(self) -> Translation:
        last = None
        while self._position < len(self._text):
            start, repeat = self._position, None
            match self._text[self._position]:
                case "(":
                    self._open()
                case "|":
                    self._position += 1
                    self._groups[-1].alternatives.append([])
                case ")":
                    self._close()
                case "^":
                    self._append("(?m:^)" if "m" in self._flags else r"\A", 1)
                case "$":
                    self._append("(?m:$)" if "m" in self._flags else r"\z", 1)
                case ".":
                    self._append("(?s:.)" if "s" in self._flags else r"[^\x{A}]", 1)
                case "[":
                    self._class()
                case "*" | "+" | "?" as sign:
                    self._position += 1
                    self._repeat(start, last, sign, 1)
                    repeat = start
                case "{":
                    if self._counted(start, last):
                        repeat = start
                case "\\":
                    self._escaped()
                case char:
                    self._literal(char, 1)
            last = repeat
        if len(self._groups) > 1:
            raise InvalidExpression("missing closing )", self._text)
        whole = self._groups[0].joined()
        return Translation(whole.text, whole.states)

    def _append(self, text: str, width: int) -> None:
        self._position += width
        self._groups[-1].alternatives[-1].append(_Piece(text))

    def _literal(self, char: str, width: int) -> None:
        piece = character(char)
        self._append(f"(?i:{piece})" if "i" in self._flags else piece, width)

    def _open(self) -> None:
        if len(self._groups) > MAX_DEPTH:
            raise InvalidExpression("expression nests too deeply", self._text)
        before = self._flags
        if self._text.startswith("(?", self._position):
            if not self._special():
                return
        else:
            self._position += 1
        self._groups.append(_Group(before))

    def _special(self) -> bool:
        """``(?...``: whether it opens a group. Flags alone apply to the rest of the expression."""
        text, start = self._text, self._position
        rest = text[start:]
        if (rest.startswith("(?P<") and len(rest) > 4) or (rest.startswith("(?<") and len(rest) > 3):
            begin = start + (4 if rest.startswith("(?P<") else 3)
            end = text.find(">", start)
            if end < 0:
                raise InvalidExpression("invalid named capture", rest)
            name = text[begin:end]
            if not name or not set(name) <= _NAME:
                raise InvalidExpression("invalid named capture", text[start : end + 1])
            self._position = end + 1
            return True
        flags, sign, seen, position = set(self._flags), True, False, start + 2
        while position < len(text):
            char = text[position]
            position += 1
            if char in "imsU":
                (flags.add if sign else flags.discard)(char)
                seen = True
            elif char == "-" and sign:
                sign, seen = False, False
            elif char in ":)" and (sign or seen):
                self._position, self._flags = position, frozenset(flags)
                return char == ":"
            else:
                break
        raise InvalidExpression("invalid or unsupported Perl syntax", text[start:position])

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise InvalidExpression("unexpected )", self._text)
        group = self._groups.pop()
        self._flags = group.flags
        piece = group.joined()
        self._position += 1
        self._groups[-1].alternatives[-1].append(piece._replace(text=f"(?:{piece.text})"))

    def _repeat(self, start: int, last: int | None, sign: str, count: int) -> None:
        """``self._position`` is after the operator."""
        if self._text.startswith("?", self._position):
            self._position += 1
        if last is not None:
            raise InvalidExpression("invalid nested repetition operator", self._text[last : self._position])
        pieces = self._groups[-1].alternatives[-1]
        if not pieces:
            raise InvalidExpression("missing argument to repetition operator", self._text[start : self._position])
        times, piece = max(count, 1), pieces[-1]
        if count > 1 and piece.repeats * times > MAX_REPEAT:
            raise InvalidExpression("invalid repeat count", self._text[start : self._position])
        pieces[-1] = _Piece(f"(?:{piece.text}){sign}", piece.repeats * times, piece.states * times + 1)

    def _counted(self, start: int, last: int | None) -> bool:
        """``{2,5}``; any other brace is a literal."""
        found = _counts(self._text, start)
        if found is None:
            self._literal("{", 1)
            return False
        low, high, self._position = found
        if low is None or low > MAX_REPEAT or (high is not None and (high > MAX_REPEAT or low > high)):
            raise InvalidExpression("invalid repeat count", self._text[start : self._position])
        sign = f"{{{low},{'' if high is None else high}}}"
        self._repeat(start, last, sign, low if high is None else high)
        return True

    def _escaped(self) -> None:
        text, position = self._text, self._position
        next_char = text[position + 1 : position + 2]
        if next_char in _ASSERTIONS and next_char:
            self._append(_ASSERTIONS[next_char], 2)
        elif next_char == "C":
            raise InvalidExpression("invalid escape sequence", r"\C")
        elif next_char == "Q":
            end = text.find(r"\E", position + 2)
            quoted, width = (
                (text[position + 2 :], len(text) - position)
                if end < 0
                else (text[position + 2 : end], end + 2 - position)
            )
            for char in quoted:
                self._literal(char, 0)
            self._position += width
        elif (named := self._named_class(position)) is not None:
            piece, self._position = named
            self._append(f"(?i:[{piece}])" if "i" in self._flags else f"[{piece}]", 0)
        else:
            code, end = self._escape(position)
            self._position = end
            self._literal(chr(code), 0)

    def _named_class(self, position: int) -> tuple[str, int] | None:
        """``\\pL`` or ``\\d``: the content of the class, and the position after it."""
        text = self._text
        letter = text[position + 1 : position + 2]
        if text[position : position + 1] != "\\" or not letter:
            return None
        if letter in PERL:
            return perl(letter, ignore_case="i" in self._flags), position + 2
        if letter not in "pP":
            return None
        end, name = position + 3, text[position + 2 : position + 3]
        if name == "{":
            close = text.find("}", position)
            if close < 0:
                raise InvalidExpression("invalid character class range", text[position:])
            name, end = text[position + 3 : close], close + 1
        negated, name = (letter == "P") != name.startswith("^"), name.removeprefix("^")
        if not name or not self._is_known_class(name):
            raise InvalidExpression("invalid character class range", text[position:end])
        return rf"\{'P' if negated else 'p'}{{{name}}}", end

    def _escape(self, position: int) -> tuple[int, int]:
        """The code point of an escape sequence, and the position after it."""
        text = self._text
        if position + 1 >= len(text):
            raise InvalidExpression("trailing backslash at end of expression", "")
        char, end = text[position + 1], position + 2
        if char in _ESCAPES:
            return _ESCAPES[char], end
        if char == "0" or (char in "1234567" and text[end : end + 1] in _OCTAL and end < len(text)):
            while end < min(position + 4, len(text)) and text[end] in _OCTAL:
                end += 1
            return int(text[position + 1 : end], 8), end
        if char == "x":
            return self._hexadecimal(position)
        if char.isascii() and not char.isalnum():
            return ord(char), end
        raise InvalidExpression("invalid escape sequence", text[position:end])

    def _hexadecimal(self, position: int) -> tuple[int, int]:
        text, end = self._text, position + 2
        if text[end : end + 1] == "{":
            code, close = 0, end + 1
            while close < len(text) and text[close] in _HEX and code <= _MAX_CODE:
                code = code * 16 + int(text[close], 16)
                close += 1
            if code > _MAX_CODE:
                raise InvalidExpression("invalid escape sequence", text[position:close])
            if close == end + 1 or text[close : close + 1] != "}":
                raise InvalidExpression("invalid escape sequence", text[position : close + 1])
            return code, close + 1
        digits = text[end : end + 2]
        if len(digits) == 2 and set(digits) <= set(_HEX):
            return int(digits, 16), end + 2
        bad = next((index for index, digit in enumerate(digits) if digit not in _HEX), len(digits))
        raise InvalidExpression("invalid escape sequence", text[position : min(end + max(bad + 1, 2), len(text))])

    def _class(self) -> None:
        text, start = self._text, self._position
        position, sign, first = start + 1, "", True
        if text[position : position + 1] == "^":
            position, sign = position + 1, "^"
        pieces: list[str] = []
        while position >= len(text) or text[position] != "]" or first:
            first = False
            if text.startswith("[:", position) and (end := text.find(":]", position + 2)) >= 0:
                name = text[position : end + 2]
                if name not in POSIX:
                    raise InvalidExpression("invalid character class range", name)
                pieces.append(posix(name, ignore_case="i" in self._flags))
                position = end + 2
                continue
            named = self._named_class(position)
            if named is not None:
                piece, position = named
                pieces.append(piece)
                continue
            begin = position
            low, position = self._class_character(position, start)
            high = low
            if text[position : position + 1] == "-" and position + 1 < len(text) and text[position + 1] != "]":
                high, position = self._class_character(position + 1, start)
                if high < low:
                    raise InvalidExpression("invalid character class range", text[begin:position])
            pieces.append(format_range(low, high))
        # Rust has no empty class: a class of surrogates matches no character, its complement matches every one.
        ranges = "".join(pieces)
        char_class = f"[{sign}{ranges}]" if ranges else _ANY if sign else _NONE
        self._position = position + 1
        self._append(f"(?i:{char_class})" if "i" in self._flags else char_class, 0)

    def _class_character(self, position: int, start: int) -> tuple[int, int]:
        text = self._text
        if position >= len(text):
            raise InvalidExpression("missing closing ]", text[start:])
        return self._escape(position) if text[position] == "\\" else (ord(text[position]), position + 1)


def _counts(text: str, position: int) -> tuple[int | None, int | None, int] | None:
    """``{low,high}`` at this position and the position after it, or None; a count that is far too large is None."""
    low, end = _integer(text, position + 1)
    if end == position + 1 or end >= len(text):
        return None
    high: int | None = low
    if text[end] == ",":
        if text[end + 1 : end + 2] == "}":
            return low, None, end + 2
        begin = end + 1
        high, end = _integer(text, begin)
        if end == begin or end >= len(text):
            return None
        if high is None:
            low = None
    return (low, high, end + 1) if text[end] == "}" else None


def _integer(text: str, position: int) -> tuple[int | None, int]:
    end = position
    while end < len(text) and text[end] in "0123456789":
        end += 1
    if end - position > 1 and text[position] == "0":
        return None, position
    digits = text[position:end]
    return (int(digits) if digits and len(digits) < 9 else None), end


def translate(expression: str, is_known_class: Callable[[str], bool]) -> Translation:
    """The expression in Rust's syntax; raises :class:`InvalidExpression` if it is invalid in Go.

    ``is_known_class`` returns whether there is a character class (``Lu``, ``Greek``) of that name.
    """
    return _Parser(expression, is_known_class).parse()
