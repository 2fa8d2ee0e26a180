"""Field selectors: texts and what they select."""

from __future__ import annotations

import pytest

from headgate.apimachinery.field_selectors import EVERYTHING, FieldSelector, parse_field_selector


def selector(text: str) -> FieldSelector:
    parsed = parse_field_selector(text)
    assert isinstance(parsed, FieldSelector), parsed
    return parsed


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("a=b", "a=b"),
        ("a==b", "a=b"),
        ("a!=b", "a!=b"),
        ("b=1,a=2", "a=2,b=1"),
        (",a=b,,", "a=b"),
        ("a=", "a="),
        ("=", ""),
        (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
    ],
)
def test_a_selector_prints_its_terms_in_order(text: str, printed: str) -> None:
    assert str(selector(text)) == printed


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("x", "invalid selector: 'x'; can't understand 'x'"),
        ("a=b,x", "invalid selector: 'a=b,x'; can't understand 'x'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_a_bad_selector_gives_the_api_servers_error(text: str, error: str) -> None:
    assert parse_field_selector(text) == error


def test_a_selector_selects_by_value_and_a_missing_field_is_empty() -> None:
    assert selector("spec.nodeName=").matches({})
    assert selector("spec.nodeName!=n1").matches({"spec.nodeName": "n2"})
    assert not selector("spec.nodeName!=").matches({})
    assert not selector("a=1,b=2").matches({"a": "1"})
    assert selector(r"a=x\,y").matches({"a": "x,y"})
    assert EVERYTHING.matches({})


def test_exact_returns_the_value_that_a_field_must_have() -> None:
    read = selector("metadata.name=x,a!=b")
    assert read.exact("metadata.name") == "x"
    assert read.exact("a") is None
    assert not read.is_everything


def test_a_selector_can_be_rewritten_and_a_term_dropped_or_refused() -> None:
    def rewrite(field: str, value: str) -> tuple[str, str] | str:
        match field:
            case "name":
                return "metadata.name", value
            case "drop":
                return "", ""
            case _:
                return f"field label not supported: {field}"

    assert str(selector("name=x,drop=1").transform(rewrite)) == "metadata.name=x"
    assert selector("name=x,foo=1").transform(rewrite) == "field label not supported: foo"
