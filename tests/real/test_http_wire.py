"""HTTP itself, byte by byte: what a real API server reads, what it refuses and how, and when it closes.

Smugglers live from two servers that read the same bytes differently, so ours reads them as Go's does. Requests are sent
as they stand over a TLS socket; compared are the status line, the fields that say how the answer ends, and the body.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
from urllib.parse import urlsplit

import pytest

from harness.server import Server
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

HOST = "Host: x\r\n"
TOKEN = "Authorization: Bearer {token}\r\n"
DRY = "/api/v1/namespaces?dryRun=All"
JSON = "Content-Type: application/json\r\n"
MOST_HEAD = 1024 * 1024 + 4096
CHUNKED = "Transfer-Encoding: chunked\r\n"


def get(fields: str = HOST + TOKEN, line: str = "GET /healthz HTTP/1.1") -> str:
    return f"{line}\r\n{fields}\r\n"


def post(fields: str, body: str, version: str = "1.1") -> str:
    return f"POST {DRY} HTTP/{version}\r\n{HOST}{TOKEN}{JSON}{fields}\r\n{body}"


SENT = {
    "an ordinary request": get(),
    "bare line feeds": "GET /healthz HTTP/1.1\nHost: x\nAuthorization: Bearer {token}\n\n",
    "no Host": get(TOKEN),
    "two Hosts": get(HOST + HOST + TOKEN),
    "a Host with a blank": get("Host: a b\r\n" + TOKEN),
    "a folded line": get(HOST + "Authorization: Bearer\r\n {token}\r\n"),
    "a first line that is folded": get(" " + HOST + TOKEN),
    "a null byte": get(HOST + TOKEN + "X: a\0b\r\n"),
    "a control character": get(HOST + TOKEN + "X: a\x01b\r\n"),
    "a lone carriage return": get(HOST + TOKEN + "X: a\rb\r\n"),
    "a blank before the colon": get(HOST + TOKEN + "X : ab\r\n"),
    "a name that is no token": get(HOST + TOKEN + "X(: ab\r\n"),
    "a line without a colon": get(HOST + TOKEN + "nonsense\r\n"),
    "HTTP/1.0": get(TOKEN, "GET /healthz HTTP/1.0"),
    "HTTP/1.0 that stays": get(TOKEN + "Connection: keep-alive\r\n", "GET /healthz HTTP/1.0"),
    "HTTP/1.2": get(line="GET /healthz HTTP/1.2"),
    "HTTP/2.0": get(line="GET /healthz HTTP/2.0"),
    "HTTP/0.9": get(line="GET /healthz HTTP/0.9"),
    "a version that is none": get(line="GET /healthz HTTX/1.1"),
    "no version": get(line="GET /healthz"),
    "a method that is no token": get(line="G(T /healthz HTTP/1.1"),
    "a method of one's own": get(line="BREW /healthz HTTP/1.1"),
    "an absolute address": get(line="GET http://x/healthz HTTP/1.1"),
    "a relative path": get(line="GET healthz HTTP/1.1"),
    "a broken escape in the path": get(line="GET /health%zz HTTP/1.1"),
    "a broken escape in the query": get(line="GET /healthz?a=%zz HTTP/1.1"),
    "a control character in the path": get(line="GET /health\x01z HTTP/1.1"),
    "an empty line first": "\r\n" + get(),
    "no HTTP at all": "hello\r\n",
    "HEAD": get(line="HEAD /healthz HTTP/1.1"),
    "the client wants it closed": get(HOST + TOKEN + "Connection: close\r\n"),
    "two requests at once": get() + get(HOST + TOKEN + "Connection: close\r\n", "GET /livez HTTP/1.1"),
    "the same length twice": post("Content-Length: 2\r\nContent-Length: 2\r\n", "{}"),
    "two lengths": post("Content-Length: 2\r\nContent-Length: 3\r\n", "{}"),
    "a list of lengths": post("Content-Length: 2, 2\r\n", "{}"),
    "a length with a sign": post("Content-Length: +2\r\n", "{}"),
    "an empty length": post("Content-Length: \r\n", "{}"),
    "a length with many zeros": post("Content-Length: 00000000000000000000000002\r\n", "{}"),
    "a length beyond counting": post("Content-Length: 99999999999999999999\r\n", "{}"),
    "a length and chunks": post("Content-Length: 30\r\n" + CHUNKED, "2\r\n{}\r\n0\r\n\r\n"),
    "another coding": post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
    "chunked twice": post(CHUNKED + CHUNKED, "0\r\n\r\n"),
    "chunks in HTTP/1.0": post(CHUNKED + "Content-Length: 2\r\n", "{}", "1.0"),
    "chunks with extras": post(CHUNKED, "2;x=y\r\n{}\r\n0\r\nX: y\r\n\r\n"),
    "a forbidden trailer": post("Trailer: Content-Length\r\n" + CHUNKED, "2\r\n{}\r\n0\r\n\r\n"),
    "an unknown expectation": post("Expect: cake\r\nContent-Length: 2\r\n", "{}"),
    "a newline after a body": post("Content-Length: 2\r\n", "{}\r\n") + get(HOST + TOKEN + "Connection: close\r\n"),
    "a head of a megabyte": get(HOST + TOKEN + "X: " + "a" * 1_000_000 + "\r\n"),
    "a head that is too large": get(HOST + TOKEN + "X: " + "a" * 1_100_000 + "\r\n"),
    "an address that is too large": get(line="GET /healthz?" + "a" * 1_100_000 + " HTTP/1.1"),
    "a head that is just small enough": get(HOST + "X: " + "a" * (MOST_HEAD - 39) + "\r\n"),
    "a head of one byte too many": get(HOST + "X: " + "a" * (MOST_HEAD - 38) + "\r\n"),
    "a quarter of a million equal headers": get(HOST + "a:\r\n" * 250_000),
    "too many equal headers": get(HOST + "a:\r\n" * 300_000),
    "a hundred thousand headers": get(HOST + "".join(f"a{at}:\r\n" for at in range(100_000))),
    "a quarter of a million folded lines": get(HOST + "X: y\r\n" + " a\r\n" * 250_000),
    "folded lines without content": get(HOST + "X: y\r\n" + " \r\n" * 300_000),
    "too many folded lines": get(HOST + "X: y\r\n" + " a\r\n" * 300_000),
    "a colon in a folded line only": get(HOST + "X\r\n y:\r\n"),
    "a folded line that folds again": get(HOST + "Authorization:\r\n\tBearer\r\n \t \r\n {token} \r\n"),
    "a folded line before a bad one": get(HOST + "X: y\r\n z\r\n(: y\r\n"),
    "a body that is too large": post("Content-Length: 4000000\r\n", " " * 4_000_000),
}
COMPARED_FIELDS = re.compile(rb"(?i)(connection|content-type|transfer-encoding): .*")
FOLLOWING = get(HOST + TOKEN + "Connection: close\r\n", "GET /readyz HTTP/1.1")


def exchange(server: Server, sent: str) -> list[bytes]:
    """Every answer to ``sent``, and one to a further request if the server still listens after that."""
    place = urlsplit(server.url)
    context = ssl.create_default_context(cafile=str(server.ca))
    context.set_alpn_protocols(["http/1.1"])
    with (
        socket.create_connection((place.hostname or "", place.port or 0), 20) as plain,
        context.wrap_socket(plain, server_hostname=place.hostname) as line,
    ):
        line.sendall(sent.replace("{token}", server.token).encode("latin-1"))
        got, followed = b"", False
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while data := line.recv(65536):
                got += data
                if not followed and _complete(got, sent):
                    followed = True
                    line.sendall(FOLLOWING.replace("{token}", server.token).encode("latin-1"))
        return _seen(got)


def _complete(got: bytes, sent: str) -> bool:
    """Whether a single answer with a length has come to its end. The others close, and the stream's end tells."""
    head, _, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\nContent-Length: (\d+)", head)
    if length is None or re.search(rb"(?i)\r\nConnection: close", head) or sent.count(" HTTP/1") > 1:
        return False
    return len(body) >= int(length[1]) or sent.startswith("HEAD")


def _seen(got: bytes) -> list[bytes]:
    """The answers' lines, without the fields that say nothing about how the server reads; fields in any order."""
    seen: list[bytes] = []
    fields: list[bytes] = []
    for line in got.replace(b"HTTP/1", b"\r\nHTTP/1").split(b"\r\n"):
        if COMPARED_FIELDS.fullmatch(line):
            fields.append(line)
        elif line == b"":
            seen += sorted(fields)
            fields = []
        elif not re.fullmatch(rb"[A-Za-z-]+: .*", line):
            seen.append(line)
    return seen


BROKEN = {
    "a chunk's size and a bare line feed": "2\n{}\r\n0\r\n\r\n",
    "a chunk's size that is none": "zz\r\n{}\r\n0\r\n\r\n",
    "a chunk without a size": "\r\n{}\r\n0\r\n\r\n",
    "a chunk that goes on": "2\r\n{}xx0\r\n\r\n",
    "a chunk's size beyond counting": "fffffffffffffffff\r\n{}",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_chunks_are_the_clients_error(servers: ServerPair, name: str) -> None:
    """The same words as from a real server, which calls it an error of its own; and both close the connection."""
    real, ours = servers.on_each(lambda server: exchange(server, post(CHUNKED, BROKEN[name])))
    assert b'"code":500' in real[-1], "if this changes, so can ours"
    assert ours[-1] == real[-1].replace(b'"code":500', b'"reason":"BadRequest","code":400')
    assert ours[0] == b"HTTP/1.1 400 Bad Request"
    assert ours[1:-1] == real[1:-1]


@pytest.mark.parametrize("name", SENT)
def test_the_same_bytes_get_the_same_answer(servers: ServerPair, name: str) -> None:
    real, ours = servers.on_each(lambda server: exchange(server, SENT[name]))
    assert ours == real
