"""Parses a response: status, header fields, and the body by its length or its chunks.

Pure and non-blocking: bytes go in as they arrive, and complete parts can be taken out. Bytes that are not a valid
response raise ``MalformedResponse``; nothing is guessed, because a wrong boundary between two responses would give one
caller the response of another. ``http/client_connection.py`` feeds it.

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
_MOST_INFORMATIONAL: Final = 5  # answers below 200 before the one that counts, as in Go's client
_EXCESS_MAX: Final = 16 * 1024
_HEAD_END: Final = b"\r\n\r\n"
_NO_BODY: Final = frozenset({204, 304})

ResponseState = Literal["head", "sized", "chunk size", "chunk", "chunk end", "trailers", "until close", "done"]


class MalformedResponse(Exception):
    """The server sent bytes that are no valid response, or exceeded a limit."""


class ResponseParser:
    """One response. ``parts`` may be taken out (and the list emptied) at any time; ``done``: the response is whole."""

    __slots__ = (
        "_excess",
        "_informational",
        "_left",
        "_place",
        "_rest",
        "_searched",
        "_size",
        "_trailers",
        "headers",
        "parts",
        "status",
    )

    def __init__(self) -> None:
        self.status = 0  # until the head is whole
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self._rest = bytearray()  # not understood yet
        self._searched = 0  # up to here ``_rest`` has no end of a head
        self._informational = 0
        self._excess = 0  # bytes of framing beyond what the content allows
        self._trailers = 0
        self._place: ResponseState = "head"
        self._left = 0  # bytes of the body, or of a chunk, that are still to come
        self._size = 0

    @property
    def done(self) -> bool:
        return self._place == "done"

    @property
    def surplus(self) -> bool:
        """Something came after the end."""
        return bool(self._rest) and self._place == "done"

    @property
    def keeps(self) -> bool:
        """Whether the connection may serve another request."""
        return self._place == "done" and not self._rest and self.headers.get("connection", "").lower() != "close"

    @property
    def started(self) -> bool:
        return bool(self.status or self._rest)

    def feed(self, data: bytes) -> None:
        """Reads on; for a ``done`` answer anything more is surplus."""
        if self._rest:
            self._rest += data
            if self._place == "head" and not self._has_head():
                return
            data, self._rest = bytes(self._rest), bytearray()
        at = 0
        if self._place == "head":
            at = self._read_head(data)
            if self._place == "head":
                self._rest += data[at:]
                return
        if self._place == "sized":
            at = self._take(data, at, "done")
        elif self._place == "until close":
            self._keep(data[at:] if at else data)
            return
        elif self._place != "done":
            at = self._read_chunks(data, at)
        if at < len(data):
            self._rest += data[at:]

    def closed(self) -> None:
        """The server closed the connection: an end for some answers, and for others too early."""
        if self._place == "until close":
            self._place = "done"

    def body(self, limit: int = LONGEST_BODY) -> bytes:
        """The whole body, unpacked if it came packed."""
        whole = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        packed = self.headers.get("content-encoding", "identity").lower()
        if packed == "identity" or not whole:
            return whole
        if packed not in ("gzip", "x-gzip"):
            raise MalformedResponse(f"the body is packed as {packed!r}, which was not asked for")
        return _unpacked(whole, limit)

    def _has_head(self) -> bool:
        """Whether a head in ``_rest`` is whole. Each byte is searched once, however many pieces it comes in."""
        found = self._rest.find(_HEAD_END, self._searched) >= 0
        self._searched = 0 if found else max(len(self._rest) - len(_HEAD_END) + 1, 0)
        if not found:
            _check_unfinished(self._rest)
        return found

    def _read_head(self, data: bytes) -> int:
        """Where the body starts, or the head that is not whole yet."""
        at = 0
        while (end := data.find(_HEAD_END, at)) >= 0:
            self._parse_head(data[at:end])
            at = end + len(_HEAD_END)
            if self.status >= 200:
                self._place = self._body_place()
                return at
            self._informational += 1
            if self._informational > _MOST_INFORMATIONAL:
                raise MalformedResponse(f"an answer begins with more than {_MOST_INFORMATIONAL} informational ones")
        _check_unfinished(data[at:])
        return at

    def _parse_head(self, head: bytes) -> None:
        if len(head) > LONGEST_HEAD:
            raise MalformedResponse(f"the head of an answer is longer than {LONGEST_HEAD} bytes")
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not code.isdecimal() or not code.isascii() or code < "100":
            raise MalformedResponse(f"an answer starts with {first[:40]!r}")
        values: dict[str, list[str]] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name[0] in " \t" or name[-1] in " \t":
                raise MalformedResponse(f"an answer has the header line {line[:40]!r}")
            values.setdefault(name.lower(), []).append(value.strip(" \t"))
        headers = {name: ", ".join(each) for name, each in values.items()}
        if version == "HTTP/1.0":
            headers.setdefault("connection", "close")
        self.status = int(code)
        self.headers = headers

    def _body_place(self) -> ResponseState:
        headers = self.headers
        if self.status in _NO_BODY:
            return "done"
        coding = headers.get("transfer-encoding")
        if coding is not None:
            if coding.lower() != "chunked" or "content-length" in headers:
                raise MalformedResponse(f"an answer has the transfer-encoding {coding[:40]!r}, and maybe a length too")
            return "chunk size"
        length = headers.get("content-length")
        if length is None:
            headers["connection"] = "close"
            return "until close"
        if not length.isdecimal() or not length.isascii() or len(length) > 12:
            raise MalformedResponse(f"an answer has the content-length {length[:40]!r}")
        self._left = int(length)
        if self._left > LONGEST_BODY:
            raise MalformedResponse(f"an answer of {self._left} bytes is longer than {LONGEST_BODY}")
        return "sized" if self._left else "done"

    def _take(self, data: bytes, at: int, then: ResponseState) -> int:
        part = data[at : at + self._left] if at or len(data) > self._left else data
        if part:
            self._left -= len(part)
            self._keep(part)
        if not self._left:
            self._place = then
        return at + len(part)

    def _keep(self, part: bytes) -> None:
        if part:
            self.parts.append(part)
            self._size += len(part)

    @property
    def size(self) -> int:
        """Bytes of the body so far, whether taken out or not."""
        return self._size

    def _read_chunks(self, data: bytes, at: int) -> int:
        """The chunks that are in ``data``, as one part: of many small ones each would take more memory than it has."""
        first = len(self.parts)
        try:
            return self._read_framed(data, at)
        finally:
            if len(self.parts) > first + 1:
                self.parts[first:] = [b"".join(self.parts[first:])]

    def _read_framed(self, data: bytes, at: int) -> int:
        while True:
            if self._place == "chunk":
                at = self._take(data, at, "chunk end")
                if self._left:
                    return at
            elif self._place == "chunk size":
                end = data.find(b"\r\n", at, at + _LONGEST_SIZE_LINE + 2)
                if end < 0:
                    return self._short(data, at)
                self._left = _chunk_size(data[at:end])
                self._count_framing(end - at)
                self._place = "chunk" if self._left else "trailers"
                at = end + 2
            elif self._place == "chunk end":
                if len(data) - at < 2:
                    return at
                if data[at : at + 2] != b"\r\n":
                    raise MalformedResponse(f"a chunk ends with {data[at : at + 2]!r}")
                self._place = "chunk size"
                at += 2
            elif self._place == "trailers":
                end = data.find(b"\r\n", at, at + _LONGEST_SIZE_LINE + 2)
                if end < 0:
                    return self._short(data, at)
                self._trailers += end + 2 - at
                if self._trailers > _LONGEST_TRAILERS:
                    raise MalformedResponse(f"the trailers of an answer are longer than {_LONGEST_TRAILERS} bytes")
                self._place = "done" if end == at else "trailers"
                at = end + 2
            else:
                return at

    def _count_framing(self, size_line: int) -> None:
        """Each chunk may cost 16 bytes of framing, and each byte of content two more, as in Go's reader."""
        self._excess = max(self._excess + size_line + 2 - 16 - 2 * self._left, 0)
        if self._excess > _EXCESS_MAX:
            raise MalformedResponse("an answer is mostly framing between its chunks")

    def _short(self, data: bytes, at: int) -> int:
        if len(data) - at > _LONGEST_SIZE_LINE:
            raise MalformedResponse(f"a line between chunks is longer than {_LONGEST_SIZE_LINE} bytes")
        return at


def _check_unfinished(head: bytes | bytearray) -> None:
    if len(head) > LONGEST_HEAD:
        raise MalformedResponse(f"the head of an answer is longer than {LONGEST_HEAD} bytes")
    if not b"HTTP/".startswith(head[:5]):
        raise MalformedResponse(f"an answer starts with {bytes(head[:40])!r}")


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if not 0 < len(digits) <= 8 or not digits.isalnum():
        raise MalformedResponse(f"a chunk has the size {line[:40]!r}")
    try:
        return int(digits, 16)
    except ValueError:
        raise MalformedResponse(f"a chunk has the size {line[:40]!r}") from None


def _unpacked(packed: bytes, limit: int) -> bytes:
    machine = zlib.decompressobj(wbits=31)
    try:
        whole = machine.decompress(packed, limit)
    except zlib.error as error:
        raise MalformedResponse(f"a packed body cannot be unpacked: {error}") from None
    if machine.unconsumed_tail:
        raise MalformedResponse(f"a packed body is longer than {limit} bytes")
    if not machine.eof or machine.unused_data:
        raise MalformedResponse("a packed body ends too early, or too late")
    return whole
