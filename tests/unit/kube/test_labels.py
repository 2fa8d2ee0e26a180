"""Label selectors: texts, objects, and what they select."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.kube import labels
from headgate.kube.labels import Selector, from_label_selector, parse_selector


def selector(text: str) -> Selector:
    parsed = parse_selector(text)
    assert isinstance(parsed, Selector), parsed
    return parsed


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("  ", ""),
        ("a", "a"),
        ("!a", "!a"),
        ("a=b", "a=b"),
        ("a==b", "a==b"),
        ("a = b , c != d", "a=b,c!=d"),
        ("a in (y,x)", "a in (x,y)"),
        ("a notin (x)", "a notin (x)"),
        ("a in ()", "a in ()"),
        ("a in (x,,y)", "a in (,x,y)"),
        ("a in (,)", "a in ()"),
        ("a=", "a="),
        ("a=,b", "a=,b"),
        ("a>1,b<2", "a>1,b<2"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("z=1,a=2", "a=2,z=1"),
        ("x.y/z=1", "x.y/z=1"),
    ],
)
def test_a_selector_prints_its_requirements_by_key(text: str, printed: str) -> None:
    assert str(selector(text)) == printed


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (x,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a>x", 'unable to parse requirement: values[0]: Invalid value: "x": '
                "for 'Gt', 'Lt' operators, the value must be an integer"),
    ],
)  # fmt: skip
def test_a_bad_selector_gives_the_api_servers_error(text: str, error: str) -> None:
    assert parse_selector(text) == error


def test_a_bad_key_or_value_is_named_in_the_error() -> None:
    bad_key = parse_selector("-a=b")
    assert isinstance(bad_key, str)
    assert bad_key.startswith('unable to parse requirement: <nil>: Invalid value: "-a": name part must consist of')
    bad_value = parse_selector("a=-b")
    assert isinstance(bad_value, str)
    assert bad_value.startswith('unable to parse requirement: values[0][a]: Invalid value: "-b": a valid label must be')


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("a=1", {"a": "1"}, {"a": "2"}),
        ("a=1", {"a": "1", "b": "2"}, {}),
        ("a!=1", {}, {"a": "1"}),
        ("a!=1", {"a": "2"}, {"a": "1"}),
        ("a in (1,2)", {"a": "2"}, {"a": "3"}),
        ("a notin (1,2)", {"b": "1"}, {"a": "1"}),
        ("a", {"a": ""}, {"b": ""}),
        ("!a", {"b": ""}, {"a": ""}),
        ("a>5", {"a": "6"}, {"a": "5"}),
        ("a<5", {"a": "-6"}, {"a": "x"}),
        ("a>5", {"a": "+7"}, {"a": "99999999999999999999"}),
        ("a=1,b=2", {"a": "1", "b": "2"}, {"a": "1"}),
    ],
)
def test_a_selector_selects(text: str, matching: dict[str, str], other: dict[str, str]) -> None:
    assert selector(text).matches(matching)
    assert not selector(text).matches(other)


def test_an_absent_selector_object_selects_nothing_and_an_empty_one_everything() -> None:
    assert not from_label_selector(None).matches({})
    assert from_label_selector({}).matches({"a": "b"})
    assert from_label_selector({}).is_everything
    assert not labels.NOTHING.is_everything
    assert labels.EVERYTHING.matches(None)


def test_a_selector_object_joins_labels_and_expressions() -> None:
    read = from_label_selector(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "env", "operator": "NotIn", "values": ["dev"]},
                {"key": "new", "operator": "Exists"},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        }
    )
    assert str(read) == "app=web,env notin (dev),new,!old,tier in (a,b)"
    assert read.matches({"app": "web", "tier": "a", "new": ""})
    assert not read.matches({"app": "web", "tier": "a", "new": "", "old": ""})


def test_an_operator_that_does_not_exist_selects_nothing() -> None:
    bad: dict[str, Any] = {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}
    assert not from_label_selector(bad).matches({"a": "b"})


def test_from_set_selects_objects_with_all_labels() -> None:
    assert labels.from_set({"a": "1"}).matches({"a": "1", "b": "2"})
    assert labels.from_set({}).is_everything


@pytest.mark.parametrize(
    ("operator", "values", "path"),
    [
        ("in", [], "p.values"),
        ("=", ["a", "b"], "p.values"),
        ("exists", ["a"], "p.values"),
        ("gt", ["1", "2"], "p.values"),
        ("gt", ["x"], "p.values[0]"),
        ("like", [], "p.operator"),
    ],
)
def test_an_invalid_requirement_is_a_field_error(operator: str, values: list[str], path: str) -> None:
    assert [error.path for error in labels.check_requirement("k", operator, values, "p")] == [path]


def test_the_error_for_an_unknown_operator_lists_all_operators() -> None:
    (error,) = labels.check_requirement("k", "like", ())
    assert str(error) == (
        'operator: Unsupported value: "like": '
        'supported values: "in", "notin", "=", "==", "!=", "gt", "lt", "exists", "!"'
    )
