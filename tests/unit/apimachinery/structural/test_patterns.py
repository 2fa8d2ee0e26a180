"""Patterns of schemas: Go's syntax, Go's errors, and matching in linear time."""

from __future__ import annotations

import time

import pytest

from headgate.apimachinery.structural.patterns import Pattern, compile_pattern


def matches(pattern: str, text: str) -> bool:
    compiled = compile_pattern(pattern)
    assert isinstance(compiled, Pattern), compiled
    return compiled.matches(text)


def test_a_pattern_that_is_too_large_is_rejected() -> None:
    assert matches("|".join(f"a{i}" for i in range(5_000)), "a4999")
    long = "|".join(f"a{i}" for i in range(100_000))
    assert compile_pattern(long) == f"error parsing regexp: expression too large: `{long}`"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "missing closing ): `(`"),
        (")", "unexpected ): `)`"),
        ("[a", "missing closing ]: `[a`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:none:]]", "invalid character class range: `[:none:]`"),
        (r"\p{None}", r"invalid character class range: `\p{None}`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\x{1100000}", r"invalid escape sequence: `\x{110000`"),
        (r"\x{}", r"invalid escape sequence: `\x{}`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
    ],
)
def test_an_invalid_pattern_gives_the_error_of_go(pattern: str, message: str) -> None:
    assert compile_pattern(pattern) == f"error parsing regexp: {message}"


def test_a_dollar_matches_only_the_end_of_the_text() -> None:
    assert matches("^a$", "a")
    assert not matches("^a$", "a\n")
    assert matches("(?m)^b$", "a\nb")


def test_perl_classes_are_ascii() -> None:
    assert not matches(r"^\w$", "é")
    assert matches(r"^\pL$", "é")
    assert not matches(r"^\d$", "٣")
    assert matches(r"\ba", "éa")


def test_characters_that_are_special_only_in_rust_are_literals() -> None:
    assert matches("^[a&&b]$", "&")
    assert matches("^a{,2}$", "a{,2}")
    assert matches(r"^\Qa.b\E$", "a.b")
    assert matches("^[[]$", "[")


def test_case_is_folded_as_far_as_go_folds_it() -> None:
    assert matches("(?i)^straße$", "STRAßE")
    assert matches("(?i)^k$", "\u212a")
    assert not matches("(?i)^\\W$", "\u212a")


def test_matching_takes_linear_time() -> None:
    began = time.perf_counter()
    assert not matches("(x+x+)+y", "x" * 100_000)
    assert not matches("^(a|aa|a?)*$", "a" * 100_000 + "b")
    assert time.perf_counter() - began < 5


def test_surrogates_are_no_characters() -> None:
    assert not matches(r"[\x{D800}-\x{DFFF}]", "a\ue000\ud7ff")
    assert matches(r"^a\x{D800}*$", "a")
    assert matches(r"^[^\x{D800}-\x{DFFF}]$", "a")
    assert matches(r"^[^\x{D800}-\x{DFFF}]$", "\n")
    assert matches(r"^\x{0000000041}$", "A")
