"""Listens for requests for health and metrics; ``handler.py`` builds the responses.

Plain HTTP without credentials, for probes and Prometheus, on the address that the operator configures. Connections, the
size of a head and the duration are bounded. A client cannot block the component for longer than it takes to write a
page.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from headgate.runtime.health.handler import HealthHandler, refusal

_MOST_CONNECTIONS: Final = 64
_MOST_HEAD_BYTES: Final = 8192
_PATIENCE_S: Final = 10.0
_log: Final = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def serve_health(
    answers: HealthHandler, host: str, port: int, *, patience_s: float = _PATIENCE_S, most: int = _MOST_CONNECTIONS
) -> AsyncIterator[int]:
    """Answers until the block is left. Yields the port, which was chosen by the system if 0 was asked for."""
    open_now: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(open_now) >= most:
            writer.transport.abort()
            return
        open_now.add(task)
        try:
            writer.write(await _answer(reader, answers, patience_s))
            writer.close()
            async with asyncio.timeout(patience_s):
                await writer.wait_closed()
        except (OSError, TimeoutError):
            _log.debug("metrics: a connection was lost or too slow")
        except asyncio.CancelledError:
            _log.debug("metrics: a connection is cut, since the component stops")
        finally:
            open_now.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(connected, host or None, port, limit=_MOST_HEAD_BYTES)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(open_now):
            task.cancel()
        await asyncio.gather(*open_now, return_exceptions=True)
        await asyncio.sleep(0)  # what was cut is closed by the loop, a turn later


async def _answer(reader: asyncio.StreamReader, answers: HealthHandler, patience_s: float) -> bytes:
    try:
        async with asyncio.timeout(patience_s):
            return answers.handle(await reader.readuntil(b"\r\n\r\n"))
    except asyncio.LimitOverrunError:
        return refusal(431)
    except asyncio.IncompleteReadError:
        return refusal(400)
    except TimeoutError:
        return refusal(408)
