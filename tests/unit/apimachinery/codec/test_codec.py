"""The kind of a body, and the errors of strict decoding as an error and as warnings."""

from __future__ import annotations

import pytest

from headgate.apimachinery.codec import codec
from headgate.kube.schema import GroupVersionKind, Schemas

PARSE = "couldn't get version/kind; json parse error: "
STRUCT = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", ("", "", "")),
        (b"null", ("", "", "")),
        (b'{"kind":"Pod","apiVersion":"v1"}', ("", "v1", "Pod")),
        (b'{"kind":"Job","apiVersion":"batch/v1"}', ("batch", "v1", "Job")),
        (b'{"Kind":"Foo","APIVERSION":"v1"}', ("", "v1", "Foo")),
        (b'{"kind":null,"apiVersion":"/"}', ("", "", "")),
        (b'{"apiVersion":"a/b/c"}', "unexpected GroupVersion string: a/b/c"),
        (b"{", PARSE + "unexpected end of JSON input"),
        (b"[]", PARSE + "json: cannot unmarshal array into Go value of type " + STRUCT),
        (b'"x"', PARSE + "json: cannot unmarshal string into Go value of type " + STRUCT),
        (b'{"kind":5}', PARSE + "json: cannot unmarshal number into Go struct field .kind of type string"),
        (
            b'{"apiVersion":[],"kind":5}',
            PARSE + "json: cannot unmarshal array into Go struct field .apiVersion of type string",
        ),
    ],
)
def test_interpret_returns_the_kind_of_a_body(body: bytes, expected: str | tuple[str, str, str]) -> None:
    assert codec.interpret(codec.decode_json(body)) == expected


def test_the_error_for_invalid_yaml_does_not_mention_json() -> None:
    assert codec.interpret(codec.decode_yaml(b"&a [*a]")) == "yaml: anchor 'a' value contains itself"


def decoded(tables: Schemas, parsed: codec.ParsedBody) -> codec.Decoded:
    return codec.convert(tables, tables.kinds[GroupVersionKind("", "v1", "ConfigMap")], parsed.value)


def test_repeated_keys_in_yaml_are_one_error_but_several_warnings(tables: Schemas) -> None:
    parsed = codec.decode_yaml(b"zeta: 1\nfoo: 2\ndata:\n  a: x\n  a: z\nfoo: 2\n")
    lines = ['line 5: key "a" already set in map', 'line 6: key "foo" already set in map']
    unknown = ['unknown field "foo"', 'unknown field "zeta"']
    assert codec.strict_decoding_warnings(parsed, decoded(tables, parsed)) == lines + unknown
    assert codec.strict_decoding_error(parsed, decoded(tables, parsed)) == (
        "strict decoding error: yaml: unmarshal errors:\n"
        '  line 5: key "a" already set in map\n'
        '  line 6: key "foo" already set in map, unknown field "foo", unknown field "zeta"'
    )


def test_repeated_keys_in_json_are_reported_once_and_not_in_unknown_fields(tables: Schemas) -> None:
    parsed = codec.decode_json(b'{"data":{"a":"1","a":"2"},"foo":{"b":1,"b":2}}')
    messages = ['duplicate field "data.a"', 'unknown field "foo"']
    assert codec.strict_decoding_warnings(parsed, decoded(tables, parsed)) == messages
    assert codec.strict_decoding_error(parsed, decoded(tables, parsed)) == "strict decoding error: " + ", ".join(
        messages
    )


def test_a_clean_body_gives_no_error(tables: Schemas) -> None:
    parsed = codec.decode_json(b'{"data":{"a":"1"}}')
    assert codec.strict_decoding_error(parsed, decoded(tables, parsed)) == ""
