"""The stamp: an annotation on the pod that records what its queue promised, written by the patch that removes the gate.

Its bytes are fixed when the capacity is reserved, so that a repeated patch changes nothing. It counts only on the pod
whose uid it names: a copy on another pod, or a stamp that cannot be decoded, is ignored. A restarted process reads the
promises from the stamps. Only Headgate may write it: ``admission/`` enforces that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headgate.capacity.api.annotation_json import decode_annotation
from headgate.kube import quantity
from headgate.kube.quantity import Quantity
from headgate.kube.resource_amounts import as_text, units


class Stamp(msgspec.Struct, frozen=True):
    """``uid``: the uid of the pod for which the stamp is valid. ``requests``: integers as in
    ``kube/resource_amounts.py``. ``at``: the time of the promise, an API timestamp with microseconds; older promises
    take precedence."""

    uid: str
    queue: str
    requests: Mapping[str, int]
    at: str


def write_stamp(stamp: Stamp) -> str:
    """The annotation's value. Equal stamps give equal bytes."""
    requests = {name: as_text(name, amount) for name, amount in sorted(stamp.requests.items())}
    fields = {"uid": stamp.uid, "queue": stamp.queue, "requests": requests, "at": stamp.at}
    return msgspec.json.encode(fields).decode()


def read_stamp(text: str | None, uid: str) -> Stamp | None:
    """The valid stamp of the pod with this uid, or None."""
    match decode_annotation(text):
        case {"uid": str(named), "queue": str(queue), "requests": dict(listed), "at": str(at)} if named == uid:
            requests = _read_requests(listed)
            return None if requests is None else Stamp(uid, queue, requests, at)
    return None


def _read_requests(listed: Mapping[str, Any]) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for name, value in listed.items():
        parsed = quantity.parse(value)
        if not isinstance(parsed, Quantity) or parsed.nano < 0:
            return None
        found[name] = units(name, parsed)
    return found
