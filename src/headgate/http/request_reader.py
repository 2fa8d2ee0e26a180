"""Reads requests from a connection's bytes, one after the other, within limits.

No I/O: the owner of the connection feeds bytes and asks for the next request. The next request is parsed only on
demand, so responses keep the order of requests.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.http.chunked_decoder import ChunkedDecoder
from headgate.http.request_head import (
    BAD_REQUEST,
    TOO_LARGE,
    HeaderFields,
    MalformedRequest,
    RequestHead,
    parse_fields,
    parse_head,
)
from headgate.http.server_limits import ServerLimits

_NO_FIELDS: Final = HeaderFields({"host": "unknown yet"}, {})
_POST_NEWLINES: Final = 4  # some old clients end a POST's body with an empty line
_REMEMBERED_BYTES: Final = 8192  # a longer head is not kept for comparison with the next one


class ReceivedRequest(msgspec.Struct, frozen=True):
    """A request with its body. If it is not ``complete``, the rest was not read, and the connection must be closed."""

    head: RequestHead
    body: bytes
    complete: bool = True


class MalformedBody(msgspec.Struct, frozen=True):
    """A request with a valid head and a malformed body."""

    head: RequestHead
    problem: str


class RequestReader:
    """The requests of one connection."""

    def __init__(self, limits: ServerLimits) -> None:
        self._limits: Final = limits
        self._buffer = bytearray()
        self._searched = 0  # before this offset there is no end of a head
        self._line_checked = False  # the request line has arrived and is valid
        self._head: RequestHead | None = None  # of the request whose body is being read
        self._body = bytearray()
        self._chunks: ChunkedDecoder | None = None
        self._last_head: tuple[bytes, bytes, RequestHead] | None = None  # clients often repeat a head
        self._last_fields: tuple[bytes, HeaderFields] | None = None
        self._after_post = False  # the last request was a POST, which some clients end with extra newlines

    @property
    def buffered(self) -> int:
        """Bytes that belong to no complete request."""
        return len(self._buffer) + len(self._body)

    @property
    def in_body(self) -> RequestHead | None:
        """The head of the request whose body has not arrived completely."""
        return self._head

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> ReceivedRequest | MalformedBody | MalformedRequest | None:
        """The next request, or the problem with it; ``None`` if more bytes are needed."""
        if self._head is None:
            head = self._read_head()
            if head is None or isinstance(head, MalformedRequest):
                return head
            if head.length == 0:
                return self._finish(head, b"")
            if 0 < head.length <= min(len(self._buffer), self._limits.body_bytes_at(head.path)):
                body = bytes(self._buffer[: head.length])
                del self._buffer[: head.length]
                return self._finish(head, body)
            self._head = head
            self._chunks = ChunkedDecoder() if head.length < 0 else None
        return self._read_body(self._head)

    def _finish(self, head: RequestHead, body: bytes, *, complete: bool = True) -> ReceivedRequest:
        self._head, self._chunks, self._body = None, None, bytearray()
        self._after_post = head.method == "POST"
        return ReceivedRequest(head, body, complete)

    def _read_body(self, head: RequestHead) -> ReceivedRequest | MalformedBody | None:
        """Reads up to one byte more than is allowed, so that the handler sees that the body is too long."""
        allowed = self._limits.body_bytes_at(head.path)
        limit = allowed + 1 - len(self._body)
        if self._chunks is not None:
            self._body += self._chunks.take(self._buffer, limit)
            if self._chunks.state == "broken":
                return MalformedBody(head, self._chunks.problem)
            complete = self._chunks.state == "done"
        else:
            part = self._buffer[: min(limit, head.length - len(self._body))]
            del self._buffer[: len(part)]
            self._body += part
            complete = len(self._body) == head.length
        if complete or len(self._body) > allowed:
            return self._finish(head, bytes(self._body), complete=complete)
        return None

    def _read_head(self) -> RequestHead | MalformedRequest | None:
        buffer = self._buffer
        if self._after_post and buffer:
            self._skip_newlines()
        end = _end_of_head(buffer, self._searched)
        if end is None:
            before, self._searched = self._searched, max(len(buffer) - 2, 0)
            return self._check_request_line(before)
        self._searched, self._line_checked = 0, False
        if end[1] > self._limits.head_bytes:
            return TOO_LARGE
        line_end = buffer.index(b"\n")
        line, block = bytes(buffer[:line_end]), bytes(buffer[line_end + 1 : end[0] + 1])
        del buffer[: end[1]]
        last = self._last_head
        if last is not None and last[0] == line and last[1] == block:
            return last[2]
        head = self._parse(line.removesuffix(b"\r"), block)
        if isinstance(head, RequestHead) and len(line) + len(block) <= _REMEMBERED_BYTES:
            self._last_head = (line, block, head)
        return head

    def _parse(self, line: bytes, block: bytes) -> RequestHead | MalformedRequest:
        last = self._last_fields
        if last is not None and last[0] == block:
            return parse_head(line, last[1], requires_host=self._limits.requires_host)
        fields = parse_fields(block)
        if isinstance(fields, MalformedRequest):
            return fields
        if len(block) <= _REMEMBERED_BYTES:
            self._last_fields = (block, fields)
        return parse_head(line, fields, requires_host=self._limits.requires_host)

    def _check_request_line(self, start: int) -> MalformedRequest | None:
        """Rejects a malformed request line before its headers arrive.

        There is no line feed before ``start``, unless the line has been checked. A client may send its head byte by
        byte, so no byte is searched twice.
        """
        if len(self._buffer) > self._limits.head_bytes:
            return TOO_LARGE
        line_end = -1 if self._line_checked else self._buffer.find(b"\n", start)
        if line_end < 0:
            return None
        self._line_checked = True
        head = parse_head(bytes(self._buffer[:line_end]).removesuffix(b"\r"), _NO_FIELDS)
        return BAD_REQUEST if head is BAD_REQUEST else None

    def _skip_newlines(self) -> None:
        self._after_post = False
        count = 0
        while count < min(_POST_NEWLINES, len(self._buffer)) and self._buffer[count] in b"\r\n":
            count += 1
        del self._buffer[:count]


def _end_of_head(buffer: bytearray, start: int) -> tuple[int, int] | None:
    """The offset of the line feed before the empty line, and the offset after the empty line."""
    proper = buffer.find(b"\n\r\n", start)
    bare = buffer.find(b"\n\n", start, proper + 1 if proper >= 0 else len(buffer))
    if bare >= 0:
        return bare, bare + 2
    return None if proper < 0 else (proper, proper + 3)
