"""How many pods a ReplicaSet makes or ends in one go. Which ones end is decided in ``order.py``."""

from __future__ import annotations

from typing import Final

import msgspec

BURST: Final = 500
"""As many pods are made or ended in one go; the rest follow in the next."""


class Plan(msgspec.Struct, frozen=True):
    """At most one of them is more than nought. ``unfinished``: there will be more to do after that."""

    make: int = 0
    end: int = 0
    unfinished: bool = False


def plan(wanted: int, active: int, burst: int = BURST) -> Plan:
    short = wanted - active
    if short > 0:
        return Plan(make=min(short, burst), unfinished=short > burst)
    return Plan(end=min(-short, burst), unfinished=-short > burst)
