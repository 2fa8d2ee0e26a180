"""Quantities, case by case. Random ones against exact fractions are in ``tests/property/test_quantity.py``."""

from __future__ import annotations

import pytest

from headgate.kube import quantity
from headgate.kube.quantity import FORMAT_ERROR, NUMERIC_ERROR, SUFFIX_ERROR, Format, Quantity


def q(text: str | int | float) -> Quantity:
    parsed = quantity.parse(text)
    assert isinstance(parsed, Quantity), parsed
    return parsed


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Ki", "0"),
        ("-0", "0"),
        ("0.0", "0"),
        ("1000m", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("0.001", "1m"),
        ("1.5", "1500m"),
        ("100000", "100k"),
        ("1000", "1k"),
        ("12345", "12345"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("8Ki", "8Ki"),
        ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"),
        ("1e3", "1e3"),
        ("10e2", "1e3"),
        ("1E6", "1E6"),
        ("1E", "1E"),
        ("100e-5", "1e-3"),
        ("-1.5", "-1500m"),
        ("-1024Ki", "-1Mi"),
        ("1000000u", "1"),
        ("1G", "1G"),
        ("1000T", "1P"),
    ],
)
def test_the_canonical_form_has_the_largest_suffix_without_a_fraction(text: str, canonical: str) -> None:
    assert q(text).canonical == canonical


@pytest.mark.parametrize("text", ["01", "+1", "1.", "1.500", "001Ki", "1e+3", "+5Gi", "1E3"])
def test_a_text_that_is_canonical_in_value_is_kept_as_it_was_written(text: str) -> None:
    assert q(text).canonical == text


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("1", "DecimalSI"),
        ("1k", "DecimalSI"),
        ("1Ki", "BinarySI"),
        ("1e3", "DecimalExponent"),
        ("0.1Ki", "BinarySI"),
        ("0.0001Ki", "DecimalSI"),
    ],
)
def test_the_format_is_the_one_of_the_text_unless_it_is_too_small_for_binary(text: str, format: Format) -> None:
    assert q(text).format == format


@pytest.mark.parametrize(
    ("text", "canonical"), [("0.1n", "1n"), ("1e-10", "1e-9"), ("0.0000000001", "1n"), ("-0.1n", "-1n")]
)
def test_fractions_of_a_nano_unit_are_rounded_away_from_zero(text: str, canonical: str) -> None:
    assert q(text).canonical == canonical


@pytest.mark.parametrize("text", ["9Ei", "100Ei", "9223372036854775808Ki"])
def test_binary_amounts_are_capped_at_what_64_bits_hold(text: str) -> None:
    assert q(text).canonical == "9223372036854775807"
    assert q(f"-{text}").canonical == "-9223372036854775807"


@pytest.mark.parametrize("text", ["1e1000000000", "9e2147483647", "1" * 4000, "1e-1000000000", "0." + "1" * 3000])
def test_very_large_exponents_and_lengths_are_cheap_and_safe(text: str) -> None:
    parsed = q(text)
    assert parsed.nano > 0
    assert parsed.canonical
    assert (parsed + parsed).nano == 2 * parsed.nano


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", FORMAT_ERROR),
        ("abc", FORMAT_ERROR),
        ("1 Gi", FORMAT_ERROR),
        ("1.2.3", FORMAT_ERROR),
        ("1e5m", FORMAT_ERROR),
        ("１", FORMAT_ERROR),
        ("1mm", SUFFIX_ERROR),
        ("1K", SUFFIX_ERROR),
        ("1e", SUFFIX_ERROR),
        ("1-5", SUFFIX_ERROR),
        ("--1", SUFFIX_ERROR),
        ("1e99999999999999999999", SUFFIX_ERROR),
        ("Pi", NUMERIC_ERROR),
        ("1" * 4001, NUMERIC_ERROR),
    ],
)
def test_a_bad_text_gives_the_api_servers_error(text: str, error: str) -> None:
    assert quantity.parse(text) == error


def test_json_numbers_and_surrounding_blanks_are_read_too() -> None:
    assert q(5).canonical == "5"
    assert q(-1000).canonical == "-1k"
    assert q(0.1).canonical == "100m"
    assert q("  1Gi ").canonical == "1Gi"
    assert quantity.parse(True) == FORMAT_ERROR


def test_amounts_compare_by_value_whatever_their_format() -> None:
    assert q("1Gi") == q("1024Mi") == q("1073741824")
    assert hash(q("1")) == hash(q("1000m"))
    assert q("1G") < q("1Gi") <= q("1Gi") > q("999M")
    assert q("1") != "1"


def test_a_sum_keeps_the_format_of_its_first_amount_that_is_not_zero() -> None:
    assert (q("1Gi") + q("1G")).canonical == "2073741824"
    assert (q("1Gi") + q("512Mi")).canonical == "1536Mi"
    assert (q("0") + q("1Gi")).canonical == "1Gi"
    assert (q("1") - q("100m")).canonical == "900m"
    assert (-q("1Ki")).canonical == "-1Ki"


def test_whole_units_and_thousandths_are_rounded_away_from_zero() -> None:
    assert (q("1.1").value(), q("-1.1").value(), q("2").value()) == (2, -2, 2)
    assert (q("1.0001").milli_value(), q("-0.0001").milli_value(), q("1500m").milli_value()) == (1001, -1, 1500)


def test_defaulting_keeps_nothing_finer_than_a_thousandth() -> None:
    assert q("1.00001").round_up_to_milli().canonical == "1001m"
    assert q("+1").round_up_to_milli().canonical == "+1"


def test_amount_of_an_invalid_text_is_zero() -> None:
    assert quantity.amount("junk") == quantity.ZERO
    assert quantity.amount("1") == quantity.of_units(1) == quantity.of_milli(1000)
    assert not quantity.ZERO


def test_a_decimal_beyond_the_suffixes_keeps_its_size() -> None:
    assert q("1000E").canonical == "1000E"
    assert q(q("5000000E").canonical) == q("5000000E")
