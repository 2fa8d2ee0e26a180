"""Quantities against a slow reference made of exact fractions."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.kube import quantity
from headgate.kube.quantity import Quantity

_POWERS = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1)}
_POWERS |= {suffix: Fraction(1000 ** (i + 1)) for i, suffix in enumerate("kMGTPE")}
_POWERS |= {f"{suffix}i": Fraction(1024 ** (i + 1)) for i, suffix in enumerate("KMGTPE")}

numbers = st.builds(
    lambda sign, whole, fraction: f"{sign}{whole}" + (f".{fraction}" if fraction else ""),
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**24).map(str),
    st.text("0123456789", max_size=14),
)
suffixes = st.one_of(st.sampled_from(sorted(_POWERS)), st.integers(-15, 30).map(lambda e: f"e{e}"))


def parsed(text: str) -> Quantity:
    read = quantity.parse(text)
    assert isinstance(read, Quantity), read
    return read


def reference_nano(number: str, suffix: str) -> int:
    """Exact value in nano-units: rounded away from zero, binary ones capped at 64 bits."""
    power = Fraction(10) ** int(suffix[1:]) if suffix.startswith("e") else _POWERS[suffix]
    exact = Fraction(number) * power * 10**9
    magnitude = ceil(abs(exact))
    if suffix.endswith("i"):
        magnitude = min(magnitude, (2**63 - 1) * 10**9)
    return magnitude if exact >= 0 else -magnitude


@settings(deadline=None)
@given(numbers, suffixes)
def test_parsing_is_exact_to_the_nano_unit(number: str, suffix: str) -> None:
    assert parsed(number + suffix).nano == reference_nano(number, suffix)


@settings(deadline=None)
@given(numbers, suffixes)
def test_the_canonical_text_means_the_same_amount_in_the_same_format_and_is_its_own_canonical_text(
    number: str, suffix: str
) -> None:
    first = parsed(number + suffix)
    again = parsed(first.canonical)
    assert again.nano == first.nano
    assert again.canonical == first.canonical
    if first.nano and first.format != "BinarySI" and not first.canonical.lstrip("+-").isdigit():
        assert again.format in (first.format, "DecimalSI")


@settings(deadline=None)
@given(numbers, suffixes, numbers, suffixes)
def test_sums_differences_and_comparisons_are_those_of_the_exact_values(a: str, b: str, c: str, d: str) -> None:
    one, other = parsed(a + b), parsed(c + d)
    x, y = reference_nano(a, b), reference_nano(c, d)
    assert (one + other).nano == x + y
    assert (one - other).nano == x - y
    assert (one < other, one == other, one >= other) == (x < y, x == y, x >= y)
    total = one + other
    if not total.canonical.endswith("i") or abs(total.nano) < 2**63 * 10**9:  # beyond, reading caps
        assert parsed(total.canonical) == total


@settings(deadline=None)
@given(numbers, suffixes)
def test_rounding_to_whole_units_never_gives_less_than_was_asked_for(number: str, suffix: str) -> None:
    amount = parsed(number + suffix)
    assert abs(amount.value()) * 10**9 >= abs(amount.nano) > (abs(amount.value()) - 1) * 10**9
    assert abs(amount.milli_value()) * 10**6 >= abs(amount.nano) > (abs(amount.milli_value()) - 1) * 10**6


@settings(deadline=None)
@given(st.text(max_size=12))
def test_no_text_at_all_makes_the_parser_fail(text: str) -> None:
    read = quantity.parse(text)
    assert isinstance(read, Quantity) or read in (
        quantity.FORMAT_ERROR,
        quantity.SUFFIX_ERROR,
        quantity.NUMERIC_ERROR,
    )
