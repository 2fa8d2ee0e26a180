"""The webhook server in a separate process, to measure its reviews. ``python -m bench.reviewing``

It prints its port and its CA bundle as JSON, and then its CPU seconds for each line that it reads.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import sys
import time

from bench import report
from headgate.admission.settings import AdmissionSettings
from headgate.client.io.inprocess_transport import InProcessTransport
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.runtime.webhooks.certificates import ensure_certificates
from headgate.runtime.webhooks.server import WebhookServer
from headgate.runtime.webhooks.target import WebhookTarget, parse_url


async def absent(request: HTTPRequest) -> HTTPResponse:
    return HTTPResponse(404, {}, b"{}")


async def serve() -> None:
    target = parse_url("https://127.0.0.1:1")
    assert isinstance(target, WebhookTarget)
    certificates = ensure_certificates({}, target, datetime.datetime.now(datetime.UTC))
    server = WebhookServer(InProcessTransport(absent), AdmissionSettings(frozenset({"s"})))
    await server.use_certificate(certificates)
    async with server.listening("127.0.0.1", 0) as port:
        print(json.dumps({"port": port, "ca": certificates.bundle.decode()}), flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(time.process_time(), flush=True)


if __name__ == "__main__":
    report.run(serve())
