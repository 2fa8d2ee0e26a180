"""Sessions: a cookie stands for a token that was posted once."""

from __future__ import annotations

import json

from headgate.dashboard.sessions import LASTS_S, Sessions, is_same, operator_token, read_login


def test_a_session_stands_for_its_token_until_it_ends() -> None:
    sessions = Sessions("headgate-1", is_secure=False)
    header = sessions.begin("id", "token", 0.0)
    assert "HttpOnly; SameSite=Strict" in header
    headers = {"cookie": "other=1; headgate-1=id"}
    assert sessions.find_token(headers, 1.0) == "token"
    assert sessions.find_token(headers, LASTS_S + 1) == ""
    assert "Max-Age=0" in sessions.end(headers)
    assert sessions.find_token(headers, 1.0) == ""


def test_a_cookie_of_another_port_is_not_used() -> None:
    sessions = Sessions("headgate-1", is_secure=False)
    sessions.begin("id", "token", 0.0)
    assert sessions.find_token({"cookie": "headgate-2=id"}, 1.0) == ""


def test_a_bearer_token_needs_no_session() -> None:
    sessions = Sessions("headgate-1", is_secure=True)
    assert sessions.find_token({"authorization": "Bearer abc "}, 0.0) == "abc"
    assert sessions.find_token({"authorization": "Basic abc"}, 0.0) == ""
    assert sessions.begin("id", "t", 0.0).endswith("; Secure")


def test_the_oldest_session_makes_room() -> None:
    sessions = Sessions("c", is_secure=False)
    for number in range(300):
        sessions.begin(str(number), "token", 0.0)
    assert sessions.find_token({"cookie": "c=0"}, 1.0) == ""
    assert sessions.find_token({"cookie": "c=299"}, 1.0) == "token"


def test_only_a_login_is_read_as_one() -> None:
    assert read_login(json.dumps({"token": " abc "}).encode()) == "abc"
    for body in (b"", b"token=abc", b"[]", b'{"token": 1}', json.dumps({"token": "x" * 20_000}).encode()):
        assert read_login(body) == ""


def test_secrets_are_compared_as_a_whole() -> None:
    assert is_same("a", "a")
    assert not is_same("a", "ä")


def test_the_operators_session_is_valid_for_the_next_process() -> None:
    token = operator_token("secret")
    header = Sessions("c", is_secure=False, operator_token=token).begin("id", token, 0.0)
    assert token not in header
    headers = {"cookie": header.split(";")[0]}
    again = Sessions("c", is_secure=False, operator_token=operator_token("secret"))
    assert again.find_token(headers, 1.0) == token
    assert again.find_token(headers, LASTS_S + 1) == ""
    assert Sessions("c", is_secure=False, operator_token=operator_token("other")).find_token(headers, 1.0) == ""
    assert Sessions("c", is_secure=False).find_token(headers, 1.0) == ""


def test_a_changed_session_of_the_operator_is_not_valid() -> None:
    token = operator_token("secret")
    sessions = Sessions("c", is_secure=False, operator_token=token)
    value = sessions.begin("id", token, 0.0).split(";")[0].removeprefix("c=")
    name, until, id_, signature = value.split(".")
    for changed in (f"{name}.{int(until) + 1}.{id_}.{signature}", f"{name}.{until}.{id_}", f".{signature}", "é", "..."):
        assert sessions.find_token({"cookie": f"c={changed}"}, 1.0) == ""


def test_an_ended_session_of_the_operator_is_not_used_again() -> None:
    token = operator_token("secret")
    sessions = Sessions("c", is_secure=False, operator_token=token)
    headers = {"cookie": sessions.begin("id", token, 0.0).split(";")[0]}
    assert "Max-Age=0" in sessions.end(headers)
    assert sessions.find_token(headers, 1.0) == ""
