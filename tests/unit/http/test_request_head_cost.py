"""The CPU time of a request's head is linear in its bytes, whatever its lines are and however they are split.

`cost_growth.py` measures two sizes with a factor of four between them: a quadratic step would cost sixteen times as
much. The parsed fields are compared with a slow reference.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cost_growth import cpu_s, too_steep
from headgate.http.request_head import BAD_REQUEST, TOO_LARGE, HeaderFields, MalformedRequest, parse_fields
from headgate.http.request_reader import MalformedBody, ReceivedRequest, RequestReader
from headgate.http.server_limits import ServerLimits

pytestmark = pytest.mark.measured

SMALL, LARGE = 96_000, 384_000  # copies of what was read so far are cheap below that
GROWTH = LARGE // SMALL
SLACK = 2.0
LINE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
MakeHead = Callable[[int], bytes]


def feed(data: bytes, step: int) -> ReceivedRequest | MalformedBody | MalformedRequest | None:
    reader = RequestReader(ServerLimits())
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
        result = reader.next()
        if result is not None:
            return result
    return None


def assert_linear(make: MakeHead, step: int, outcome: type) -> None:
    small, large = make(SMALL), make(LARGE)
    assert isinstance(feed(large, step), outcome)
    assert not too_steep(
        lambda: cpu_s(lambda: feed(small, step)), lambda: cpu_s(lambda: feed(large, step)), GROWTH * SLACK, 0.0
    )


HEADS: dict[str, MakeHead] = {
    "one header repeated": lambda size: LINE + b"a:\r\n" * (size // 4) + b"\r\n",
    "two headers by turns": lambda size: LINE + b"a:\r\nb:\r\n" * (size // 8) + b"\r\n",
    "headers of many names": lambda size: LINE + b"".join(b"a%06d:\r\n" % at for at in range(size // 10)) + b"\r\n",
    "folded lines": lambda size: LINE + b"X: y\r\n" + b" a\r\n" * (size // 4) + b"\r\n",
    "folded lines without content": lambda size: LINE + b"X: y\r\n" + b" \r\n" * (size // 3) + b"\r\n",
    "many headers of two lines": lambda size: LINE + b"X:\r\n y\r\n" * (size // 8) + b"\r\n",
    "bare line feeds": lambda size: LINE + b"a:\n" * (size // 3) + b"\n",
    "blanks": lambda size: LINE + b"X:" + b" " * size + b"y\n\r\n",
    "a long address": lambda size: b"GET /" + b"%41" * (size // 3) + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a long address above many headers": lambda size: (
        b"GET /" + b"a" * (size // 2) + b" HTTP/1.1\r\nHost: x\r\n" + b"a:\r\n" * (size // 8) + b"\r\n"
    ),
    "codings in one line": lambda size: LINE + b"Connection: " + b"a," * (size // 2) + b"\r\n\r\n",
    "expectations": lambda size: LINE + b"Expect: 100-continue\r\n" + b"Expect: b\r\n" * (size // 11) + b"\r\n",
}
REFUSED: dict[str, MakeHead] = {
    "a bad line after many": lambda size: LINE + b"a:\r\n" * (size // 4) + b"\x01\r\n\r\n",
    "a bad value after many folds": lambda size: LINE + b"X: y\r\n" + b" a\r\n" * (size // 4) + b" \x01\r\n\r\n",
    "names without an end": lambda size: LINE + b"a" * size + b"\r\n\r\n",
    "many lengths": lambda size: LINE + b"".join(b"Content-Length: %d\r\n" % at for at in range(size // 24)) + b"\r\n",
    "many hosts": lambda size: LINE + b"Host: x\r\n" * (size // 9) + b"\r\n",
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_takes_time_in_proportion_to_its_bytes(name: str) -> None:
    assert_linear(HEADS[name], LARGE * 2, ReceivedRequest)


@pytest.mark.parametrize("name", REFUSED)
def test_a_head_that_is_refused_takes_time_in_proportion_to_its_bytes(name: str) -> None:
    assert_linear(REFUSED[name], LARGE * 2, MalformedRequest)


@pytest.mark.parametrize(
    "name", ["one header repeated", "folded lines", "a long address", "a long address above many headers"]
)
def test_a_head_that_comes_in_small_pieces_takes_time_in_proportion_to_its_bytes(name: str) -> None:
    assert_linear(HEADS[name], 16, ReceivedRequest)


@pytest.mark.parametrize("size", ["1", "2;x=y", "1   "])
def test_small_chunks_take_time_in_proportion_to_their_bytes(size: str) -> None:
    chunk = size.encode() + b"\r\n" + b"x" * int(size[0]) + b"\r\n"
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    def make(size: int) -> bytes:
        return head + chunk * (size // 8 // len(chunk)) + b"0\r\n\r\n"

    assert_linear(make, 65536, ReceivedRequest)


def test_the_limit_is_bytes_and_not_lines() -> None:
    limit = ServerLimits().head_bytes
    assert limit == 1024 * 1024 + 4096, "as in Go"
    lines = (limit - len(LINE) - 2) // 4
    padding = limit - len(LINE) - 2 - 4 * lines
    head = LINE.replace(b"/healthz", b"/healthz" + b"z" * padding) + b"a:\r\n" * lines + b"\r\n"
    assert len(head) == limit
    assert isinstance(feed(head, limit), ReceivedRequest)
    assert feed(head.replace(b"/healthz", b"/healthzz"), limit + 1) == TOO_LARGE


def test_a_long_head_is_not_remembered_by_an_idle_connection() -> None:
    reader = RequestReader(ServerLimits())
    reader.feed(LINE + b"X: " + b"y" * 500_000 + b"\r\n\r\n")
    assert isinstance(reader.next(), ReceivedRequest)
    assert reader._last_head is None
    assert reader._last_fields is None


def slow_fields(block: bytes) -> HeaderFields | MalformedRequest:
    """What Go's textproto does with header lines, one after the other."""
    if block[:1] in (b" ", b"\t"):
        return BAD_REQUEST
    lines: list[bytes] = []
    for raw in block.split(b"\n")[:-1]:
        line = raw.removesuffix(b"\r")
        if lines and line[:1] in (b" ", b"\t"):
            lines[-1] += b" " + line.strip(b" \t")
        elif b":" not in line:
            return BAD_REQUEST
        else:
            lines.append(line.strip(b" \t"))
    token = b"!#$%&'*+-.^_`|~ 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    values: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        if not name or any(each not in token for each in name):
            return BAD_REQUEST
        if any((each < 0x20 and each != 9) or each == 0x7F for each in value):
            return BAD_REQUEST
        values.setdefault(name.decode().lower(), []).append(value.strip(b" \t").decode("latin-1"))
    first = {name: each[0] for name, each in values.items()}
    return HeaderFields(first, {name: tuple(each) for name, each in values.items() if len(each) > 1})


PIECES = [
    b"a",
    b"B",
    b":",
    b": ",
    b" ",
    b"\t",
    b"\r\n",
    b"\n",
    b"\r",
    b"x: y\r\n",
    b"\x00",
    b"\xe9",
    b"(",
    b"a:b\n",
    b"\r\n ",
    b"\n\t",
]


@settings(max_examples=1000)
@example(b"x: y\r\n \r\n\t \r\n  z \n")
@given(st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join))
def test_header_lines_are_parsed_as_go_parses_them(block: bytes) -> None:
    assert parse_fields(block + b"\n") == slow_fields(block + b"\n")
