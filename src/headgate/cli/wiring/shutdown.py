"""How ``headgate run`` stops: signals, and the time in which webhooks are still served.

When a pod is deleted, its Service sends it new connections for some seconds, and API servers keep the connections that
they have. So after SIGTERM the process is not ready and still serves webhooks for the delay of ``--shutdown-delay``.
Ctrl-C has no delay. A second signal ends the process at once, as in Kubernetes' own controllers.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Final

import click

from headgate.kube.timestamps import parse_duration

DEFAULT_DELAY: Final = "5s"


class ShutdownSignals:
    """``requested`` is set at the first SIGINT or SIGTERM."""

    def __init__(self, delay_s: float) -> None:
        self.requested: Final = asyncio.Event()
        self._delay_s = delay_s
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._received, number)

    @property
    def delay_s(self) -> float:
        """How long webhooks are served after the first signal."""
        return self._delay_s

    def problem(self) -> str:
        """For the check of readiness."""
        return "the process is stopping" if self.requested.is_set() else ""

    def _received(self, number: signal.Signals) -> None:
        if self.requested.is_set():
            sys.stdout.flush()
            os._exit(1)
        if number == signal.SIGINT:
            self._delay_s = 0.0
        self.requested.set()


def delay_seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """The callback of an option with a duration, which may be 0."""
    nanos = 0 if value == "0" else parse_duration(value)
    if isinstance(nanos, str) or nanos < 0:
        raise click.BadParameter(f"{value!r} is not a duration: write one such as 5s or 500ms, or 0 for no delay")
    return nanos / 10**9
