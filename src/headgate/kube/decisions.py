"""A decision of an engine that the API server has accepted, or refused: what ``runtime/decision_log.py`` logs.

The scheduler, quota and jobs make one :class:`Decision` for each, after the write; controllers get a callback
``decided``. Events of Kubernetes are for the users of an object; these are for the operator of Headgate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

Verb = Literal[
    "admitted",
    "quota reserved",
    "gate removed",
    "started",
    "bound",
    "evicted",
    "preempted",
    "stopped",
    "deactivated",
    "revoked",
    "refused",
]


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False, rename="camel", omit_defaults=True):
    """``verb``: what was done to the object. ``queue``: its Queue or LocalQueue. ``resources``: what it gets or asks
    for, as quantities. ``flavors``: the flavor of each resource. ``reason`` and ``message``: why. ``preemptor``: the
    object that gets its capacity. ``wait_seconds``: since it was queued or created. ``duration_seconds``: how long the
    write took, or the time from the admission to the start."""

    verb: Verb
    kind: str
    namespace: str
    name: str
    uid: str = ""
    queue: str = ""
    cluster_queue: str = ""
    node: str = ""
    resources: Mapping[str, str] = {}
    flavors: Mapping[str, str] = {}
    reason: str = ""
    message: str = ""
    preemptor: str = ""
    wait_seconds: float | None = None
    duration_seconds: float | None = None


Decided = Callable[[Decision], None]


def ignore_decision(decision: Decision) -> None:
    """For tests and tools that log nothing."""
