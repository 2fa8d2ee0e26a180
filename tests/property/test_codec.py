"""The codec against slow, obvious references, on random objects from the schema tables."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.random_objects import TABLES, objects
from headgate.apimachinery.codec import codec
from headgate.kube.serializer.json_decoder import integer_if_whole


@given(objects())
@settings(max_examples=150, deadline=None)
def test_printing_and_reading_undo_each_other(drawn: tuple[str, dict[str, Any]]) -> None:
    name, value = drawn
    before = copy.deepcopy(value)
    normal = codec.convert(TABLES, name, value)
    assert (normal.error, normal.strict_errors) == (None, [])
    printed = codec.wire_form(TABLES, name, normal.obj)
    assert codec.convert(TABLES, name, printed).obj == normal.obj
    assert codec.convert(TABLES, name, normal.obj).obj == normal.obj
    assert codec.wire_form(TABLES, name, printed) == printed
    assert value == before


@given(objects(), st.sampled_from(["foo", "Kind", ""]))
@settings(max_examples=100, deadline=None)
def test_an_unknown_field_is_reported_and_changes_nothing_else(drawn: tuple[str, dict[str, Any]], extra: str) -> None:
    name, value = drawn
    more = codec.convert(TABLES, name, {**value, extra: {"x": 1}})
    assert more.strict_errors == [f'unknown field "{extra}"']
    assert more.obj == codec.convert(TABLES, name, value).obj


class Pairs(list[tuple[str, Any]]):
    """A JSON object with all its keys."""


def json_texts() -> st.SearchStrategy[str]:
    """JSON with repeated keys, odd white space and odd escapes."""
    keys = st.sampled_from(['"a"', '"b"', '"\\u0061"', '"a\\"b"', '"\\\\"', '"é"'])
    leaves = st.sampled_from(["1", "-0", "1.5", "1e3", "null", "true", '"x"', '"\\\\\\""', '"\\n"', '""', "[]", "{}"])
    space = st.sampled_from(["", " ", "\n"])

    def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.lists(st.tuples(keys, space, inner), max_size=3)
        return st.lists(inner, max_size=3).map(lambda items: f"[{' ,'.join(items)}]") | pairs.map(
            lambda items: "{" + ",".join(f"{key}{blank}:{value}" for key, blank, value in items) + "}"
        )

    return st.recursive(leaves, nested, max_leaves=12)


def last_wins(value: Any) -> Any:
    if isinstance(value, Pairs):
        return {key: last_wins(item) for key, item in value}
    return [last_wins(item) for item in value] if isinstance(value, list) else value


def repeated(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Pairs):
        for index, (key, item) in enumerate(value):
            inner = f"{path}.{key}" if path else key
            if key in [earlier for earlier, _ in value[:index]]:
                yield inner
            yield from repeated(item, inner)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from repeated(item, f"{path}[{index}]")


@given(json_texts())
@settings(max_examples=200, deadline=None)
def test_repeated_keys_are_found_however_they_are_written(text: str) -> None:
    reference = json.loads(text, object_pairs_hook=Pairs)
    parsed = codec.decode_json(text.encode())
    assert parsed.value == last_wins(reference)
    paths = [json.dumps(path, ensure_ascii=False) for path in dict.fromkeys(repeated(reference, ""))]
    assert list(parsed.duplicate_errors) == [f"duplicate field {path}" for path in paths]


@given(json_texts(), st.integers(0, 80), st.binary(max_size=3), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_either_a_value_or_an_error(text: str, at: int, insert: bytes, delete: int) -> None:
    body = text.encode()
    body = body[:at] + insert + body[at + delete :]
    parsed = codec.decode_json(body)
    try:
        json.loads(body.decode("utf-8", "replace"), parse_constant=_refuse)
    except ValueError:
        assert parsed.error
        assert not parsed.error.startswith("invalid JSON: ")  # the scanner found the offence
    else:
        assert parsed.error is None


def _refuse(name: str) -> None:
    raise ValueError(name)


@given(json_texts())
@settings(max_examples=200, deadline=None)
def test_json_means_the_same_when_the_events_of_yaml_are_put_together(text: str) -> None:
    def rounded(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rounded(item) for key, item in value.items()}
        if isinstance(value, list):
            return [rounded(item) for item in value]
        return integer_if_whole(value) if isinstance(value, float) else value

    body = text.replace("\n", " ").encode()  # in YAML a key and its colon stand on one line
    assert codec.decode_yaml(b"---\n" + body).value == rounded(codec.decode_json(body).value)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%@, \n\t\x00é01.<", max_size=40))
@settings(max_examples=200, deadline=None)
def test_no_text_makes_the_yaml_reader_raise(text: str) -> None:
    parsed = codec.decode_yaml(text.encode())
    assert parsed.error is None or parsed.value is None
