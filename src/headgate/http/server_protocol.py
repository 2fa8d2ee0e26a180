"""The asyncio protocol of one server connection: TLS or none, deadlines, and a close after the last byte is sent. A
:class:`ConnectionHandler` interprets the bytes.

A client has a deadline for the handshake, and one to read each part that is sent to it; the handler sets any other
deadline. One timer serves them all: it is moved when it fires too early, and set again only to fire earlier.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Final, Literal, Protocol, cast

from headgate.http import response_encoder
from headgate.http.connection_tracker import ConnectionTracker
from headgate.http.server_limits import ServerLimits
from headgate.http.server_tls import ClientCertificate, TLSServerConnection

_log: Final = logging.getLogger(__name__)
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_LINGER_S: Final = 0.5
_START_BYTES: Final = 5
_HTTP_STARTS: Final = (b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO")


class ConnectionHandler(Protocol):
    """The handler of a connection's plaintext bytes."""

    def received(self, data: bytes) -> None:
        """The client has sent these bytes."""

    def may_write(self) -> None:
        """The client reads again: ``stalled`` is false."""

    def expired(self) -> None:
        """The deadline has passed."""

    def sends_no_more(self) -> bool:
        """The client has closed its side of the connection. Returns whether the server still has something to send."""

    def finish(self) -> None:
        """The server stops: the handler finishes the response in progress and closes the connection."""

    def lost(self) -> None:
        """The connection is closed."""


class ServerProtocol(asyncio.Protocol):
    """Without a ``context`` the connection is not encrypted."""

    def __init__(
        self,
        tracker: ConnectionTracker,
        context: ssl.SSLContext | None,
        limits: ServerLimits,
        make_handler: Callable[[ServerProtocol], ConnectionHandler],
    ) -> None:
        self._tracker: Final = tracker
        self._limits: Final = limits
        self._loop: Final = asyncio.get_running_loop()
        self._tls: Final = None if context is None else TLSServerConnection(context)
        self._handler: Final = make_handler(self)
        self._transport: asyncio.Transport | None = None
        self._state: Literal["handshake", "open", "lingering", "closed"] = "handshake"
        self._deadline_s: float | None = None
        self._stalled_until_s: float | None = None
        self._timer: tuple[float, asyncio.Handle] | None = None
        """When the timer fires, and its handle. uvloop's handles do not have the time of delays below 1 ms."""
        self._first_bytes = b""
        self._reading_paused = False
        self.client_certificate: ClientCertificate | None = None
        self.source = ""  # the client's address
        self.waiting_bytes: Callable[[], int] = int  # how many bytes the handler has not written yet; `int` returns 0

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._state in ("lingering", "closed")

    @property
    def stalled(self) -> bool:
        """Whether the client has not read the bytes that were last written."""
        return self._stalled_until_s is not None

    # -- callbacks of the event loop -------------------------------------------------------------------------------

    def connection_made(self, base_transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, base_transport)  # uvloop's are not of that class
        if not self._tracker.add(self):
            self._state = "closed"
            transport.abort()
            return
        name = transport.get_extra_info("peername")
        self.source = str(name[0]) if name else ""
        transport.set_write_buffer_limits(high=self._limits.unsent_bytes)
        if self._tls is None:
            self._state = "open"
            self.set_deadline(self._limits.head_s)
        else:
            self.set_deadline(self._limits.handshake_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._release()

    def data_received(self, data: bytes) -> None:
        if self.closed:
            return
        if self._tls is None:
            self._handler.received(data)
        elif self._state != "handshake" or not self._is_not_tls(data):
            self._decrypt(self._tls, data)

    def _decrypt(self, tls: TLSServerConnection, data: bytes) -> None:
        try:
            plain = tls.decrypt(data)
        except ssl.SSLError as problem:
            _log.debug("a client's TLS failed: %s", problem)
            self._send(tls.to_send())
            self._linger()
            return
        self._send(tls.to_send())
        if self._state == "handshake" and tls.established:
            self._state = "open"
            self.client_certificate = tls.client_certificate()
            self.set_deadline(self._limits.head_s)
        if plain:
            self._handler.received(plain)
        if tls.ended and not self.closed:
            self.eof_received()

    def eof_received(self) -> bool:
        if self._state == "open" and self._handler.sends_no_more():
            return True
        self.close()
        return False

    def pause_writing(self) -> None:
        self._stalled_until_s = self._loop.time() + self._limits.stalled_s
        self._set_timer(self._stalled_until_s)
        self._tracker.set_unsent_bytes(self, self._limits.unsent_bytes + self.waiting_bytes())

    def resume_writing(self) -> None:
        self._stalled_until_s = None
        self._tracker.clear_unsent_bytes(self)
        if self._state == "open":
            self._handler.may_write()

    # -- for the handler -------------------------------------------------------------------------------------------

    def write(self, data: bytes | memoryview) -> None:
        if not self.closed:
            self._send(data if self._tls is None else self._tls.encrypt(data))

    def set_deadline(self, seconds: float | None) -> None:
        """Sets the deadline of the current wait; ``None`` removes it."""
        if seconds is None:
            self._deadline_s = None
        else:
            self._deadline_s = self._loop.time() + seconds
            self._set_timer(self._deadline_s)

    def pause_input(self, hold: bool) -> None:
        """Pauses or resumes reading from the client."""
        if hold != self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = hold
            if hold:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def close(self, *, linger: bool = False) -> None:
        """Closes the connection after all written bytes are sent.

        ``linger``: the server still reads for a while, so that a client that is still sending can read the response.
        """
        if self.closed:
            return
        if self._tls is not None:
            self._send(self._tls.close_notify())
        if linger:
            self._linger()
            return
        self._state = "closed"
        if self._transport is not None:
            self._transport.close()
            self.set_deadline(self._limits.stalled_s)

    def finish(self) -> None:
        if self._state == "open":
            self._handler.finish()
        else:
            self.abort("the server stops")

    def abort(self, reason: str) -> None:
        if self._transport is not None:
            _log.debug("a connection is closed: %s", reason)
            # The connection is reset. Otherwise the kernel would keep the written bytes until the client reads them.
            sock = self._transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()
        self._release()

    # -- internals -------------------------------------------------------------------------------------------------

    def _send(self, data: bytes | memoryview) -> None:
        if data and self._transport is not None:
            self._transport.write(data)

    def _is_not_tls(self, data: bytes) -> bool:
        """Whether the client uses plain HTTP; if so, it gets a plain-text explanation."""
        if len(self._first_bytes) >= _START_BYTES:
            return False
        self._first_bytes = (self._first_bytes + data)[:_START_BYTES]
        if self._first_bytes not in _HTTP_STARTS:
            return False
        self._send(response_encoder.NOT_TLS)
        self._linger()
        return True

    def _linger(self) -> None:
        """Sends no more bytes, but reads and ignores those of the client until a deadline."""
        self._state = "lingering"
        if self._transport is not None:
            if self._transport.can_write_eof():
                self._transport.write_eof()
            self.set_deadline(_LINGER_S)

    def _release(self) -> None:
        self._state = "closed"
        self._transport = None
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
        self._tracker.remove(self)
        self._handler.lost()

    def _set_timer(self, at_s: float) -> None:
        if self._timer is None or self._timer[0] > at_s:
            if self._timer is not None:
                self._timer[1].cancel()
            self._timer = at_s, self._loop.call_at(at_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        if self._stalled_until_s is not None and now_s >= self._stalled_until_s:
            self.abort("the client does not read")
        elif self._deadline_s is not None and now_s >= self._deadline_s:
            self._deadline_s = None
            if self._state == "open":
                self._handler.expired()
            else:
                self.abort(f"it took too long ({self._state})")
        due = [each for each in (self._stalled_until_s, self._deadline_s) if each is not None]
        if due and self._transport is not None:
            self._set_timer(min(due))
