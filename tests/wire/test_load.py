"""Hostile clients: slow ones, greedy ones, floods of them. Each is dropped; other clients are not affected."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headgate.http.server_limits import ServerLimits
from wire.http_front import ADMIN, MAPS, PATIENCE_S, SOMEBODY, Front, GoodClient, closed_by_server

LIMITS = ServerLimits(
    head_bytes=64 * 1024,
    total_body_bytes=1024 * 1024,
    unsent_bytes=64 * 1024,
    connections=60,
    handshake_s=1.0,
    head_s=1.0,
    body_s=1.0,
    stalled_s=1.0,
    idle_s=60.0,
    stop_s=1.0,
    reads_in_flight=1,
)
HEAD = f"Host: x\r\nAuthorization: Bearer {ADMIN}\r\nContent-Type: application/json\r\n".encode()
LONG = "x" * 500_000


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    server = Front(tmp_path, LIMITS)
    yield server
    server.stop()


@pytest.fixture
def good(front: Front) -> Iterator[GoodClient]:
    client = GoodClient(front)
    yield client
    assert not client.was_cut
    client.close()


@pytest.fixture
def crowd() -> Iterator[Callable[[socket.socket], socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield stack.enter_context


def work_until(good: GoodClient, done: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    good.work()
    while not done():
        assert time.monotonic() < deadline_s, "the hostile client is still there"
        good.work()


Crowd = Callable[[socket.socket], socket.socket]


def test_clients_that_never_shake_hands_are_dropped(front: Front, good: GoodClient, crowd: Crowd) -> None:
    hostile = [crowd(front.connect()) for _ in range(30)]
    work_until(good, lambda: all(map(closed_by_server, hostile)))


def test_heads_that_never_end_are_dropped(front: Front, good: GoodClient, crowd: Crowd) -> None:
    hostile = [crowd(front.line()) for _ in range(30)]
    for each in hostile:
        each.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")

    def drip() -> bool:
        for each in hostile:
            with contextlib.suppress(OSError):
                each.sendall(b"y")
        return all(map(closed_by_server, hostile))

    work_until(good, drip)


def test_bodies_that_never_end_get_a_timeout_and_are_dropped(front: Front, good: GoodClient, crowd: Crowd) -> None:
    hostile = crowd(front.line())
    hostile.sendall(b"POST " + MAPS.encode() + b" HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\n{")
    good.work()
    got = b""
    while data := hostile.recv(65536):
        got += data
    assert got.startswith(b"HTTP/1.1 504 Gateway Timeout\r\n")
    good.work()


def test_slowly_sent_bodies_get_no_more_time_than_others(front: Front, good: GoodClient, crowd: Crowd) -> None:
    hostile = [crowd(front.line()) for _ in range(10)]
    for each in hostile:
        each.sendall(b"POST " + MAPS.encode() + b" HTTP/1.1\r\n" + HEAD + b"Content-Length: 100000\r\n\r\n{")

    def drip() -> bool:
        for each in hostile:
            with contextlib.suppress(OSError):
                each.sendall(b" ")
        return all(map(_has_ended, hostile))

    work_until(good, drip)


def test_bodies_that_fill_memory_together_are_refused(front: Front, good: GoodClient, crowd: Crowd) -> None:
    hostile = [crowd(front.line()) for _ in range(8)]
    for each in hostile:
        with contextlib.suppress(OSError):
            each.sendall(b"POST " + MAPS.encode() + b" HTTP/1.1\r\n" + HEAD + b"Content-Length: 400000\r\n\r\n")
            each.sendall(b" " * 300_000)
    good.work()
    answers = []
    for each in hostile:
        with contextlib.suppress(OSError):
            answers.append(each.recv(12))
    assert b"HTTP/1.1 429" in answers


def test_an_unauthenticated_request_with_a_long_body_is_refused_before_it_is_read(
    front: Front, good: GoodClient, crowd: Crowd
) -> None:
    hostile = crowd(front.line())
    token = b"Authorization: Bearer  after-two-blanks\r\n"
    hostile.sendall(
        b"POST " + MAPS.encode() + b" HTTP/1.1\r\nHost: x\r\n" + token + b"Content-Length: 3000000\r\n\r\n{"
    )
    refusal = hostile.recv(4096)
    assert refusal.startswith(b"HTTP/1.1 401")
    assert b"extra space before the bearer token" in refusal, "the same answer as to a body that came with its head"
    good.work()


def test_a_flood_of_connections_does_not_block_authenticated_clients(
    front: Front, good: GoodClient, crowd: Crowd
) -> None:
    flood = [crowd(front.connect()) for _ in range(300)]
    good.work()
    assert front.ask("GET", MAPS)[0] == 200
    work_until(good, lambda: all(map(closed_by_server, flood)))


def test_a_client_that_does_not_read_its_list_is_dropped(front: Front, good: GoodClient, crowd: Crowd) -> None:
    for number in range(20):
        assert front.ask("POST", MAPS, {"metadata": {"name": f"long-{number}"}, "data": {"x": LONG}})[0] == 201
    hostile = _deaf(front)
    with hostile:
        hostile.sendall(b"GET " + MAPS.encode() + b" HTTP/1.1\r\n" + HEAD + b"\r\n")
        work_until(good, lambda: _is_reset(hostile))


def test_a_watcher_that_does_not_read_is_dropped_and_the_others_see_everything(
    front: Front, good: GoodClient, crowd: Crowd
) -> None:
    hostile, reading = _deaf(front), crowd(front.line())
    request = b"GET " + MAPS.encode() + b"?watch=true HTTP/1.1\r\n" + HEAD + b"\r\n"
    hostile.sendall(request)
    reading.sendall(request)
    with hostile, ThreadPoolExecutor(1) as reader:
        seen = reader.submit(_read_until, reading, b"the-last-one")
        for number in range(20):
            assert front.ask("POST", MAPS, {"metadata": {"name": f"long-{number}"}, "data": {"x": LONG}})[0] == 201
        work_until(good, lambda: _is_reset(hostile))
        assert front.ask("POST", MAPS, {"metadata": {"name": "the-last-one"}})[0] == 201
        got = seen.result()
    assert all(f'"name":"long-{number}"'.encode() in got for number in range(20))


def _read_until(line: socket.socket, last: bytes) -> bytes:
    got = bytearray()
    while last not in got[-10_000:]:
        data = line.recv(1 << 20)
        assert data, "the server ended the watch of a client that reads"
        got += data
    return bytes(got)


def test_a_client_that_sends_requests_and_reads_no_answers_is_dropped(front: Front, good: GoodClient) -> None:
    hostile = _deaf(front)
    hostile.settimeout(0.1)
    with hostile:

        def send() -> bool:
            try:
                for _ in range(100):
                    hostile.sendall(b"GET /api/v1 HTTP/1.1\r\n" + HEAD + b"\r\n")
            except TimeoutError:
                pass
            except OSError:
                return True
            return False

        work_until(good, send)


def test_too_many_concurrent_requests_get_429(front: Front, crowd: Crowd) -> None:
    """One read is allowed in flight here, and one waits for a revision that is not there yet."""
    waiting = crowd(front.line())
    waiting.sendall(b"GET " + MAPS.encode() + b"?resourceVersion=999999 HTTP/1.1\r\n" + HEAD + b"\r\n")
    deadline_s = time.monotonic() + PATIENCE_S
    while (answer := front.ask("GET", MAPS, token=SOMEBODY))[0] != 429:
        assert answer[0] == 403
        assert time.monotonic() < deadline_s
    assert answer[1]["Retry-After"] == "1"
    assert answer[2] == b"Too many requests, please try again later.\n"
    assert front.ask("GET", MAPS)[0] == 200, "an administrator is always let in"
    assert waiting.recv(12) == b"HTTP/1.1 504"
    assert front.ask("GET", MAPS, token=SOMEBODY)[0] == 403


def test_plain_http_is_answered_in_the_plain(front: Front, crowd: Crowd) -> None:
    line = crowd(front.connect())
    line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    got = b""
    while data := line.recv(4096):
        got += data
    assert got == b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


def test_a_stop_ends_watches_properly_and_has_a_deadline(tmp_path: Path, crowd: Crowd) -> None:
    front = Front(tmp_path, LIMITS)
    watching, half_sent, idle = crowd(front.line()), crowd(front.line()), crowd(front.line())
    watching.sendall(b"GET " + MAPS.encode() + b"?watch=true HTTP/1.1\r\n" + HEAD + b"\r\n")
    half_sent.sendall(b"POST " + MAPS.encode() + b" HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\n{")
    got = watching.recv(65536)
    front.stop()
    while data := watching.recv(65536):
        got += data
    assert got.endswith(b"0\r\n\r\n")
    assert closed_by_server(idle)


def _deaf(front: Front) -> socket.socket:
    """A connection whose client has a small receive buffer and never reads."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(PATIENCE_S)
    plain.connect(("127.0.0.1", front.port))
    return front.client_tls.wrap_socket(plain, server_hostname="127.0.0.1")


def _is_reset(sock: socket.socket) -> bool:
    """Whether the server has cut the line, as seen without reading from it."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


def _has_ended(line: socket.socket) -> bool:
    """Whether the server has answered and closed."""
    line.settimeout(0.01)
    try:
        return line.recv(65536) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
