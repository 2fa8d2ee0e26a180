"""A minimal server for measuring clients: every request gets the same response. It runs in its own process.

``python -m bench.answering [FILE]``: the file holds a certificate and its key; the port is printed.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from typing import Final, cast

from bench import report

BODY: Final = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
ANSWER: Final = (
    b"HTTP/1.1 201 Created\r\nAudit-Id: 5cb4c0c5-2a64-4c3b-9d0f-8a8f0a3d4c11\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: 1b0b3fd3-6b2a-4a53-a2f5-4d6b44f5ad40\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 0f3c9a53-9b1a-4c7e-8c3f-3e1b7d5f9f11\r\n"
    b"Date: Sun, 15 Nov 2026 12:00:00 GMT\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)


class Answering(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            at = data.lower().find(b"content-length:", 0, end)
            length = int(data[at + 15 : data.find(b"\r\n", at)]) if at >= 0 else 0
            if len(data) < end + 4 + length:
                break
            data = data[end + 4 + length :]
            self._transport.write(ANSWER)
        self._buffer = data


async def serve(certificate: str) -> None:
    context = None
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    report.run(serve(sys.argv[1] if len(sys.argv) > 1 else ""))
