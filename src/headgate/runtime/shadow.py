"""Runs shadow mode: the controller manager with controllers that write nothing, and the log of comparisons.

A decision on which both agree is a line at level ``info``, a difference one at level ``warning``, so that differences
are shown without an option.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from headgate.controllers.framework.reconcile import Controller
from headgate.http.transport import Transport
from headgate.runtime.controller_manager import run_controllers
from headgate.shadow.comparison import Compared, DecisionComparison
from headgate.shadow.controller import Shadow, ShadowController
from headgate.shadow.tally import ShadowTally

LOGGER: Final = "headgate.shadow"
_log: Final = logging.getLogger(LOGGER)

ShadowFactory = Callable[[Compared], Shadow]
"""Returns a new shadow of a component; the argument receives its comparisons."""


def log_comparison(compared: DecisionComparison) -> None:
    """Logs the comparison: ``differs`` or ``agrees`` is the message, the fields follow."""
    level = logging.WARNING if compared.differs else logging.INFO
    if _log.isEnabledFor(level):
        fields = msgspec.to_builtins(compared)
        _log.log(level, "differs" if compared.differs else "agrees", extra={"fields": fields})


async def run_shadows(
    factories: Sequence[ShadowFactory],
    transport: Transport,
    tally: ShadowTally,
    failed: Callable[[BaseException], None] = lambda error: None,
) -> None:
    """Runs until it is cancelled. ``transport`` must be read-only."""

    def make() -> list[Controller]:
        found: list[Controller] = []
        for factory in factories:
            shadow = factory(_compared)
            tally.attach(shadow.name, shadow.open_decisions)
            found.append(ShadowController(shadow))
        return found

    def _compared(compared: DecisionComparison) -> None:
        tally.count(compared)
        log_comparison(compared)

    await run_controllers(make, transport, failed=failed)
