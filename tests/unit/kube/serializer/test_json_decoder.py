"""Decoding of JSON. Every error text is that of kube-apiserver v1.35.8 for the same bytes."""

from __future__ import annotations

import pytest

from headgate.kube.serializer.json_decoder import (
    MAX_JSON_VALUES,
    MAX_UNCOUNTED_BYTES,
    TOO_MANY_JSON_VALUES,
    DuplicateKeysObject,
    NumberLiteral,
    decode_json,
)
from headgate.kube.serializer.json_syntax import MAX_DEPTH


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b'{"a"', "unexpected end of JSON input"),
        (b'{"a":}', "invalid character '}' looking for beginning of value"),
        (b'{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
        (b"nul", "invalid character ' ' in literal null (expecting 'l')"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b'{"a":01}', "invalid character '1' after object key:value pair"),
        (b'{"a":1.}', "invalid character '}' after decimal point in numeric literal"),
        (b'{"a":-}', "invalid character '}' in numeric literal"),
        (b'{"a":1e}', "invalid character '}' in exponent of numeric literal"),
        (b'{"a":"\\x"}', "invalid character 'x' in string escape code"),
        (b'{"a":"\\u12g4"}', "invalid character 'g' in \\u hexadecimal character escape"),
        (b'{"a":"\n"}', "invalid character '\\n' in string literal"),
        (b"{}{}", "invalid character '{' after top-level value"),
        (b"\xef\xbb\xbf{}", "invalid character 'ï' looking for beginning of value"),
        (b"\xff{}", "invalid character 'ÿ' looking for beginning of value"),
        (b"{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
        (b"NaN", "invalid character 'N' looking for beginning of value"),
        (b'{"a":Infinity}', "invalid character 'I' looking for beginning of value"),
        (b'{"a":1e999}', "json: cannot unmarshal number 1e999 into Go value of type float64"),
    ],
)
def test_malformed_input_gives_the_error_of_the_api_server(body: bytes, text: str) -> None:
    assert decode_json(body).error == text


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth_is_limited(opening: bytes, closing: bytes) -> None:
    assert decode_json(opening * MAX_DEPTH + b"1" + closing * MAX_DEPTH).error is None
    for depth in (MAX_DEPTH + 1, 5_000):
        error = decode_json(opening * depth + b"1" + closing * depth).error
        assert error == f"invalid character '{opening[:1].decode()}' exceeded max depth"
    assert decode_json(opening * 100_000 + b"1" + closing * 100_000).error == "exceeded max depth"


def test_a_large_malformed_body_gets_a_generic_error() -> None:
    error = decode_json(b"[" + b"1," * 100_000).error
    assert error is not None
    assert error.startswith("invalid JSON: ")


def test_invalid_utf8_is_replaced_byte_by_byte() -> None:
    body = b'{"a":"\xff\xe4\xbd z\\ud800 \\ud83d\\ude00 \xed\xa0\x80 \\\\ud800"}'
    assert decode_json(body).value == {"a": "��� z� 😀 ��� \\ud800"}


def test_repeated_keys_are_reported_once_with_their_path_in_document_order() -> None:
    parsed = decode_json(b'{"m":{"l":{"a":"b","a":"c","\\u0061":"d"},"f":1,"f":2},"z":[{"q":1,"q":{"y":1,"y":1}}]}')
    assert parsed.duplicate_errors == (
        'duplicate field "m.l.a"',
        'duplicate field "m.f"',
        'duplicate field "z[0].q"',
        'duplicate field "z[0].q.y"',
    )
    assert parsed.value == {"m": {"l": {"a": "d"}, "f": 2}, "z": [{"q": {"y": 1}}]}
    assert isinstance(parsed.value["m"]["l"], DuplicateKeysObject)


@pytest.mark.parametrize("body", [b'{"a":"\\"a\\":\\\\"}', b' { "a" : [ "x" , { } ] }\n', b'{"a":"\\u003c"}', b"null"])
def test_unusual_spelling_is_not_reported_as_a_repeated_key(body: bytes) -> None:
    parsed = decode_json(body)
    assert (parsed.duplicate_errors, parsed.error) == ((), None)


def test_at_most_a_hundred_repeated_keys_are_reported() -> None:
    body = b"{" + b",".join(b'"k%d":1,"k%d":1' % (each, each) for each in range(200)) + b"}"
    assert len(decode_json(body).duplicate_errors) == 100


def test_numbers_keep_their_spelling_only_on_request() -> None:
    body = b'{"a":1e3,"b":1.50,"c":1.5,"d":12345678901234567890123}'
    plain, literal = decode_json(body).value, decode_json(body, numbers="literal").value
    assert plain == literal == {"a": 1000.0, "b": 1.5, "c": 1.5, "d": 12345678901234567890123}
    assert [type(each) for each in plain.values()] == [float, float, float, int]
    assert [getattr(each, "text", None) for each in literal.values()] == ["1e3", "1.50", None, None]
    assert isinstance(literal["a"], NumberLiteral)


def test_whole_floats_become_integers_on_request() -> None:
    value = decode_json(b"[1.0,1e3,1.5,1e21,123456789012345678901.0]", numbers="whole").value
    assert value == [1, 1000, 1.5, 1e21, 123456789012345680000]
    assert [type(each) for each in value] == [int, int, float, float, int]


def test_an_integer_of_any_length_is_read() -> None:
    assert decode_json(b"1" * 5000).error is not None  # too large for a float
    assert decode_json(b"0." + b"1" * 5000).value == pytest.approx(1 / 9)


_LONG = b" " * MAX_UNCOUNTED_BYTES


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b",".join([b"1"] * (MAX_JSON_VALUES + 1)) + b"]",
        b"[" + b",".join([b"[]"] * MAX_JSON_VALUES) + b"]",
        b"{" + b",".join(b'"%d":""' % number for number in range(MAX_JSON_VALUES)) + b"}",
        b'{"a":"\\"","b":[' + b",".join([b"1"] * MAX_JSON_VALUES) + b"]}",
    ],
)
def test_a_long_document_of_too_many_nodes_is_refused_and_a_short_one_is_read(body: bytes) -> None:
    assert decode_json(body + _LONG).error == TOO_MANY_JSON_VALUES
    if len(body) <= MAX_UNCOUNTED_BYTES:
        assert decode_json(body).error is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":"' + b",:[{" * MAX_JSON_VALUES + b'"}',
        b'{"a":"' + b'\\",' * MAX_JSON_VALUES + b'"}',
        b"[" + b",".join([b'"[{,:"'] * (MAX_JSON_VALUES // 2)) + b"]",
        b"[" + b",".join([b"1"] * (MAX_JSON_VALUES - 10)) + b"]",
    ],
)
def test_tokens_in_strings_are_not_nodes(body: bytes) -> None:
    assert decode_json(body + _LONG).error is None


def test_the_node_limit_does_not_change_the_errors_of_malformed_documents() -> None:
    assert "invalid JSON" in (decode_json(b'{"a":"' + b"," * MAX_JSON_VALUES + _LONG).error or "")
