"""The static token file."""

from __future__ import annotations

import pytest

from headgate.apiserver.authn.token_file import parse_token_file
from headgate.apiserver.authn.user import UserInfo


def test_each_line_is_a_user() -> None:
    text = 'abc,alice,1\ndef,bob,2,"readers,writers"\n\nghi,"carol, the third",3,one\n'
    assert parse_token_file(text) == {
        "abc": UserInfo("alice", (), "1"),
        "def": UserInfo("bob", ("readers", "writers"), "2"),
        "ghi": UserInfo("carol, the third", ("one",), "3"),
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("abc,alice\n", "line 1 must have at least 3 columns (token, user name, user uid), found 2"),
        ("a,b,c\n,bob,2\n", "line 2 has no token"),
        ("abc,,2\n", "line 1 has no user name"),
    ],
)
def test_a_line_without_a_user_is_reported(text: str, problem: str) -> None:
    assert parse_token_file(text) == problem


def test_an_open_quote_is_reported() -> None:
    assert isinstance(parse_token_file('a,"b,c\n'), str)
