"""Decodes YAML to plain values, as the API server does.

Only the first document is decoded. Words such as ``yes`` are booleans (YAML 1.1), dates stay text, keys become text and
are sorted, floats without a fraction become integers. Scalars follow the resolution rules of the API server's YAML
decoder (YAML 1.1 with exceptions). Repeated keys are reported with their lines. libyaml provides the events, and the
value is built without recursion. Depth, number of nodes and growth by aliases are limited, so that a short text cannot
become a large value. ``yaml_lines.py`` finds the line of a field.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import math
import re
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import yaml

from headgate.kube.field_errors import quote
from headgate.kube.serializer.json_decoder import (
    MAX_JSON_VALUES,
    TOO_MANY_JSON_VALUES,
    ParsedBody,
    decode_json,
    integer_if_whole,
)
from headgate.kube.serializer.json_syntax import MAX_DEPTH

Scalar = str | int | float | bool | None

_PREFIX: Final = "tag:yaml.org,2002:"
_RESOLVABLE: Final = frozenset({"", *(_PREFIX + name for name in ("str", "bool", "int", "float", "null", "timestamp"))})

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_OCTAL: Final = re.compile(r"([-+]?)0([0-7]+)")
_INTEGER: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0|[1-9][0-9]{0,19})")


class InvalidYamlScalar(Exception):
    """A scalar that does not match its tag, or that JSON cannot represent."""


def resolve(tag: str, text: str) -> Scalar:
    """The value of a scalar with this tag; an empty tag means that the text decides the type."""
    if tag not in _RESOLVABLE or tag == _PREFIX + "str":
        return text
    found, value = _resolve_plain(text)
    wanted = tag.removeprefix(_PREFIX)
    if wanted in ("", found, "timestamp"):
        return text if wanted == "timestamp" else value
    if wanted == "float" and found == "int" and isinstance(value, int):
        return float(value)
    raise InvalidYamlScalar(f"yaml: cannot decode !!{found} `{text}` as a !!{wanted}")


def _resolve_plain(text: str) -> tuple[str, Scalar]:
    """The type and the value of a scalar without a tag."""
    if text in _WORDS:
        word = _WORDS[text]
        return ("bool" if isinstance(word, bool) else "null" if word is None else "float"), word
    if text[0] not in "+-.0123456789":
        return "str", text
    plain = text if text[0] == "." else text.replace("_", "")
    if octal := _OCTAL.fullmatch(plain):
        plain = f"{octal[1]}0o{octal[2]}"
    if _INTEGER.fullmatch(plain):
        number = int(plain, 0)
        if -(1 << 63) <= number < (1 << 63 if plain[0] in "+-" else 1 << 64):
            return "int", number
    if _FLOAT.fullmatch(plain):
        float_value = float(plain)
        if float_value not in (float("inf"), float("-inf")):
            return "float", float_value
    return "str", text


def key_text(key: Scalar) -> str:
    """The JSON key for a YAML key, which may be a number or a boolean."""
    match key:
        case str():
            return key
        case None:
            raise InvalidYamlScalar("unsupported map key of type: %!s(<nil>), key: <nil>")
        case bool():
            return "true" if key else "false"
        case int():
            return str(key)
    if key != key or key in (float("inf"), float("-inf")):
        return ".nan" if key != key else ".inf" if key > 0 else "-.inf"
    # As in the API server, the text of a float key has the precision of 32 bits.
    text = next(text for text in (f"{key:.{digits}e}" for digits in range(17)) if _same_in_32_bits(text, key))
    return text if not -5 < int(text.partition("e")[2]) < 6 else f"{Decimal(text):f}"


def _same_in_32_bits(text: str, number: float) -> bool:
    try:
        return struct.pack("f", float(text)) == struct.pack("f", number)
    except OverflowError:
        return float(text) == number


# The decoder needs about 3 microseconds per YAML node. The largest ConfigMap that can be stored has fewer nodes than
# MAX_JSON_VALUES.
MAX_ALIASED_NODES: Final = 50_000
_NODE_BYTES: Final = 64  # a longer text counts as several nodes when it is repeated by aliases

_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_BINARY_TAG: Final = "tag:yaml.org,2002:binary"
_MERGE: Final = object()
_NO_KEY: Final = object()


def decode_yaml(body: bytes, *, keys_override_merged: bool = False) -> ParsedBody:
    """As the API server decodes it: a merge key (``<<``) sets its keys where it stands, so that the same key in the map
    is a repeated one. ``keys_override_merged``: as YAML defines it, the map's own keys take precedence over merged
    ones, before and after the merge key."""
    if re.match(rb"\s*\{", body):  # kubectl sends JSON with the content type of YAML
        parsed = decode_json(body, numbers="whole")
        if parsed.error is None and not parsed.duplicate_errors:
            return ParsedBody(parsed.value, is_yaml=True)
        if parsed.error == TOO_MANY_JSON_VALUES:
            return parsed
    try:
        builder = _Builder(keys_override_merged)
        for event in _events(body):
            builder.add_event(event)
        return ParsedBody(builder.root, tuple(builder.repeated), is_yaml=True)
    except _YAMLError as problem:
        return ParsedBody(error=f"yaml: {problem}", is_yaml=True)
    except InvalidYamlScalar as problem:
        return ParsedBody(error=str(problem), is_yaml=True)


def decode_documents(body: bytes, max_values: int) -> list[Any] | str:
    """The values of all documents, or an error with its line. A key that is in a map twice is an error. The map's own
    keys take precedence over merged ones. ``max_values``: of all documents together."""
    documents: list[Any] = []
    builder, line, left = _Builder(True, max_values), 0, max_values
    try:
        for event in yaml.parse(body, Loader=yaml.CSafeLoader):
            line = event.start_mark.line + 1 if event.start_mark is not None else line
            if isinstance(event, yaml.DocumentStartEvent):
                builder = _Builder(True, left)
            elif isinstance(event, yaml.DocumentEndEvent):
                if builder.repeated:
                    return builder.repeated[0]
                documents.append(builder.root)
                left -= builder.nodes
            else:
                builder.add_event(event)
    except yaml.reader.ReaderError as problem:
        return str(problem.reason)
    except yaml.MarkedYAMLError as problem:
        return _with_line(problem)
    except (_YAMLError, InvalidYamlScalar) as problem:
        return f"line {line}: {problem}"
    return documents


class _YAMLError(Exception):
    """Raised and caught in this module."""


def first_document(body: bytes) -> Iterator[yaml.Event]:
    """The events of the first document, up to the first error."""
    with contextlib.suppress(_YAMLError):
        yield from _events(body)


def second_document_line(body: bytes) -> int:
    """The line, from 1, on which the content of a second document begins; 0 if there is only one. Documents without
    content do not count."""
    is_past_first = False
    try:
        for event in yaml.parse(body, Loader=yaml.CSafeLoader):
            is_empty = isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value == ""
            if is_past_first and isinstance(event, yaml.NodeEvent) and not is_empty:
                return 1 if event.start_mark is None else event.start_mark.line + 1
            is_past_first = is_past_first or isinstance(event, yaml.DocumentEndEvent)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        return mark.line + 1 if is_past_first and mark is not None else 0
    except yaml.reader.ReaderError:
        return 0
    return 0


def _events(body: bytes) -> Iterator[yaml.Event]:
    """The events of the first document."""
    try:
        for event in yaml.parse(body, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.DocumentEndEvent):
                return
            yield event
    except yaml.reader.ReaderError as problem:
        raise _YAMLError(problem.reason) from None
    except yaml.MarkedYAMLError as problem:
        raise _YAMLError(_with_line(problem)) from None


def _with_line(problem: yaml.MarkedYAMLError) -> str:
    line = 0
    if problem.problem_mark is not None and problem.problem_mark.line:
        line = problem.problem_mark.line + isinstance(problem, yaml.scanner.ScannerError)
    elif problem.context_mark is not None:
        line = problem.context_mark.line
    text = problem.problem or "unknown problem parsing YAML content"
    return f"line {line}: {text}" if line else text


class _Node:
    """A list or map under construction.

    ``size`` is its number of nodes and ``height`` its levels, with aliases expanded. ``merged``: the keys that only a
    merge key has set, and that the map's own keys override.
    """

    __slots__ = ("anchor", "height", "key", "line", "merged", "seen", "size", "value")

    def __init__(self, value: Any, anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.size = 1
        self.height = 1
        self.key: Any = _NO_KEY
        self.seen: set[Any] = set()
        self.merged: set[str] = set()


class _Builder:
    """``nodes``: how many nodes were added."""

    def __init__(self, keys_override_merged: bool = False, max_nodes: int = MAX_JSON_VALUES) -> None:
        self._max_nodes = max_nodes
        self._keys_override_merged = keys_override_merged
        self.root: Any = None
        self.repeated: list[str] = []
        self._open: list[_Node] = []
        self._anchors: dict[str, tuple[Any, int, int] | None] = {}  # None while its value is still being read
        self.nodes = 0
        self._aliased = 0

    def add_event(self, event: yaml.Event) -> None:
        if not isinstance(event, (yaml.NodeEvent, yaml.CollectionEndEvent)):
            return
        self.nodes += 1
        if self.nodes > self._max_nodes:
            raise _YAMLError(f"document has more than {self._max_nodes} nodes")
        line = event.start_mark.line if event.start_mark is not None else 0
        match event:
            case yaml.AliasEvent():
                self._alias(event.anchor or "", line)
            case yaml.ScalarEvent():
                self._scalar(event, line)
            case yaml.CollectionStartEvent():
                self._check_depth(1)
                if event.anchor:
                    self._anchors[event.anchor] = None
                self._open.append(_Node([] if isinstance(event, yaml.SequenceStartEvent) else {}, event.anchor, line))
            case _:
                node = self._open.pop()
                if isinstance(node.value, dict):
                    node.value = {key: node.value[key] for key in sorted(node.value)}
                self._add(node.value, node.value, node.anchor, node.line, node.size, node.height)

    def _check_depth(self, height: int) -> None:
        if len(self._open) + height > MAX_DEPTH:
            raise _YAMLError(f"exceeded max depth of {MAX_DEPTH}")

    def _alias(self, anchor: str, line: int) -> None:
        if anchor not in self._anchors:
            raise _YAMLError(f"unknown anchor '{anchor}' referenced")
        anchored = self._anchors[anchor]
        if anchored is None:
            raise _YAMLError(f"anchor '{anchor}' value contains itself")
        value, size, height = anchored
        self._aliased += size
        if self._aliased > MAX_ALIASED_NODES:
            raise _YAMLError("document contains excessive aliasing")
        self._check_depth(height)
        self._add(value, value, None, line, size, height)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        implicit = event.implicit[0]
        if event.value == "<<" and (implicit or event.tag == _MERGE_TAG) and self._expects_key():
            self._open[-1].key = _MERGE
            return
        if event.tag == _BINARY_TAG:
            try:
                value: Any = base64.b64decode("".join(event.value.splitlines()), validate=True).decode(
                    "utf-8", "replace"
                )
            except binascii.Error:
                raise _YAMLError("!!binary value contains invalid base64 data") from None
        elif event.tag is None and not implicit:
            value = event.value
        else:
            value = resolve(event.tag or "", event.value)
        if isinstance(value, float) and not math.isfinite(value) and not self._expects_key():
            raise InvalidYamlScalar(f"json: unsupported value: {'NaN' if math.isnan(value) else f'{value:+}'.title()}")
        size = 1 + len(event.value) // _NODE_BYTES
        self._add(value, integer_if_whole(value) if isinstance(value, float) else value, event.anchor, line, size, 0)

    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is _NO_KEY

    def _add(self, resolved: Any, value: Any, anchor: str | None, line: int, size: int, height: int) -> None:
        """Adds a complete node to its parent. ``resolved`` is used if it is a key, ``value`` otherwise."""
        if anchor:
            self._anchors[anchor] = (value, size, height)
        if not self._open:
            self.root = value
            return
        parent = self._open[-1]
        parent.size += size
        parent.height = max(parent.height, height + 1)
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is _NO_KEY:
            if isinstance(resolved, (dict, list)):
                raise _YAMLError("invalid map key: a list or a map")
            parent.key = resolved
        else:
            key, parent.key = parent.key, _NO_KEY
            if key is _MERGE:
                self._merge(parent, value, line)
            else:
                self._set(parent, key, value, line)

    def _merge(self, parent: _Node, value: Any, line: int) -> None:
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in sources):
            raise _YAMLError("map merge requires map or sequence of maps as the value")
        for source in reversed(sources):  # earlier ones take precedence
            for key, item in source.items():
                if not self._keys_override_merged:
                    self._set(parent, key, item, line)
                elif key not in parent.value or key in parent.merged:
                    parent.value[key] = item
                    parent.merged.add(key)

    def _set(self, parent: _Node, key: Any, value: Any, line: int) -> None:
        identity = (type(key), key)
        if identity in parent.seen:
            text = quote(key) if isinstance(key, str) else key_text(key)
            self.repeated.append(f"line {line + 1}: key {text} already set in map")
        parent.seen.add(identity)
        text = key_text(key)
        parent.merged.discard(text)
        parent.value[text] = value
