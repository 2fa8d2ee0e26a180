"""Requests are read from bytes: what is accepted, what is rejected, and that splitting the bytes changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.http.request_head import BAD_REQUEST, TOO_LARGE, MalformedRequest
from headgate.http.request_reader import MalformedBody, ReceivedRequest, RequestReader
from headgate.http.server_limits import ServerLimits

LIMITS = ServerLimits(head_bytes=2000, body_bytes=100)
POST = b"POST /a/b?c=d HTTP/1.1\r\nHost: x\r\n"


def read(*pieces: bytes) -> list[ReceivedRequest | MalformedBody | MalformedRequest]:
    reader = RequestReader(LIMITS)
    found: list[ReceivedRequest | MalformedBody | MalformedRequest] = []
    for piece in pieces:
        reader.feed(piece)
        while (result := reader.next()) is not None:
            found.append(result)
            if not isinstance(result, ReceivedRequest) or not result.complete:
                return found
    return found


def read_one(*pieces: bytes) -> ReceivedRequest:
    (result,) = read(*pieces)
    assert isinstance(result, ReceivedRequest)
    return result


def test_a_request_has_its_parts() -> None:
    result = read_one(POST + b"X-Two: 1\r\nx-two: 2\r\nContent-Length: 2\r\n\r\n{}")
    assert (result.head.method, result.head.path, result.head.query, result.body) == ("POST", "/a/b", "c=d", b"{}")
    assert result.head.headers["x-two"] == "1"
    assert result.head.repeated == {"x-two": ("1", "2")}
    assert result.head.keep_alive
    assert result.complete


def test_a_body_that_is_too_long_is_read_up_to_one_byte_above_the_limit() -> None:
    result = read_one(POST + b"Content-Length: 1000\r\n\r\n" + b" " * 1000)
    assert (len(result.body), result.complete) == (101, False)


def test_chunks_that_are_too_long_are_read_up_to_one_byte_above_the_limit() -> None:
    result = read_one(POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"50\r\n" + b" " * 80 + b"\r\n50\r\n" + b" " * 80)
    assert (len(result.body), result.complete) == (101, False)


def test_a_body_of_the_maximum_length_is_complete() -> None:
    assert read_one(POST + b"Content-Length: 100\r\n\r\n" + b" " * 100).complete


def test_a_head_without_an_end_is_too_large_before_it_fills_memory() -> None:
    assert read(POST, *(b"X: aaaaaaaa\r\n" for _ in range(300))) == [TOO_LARGE]


def test_a_bad_request_line_is_refused_before_its_headers_have_come() -> None:
    assert read(b"hello\r\n") == [BAD_REQUEST]


def test_one_byte_chunks_are_accepted() -> None:
    result = read_one(POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 90 + b"0\r\n\r\n")
    assert result.body == b"x" * 90


def test_a_body_that_is_mostly_framing_is_rejected() -> None:
    (result,) = read(
        POST + b"Transfer-Encoding: chunked\r\n\r\n", *(b"1;" + b"e" * 1000 + b"\r\nx\r\n" for _ in range(50))
    )
    assert isinstance(result, MalformedBody)
    assert "non-data" in result.problem


def test_expect_100_continue_is_recognized() -> None:
    reader = RequestReader(LIMITS)
    reader.feed(POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert reader.next() is None
    assert reader.in_body is not None
    assert reader.in_body.expects_continue


@pytest.mark.parametrize(
    ("field", "minor", "kept"),
    [("", 1, True), ("", 0, False), ("Connection: a, Close\r\n", 1, False), ("Connection: Keep-Alive\r\n", 0, True)],
)
def test_keep_alive_follows_the_version_and_the_connection_header(field: str, minor: int, kept: bool) -> None:
    assert read_one(f"GET / HTTP/1.{minor}\r\nHost: x\r\n{field}\r\n".encode()).head.keep_alive is kept


WHOLE = [
    b"GET /one HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /two HTTP/1.1\nHost: x\nX: folded\n  twice\n\n",
    POST + b"Content-Length: 7\r\n\r\n\r\n\r\n{}\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\n3;x\r\n\r\n\r\r\n10\r\n0123456789abcdef\r\n0\r\nT: u\r\n\r\n",
    POST + b"Content-Length: 2\r\nContent-Length: 02\r\n\r\n{}",
    b"BAD\r\n\r\n",
]


@given(st.lists(st.sampled_from(WHOLE), max_size=6), st.lists(st.integers(min_value=1, max_value=60), max_size=60))
def test_the_requests_do_not_depend_on_how_the_bytes_are_split(requests: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(requests)
    pieces, start = [], 0
    for cut in cuts:
        pieces.append(stream[start : start + cut])
        start += cut
    pieces.append(stream[start:])
    assert read(*pieces) == read(stream)


@given(st.binary(max_size=300), st.integers(min_value=0, max_value=5))
def test_no_bytes_raise(noise: bytes, start: int) -> None:
    prefixes = (b"", b"GET / HTTP/1.1\r\n", POST, POST + b"Transfer-Encoding: chunked\r\n\r\n", b"GET ", POST + b"X: ")
    read(prefixes[start] + noise, noise)
