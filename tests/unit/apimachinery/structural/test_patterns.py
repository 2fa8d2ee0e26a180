"""Patterns of schemas: Go's syntax, Go's complaints, and never more time than the text has letters."""

from __future__ import annotations

import time

import pytest

from headgate.apimachinery.structural.patterns import Pattern, compile_pattern


def found(pattern: str, text: str) -> bool:
    compiled = compile_pattern(pattern)
    assert isinstance(compiled, Pattern), compiled
    return compiled.matches(text)


def test_a_pattern_is_refused_that_takes_long_to_compile() -> None:
    assert found("|".join(f"a{i}" for i in range(5_000)), "a4999")
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
def test_what_go_refuses_is_refused_in_its_words(pattern: str, message: str) -> None:
    assert compile_pattern(pattern) == f"error parsing regexp: {message}"


def test_a_dollar_means_the_end_and_not_a_line_before_it() -> None:
    assert found("^a$", "a")
    assert not found("^a$", "a\n")
    assert found("(?m)^b$", "a\nb")


def test_classes_are_those_of_ascii_unless_they_say_otherwise() -> None:
    assert not found(r"^\w$", "é")
    assert found(r"^\pL$", "é")
    assert not found(r"^\d$", "٣")
    assert found(r"\ba", "éa")


def test_signs_that_mean_something_elsewhere_are_signs_here() -> None:
    assert found("^[a&&b]$", "&")
    assert found("^a{,2}$", "a{,2}")
    assert found(r"^\Qa.b\E$", "a.b")
    assert found("^[[]$", "[")


def test_case_is_folded_as_far_as_go_folds_it() -> None:
    assert found("(?i)^straße$", "STRAßE")
    assert found("(?i)^k$", "\u212a")
    assert not found("(?i)^\\W$", "\u212a")


def test_no_pattern_makes_the_engine_wander() -> None:
    began = time.perf_counter()
    assert not found("(x+x+)+y", "x" * 100_000)
    assert not found("^(a|aa|a?)*$", "a" * 100_000 + "b")
    assert time.perf_counter() - began < 5


def test_surrogates_are_no_characters() -> None:
    assert not found(r"[\x{D800}-\x{DFFF}]", "a\ue000\ud7ff")
    assert found(r"^a\x{D800}*$", "a")
    assert found(r"^[^\x{D800}-\x{DFFF}]$", "a")
    assert found(r"^[^\x{D800}-\x{DFFF}]$", "\n")
    assert found(r"^\x{0000000041}$", "A")
