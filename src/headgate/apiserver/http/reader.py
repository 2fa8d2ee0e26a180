"""Reads requests out of a connection's bytes, one after the other, within bounds.

No I/O: whoever owns the connection feeds it bytes and asks for what has arrived. The next request is looked at only
when it is asked for, so answers keep the order of requests.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.apiserver.http.chunks import Chunks
from headgate.apiserver.http.heads import BAD_REQUEST, TOO_LARGE, Fields, Head, Refusal, parse_fields, parse_head
from headgate.apiserver.http.limits import Limits

_NO_FIELDS: Final = Fields({"host": "unknown yet"}, {})
_POST_NEWLINES: Final = 4  # some old clients end a POST's body with an empty line
_REMEMBERED_BYTES: Final = 8192  # a longer head is not kept for comparison with the next one


class Arrived(msgspec.Struct, frozen=True):
    """A request with its body. If it is not ``whole``, the rest was not read, and the connection is of no more use."""

    head: Head
    body: bytes
    whole: bool = True


class BadBody(msgspec.Struct, frozen=True):
    """The request was understood, and then its body was not."""

    head: Head
    problem: str


class Reader:
    """The requests of one connection."""

    def __init__(self, limits: Limits) -> None:
        self._limits: Final = limits
        self._buffer = bytearray()
        self._searched = 0  # up to here there is no end of a head
        self._line_checked = False  # the request line has come, and is not refused
        self._head: Head | None = None  # of the request whose body is being read
        self._body = bytearray()
        self._chunks: Chunks | None = None
        self._known: tuple[bytes, bytes, Head] | None = None  # clients repeat themselves
        self._known_fields: tuple[bytes, Fields] | None = None
        self._after_post = False

    @property
    def buffered(self) -> int:
        """Bytes in hand that belong to no complete request."""
        return len(self._buffer) + len(self._body)

    @property
    def in_body(self) -> Head | None:
        """The head of the request whose body is being waited for."""
        return self._head

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Arrived | BadBody | Refusal | None:
        """The next request, what is wrong with it, or ``None`` until more has come."""
        if self._head is None:
            head = self._read_head()
            if head is None or isinstance(head, Refusal):
                return head
            if head.length == 0:
                return self._done(head, b"")
            if 0 < head.length <= min(len(self._buffer), self._limits.body_bytes):
                body = bytes(self._buffer[: head.length])
                del self._buffer[: head.length]
                return self._done(head, body)
            self._head = head
            self._chunks = Chunks() if head.length < 0 else None
        return self._read_body(self._head)

    def _done(self, head: Head, body: bytes, *, whole: bool = True) -> Arrived:
        self._head, self._chunks, self._body = None, None, bytearray()
        self._after_post = head.method == "POST"
        return Arrived(head, body, whole)

    def _read_body(self, head: Head) -> Arrived | BadBody | None:
        """One byte more than is allowed is read, for whoever answers to see that it is too much."""
        room = self._limits.body_bytes + 1 - len(self._body)
        if self._chunks is not None:
            self._body += self._chunks.take(self._buffer, room)
            if self._chunks.place == "broken":
                return BadBody(head, self._chunks.problem)
            complete = self._chunks.place == "done"
        else:
            part = self._buffer[: min(room, head.length - len(self._body))]
            del self._buffer[: len(part)]
            self._body += part
            complete = len(self._body) == head.length
        if complete or len(self._body) > self._limits.body_bytes:
            return self._done(head, bytes(self._body), whole=complete)
        return None

    def _read_head(self) -> Head | Refusal | None:
        buffer = self._buffer
        if self._after_post and buffer:
            self._skip_newlines()
        end = _end_of_head(buffer, self._searched)
        if end is None:
            before, self._searched = self._searched, max(len(buffer) - 2, 0)
            return self._early_refusal(before)
        self._searched, self._line_checked = 0, False
        if end[1] > self._limits.head_bytes:
            return TOO_LARGE
        line_end = buffer.index(b"\n")
        line, block = bytes(buffer[:line_end]), bytes(buffer[line_end + 1 : end[0] + 1])
        del buffer[: end[1]]
        known = self._known
        if known is not None and known[0] == line and known[1] == block:
            return known[2]
        head = self._parse(line.removesuffix(b"\r"), block)
        if isinstance(head, Head) and len(line) + len(block) <= _REMEMBERED_BYTES:
            self._known = (line, block, head)
        return head

    def _parse(self, line: bytes, block: bytes) -> Head | Refusal:
        known = self._known_fields
        if known is not None and known[0] == block:
            return parse_head(line, known[1])
        fields = parse_fields(block)
        if isinstance(fields, Refusal):
            return fields
        if len(block) <= _REMEMBERED_BYTES:
            self._known_fields = (block, fields)
        return parse_head(line, fields)

    def _early_refusal(self, start: int) -> Refusal | None:
        """A request line that is no good is not given the time to bring its headers.

        ``start``: there is no line feed before it, unless the line has been checked. A client may send its head byte
        by byte, so no byte is looked at again for each that follows.
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
    """Where the line feed before the empty line is, and where the head ends after it."""
    proper = buffer.find(b"\n\r\n", start)
    bare = buffer.find(b"\n\n", start, proper + 1 if proper >= 0 else len(buffer))
    if bare >= 0:
        return bare, bare + 2
    return None if proper < 0 else (proper, proper + 3)
