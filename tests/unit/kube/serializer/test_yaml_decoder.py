"""Decoding of YAML. Every value and error text is that of kube-apiserver v1.35.8 for the same bytes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from headgate.kube.serializer.json_decoder import MAX_JSON_VALUES
from headgate.kube.serializer.yaml_decoder import _Builder, decode_yaml, second_document_line
from sort_keys import unsorted_map


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: yes", True),
        ("a: on", True),
        ("a: n", False),
        ("a:", None),
        ("a: ~", None),
        ("a: 1.5", 1.5),
        ("a: 1e3", 1000),
        ("a: 0x10", 16),
        ("a: -0x10", -16),
        ("a: 0o17", 15),
        ("a: 017", 15),
        ("a: 08", 8),
        ("a: 0b11", 3),
        ("a: 1_000", 1000),
        ("a: +5", 5),
        ("a: 12345678901234567890", 12345678901234567890),
        ("a: 123456789012345678901234567890", 1.2345678901234568e29),
        ("a: 1e999", "1e999"),
        ("a: 2020-01-01", "2020-01-01"),
        ("a: 1:30", "1:30"),
        ("a: !!str 5", "5"),
        ("a: !!float 1", 1),
        ("a: !!binary aGk=", "hi"),
        ("a: !foo x", "x"),
        ("a: |\n  x\n  y\n", "x\ny\n"),
        ('a: "\\x41"', "A"),
        ("b: &x {c: d}\na: *x", {"c": "d"}),
        ("a: {<<: {b: 1}, c: 2}", {"b": 1, "c": 2}),
        ("a: {1: w, 1.5: x, yes: v, 1e3: z}", {"1": "w", "1.5": "x", "1000": "z", "true": "v"}),
    ],
)
def test_scalars_are_resolved_as_by_the_api_server(text: str, value: Any) -> None:
    found = decode_yaml(text.encode()).value["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"a: *x", "yaml: unknown anchor 'x' referenced"),
        (b"&a [*a]", "yaml: anchor 'a' value contains itself"),
        (b"<<: 5", "yaml: map merge requires map or sequence of maps as the value"),
        (b"a: .inf", "json: unsupported value: +Inf"),
        (b"a: .nan", "json: unsupported value: NaN"),
        (b"x:\n  a: @x", "yaml: line 2: found character that cannot start any token"),
        (b"a: b\n c: d\n", "yaml: line 2: mapping values are not allowed in this context"),
        (b"a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
        (b"a: !!binary a@k=", "yaml: !!binary value contains invalid base64 data"),
        (b"%FOO\n", "yaml: found unknown directive name"),
        (b"\x00", "yaml: control characters are not allowed"),
        (b'a: "\xff"', "yaml: invalid leading UTF-8 octet"),
    ],
)
def test_invalid_documents_give_the_error_of_the_api_server(body: bytes, text: str) -> None:
    assert decode_yaml(body).error == text


@pytest.mark.parametrize(
    ("body", "beginning"),
    [(b"[1]: x", "yaml: invalid map key: "), (b"~: x", "unsupported map key of type: %!s(<nil>), key: <nil>")],
)
def test_keys_that_are_not_scalars_are_rejected(body: bytes, beginning: str) -> None:
    assert (decode_yaml(body).error or "").startswith(beginning)


@pytest.mark.parametrize("body", [b"", b"---\n", b"# nothing\n", b"--- \n---\n"])
def test_an_empty_document_is_null(body: bytes) -> None:
    parsed = decode_yaml(body)
    assert (parsed.value, parsed.error) == (None, None)


@pytest.mark.parametrize("second", [b"---\nfoo: [", b"...\nfoo: ["])
def test_only_the_first_document_counts(second: bytes) -> None:
    assert decode_yaml(b"a: 1\n" + second).value == {"a": 1}


def test_repeated_keys_are_reported_with_their_lines_and_the_last_one_wins() -> None:
    parsed = decode_yaml(b"zeta: 1\nfoo: 2\ndata:\n  a: x\n  a: z\nfoo: 3\n")
    assert parsed.duplicate_errors == ('line 5: key "a" already set in map', 'line 6: key "foo" already set in map')
    assert parsed.value == {"data": {"a": "z"}, "foo": 3, "zeta": 1}
    assert list(parsed.value) == ["data", "foo", "zeta"]


MERGES = b"base: &base {a: 1, b: 2}\nafter:\n  <<: *base\n  a: 3\nbefore:\n  a: 3\n  <<: *base\n"


def test_a_merged_key_counts_as_set_as_in_the_api_server() -> None:
    parsed = decode_yaml(MERGES)
    assert parsed.duplicate_errors == ('line 4: key "a" already set in map', 'line 7: key "a" already set in map')
    assert parsed.value["after"] == {"a": 3, "b": 2}
    assert parsed.value["before"] == {"a": 1, "b": 2}


def test_own_keys_override_merged_ones_on_request() -> None:
    parsed = decode_yaml(MERGES, keys_override_merged=True)
    assert parsed.duplicate_errors == ()
    assert parsed.value["after"] == parsed.value["before"] == {"a": 3, "b": 2}
    lists = b"x: {<<: [{a: 1}, {a: 2, b: 2}], b: 3}\nk: {<<: {'1': m}, 1: own}\nz: {1: own, <<: {'1': m}}\n"
    found = decode_yaml(lists, keys_override_merged=True)
    assert found.value == {"x": {"a": 1, "b": 3}, "k": {"1": "own"}, "z": {"1": "own"}}
    repeated = decode_yaml(b"x:\n  <<: {a: 1}\n  a: 2\n  a: 3\n", keys_override_merged=True)
    assert repeated.duplicate_errors == ('line 4: key "a" already set in map',)


def test_json_is_decoded_as_yaml() -> None:
    assert decode_yaml(b'{\n\t"a": 1.0, "b": [2e2]\n}').value == {"a": 1, "b": [200]}
    assert decode_yaml(b'{"a":1,"a":2}').duplicate_errors == ('line 1: key "a" already set in map',)


def test_aliases_cannot_make_a_short_text_a_large_value() -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{each}: &a{each} [{','.join([f'*a{each - 1}'] * 9)}]" for each in range(1, 9)]
    assert decode_yaml("\n".join(lines).encode()).error == "yaml: document contains excessive aliasing"


def test_depth_is_limited_with_aliases_expanded() -> None:
    assert decode_yaml(b"[" * 20_000).error == "yaml: exceeded max depth of 250"
    chain = ["a0: &a0 [x]", *(f"a{each}: &a{each} [*a{each - 1}]" for each in range(1, 280))]
    assert decode_yaml("\n".join(chain).encode()).error == "yaml: exceeded max depth of 250"


def test_the_number_of_nodes_is_limited() -> None:
    assert decode_yaml(b"- [" + b"1," * 80_000 + b"1]").error is None
    assert "more than" in (decode_yaml(b"- [" + b"1," * MAX_JSON_VALUES + b"1]").error or "")


def test_the_keys_of_a_map_are_sorted_without_their_values() -> None:
    builder = _Builder()
    builder.add_event(yaml.MappingStartEvent(None, None, True))
    for key, value in unsorted_map("x").items():
        builder.add_event(yaml.ScalarEvent(None, None, (False, True), key))
        builder.add_event(yaml.ScalarEvent(None, None, (False, True), value))
    builder.add_event(yaml.MappingEndEvent())
    assert list(builder.root) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 0),
        ("a: 1\n", 0),
        ("---\na: 1\n...\n", 0),
        ("a: 1\n---\n", 0),
        ("a: 1\n---\n# nothing\n---\n", 0),
        ('{"a": 1}', 0),
        ("a: 1\n---\nb: 2\n", 3),
        ("---\n---\nb: 2\n", 3),
        ("a: 1\n---\n\n- b\n", 4),
        ("a: 1\n---\nb: [\n", 3),
        ("a: 1\n---\n''\n", 3),
        ("a: [\n", 0),
    ],
)
def test_the_line_of_a_second_document_with_content(text: str, line: int) -> None:
    assert second_document_line(text.encode()) == line
