"""What a hostile server can make our HTTP client do: work in proportion to the bytes that it sends, and no more.

`cost_growth.py` measures sizes that grow fourfold: a quadratic step would cost sixteen times as much.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

import pytest

from cost_growth import cpu_s, too_steep
from headgate.http.response_parser import LONGEST_HEAD, MalformedResponse, ResponseParser

pytestmark = pytest.mark.measured

GROWTH = 4
SLACK = 2.0
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def feed_in_pieces(answer: ResponseParser, data: bytes, step: int) -> None:
    for start in range(0, len(data), step):
        answer.feed(data[start : start + step])


def fed(data: bytes, step: int) -> ResponseParser:
    response = ResponseParser()
    with contextlib.suppress(MalformedResponse):
        feed_in_pieces(response, data, step)
    return response


def feed_again(answer: ResponseParser, data: bytes, times: int) -> None:
    for _ in range(times):
        answer.feed(data)


SENT: dict[str, tuple[Callable[[int], bytes], int, int]] = {
    "a repeated header": (lambda size: OK + b"a:\r\n" * (size // 4) + b"Content-Length: 0\r\n\r\n", 15_000, 100_000),
    "a head in small pieces": (lambda size: OK + b"a:" + b"b" * size + b"\r\nContent-Length: 0\r\n\r\n", 15_000, 1),
    "informational answers": (lambda size: b"HTTP/1.1 100 Continue\r\n\r\n" * (size // 25), 50_000, 25),
    "small chunks": (lambda size: CHUNKED + b"1\r\nx\r\n" * (size // 6) + b"0\r\n\r\n", 200_000, 100_000),
    "small chunks in small pieces": (lambda size: CHUNKED + b"1\r\nx\r\n" * (size // 6) + b"0\r\n\r\n", 100_000, 3),
    "trailers": (lambda size: CHUNKED + b"0\r\n" + b"a: b\r\n" * (size // 6) + b"\r\n", 15_000, 7),
    "a body in small pieces": (lambda size: OK + b"Content-Length: %d\r\n\r\n" % size + b"x" * size, 50_000, 1),
}


@pytest.mark.parametrize("name", SENT)
def test_an_answer_takes_time_in_proportion_to_its_bytes(name: str) -> None:
    make, size, step = SENT[name]
    small, large = make(size), make(size * GROWTH)
    assert not too_steep(
        lambda: cpu_s(lambda: fed(small, step)), lambda: cpu_s(lambda: fed(large, step)), GROWTH * SLACK, 0.0
    )


def test_informational_answers_without_end_are_refused_and_not_kept() -> None:
    response = ResponseParser()
    with pytest.raises(MalformedResponse, match="informational"):
        feed_again(response, b"HTTP/1.1 100 Continue\r\n\r\n", 1000)


def test_an_informational_answer_before_the_answer_is_passed_over() -> None:
    response = ResponseParser()
    data = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\n{}"
    )
    for byte in data:
        response.feed(bytes([byte]))
    assert (response.status, response.body(), response.keep_alive) == (200, b"{}", True)


def test_a_whole_head_that_is_too_long_is_refused_however_it_comes() -> None:
    head = OK + b"a: " + b"b" * LONGEST_HEAD + b"\r\nContent-Length: 0\r\n\r\n"
    with pytest.raises(MalformedResponse, match="longer than"):
        ResponseParser().feed(head)
    with pytest.raises(MalformedResponse, match="longer than"):
        feed_in_pieces(ResponseParser(), head, 1000)


def test_trailers_without_end_are_refused() -> None:
    response = ResponseParser()
    response.feed(CHUNKED + b"0\r\n")
    with pytest.raises(MalformedResponse, match="trailers"):
        feed_again(response, b"a: b\r\n", 100_000)


def test_an_answer_that_is_mostly_framing_is_refused() -> None:
    response = ResponseParser()
    response.feed(CHUNKED)
    with pytest.raises(MalformedResponse, match="framing"):
        feed_again(response, b"1;" + b"e" * 500 + b"\r\nx\r\n", 1000)


def test_many_small_chunks_take_no_more_memory_than_their_bytes_on_the_wire() -> None:
    response = ResponseParser()
    response.feed(CHUNKED)
    piece = b"1\r\nx\r\n" * 1000
    for _ in range(10):
        response.feed(piece)
    assert sum(map(sys.getsizeof, response.parts)) + sys.getsizeof(response.parts) < len(piece) * 10
    assert b"".join(response.parts) == b"x" * 10_000
