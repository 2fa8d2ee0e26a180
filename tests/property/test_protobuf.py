"""Protobuf bodies on objects drawn from the tables: they mean what JSON means, and no bytes do harm."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.protobuf import MAGIC, message, numbers
from harness.random_objects import TABLES, objects
from headgate import schemas
from headgate.apimachinery.codec import codec
from headgate.apimachinery.codec.empty_collections import drop_empty_collections
from headgate.apimachinery.protobuf import MessageDecoder, open_envelope
from headgate.kube.schema import Type

MESSAGES = MessageDecoder.load(TABLES, schemas.read_numbers())


def expressible(type: Type, value: Any) -> Any:
    """The part of a value that protobuf can say: inner objects do not name their kind, and nothing is null."""
    if type.kind == "struct":
        fields = TABLES.fields[type.ref]
        return {
            key: expressible(fields[key].type, item)
            for key, item in value.items()
            if fields[key].embedded != "TypeMeta"
        }
    if type.kind == "list" and type.items is not None:
        return [expressible(type.items, item) for item in value or ()]  # null in a map: an empty list
    if type.kind == "map" and type.items is not None:
        return {key: expressible(type.items, item) for key, item in value.items()}
    return value


@given(objects())
@settings(max_examples=300, deadline=None)
def test_protobuf_and_json_give_the_same_object(drawn: tuple[str, dict[str, Any]]) -> None:
    name, value = drawn
    assume(name in MESSAGES)
    normal = expressible(Type("struct", ref=name), codec.convert(TABLES, name, value).obj)
    read = MESSAGES.decode(name, message(name, normal))
    assert isinstance(read, dict), read
    decoded = codec.convert(TABLES, name, read)
    assert (decoded.error, decoded.strict_errors) == (None, [])
    assert decoded.obj == codec.convert(TABLES, name, drop_empty_collections(TABLES, name, normal)).obj


@given(objects(), st.integers(0, 400), st.binary(max_size=4), st.integers(0, 4))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_an_object_or_an_error(
    drawn: tuple[str, dict[str, Any]], at: int, insert: bytes, delete: int
) -> None:
    name, value = drawn
    assume(name in MESSAGES)
    good = message(name, expressible(Type("struct", ref=name), codec.convert(TABLES, name, value).obj))
    body = good[:at] + insert + good[at + delete :]
    read = MESSAGES.decode(name, body)
    if isinstance(read, dict):
        codec.convert(TABLES, name, read)
    else:
        assert read


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_an_envelope_or_an_error(rest: bytes) -> None:
    opened = open_envelope(MAGIC + rest)
    assert opened


def test_every_type_that_a_kind_needs_has_numbers() -> None:
    without = sorted(name for name in set(TABLES.kinds.values()) if name not in MESSAGES)
    assert without == ["io.k8s.apimachinery.pkg.apis.meta.v1.Table"]


def test_no_number_means_two_fields() -> None:
    for name, fields in numbers().items():
        assert len({each.number for each in fields}) == len(fields), name
