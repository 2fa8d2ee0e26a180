"""Parses the head (request line and header fields) of an HTTP/1 request. A refusal is that of a Go server.

It accepts what Go's ``net/http`` accepts, so that proxies read a request in the same way (no request smuggling): bare
line feeds and folded lines are read, equal lengths may repeat, chunks take precedence over a length. Any other
ambiguous head is refused and the connection closed. ``request_reader.py`` finds the end of a head and limits its bytes.
The number of lines is not limited, as in Go, so every step here takes time linear in the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_METHOD: Final = re.compile(_TOKEN + rb"+")
_HOST: Final = re.compile(r"[0-9A-Za-z!$%&()*+,\-.:;=\['\]_~]*")
_VERSION: Final = re.compile(rb"HTTP/([0-9])\.([0-9])")
_VALUE: Final = rb"[\t\x20-\x7e\x80-\xff]"
# None of these backtracks or starts twice at the same blank: their time is linear in the length of the block.
_ORDINARY: Final = re.compile(rb"(?:" + _TOKEN + rb"++:" + _VALUE + rb"*+\r\n)*+")
_LAX: Final = re.compile(rb"(?:[ !#$%&'*+\-.^_`|~0-9A-Za-z]++:" + _VALUE + rb"*+\n)*+")
_FOLDED: Final = re.compile(rb"(?:[^:\n]++:[^\n]*+\n(?:[ \t][^\n]*+\n)*+)*+")  # the colon is in a header's first line
_FOLD: Final = re.compile(rb"(?:(?<![ \t])[ \t]++)?\r?\n[ \t]++")
_ABSOLUTE: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.\-]*://[^/?]*")
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_LENGTH: Final = re.compile(r"[0-9]+")
_LENGTH_MAX: Final = 2**63 - 1
_FORBIDDEN_TRAILERS: Final = frozenset(("transfer-encoding", "trailer", "content-length"))
_BLANK: Final = b" \t"


class MalformedRequest(msgspec.Struct, frozen=True):
    """A request that cannot be parsed. The server answers in plain text and closes the connection."""

    reason: str
    body: str = ""

    @property
    def status(self) -> int:
        return int(self.reason[:3])

    def response(self) -> bytes:
        text = f"HTTP/1.1 {self.reason}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
        return (text + (self.body or self.reason)).encode("latin-1")


BAD_REQUEST: Final = MalformedRequest("400 Bad Request")
TOO_LARGE: Final = MalformedRequest("431 Request Header Fields Too Large")
_NO_HOST: Final = MalformedRequest("400 Bad Request: missing required Host header")
_BAD_HOST: Final = MalformedRequest("400 Bad Request: malformed Host header")
_BAD_NAME: Final = MalformedRequest("400 Bad Request: invalid header name")
_UNKNOWN_VERSION: Final = MalformedRequest("505 HTTP Version Not Supported: unsupported protocol version")
_UNKNOWN_CODING: Final = MalformedRequest("501 Not Implemented", "Unsupported transfer encoding")


class HeaderFields(msgspec.Struct, frozen=True):
    """``first`` has the first value of each name, ``repeated`` all values of each name that occurs more than once."""

    first: dict[str, str]
    repeated: dict[str, tuple[str, ...]]

    def values(self, name: str) -> tuple[str, ...]:
        if name in self.repeated:
            return self.repeated[name]
        return (self.first[name],) if name in self.first else ()

    def has_token(self, name: str, token: str) -> bool:
        return any(token == part.strip(" \t").lower() for value in self.values(name) for part in value.split(","))


class RequestHead(msgspec.Struct, frozen=True):
    method: str
    path: str
    query: str
    minor: int
    """HTTP/1.0 or HTTP/1.1."""
    headers: Mapping[str, str]
    repeated: Mapping[str, tuple[str, ...]]
    length: int
    """Bytes of body that follow; -1 for chunks."""
    keep_alive: bool
    expects_continue: bool
    expects_unknown: bool
    """The head has an ``Expect`` that this server does not know."""


def parse_head(line: bytes, fields: HeaderFields, *, requires_host: bool = True) -> RequestHead | MalformedRequest:
    """``line``: the request line without its line end."""
    method, space, rest = line.partition(b" ")
    target, second_space, version = rest.partition(b" ")
    if not (space and second_space) or _METHOD.fullmatch(method) is None:
        return BAD_REQUEST
    numbers = _VERSION.fullmatch(version)
    path_and_query = _split_target(method, target)
    if numbers is None or path_and_query is None or len(fields.values("host")) > 1:
        return BAD_REQUEST
    major, minor = int(numbers[1]), int(numbers[2])
    length = _body_length(fields, at_least_1_1=(major, minor) >= (1, 1))
    if isinstance(length, MalformedRequest):
        return length
    if major != 1:
        return _UNKNOWN_VERSION
    host = fields.first.get("host")
    if host is None and requires_host and minor >= 1 and method != b"CONNECT":
        return _NO_HOST
    if host is not None and _HOST.fullmatch(host) is None:
        return _BAD_HOST
    if any(" " in name for name in fields.first):
        return _BAD_NAME
    expected = fields.first.get("expect", "")
    expects_continue = bool(expected) and fields.has_token("expect", "100-continue")
    return RequestHead(
        method=method.decode("ascii"),
        path=path_and_query[0],
        query=path_and_query[1],
        minor=minor,
        headers=fields.first,
        repeated=fields.repeated,
        length=length,
        keep_alive=_keeps_alive(fields, minor),
        expects_continue=expects_continue and minor >= 1 and length != 0,
        expects_unknown=bool(expected) and not expects_continue,
    )


def parse_fields(block: bytes) -> HeaderFields | MalformedRequest:
    """``block``: header lines, each with its line end."""
    if _ORDINARY.fullmatch(block) is None:
        unfolded = _unfold(block)
        if unfolded is None:
            return BAD_REQUEST
        lines = unfolded.split(b"\n")
    else:
        lines = block.split(b"\r\n")
    lines.pop()
    first: dict[str, str] = {}
    repeated: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        key, text = name.decode("ascii").lower(), value.strip(_BLANK).decode("latin-1")
        if key not in first:
            first[key] = text
        elif key in repeated:
            repeated[key].append(text)
        else:
            repeated[key] = [first[key], text]
    return HeaderFields(first, {key: tuple(values) for key, values in repeated.items()})


def _unfold(block: bytes) -> bytes | None:
    """Joins folded lines with one blank, as Go does, and ends all lines with a bare line feed.

    Returns ``None`` if a line is not a header line.
    """
    if block[:1] in (b" ", b"\t") or _FOLDED.fullmatch(block) is None:
        return None
    unfolded = _FOLD.sub(b" ", block).replace(b"\r\n", b"\n")
    return unfolded if _LAX.fullmatch(unfolded) is not None else None


def _split_target(method: bytes, target: bytes) -> tuple[str, str] | None:
    if _CONTROL.search(target) is not None:
        return None
    if method == b"CONNECT" and not target.startswith(b"/"):
        return "", ""
    if target == b"*":
        return "*", ""
    if not target.startswith(b"/"):
        absolute = _ABSOLUTE.match(target)
        if absolute is None:
            return None
        target = target[absolute.end() :]
    path, _, query = target.partition(b"?")
    if b"%" in path and _BAD_ESCAPE.search(path) is not None:
        return None
    return path.decode("latin-1"), query.decode("latin-1")


def _body_length(fields: HeaderFields, *, at_least_1_1: bool) -> int | MalformedRequest:
    chunked = False
    if "transfer-encoding" in fields.first and at_least_1_1:
        codings = fields.values("transfer-encoding")
        if len(codings) != 1 or codings[0].lower() != "chunked":
            return _UNKNOWN_CODING
        chunked = True
    length = 0
    if "content-length" in fields.first:
        lengths = set(fields.values("content-length"))
        text = lengths.pop()
        if lengths or _LENGTH.fullmatch(text) is None:
            return BAD_REQUEST
        length = int(text.lstrip("0")[:20] or "0")  # 20 digits already exceed the maximum
        if length > _LENGTH_MAX:
            return BAD_REQUEST
    if not chunked:
        return length
    if any(fields.has_token("trailer", name) for name in _FORBIDDEN_TRAILERS):
        return BAD_REQUEST
    return -1


def _keeps_alive(fields: HeaderFields, minor: int) -> bool:
    if "connection" not in fields.first:
        return minor >= 1
    if fields.has_token("connection", "close"):
        return False
    return minor >= 1 or fields.has_token("connection", "keep-alive")
