"""The bytes of an answer, read: status, header fields, and the body out of its length or its chunks.

Pure and without waiting: bytes go in as they come, and what is whole so far can be taken out. Whatever does not look
like an answer to a request of ours raises ``Garbled``; nothing is guessed, for a connection on which two answers were
told apart wrongly would give one caller what another one asked for. ``http/line/shell.py`` feeds it.
"""

from __future__ import annotations

import zlib
from typing import Final, Literal

LONGEST_HEAD: Final = 64 * 1024
LONGEST_BODY: Final = 512 * 1024 * 1024
_LONGEST_SIZE_LINE: Final = 1024
_NO_BODY: Final = frozenset({204, 304})

Place = Literal["head", "sized", "chunk size", "chunk", "chunk end", "trailers", "until close", "done"]


class Garbled(Exception):
    """The server sent what is no answer, or more of it than we take."""


class Answer:
    """One answer. ``parts`` may be taken out (and the list emptied) at any time; ``done`` says that all is in it."""

    __slots__ = ("_left", "_place", "_rest", "_size", "headers", "parts", "status")

    def __init__(self) -> None:
        self.status = 0  # until the head is whole
        self.headers: dict[str, str] = {}
        self.parts: list[bytes] = []
        self._rest = b""  # not understood yet
        self._place: Place = "head"
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
            data = self._rest + data
            self._rest = b""
        at = 0
        if self._place == "head":
            at = self._read_head(data)
            if at < 0:
                self._rest = data
                return
        if self._place == "sized":
            at = self._take(data, at, "done")
        elif self._place == "until close":
            self._keep(data[at:] if at else data)
            return
        elif self._place != "done":
            at = self._read_chunks(data, at)
        self._rest = data[at:] if at < len(data) else b""

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
            raise Garbled(f"the body is packed as {packed!r}, which was not asked for")
        return _unpacked(whole, limit)

    def _read_head(self, data: bytes) -> int:
        """Where the body starts; below 0: the head is not whole yet."""
        at = 0
        while True:
            end = data.find(b"\r\n\r\n", at)
            if end < 0:
                if len(data) - at > LONGEST_HEAD:
                    raise Garbled(f"the head of an answer is longer than {LONGEST_HEAD} bytes")
                if not b"HTTP/".startswith(data[at : at + 5]):
                    raise Garbled(f"an answer starts with {data[at : at + 40]!r}")
                return -1
            self._parse_head(data[at:end])
            at = end + 4
            if self.status >= 200:
                break
        self._place = self._body_place()
        return at

    def _parse_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        code = rest[:3]
        if not version.startswith("HTTP/1.") or not code.isdecimal() or not code.isascii() or code < "100":
            raise Garbled(f"an answer starts with {first[:40]!r}")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name[0] in " \t" or name[-1] in " \t":
                raise Garbled(f"an answer has the header line {line[:40]!r}")
            name = name.lower()
            value = value.strip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        if version == "HTTP/1.0":
            headers.setdefault("connection", "close")
        self.status = int(code)
        self.headers = headers

    def _body_place(self) -> Place:
        headers = self.headers
        if self.status in _NO_BODY:
            return "done"
        coding = headers.get("transfer-encoding")
        if coding is not None:
            if coding.lower() != "chunked" or "content-length" in headers:
                raise Garbled(f"an answer has the transfer-encoding {coding[:40]!r}, and maybe a length too")
            return "chunk size"
        length = headers.get("content-length")
        if length is None:
            headers["connection"] = "close"
            return "until close"
        if not length.isdecimal() or not length.isascii() or len(length) > 12:
            raise Garbled(f"an answer has the content-length {length[:40]!r}")
        self._left = int(length)
        if self._left > LONGEST_BODY:
            raise Garbled(f"an answer of {self._left} bytes is longer than {LONGEST_BODY}")
        return "sized" if self._left else "done"

    def _take(self, data: bytes, at: int, then: Place) -> int:
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
        while True:
            if self._place == "chunk":
                at = self._take(data, at, "chunk end")
                if self._left:
                    return at
            elif self._place == "chunk size":
                end = data.find(b"\r\n", at)
                if end < 0:
                    return self._short(data, at)
                self._left = _chunk_size(data[at:end])
                self._place = "chunk" if self._left else "trailers"
                at = end + 2
            elif self._place == "chunk end":
                if len(data) - at < 2:
                    return at
                if data[at : at + 2] != b"\r\n":
                    raise Garbled(f"a chunk ends with {data[at : at + 2]!r}")
                self._place = "chunk size"
                at += 2
            elif self._place == "trailers":
                end = data.find(b"\r\n", at)
                if end < 0:
                    return self._short(data, at)
                self._place = "done" if end == at else "trailers"
                at = end + 2
            else:
                return at

    def _short(self, data: bytes, at: int) -> int:
        if len(data) - at > _LONGEST_SIZE_LINE:
            raise Garbled(f"a line between chunks is longer than {_LONGEST_SIZE_LINE} bytes")
        return at


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip(b" \t")
    if not 0 < len(digits) <= 8 or not digits.isalnum():
        raise Garbled(f"a chunk has the size {line[:40]!r}")
    try:
        return int(digits, 16)
    except ValueError:
        raise Garbled(f"a chunk has the size {line[:40]!r}") from None


def _unpacked(packed: bytes, limit: int) -> bytes:
    machine = zlib.decompressobj(wbits=31)
    try:
        whole = machine.decompress(packed, limit)
    except zlib.error as error:
        raise Garbled(f"a packed body cannot be unpacked: {error}") from None
    if machine.unconsumed_tail:
        raise Garbled(f"a packed body is longer than {limit} bytes")
    if not machine.eof or machine.unused_data:
        raise Garbled("a packed body ends too early, or too late")
    return whole
