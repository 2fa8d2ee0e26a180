"""Parses a response: status, header fields, and the body by its length or its chunks.

The parser does no I/O: ``http/client_connection.py`` feeds it with bytes as they arrive, and takes out complete parts.
Bytes that are not a valid response raise ``MalformedResponse``. The parser is strict, because a wrong boundary between
two responses would give one caller the response of another.

A server may be hostile: time and memory are linear in the bytes that it sends, however it splits them, and heads,
informational responses, framing and trailers are bounded.
"""

from __future__ import annotations

import zlib
from typing import Final, Literal

LONGEST_HEAD: Final = 64 * 1024
LONGEST_BODY: Final = 512 * 1024 * 1024
_LONGEST_SIZE_LINE: Final = 1024
_LONGEST_TRAILERS: Final = 64 * 1024
_MOST_INFORMATIONAL: Final = 5  # responses below 200 before the final one, as in Go's client
_EXCESS_MAX: Final = 16 * 1024  # bytes of framing beyond what the content allows
_HEAD_END: Final = b"\r\n\r\n"
_NO_BODY: Final = frozenset({204, 304})

ResponseState = Literal["head", "sized", "chunk size", "chunk", "chunk end", "trailers", "until close", "done"]


class MalformedResponse(Exception):
    """The server sent bytes that are no valid response, or exceeded a limit."""


class BodyTooLong(MalformedResponse):
    """The body is longer than the caller allows."""


class ResponseParser:
    """One response. ``parts`` may be taken out (and the list emptied) at any time; ``done``: it is complete."""

    __slots__ = (
        "_excess",
        "_informational",
        "_remaining",
        "_searched",
        "_size",
        "_state",
        "_trailers",
        "_unparsed",
        "headers",
        "parts",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0  # until the head is complete
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self._unparsed = bytearray()
        self._searched = 0  # before this offset ``_unparsed`` has no end of a head
        self._informational = 0
        self._excess = 0  # bytes of framing beyond what the content allows
        self._trailers = 0  # bytes of trailers
        self._state: ResponseState = "head"
        self._remaining = 0  # bytes of the body, or of a chunk, that have not arrived
        self._size = 0

    @property
    def done(self) -> bool:
        return self._state == "done"

    @property
    def surplus(self) -> bool:
        """Whether bytes arrived after the end of the response."""
        return bool(self._unparsed) and self._state == "done"

    @property
    def keep_alive(self) -> bool:
        """Whether the connection may serve another request."""
        return self._state == "done" and not self._unparsed and self.headers.get("connection", "").lower() != "close"

    @property
    def has_head(self) -> bool:
        """Whether the head is complete and valid."""
        return self._state != "head"

    @property
    def started(self) -> bool:
        return bool(self.status or self._unparsed)

    def feed(self, data: bytes) -> None:
        """Parses more bytes; after ``done`` they are surplus."""
        if self._unparsed:
            self._unparsed += data
            if self._state == "head" and not self._has_head():
                return
            data, self._unparsed = bytes(self._unparsed), bytearray()
        position = 0
        if self._state == "head":
            position = self._read_head(data)
            if self._state == "head":
                self._unparsed += data[position:]
                return
        if self._state == "sized":
            position = self._take_body(data, position, "done")
        elif self._state == "until close":
            self._add_part(data[position:] if position else data)
            return
        elif self._state != "done":
            position = self._read_chunks(data, position)
        if position < len(data):
            self._unparsed += data[position:]

    def closed(self) -> None:
        """The server closed the connection. This is the end of a response without a length."""
        if self._state == "until close":
            self._state = "done"

    def body(self, limit: int = LONGEST_BODY) -> bytes:
        """The whole body, decompressed if necessary."""
        whole = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        encoding = self.headers.get("content-encoding", "identity").lower()
        if encoding == "identity" or not whole:
            return whole
        if encoding not in ("gzip", "x-gzip"):
            raise MalformedResponse(f"the body is packed as {encoding!r}, which was not asked for")
        return _decompress(whole, limit)

    def _has_head(self) -> bool:
        """Whether ``_unparsed`` has a complete head. Each byte is searched once, however the head is split."""
        found = self._unparsed.find(_HEAD_END, self._searched) >= 0
        self._searched = 0 if found else max(len(self._unparsed) - len(_HEAD_END) + 1, 0)
        if not found:
            _check_unfinished(self._unparsed)
        return found

    def _read_head(self, data: bytes) -> int:
        """Reads the head, after any informational responses (below 200). Returns the offset of the body, or of the head
        if it is incomplete."""
        position = 0
        while (end := data.find(_HEAD_END, position)) >= 0:
            self._parse_head(data[position:end])
            position = end + len(_HEAD_END)
            if self.status >= 200:
                self._state = self._body_state()
                return position
            self._informational += 1
            if self._informational > _MOST_INFORMATIONAL:
                raise MalformedResponse(f"a response begins with more than {_MOST_INFORMATIONAL} informational ones")
        _check_unfinished(data[position:])
        return position

    def _parse_head(self, head: bytes) -> None:
        if len(head) > LONGEST_HEAD:
            raise MalformedResponse(f"the head of a response is longer than {LONGEST_HEAD} bytes")
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not code.isdecimal() or not code.isascii() or code < "100":
            raise MalformedResponse(f"a response starts with {first[:40]!r}")
        values: dict[str, list[str]] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name[0] in " \t" or name[-1] in " \t":
                raise MalformedResponse(f"a response has the header line {line[:40]!r}")
            values.setdefault(name.lower(), []).append(value.strip(" \t"))
        headers = {name: ", ".join(each) for name, each in values.items()}
        if version == "HTTP/1.0":
            headers.setdefault("connection", "close")
        self.status = int(code)
        self.headers = headers

    def _body_state(self) -> ResponseState:
        headers = self.headers
        if self.status in _NO_BODY:
            return "done"
        coding = headers.get("transfer-encoding")
        if coding is not None:
            if coding.lower() != "chunked" or "content-length" in headers:
                raise MalformedResponse(f"a response has the transfer-encoding {coding[:40]!r}, and maybe a length too")
            return "chunk size"
        length = headers.get("content-length")
        if length is None:
            headers["connection"] = "close"
            return "until close"
        if not length.isdecimal() or not length.isascii() or len(length) > 12:
            raise MalformedResponse(f"a response has the content-length {length[:40]!r}")
        self._remaining = int(length)
        if self._remaining > LONGEST_BODY:
            raise MalformedResponse(f"a response of {self._remaining} bytes is longer than {LONGEST_BODY}")
        return "sized" if self._remaining else "done"

    def _take_body(self, data: bytes, position: int, next_state: ResponseState) -> int:
        part = data[position : position + self._remaining] if position or len(data) > self._remaining else data
        if part:
            self._remaining -= len(part)
            self._add_part(part)
        if not self._remaining:
            self._state = next_state
        return position + len(part)

    def _add_part(self, part: bytes) -> None:
        if part:
            self.parts.append(part)
            self._size += len(part)

    @property
    def size(self) -> int:
        """Bytes of the body so far, whether taken out or not."""
        return self._size

    def _read_chunks(self, data: bytes, position: int) -> int:
        """Reads the chunks in ``data`` as one part: many small ones would take far more memory than their content."""
        first = len(self.parts)
        try:
            return self._read_framed(data, position)
        finally:
            if len(self.parts) > first + 1:
                self.parts[first:] = [b"".join(self.parts[first:])]

    def _read_framed(self, data: bytes, position: int) -> int:
        while True:
            if self._state == "chunk":
                position = self._take_body(data, position, "chunk end")
                if self._remaining:
                    return position
            elif self._state == "chunk size":
                end = data.find(b"\r\n", position, position + _LONGEST_SIZE_LINE + 2)
                if end < 0:
                    return self._check_line_length(data, position)
                self._remaining = _chunk_size(data[position:end])
                self._count_framing(end - position)
                self._state = "chunk" if self._remaining else "trailers"
                position = end + 2
            elif self._state == "chunk end":
                if len(data) - position < 2:
                    return position
                if data[position : position + 2] != b"\r\n":
                    raise MalformedResponse(f"a chunk ends with {data[position : position + 2]!r}")
                self._state = "chunk size"
                position += 2
            elif self._state == "trailers":
                end = data.find(b"\r\n", position, position + _LONGEST_SIZE_LINE + 2)
                if end < 0:
                    return self._check_line_length(data, position)
                self._trailers += end + 2 - position
                if self._trailers > _LONGEST_TRAILERS:
                    raise MalformedResponse(f"the trailers of a response are longer than {_LONGEST_TRAILERS} bytes")
                self._state = "done" if end == position else "trailers"
                position = end + 2
            else:
                return position

    def _count_framing(self, size_line: int) -> None:
        """Counts the framing of a chunk. As in Go's reader, each chunk may have 16 bytes of framing, and two more for
        each byte of its content."""
        self._excess = max(self._excess + size_line + 2 - 16 - 2 * self._remaining, 0)
        if self._excess > _EXCESS_MAX:
            raise MalformedResponse("a response is mostly framing between its chunks")

    def _check_line_length(self, data: bytes, position: int) -> int:
        if len(data) - position > _LONGEST_SIZE_LINE:
            raise MalformedResponse(f"a line between chunks is longer than {_LONGEST_SIZE_LINE} bytes")
        return position


def _check_unfinished(head: bytes | bytearray) -> None:
    if len(head) > LONGEST_HEAD:
        raise MalformedResponse(f"the head of a response is longer than {LONGEST_HEAD} bytes")
    if not b"HTTP/".startswith(head[:5]):
        raise MalformedResponse(f"a response starts with {bytes(head[:40])!r}")


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if not 0 < len(digits) <= 8 or not digits.isalnum():
        raise MalformedResponse(f"a chunk has the size {line[:40]!r}")
    try:
        return int(digits, 16)
    except ValueError:
        raise MalformedResponse(f"a chunk has the size {line[:40]!r}") from None


def _decompress(data: bytes, limit: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)
    try:
        whole = decompressor.decompress(data, limit)
    except zlib.error as error:
        raise MalformedResponse(f"a compressed body cannot be decompressed: {error}") from None
    if decompressor.unconsumed_tail:
        raise BodyTooLong(f"a compressed body is longer than {limit} bytes")
    if not decompressor.eof or decompressor.unused_data:
        raise MalformedResponse("a compressed body is truncated or has trailing data")
    return whole
