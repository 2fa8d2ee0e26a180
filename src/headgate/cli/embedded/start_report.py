"""What a server tells the process that started it: where it serves, or why it does not start.

The server writes one line of JSON to the file descriptor of ``--notify-fd``. ``cli/embedded/launcher.py`` reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable

import msgspec


class StartReport(msgspec.Struct, frozen=True):
    """``problem``: why the server does not start; empty if it is ready. ``page``: the address of the live page."""

    url: str = ""
    kubeconfig: str = ""
    problem: str = ""
    page: str = ""


def send_report(descriptor: int | None, report: StartReport) -> None:
    """Writes the report, and closes the descriptor. A reader that is gone is no error."""
    if descriptor is None:
        return
    with contextlib.suppress(OSError):
        os.write(descriptor, msgspec.json.encode(report) + b"\n")
    with contextlib.suppress(OSError):
        os.close(descriptor)


def read_report(text: bytes) -> StartReport | None:
    """None if the server ended before it wrote a whole line."""
    try:
        return msgspec.json.decode(text, type=StartReport)
    except msgspec.DecodeError:
        return None


def stop_at_end_of(descriptor: int | None, stop: Callable[[], None]) -> None:
    """Calls ``stop`` when the other end of the pipe is closed, which also happens when its process is killed."""
    if descriptor is None:
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(OSError):
            if os.read(descriptor, 64):
                return
        loop.remove_reader(descriptor)
        stop()

    loop.add_reader(descriptor, read)
