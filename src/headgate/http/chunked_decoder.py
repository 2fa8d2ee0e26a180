"""Decodes the body of a request with ``Transfer-Encoding: chunked``.

It is as strict as a Go server: the lines of a chunk end in CRLF and are short, and the framing may not be much longer
than the content. Trailers are read and dropped. ``request_reader.py`` feeds the decoder and limits the body.
"""

from __future__ import annotations

import re
from typing import Final, Literal

_SIZE: Final = re.compile(rb"[0-9A-Fa-f]+")
_SIZE_DIGITS: Final = 16
_LINE_MAX: Final = 4096
_TRAILERS_MAX: Final = 4096
_EXCESS_MAX: Final = 16 * 1024

ChunkState = Literal["size", "data", "data end", "trailers", "done", "broken"]

_BARE_LF: Final = "chunked line ends with bare LF"
_STRAY_CR: Final = "invalid CR in chunked line"
_TOO_LONG: Final = "header line too long"
_NO_SIZE: Final = "empty hex number for chunk length"
_BAD_SIZE: Final = "invalid byte in chunk length"
_LARGE_SIZE: Final = "http chunk length too large"
_NO_END: Final = "malformed chunked encoding"
_MOSTLY_FRAMING: Final = "chunked encoding contains too much non-data"


class ChunkedDecoder:
    """Takes framed bytes from the front of a buffer. After ``done``, the remaining bytes belong to the next request."""

    __slots__ = ("_excess", "_remaining", "problem", "state")

    def __init__(self) -> None:
        self.state: ChunkState = "size"
        self._remaining = 0  # bytes of the current chunk that have not arrived
        self._excess = 0
        self.problem = ""  # why the state is "broken"

    def take(self, buffer: bytearray, limit: int) -> bytes:
        """The next bytes of the body, at most ``limit``. Empty: more input is needed, or ``state`` is final."""
        taken = bytearray()
        while len(taken) < limit:
            before = self.state, len(buffer)
            if self.state == "data":
                part = buffer[: min(self._remaining, limit - len(taken))]
                del buffer[: len(part)]
                taken += part
                self._remaining -= len(part)
                self.state = "data" if self._remaining else "data end"
            elif self.state == "size":
                self.state = self._read_size(buffer)
            elif self.state == "data end" and len(buffer) >= 2:
                self.state = "size" if buffer.startswith(b"\r\n") else self._fail(_NO_END)
                del buffer[:2]
            elif self.state == "trailers":
                self.state = self._read_trailers(buffer)
            if (self.state, len(buffer)) == before:
                break
        return bytes(taken)

    def _read_size(self, buffer: bytearray) -> ChunkState:
        end = buffer.find(b"\n")
        if end < 0:
            return "size" if len(buffer) < _LINE_MAX else self._fail(_TOO_LONG)
        line = bytes(buffer[: end + 1])
        if b"\r" not in line:
            return self._fail(_BARE_LF)
        if line.find(b"\r") != end - 1:
            return self._fail(_STRAY_CR)
        if end > _LINE_MAX:
            return self._fail(_TOO_LONG)
        size = line[:-2].rstrip(b" \t").partition(b";")[0]
        if _SIZE.fullmatch(size) is None:
            return self._fail(_BAD_SIZE if size else _NO_SIZE)
        if len(size) > _SIZE_DIGITS:
            return self._fail(_LARGE_SIZE)
        del buffer[: end + 1]
        self._remaining = int(size, 16)
        # Each chunk may cost 16 bytes of framing, and each byte of content two more.
        self._excess = max(self._excess + end + 1 - 16 - 2 * self._remaining, 0)
        if self._excess > _EXCESS_MAX:
            return self._fail(_MOSTLY_FRAMING)
        return "data" if self._remaining else "trailers"

    def _read_trailers(self, buffer: bytearray) -> ChunkState:
        if buffer.startswith(b"\r\n"):
            del buffer[:2]
            return "done"
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            return "trailers" if len(buffer) <= _TRAILERS_MAX else self._fail(_TOO_LONG)
        del buffer[: end + 4]
        return "done"

    def _fail(self, problem: str) -> ChunkState:
        self.problem = problem
        return "broken"
