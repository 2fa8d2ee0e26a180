"""Requests out of bytes: what is read, what is refused, and that it does not matter how the bytes are cut."""

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
        while (got := reader.next()) is not None:
            found.append(got)
            if not isinstance(got, ReceivedRequest) or not got.whole:
                return found
    return found


def arrived(*pieces: bytes) -> ReceivedRequest:
    (got,) = read(*pieces)
    assert isinstance(got, ReceivedRequest)
    return got


def test_a_request_has_its_parts() -> None:
    got = arrived(POST + b"X-Two: 1\r\nx-two: 2\r\nContent-Length: 2\r\n\r\n{}")
    assert (got.head.method, got.head.path, got.head.query, got.body) == ("POST", "/a/b", "c=d", b"{}")
    assert got.head.headers["x-two"] == "1"
    assert got.head.repeated == {"x-two": ("1", "2")}
    assert got.head.keep_alive
    assert got.whole


def test_a_body_longer_than_allowed_is_read_no_further_than_to_see_it() -> None:
    got = arrived(POST + b"Content-Length: 1000\r\n\r\n" + b" " * 1000)
    assert (len(got.body), got.whole) == (101, False)


def test_chunks_longer_than_allowed_are_read_no_further_than_to_see_it() -> None:
    got = arrived(POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"50\r\n" + b" " * 80 + b"\r\n50\r\n" + b" " * 80)
    assert (len(got.body), got.whole) == (101, False)


def test_a_body_of_just_the_allowed_length_is_whole() -> None:
    assert arrived(POST + b"Content-Length: 100\r\n\r\n" + b" " * 100).whole


def test_a_head_without_an_end_is_too_large_before_it_fills_memory() -> None:
    assert read(POST, *(b"X: aaaaaaaa\r\n" for _ in range(300))) == [TOO_LARGE]


def test_a_bad_request_line_is_refused_before_its_headers_have_come() -> None:
    assert read(b"hello\r\n") == [BAD_REQUEST]


def test_a_client_that_sends_one_byte_chunks_is_read() -> None:
    got = arrived(POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 90 + b"0\r\n\r\n")
    assert got.body == b"x" * 90


def test_a_client_that_sends_mostly_framing_is_not() -> None:
    (got,) = read(
        POST + b"Transfer-Encoding: chunked\r\n\r\n", *(b"1;" + b"e" * 1000 + b"\r\nx\r\n" for _ in range(50))
    )
    assert isinstance(got, MalformedBody)
    assert "non-data" in got.problem


def test_an_expectation_is_seen() -> None:
    reader = RequestReader(LIMITS)
    reader.feed(POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert reader.next() is None
    assert reader.in_body is not None
    assert reader.in_body.expects_continue


@pytest.mark.parametrize(
    ("field", "minor", "kept"),
    [("", 1, True), ("", 0, False), ("Connection: a, Close\r\n", 1, False), ("Connection: Keep-Alive\r\n", 0, True)],
)
def test_how_long_the_connection_is_kept(field: str, minor: int, kept: bool) -> None:
    assert arrived(f"GET / HTTP/1.{minor}\r\nHost: x\r\n{field}\r\n".encode()).head.keep_alive is kept


WHOLE = [
    b"GET /one HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /two HTTP/1.1\nHost: x\nX: folded\n  twice\n\n",
    POST + b"Content-Length: 7\r\n\r\n\r\n\r\n{}\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\n3;x\r\n\r\n\r\r\n10\r\n0123456789abcdef\r\n0\r\nT: u\r\n\r\n",
    POST + b"Content-Length: 2\r\nContent-Length: 02\r\n\r\n{}",
    b"BAD\r\n\r\n",
]


@given(st.lists(st.sampled_from(WHOLE), max_size=6), st.lists(st.integers(min_value=1, max_value=60), max_size=60))
def test_it_does_not_matter_how_the_bytes_are_cut(requests: list[bytes], cuts: list[int]) -> None:
    everything = b"".join(requests)
    pieces, start = [], 0
    for cut in cuts:
        pieces.append(everything[start : start + cut])
        start += cut
    pieces.append(everything[start:])
    assert read(*pieces) == read(everything)


@given(st.binary(max_size=300), st.integers(min_value=0, max_value=5))
def test_no_bytes_raise(noise: bytes, start: int) -> None:
    prefixes = (b"", b"GET / HTTP/1.1\r\n", POST, POST + b"Transfer-Encoding: chunked\r\n\r\n", b"GET ", POST + b"X: ")
    read(prefixes[start] + noise, noise)
