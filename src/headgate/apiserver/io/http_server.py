"""HTTPS for an :class:`~headgate.apiserver.io.api_server.APIServer`: certificates from files, start and stop.

``http/server.py`` is the HTTP server, ``apiserver/io/http_handler.py`` handles its requests.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

from headgate.apiserver.io.api_server import APIServer
from headgate.apiserver.io.http_handler import APIRequestHandler
from headgate.http.server import HTTPServer
from headgate.http.server_limits import ServerLimits
from headgate.http.server_tls import TLSFiles, server_context

_log: Final = logging.getLogger(__name__)


class SecureServing:
    def __init__(
        self, endpoint: APIServer, sock: socket.socket, files: TLSFiles, limits: ServerLimits | None = None
    ) -> None:
        limits = limits or ServerLimits()
        self._sock = sock
        self._files = files
        self._server = HTTPServer(APIRequestHandler(endpoint, limits), limits, server_context(files))
        self._stopped = asyncio.Event()

    async def serve(self) -> None:
        """Serves until ``stop`` is called."""
        async with self._server.listening_on(self._sock):
            await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    def renew(self) -> None:
        """Reads the certificate, the key and the client CAs from their files again. New connections use them."""
        try:
            self._server.use_tls(server_context(self._files))
        except OSError:
            _log.exception("the new certificates cannot be used; the server keeps the previous ones")
