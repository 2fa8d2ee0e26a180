"""The response parser: the same result for every division of the bytes, and errors for invalid responses."""

from __future__ import annotations

import gzip
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.http.response_parser import MalformedResponse, ResponseParser

SIZED = b"HTTP/1.1 201 Created\r\nContent-Type: a\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + SIZED
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\n\r\nhello"


def read(*pieces: bytes) -> ResponseParser:
    response = ResponseParser()
    for piece in pieces:
        response.feed(piece)
    return response


@given(st.sampled_from([SIZED, CHUNKED, CONTINUED, EMPTY]), st.sets(st.integers(1, 90)))
def test_an_answer_is_the_same_however_it_is_cut(whole: bytes, cuts: set[int]) -> None:
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    response = ResponseParser()
    for start, end in pairwise(places):
        assert not response.done
        response.feed(whole[start:end])
    assert response.done
    assert response.keep_alive
    expected = read(whole)
    assert (response.status, response.headers, response.body()) == (expected.status, expected.headers, expected.body())
    assert response.body() == (b"" if whole is EMPTY else b"hello")


@given(st.sampled_from([SIZED, CHUNKED]), st.integers(0, 90))
def test_an_answer_that_ends_too_early_is_not_done(whole: bytes, cut: int) -> None:
    response = read(whole[: min(cut, len(whole) - 1)])
    response.closed()
    assert not response.done


def test_without_a_length_the_end_of_the_connection_is_the_end() -> None:
    response = read(UNTIL_CLOSE)
    done = [response.done]
    response.closed()
    assert [*done, response.done] == [False, True]
    assert response.body() == b"hello"
    assert not response.keep_alive


@pytest.mark.parametrize(
    "spoiled",
    [
        SIZED + b"HTTP/1.1 200 OK\r\n\r\n",
        SIZED.replace(b"Content-Type: a", b"Connection: Close"),
        SIZED.replace(b"HTTP/1.1 201", b"HTTP/1.0 201"),
    ],
)
def test_a_connection_with_something_left_on_it_or_that_says_close_is_not_kept(spoiled: bytes) -> None:
    response = read(spoiled)
    assert response.done
    assert not response.keep_alive


@pytest.mark.parametrize(
    "garbage",
    [
        b"<html>",
        b"HTTQ",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 2000,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    ],
)
def test_what_is_no_answer_is_refused(garbage: bytes) -> None:
    with pytest.raises(MalformedResponse):
        read(garbage)


def packed(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_a_packed_body_is_unpacked_up_to_a_limit() -> None:
    response = read(packed(gzip.compress(b"hello" * 1000)))
    assert response.body() == b"hello" * 1000
    with pytest.raises(MalformedResponse, match="longer than 100"):
        response.body(limit=100)


HELLO = gzip.compress(b"hello", mtime=0)  # the same in every process that collects these tests


@pytest.mark.parametrize("body", [b"not gzip", HELLO[:-4], HELLO + b"more"])
def test_a_packed_body_that_is_damaged_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedResponse):
        read(packed(body)).body()
