"""Leases of promises (``docs/glossary.md``): how long capacity stays reserved for a pod without a node, and how many
reservations of the pod have ended for that reason (*lapses*).

:func:`read_lease_s` reads the annotation ``headgate.dev/reservation-lease`` of a pod, a PriorityClass or a Queue. A
:class:`Lapse` is what the annotation ``headgate.dev/lapsed`` of a pod records: the patch that removes the stamp of the
promise writes it, so that a restarted process continues the back-off. ``capacity/grants/leases.py`` has the rules.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from headgate.capacity.api.annotation_json import decode_annotation
from headgate.kube.backoff import ExponentialBackoff
from headgate.kube.timestamps import MAX_DURATION_HOURS, format_micro_time, parse_duration, parse_micro_time

DEFAULT_LEASE_S: Final = 600.0
BACKOFF: Final = ExponentialBackoff(60.0, 1800.0)
"""How long a pod waits after a lapse before it asks its queue again."""
LAPSED_TEXT: Final = "no node was found for it in time, so its promise"
"""How the message of a pod begins that waits after a lapse."""
_NEVER: Final = "never"
_NS: Final = 1e-9
_US_PER_S: Final = 1_000_000


class Lapse(msgspec.Struct, frozen=True, gc=False):
    """``count``: how many promises of the pod have lapsed. ``at_s``: when the last one did, in seconds since 1970."""

    count: int
    at_s: float

    @property
    def retry_s(self) -> float:
        """When the pod asks its queue again, in seconds since 1970."""
        return self.at_s + BACKOFF.delay_s(self.count)


def write_lapse(lapse: Lapse, uid: str) -> str:
    """The value of the annotation ``headgate.dev/lapsed``."""
    fields = {"uid": uid, "count": lapse.count, "at": format_micro_time(lapse.at_s)}
    return msgspec.json.encode(fields).decode()


def read_lapse(text: str | None, uid: str) -> Lapse | None:
    """The lapse that is recorded on the pod with this uid; None if there is none. It never raises."""
    match decode_annotation(text):
        case {"uid": str(named), "count": int(count), "at": str(at)} if named == uid and count > 0:
            at_us = parse_micro_time(at)
            return None if isinstance(at_us, str) else Lapse(count, at_us / _US_PER_S)
    return None


def read_lease_s(text: str | None) -> float | str | None:
    """The seconds of a lease, infinite for ``never``; None if there is no annotation. A returned string is the
    error."""
    if text is None:
        return None
    if text == _NEVER:
        return math.inf
    nanoseconds = parse_duration(text)
    if isinstance(nanoseconds, str) or nanoseconds <= 0:
        return f"{text!r} is neither a duration above 0 and up to {MAX_DURATION_HOURS}, such as 10m, nor {_NEVER}"
    return nanoseconds * _NS
