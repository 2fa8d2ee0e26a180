"""Kubernetes quantities: ``500m``, ``1536Mi``, ``1e3``.

A :class:`Quantity` is an exact integer number of nano-units and the format in which it was written, because the API
server keeps that format when it writes the value. :func:`parse` returns a quantity or the error text of the API server.
Sums and comparisons are exact; Kubernetes' limits of 64 bits do not apply.

Two deliberate differences from Kubernetes, both beyond 10^21: a decimal above ``999E`` keeps the suffix ``E`` (there
it loses its suffix, and with it its size), and exponents above 1000 count as 1000 in comparisons and sums.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

import msgspec

from headgate.kube.integers import read_integer

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

FORMAT_ERROR: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMERIC_ERROR: Final = "unable to parse numeric part of quantity"
SUFFIX_ERROR: Final = "unable to parse quantity's suffix"

# Possessive quantifiers: a text that does not match is rejected after one pass.
_QUANTITY: Final = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")

_DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIX_OF_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_SUFFIX_OF_POWER_OF_1024: Final = ("", *_BINARY_SUFFIXES)

_NANO: Final = -9
_MAX_BINARY: Final = (1 << 63) - 1
_MAX_DIGITS: Final = 4000  # below the number of digits at which Python's int raises
_MAX_EXPONENT: Final = 1000
_MAX_CACHED_CHARACTERS: Final = 40  # longer texts must not fill the cache
_SHORT_DIGITS: Final = 18


class Quantity(msgspec.Struct, frozen=True, eq=False):
    """An exact amount. Equal amounts are equal whatever their format: ``1Gi == 1024Mi``, ``1 == 1000m``."""

    nano: int
    format: Format = "DecimalSI"
    text: str = ""  # the canonical text of a parsed quantity; empty for a computed one

    @property
    def canonical(self) -> str:
        """The text that the API server writes (CanonicalizeBytes in Go): the largest suffix without a fraction."""
        return self.text or _print(self.nano, _NANO, self.format)

    def value(self) -> int:
        """In whole units, rounded away from zero."""
        return _divide_up(self.nano, 10**9)

    def milli_value(self) -> int:
        """In thousandths, rounded away from zero."""
        return _divide_up(self.nano, 10**6)

    def round_up_to_milli(self) -> Quantity:
        """Rounds up to ``1m``, as the API server's defaulting does."""
        milli = self.milli_value()
        return self if milli * 10**6 == self.nano else Quantity(milli * 10**6, self.format)

    def __str__(self) -> str:
        return self.canonical

    def __bool__(self) -> bool:
        return self.nano != 0

    def __hash__(self) -> int:
        return hash(self.nano)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        return self.nano >= other.nano

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)


ZERO: Final = Quantity(0, "DecimalSI", "0")


def of_units(units: int, format: Format = "DecimalSI") -> Quantity:
    return Quantity(units * 10**9, format)


def of_milli(milli: int, format: Format = "DecimalSI") -> Quantity:
    return Quantity(milli * 10**6, format)


def parse(value: str | int | float) -> Quantity | str:
    """Parses a quantity from its JSON value. A returned string is the error text."""
    if isinstance(value, str):
        text = value.strip()
    elif isinstance(value, bool):
        return FORMAT_ERROR
    else:
        text = repr(value)
    return _parse(text) if len(text) <= _MAX_CACHED_CHARACTERS else _parse.__wrapped__(text)


def amount(value: str | int | float) -> Quantity:
    """A validated quantity. An invalid text is zero, so that one bad object does not block others."""
    parsed = parse(value)
    return ZERO if isinstance(parsed, str) else parsed


@lru_cache(maxsize=8192)
def _parse(text: str) -> Quantity | str:
    match = _QUANTITY.fullmatch(text)
    if match is None or not text:
        return FORMAT_ERROR
    sign, whole, fraction, suffix = (
        match.group(1),
        match.group(2).lstrip("0") or "0",
        match.group(3) or "",
        match.group(4),
    )

    interpreted = _interpret(suffix)
    if interpreted is None:
        return SUFFIX_ERROR
    base, exponent, format = interpreted
    digits = whole + fraction
    if len(digits) > _MAX_DIGITS:
        return NUMERIC_ERROR
    unscaled = int(digits)

    # A text that is already canonical is kept as it was written, with sign and leading zeros.
    if base == 2:
        is_short = not fraction and len(whole) + exponent * 3 // 10 <= 14
        is_canonical = unscaled & 7 != 0
        unscaled <<= exponent
        scale = -len(fraction)
    else:
        scale = exponent - len(fraction)
        is_short = len(digits) <= _SHORT_DIGITS and scale >= _NANO
        is_canonical = scale % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
    if not is_short and not match.group(2) and not fraction:
        return NUMERIC_ERROR  # "Pi" without a number is an error, but "Ki" is zero, as in Kubernetes

    unscaled, scale = _at_least_nano(unscaled, scale)
    if base == 2 and scale <= 0:
        if unscaled > _MAX_BINARY * 10**-scale:
            unscaled, scale = _MAX_BINARY, 0
        if 0 < unscaled < 10**-scale:
            format = "DecimalSI"  # less than one unit has no binary form
    if sign == "-":
        unscaled = -unscaled
    nano = unscaled * 10 ** (min(scale, _MAX_EXPONENT) - _NANO)
    return Quantity(nano, format, text if is_short and is_canonical else _print(unscaled, scale, format))


def _interpret(suffix: str) -> tuple[int, int, Format] | None:
    """Base, exponent and format of a suffix."""
    if suffix in _DECIMAL_SUFFIXES:
        return 10, _DECIMAL_SUFFIXES[suffix], "DecimalSI"
    if suffix in _BINARY_SUFFIXES:
        return 2, _BINARY_SUFFIXES[suffix], "BinarySI"
    match = _EXPONENT.fullmatch(suffix)
    exponent = None if match is None else read_integer(match.group(1))
    if exponent is None or not -(1 << 63) <= exponent < 1 << 63:
        return None
    # the API server keeps 32 bits of the exponent
    return 10, (exponent + (1 << 31)) % (1 << 32) - (1 << 31), "DecimalExponent"


def _at_least_nano(unscaled: int, scale: int) -> tuple[int, int]:
    """Rounds up to a nano-unit, so that a request above zero stays above zero."""
    if scale >= _NANO or unscaled == 0:
        return unscaled, max(scale, _NANO)
    excess_digits = _NANO - scale
    if excess_digits > _MAX_DIGITS + 20:
        return 1, _NANO
    return -(-unscaled // 10**excess_digits), _NANO


def _divide_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor) if dividend >= 0 else dividend // divisor


def _print(unscaled: int, scale: int, format: Format) -> str:
    """The canonical text of ``unscaled * 10**scale``: the largest suffix that needs no fraction."""
    if unscaled == 0:
        return "0"
    sign, unscaled = ("-", -unscaled) if unscaled < 0 else ("", unscaled)
    if format == "BinarySI":
        units, rest = divmod(unscaled, 10**-scale) if scale < 0 else (unscaled * 10**scale, 0)
        if rest == 0 and units >= 1024:
            return sign + _print_binary(units)
        format = "DecimalSI"  # too small, or a fraction that has no binary form
    while unscaled % 1000 == 0:
        unscaled //= 1000
        scale += 3
    while unscaled % 10 == 0:
        unscaled //= 10
        scale += 1
    unscaled *= 10 ** (scale % 3)
    scale -= scale % 3
    if format == "DecimalExponent":
        return f"{sign}{unscaled}" + (f"e{scale}" if scale else "")
    if scale > 18:
        unscaled *= 10 ** (min(scale, _MAX_EXPONENT) - 18)
        scale = 18
    return f"{sign}{unscaled}{_SUFFIX_OF_EXPONENT[scale]}"


def _print_binary(units: int) -> str:
    power = 0
    while units % 1024 == 0 and power < len(_SUFFIX_OF_POWER_OF_1024) - 1:
        units //= 1024
        power += 1
    return f"{units}{_SUFFIX_OF_POWER_OF_1024[power]}"
