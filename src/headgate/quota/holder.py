"""A workload that holds quota, as the ledgers count it: ``holdings.py``, ``occupancy.py``."""

from __future__ import annotations

import msgspec

from headgate.quota.cohort import Usage


class Holder(msgspec.Struct, frozen=True):
    """``order_s``: since when it would wait, were it to wait; ``reserved_s``: since when it holds. ``turn``: of those
    that a cycle admits, which one it is, until the API shows it. ``is_waiting``: it does not start yet, because
    terminating pods still use what it was given."""

    key: str
    uid: str
    queue: str
    usage: Usage
    priority: int
    order_s: float
    reserved_s: float
    is_evicted: bool = False
    turn: int = 0
    is_waiting: bool = False
