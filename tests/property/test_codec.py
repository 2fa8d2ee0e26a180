"""The codec against slow, obvious references, on objects drawn from the tables themselves."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import schemas
from headgate.kube import codec
from headgate.kube.json_text import whole
from headgate.kube.schema import Schemas, Type

TABLES = Schemas.load(schemas.read())
KINDS = sorted(set(TABLES.kinds.values()))

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", "é", '"\\', "x y"]),
    "bool": st.booleans(),
    "int32": st.sampled_from([0, 1, -1, 2**31 - 1]),
    "int64": st.sampled_from([0, 7, -(2**63)]),
    "bytes": st.sampled_from(["", "aGk=", "AAAA"]),
    "quantity": st.sampled_from(["0", "100m", "1Gi", "1.5", 1, 0.5, "1e3"]),
    "time": st.sampled_from(["2020-01-01T00:00:00Z", "2020-06-30T23:59:59.9+05:30", "0001-01-01T00:00:00Z"]),
    "microtime": st.sampled_from(["2020-01-01T00:00:00.000000Z", "2020-06-30T23:59:59.123456-08:00"]),
    "intorstring": st.sampled_from([0, 80, "http", "", "50%"]),
    "raw": st.sampled_from([{}, {"a": [1, {"b": None}]}, [], 5, "x", True]),
}


def values(type: Type, depth: int) -> st.SearchStrategy[Any]:
    if type.kind == "struct":
        return structs(type.ref, depth)
    if type.items is not None:
        items = st.none() | values(type.items, depth - 1)
        if type.kind == "list":
            return st.lists(items, max_size=2)
        return st.dictionaries(st.sampled_from(["a", "b/c", ""]), items, max_size=2)
    return SCALARS[type.kind]


@st.composite
def structs(draw: st.DrawFn, name: str, depth: int = 5) -> dict[str, Any]:
    fields = TABLES.types[name].fields
    if depth <= 0 or not fields:
        return {}
    chosen = draw(st.lists(st.sampled_from(fields), max_size=4, unique_by=lambda each: each.name))
    return {each.name: draw(st.none() | values(each.type, depth - 1)) for each in chosen}


@st.composite
def objects(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    name = draw(st.sampled_from(KINDS))
    return name, draw(structs(name))


@given(objects())
@settings(max_examples=150, deadline=None)
def test_printing_and_reading_undo_each_other(drawn: tuple[str, dict[str, Any]]) -> None:
    name, value = drawn
    before = copy.deepcopy(value)
    normal = codec.convert(TABLES, name, value)
    assert (normal.error, normal.unknown) == (None, [])
    printed = codec.emit(TABLES, name, normal.obj)
    assert codec.convert(TABLES, name, printed).obj == normal.obj
    assert codec.convert(TABLES, name, normal.obj).obj == normal.obj
    assert codec.emit(TABLES, name, printed) == printed
    assert value == before


@given(objects(), st.sampled_from(["foo", "Kind", ""]))
@settings(max_examples=100, deadline=None)
def test_an_unknown_field_is_told_and_changes_nothing_else(drawn: tuple[str, dict[str, Any]], extra: str) -> None:
    name, value = drawn
    more = codec.convert(TABLES, name, {**value, extra: {"x": 1}})
    assert more.unknown == [f'unknown field "{extra}"']
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
    assert list(parsed.duplicates) == [f"duplicate field {path}" for path in paths]


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
        return whole(value) if isinstance(value, float) else value

    body = text.replace("\n", " ").encode()  # in YAML a key and its colon stand on one line
    assert codec.decode_yaml(b"---\n" + body).value == rounded(codec.decode_json(body).value)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%@, \n\t\x00é01.<", max_size=40))
@settings(max_examples=200, deadline=None)
def test_no_text_makes_the_yaml_reader_raise(text: str) -> None:
    parsed = codec.decode_yaml(text.encode())
    assert parsed.error is None or parsed.value is None
