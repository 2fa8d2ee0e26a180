"""The envelope of every protobuf body: four magic bytes, and a message with the kind and the object.

The message may also have an encoding and a content type of the object; as in kube-apiserver they are ignored.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.apimachinery.codec.codec import TypeMeta
from headgate.apimachinery.protobuf import wire
from headgate.apimachinery.protobuf.scalars import fields
from headgate.apimachinery.protobuf.wire import LENGTH, ProtobufError

MAGIC: Final = b"k8s\x00"
_UNKNOWN: Final = {
    1: ("TypeMeta", LENGTH),
    2: ("Raw", LENGTH),
    3: ("ContentEncoding", LENGTH),
    4: ("ContentType", LENGTH),
}
_TYPE_META: Final = {1: ("APIVersion", LENGTH), 2: ("Kind", LENGTH)}


class Envelope(NamedTuple):
    type_meta: TypeMeta  # empty fields if the body has none
    raw: bytes


def open_envelope(body: bytes) -> Envelope | str:
    """The kind and the object in the body, or the error text."""
    if not body:
        return "empty data"
    if not body.startswith(MAGIC):
        expected = " ".join(str(byte) for byte in MAGIC)
        return f"provided data does not appear to be a protobuf message, expected prefix [{expected}]"
    if body == MAGIC:
        return "empty body"
    try:
        return _read(body)
    except ProtobufError as problem:
        return str(problem)


def _read(body: bytes) -> Envelope:
    api_version, kind, raw = "", "", b""
    for number, start, stop in fields("Unknown", _UNKNOWN, body, len(MAGIC), len(body)):
        if number == 1:
            for inner, begin, end in fields("TypeMeta", _TYPE_META, body, start, stop):
                if inner == 1:
                    api_version = wire.text(body, begin, end)
                else:
                    kind = wire.text(body, begin, end)
        elif number == 2:
            raw = body[start:stop]
    if api_version.count("/") > 1:
        return Envelope(TypeMeta("", "", kind), raw)  # an invalid version counts as absent
    group, _, version = api_version.rpartition("/")
    return Envelope(TypeMeta(group, version, kind), raw)
