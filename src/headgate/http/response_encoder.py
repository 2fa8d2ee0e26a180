"""Encodes responses: the head, and the framing of a stream. No I/O; the caller provides the date."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
EXPECTATION_FAILED: Final = b"HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
NOT_TLS: Final = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}
_LINES: Final = {
    (minor, status): f"HTTP/1.{minor} {status} {phrase}\r\n" for minor in (0, 1) for status, phrase in _REASONS.items()
}

Headers = tuple[tuple[str, str], ...]


def encode_head(
    status: int,
    content_type: str,
    headers: Headers,
    *,
    minor: int,
    keep_alive: bool,
    length: int | None,
    date: str,
) -> bytes:
    """Without a ``length`` the body is sent in chunks, or, for HTTP/1.0, until the connection closes."""
    line = _LINES.get((min(minor, 1), status)) or f"HTTP/1.{min(minor, 1)} {status} \r\n"
    parts = [line]
    parts.extend([f"{name}: {value}\r\n" for name, value in headers])
    if content_type:
        parts.append(f"Content-Type: {content_type}\r\n")
    parts.append(f"Date: {date}\r\n")
    if length is not None:
        parts.append(f"Content-Length: {length}\r\n")
    elif minor >= 1:
        parts.append("Transfer-Encoding: chunked\r\n")
    if not keep_alive and minor >= 1:
        parts.append("Connection: close\r\n")
    elif keep_alive and minor == 0:
        parts.append("Connection: keep-alive\r\n")
    parts.append("\r\n")
    return "".join(parts).encode("utf-8")


def encode_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
