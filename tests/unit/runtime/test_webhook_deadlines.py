"""The webhooks' own server with clients that do not go on: each is let go, whatever it left unfinished."""

from __future__ import annotations

import asyncio
import datetime
import ssl

import pytest

from headgate.admission.settings import AdmissionSettings
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.runtime.webhooks.certificates import ensure_certificates
from headgate.runtime.webhooks.server import WebhookServer
from headgate.runtime.webhooks.target import WebhookTarget, parse_url

PATIENCE_S = 0.3
HEAD = b"POST /pods/mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
UNFINISHED = {
    "nothing": b"",
    "a request line": b"POST /pods/mu",
    "a head": HEAD + b"X: ",
    "a body": HEAD + b"Content-Length: 100\r\n\r\n{",
    "a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
}


async def absent(request: HTTPRequest) -> HTTPResponse:
    return HTTPResponse(404, {}, b"{}")


@pytest.mark.parametrize("sent", UNFINISHED)
def test_a_client_that_does_not_finish_is_let_go(sent: str) -> None:
    async def run() -> bytes:
        target = parse_url("https://127.0.0.1:1")
        assert isinstance(target, WebhookTarget)
        kept = ensure_certificates({}, target, datetime.datetime.now(datetime.UTC))
        server = WebhookServer(
            InProcessTransport(absent), AdmissionSettings(frozenset({"s"})), client_timeout_s=PATIENCE_S
        )
        await server.use_certificate(kept)
        trust = ssl.create_default_context(cadata=kept.bundle.decode())
        async with server.listening("127.0.0.1", 0) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=target.name)
            writer.write(UNFINISHED[sent])
            drip = asyncio.create_task(_drip(writer, sent))
            try:
                async with asyncio.timeout(30):
                    return await reader.read()
            finally:
                drip.cancel()
                writer.transport.abort()

    heard = asyncio.run(run())
    assert heard == b"" or heard.startswith(b"HTTP/1.1 408 ")


async def _drip(writer: asyncio.StreamWriter, sent: str) -> None:
    while sent in ("a head", "a body"):
        await asyncio.sleep(0.05)
        if writer.transport.is_closing():
            return
        writer.write(b" ")
