"""Responses of an API server or a plugin that nest deeper than Python's decoder allows: all other objects are read.

kube-apiserver accepts ten thousand levels, for example in the ``fieldsV1`` of a pod: a user that may create one pod
must not be able to stop clients that watch all pods.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate
from cost_growth import cpu_s, too_steep
from headgate.client import field_decoder
from headgate.client.exec_plugin import ExecCredential, ExecPlugin, read_exec_credential
from headgate.client.list_watch_decoder import ListWatchError, parse_event, parse_page
from headgate.client.write_status import message_of
from headgate.http.transport import HTTPResponse
from headgate.kube.serializer import wire_json

DEEP = '{"f:a":' * 9_000 + "{}" + "}" * 9_000


def item(name: str, fields: str = "{}") -> str:
    metadata = (
        f'{{"name":"{name}","namespace":"a","uid":"u","resourceVersion":"1","managedFields":[{{"fieldsV1":{fields}}}]}}'
    )
    return f'{{"metadata":{metadata},"spec":{{"nodeName":"n"}}}}'


DECODERS: list[field_decoder.Decode] = [field_decoder.decoder(), field_decoder.decoder(("spec.nodeName",))]


@pytest.mark.parametrize("decode", DECODERS)
def test_one_deep_object_hides_no_other_in_a_list(decode: field_decoder.Decode) -> None:
    body = f'{{"metadata":{{"resourceVersion":"9"}},"items":[{item("a")},{item("b", DEEP)},{item("c")}]}}'
    items, _, revision = parse_page("/pods", body.encode(), decode)
    assert [(wire["metadata"]["name"], wire["spec"]["nodeName"]) for wire, _ in items] == [
        ("a", "n"),
        ("b", "n"),
        ("c", "n"),
    ]
    assert revision == "9"


@pytest.mark.parametrize("decode", DECODERS)
def test_an_event_of_a_deep_object_is_read(decode: field_decoder.Decode) -> None:
    line = f'{{"type":"ADDED","object":{item("a", DEEP)}}}'.encode()
    kind, wire, identity = parse_event("/pods", line, decode)
    assert (kind, wire["spec"]["nodeName"], identity.key) == ("ADDED", "n", ("a", "a"))


def test_a_deep_line_that_is_no_event_is_trouble() -> None:
    for line in (DEEP, "[" * 200_000, f'{{"type":"ERROR","object":{DEEP}}}'):
        with pytest.raises(ListWatchError):
            parse_event("/pods", line.encode(), field_decoder.decoder())


def test_a_deep_refusal_has_its_message() -> None:
    response = HTTPResponse(500, {}, f'{{"message":"no","details":{DEEP}}}'.encode())
    assert message_of(response) == "no"


def test_what_a_plugin_prints_may_be_deep() -> None:
    plugin = ExecPlugin("client.authentication.k8s.io/v1", "program")
    said = f'{{"kind":"ExecCredential","apiVersion":"{plugin.version}","spec":{DEEP},"status":{{"token":"t"}}}}'
    assert read_exec_credential(plugin, said.encode()) == ExecCredential("t")
    assert read_exec_credential(plugin, b"[" * 200_000) == "program printed invalid JSON: Input data was truncated"


def levels(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(levels, inside), default=0)


def cut(value: Any, depth: int) -> Any:
    if isinstance(value, dict | list) and not depth:
        return None
    if isinstance(value, dict):
        return {name: cut(inner, depth - 1) for name, inner in value.items()}
    return [cut(inner, depth - 1) for inner in value] if isinstance(value, list) else value


DOCUMENTS = st.recursive(
    st.none() | st.integers() | st.text(alphabet='ab"\\[]{}ü', max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"[{', max_size=2), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(DOCUMENTS, st.integers(min_value=1, max_value=4), st.booleans())
def test_what_lies_deeper_is_null_and_all_else_is_as_it_was(document: Any, depth: int, indented: bool) -> None:
    text = json.dumps(document, indent=1 if indented else None).encode()
    kept = msgspec.json.decode(wire_json.truncate_depth(text, depth))
    assert kept == cut(document, depth)
    assert levels(kept) <= depth


SHAPES: dict[str, Callable[[int], bytes]] = {
    "lists in lists": lambda size: b"[" * size + b"]" * size,
    "many lists at the same depth": lambda size: b"[" * 300 + b"[]," * size + b"1" + b"]" * 300,
    "texts without an end": lambda size: b'["' * size,
}


@pytest.mark.measured
@pytest.mark.parametrize("shape", SHAPES)
def test_a_deep_document_takes_time_in_proportion_to_its_bytes(shape: str) -> None:
    small, large = SHAPES[shape](50_000), SHAPES[shape](200_000)
    assert not too_steep(
        lambda: cpu_s(lambda: wire_json.truncate_depth(small)),
        lambda: cpu_s(lambda: wire_json.truncate_depth(large)),
        most=4 * 2.0,
        at_least_s=0.0,
    )


OWN = {"runtime/scheduler/dry_run.py"}  # reads the requests of this very process


@pytest.mark.parametrize("package", ["client", "runtime"])
def test_what_another_program_wrote_is_decoded_in_one_place(package: str) -> None:
    root = Path(headgate.__file__).parent
    direct = {
        path.relative_to(root).as_posix()
        for path in (root / package).rglob("*.py")
        if re.search(r"msgspec\.json\.(decode|Decoder)\b", path.read_text())
    }
    assert direct <= OWN, "use headgate.kube.serializer.wire_json, which reads documents of any depth"
