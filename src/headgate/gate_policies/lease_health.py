"""Whether the owner of a gate renews its Lease.

The times in a Lease are of another clock, so they are not compared with the own one: the owner is alive if the Lease
changes between two looks at it that are not farther apart than its duration. Until the Lease changes for the first time
or its duration has passed, the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from headgate.kube.lenient_reader import find_integer, find_object, find_text

Object = Mapping[str, Any]

DEFAULT_DURATION_S: Final = 15.0
_MIN_POLL_S: Final = 2.0
_MAX_POLL_S: Final = 30.0
SOON_S: Final = 1.0
"""When to look again while the owner is not known to be alive: its start is then heard within a second."""


class LeaseHealth(msgspec.Struct, frozen=True):
    """``version``: what changes with every renewal. ``since_s``: when this version was seen first."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    poll_after_s: float = _MAX_POLL_S
    version: tuple[str, str] = ("", "")
    since_s: float = 0.0


def missing_lease(key: str) -> LeaseHealth:
    text = f"Lease {key} does not exist; its owner creates and renews it"
    return LeaseHealth("False", "LeaseNotFound", text, SOON_S)


def unreadable_lease(key: str, problem: str) -> LeaseHealth:
    return LeaseHealth("Unknown", "LeaseNotReadable", f"Lease {key} cannot be read: {problem}")


def observe_lease(key: str, lease: Object, before: LeaseHealth | None, now_s: float) -> LeaseHealth:
    """``before``: the result of the last look at the same Lease."""
    spec = find_object(lease, "spec")
    duration_s = float(find_integer(spec, "leaseDurationSeconds")) or DEFAULT_DURATION_S
    poll_s = min(max(duration_s / 3, _MIN_POLL_S), _MAX_POLL_S)
    holder = find_text(spec, "holderIdentity")
    version = find_text(lease, "metadata", "uid"), find_text(spec, "renewTime")
    is_known = before is not None and before.version != ("", "")
    since_s = before.since_s if before is not None and before.version == version else now_s
    if not holder:
        text = f"Lease {key} has no holder: its owner has stopped"
        return LeaseHealth("False", "LeaseReleased", text, SOON_S, version, since_s)
    if is_known and before is not None and before.version != version:
        return LeaseHealth("True", "LeaseRenewed", f"Lease {key} is renewed", poll_s, version, now_s)
    if now_s - since_s > max(duration_s, 2 * poll_s):
        text = f"Lease {key} has not been renewed for more than its duration of {duration_s:.0f} s"
        return LeaseHealth("False", "LeaseExpired", text, SOON_S, version, since_s)
    if is_known and before is not None and before.status == "True":
        return msgspec.structs.replace(before, poll_after_s=poll_s)
    return LeaseHealth(
        "Unknown", "LeaseObserved", f"Lease {key} exists; wait for its renewal", SOON_S, version, since_s
    )
