"""Future arrivals: units that were created in the past, created again.

A unit that arrives later may still start earlier: it has a higher priority, another queue, or is smaller. So a replay
needs arrivals. They are a block bootstrap: from a past moment on, the same units arrive in the same order and with the
same distances; if the past is longer than a day, the moment is at the same time of the day.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from headgate.capacity.names import GATE, GROUP_NAMES, LAPSED, OPT_IN, POD_GROUPS, STAMP
from headgate.estimates.units import Unit
from headgate.kube.api_resources import PODS, APIResource
from headgate.kube.timestamps import format_time
from headgate.simulate.job_objects import stored_pod
from headgate.simulate.random_numbers import RandomNumbers

Object = dict[str, Any]

MAX_ARRIVALS: Final = 400
"""Of one replay. A unit that still waits then is behind so many others that further ones matter little."""
_DAY_S: Final = 86_400.0


class PastArrival(msgspec.Struct, frozen=True):
    """``objects``: as they were created, without status."""

    unit: Unit
    objects: tuple[tuple[APIResource, Object], ...]


class ArrivalHistory(msgspec.Struct, frozen=True):
    """``arrivals``: by time of creation, all since ``since_s``."""

    arrivals: tuple[PastArrival, ...] = ()
    since_s: float = 0.0


NO_ARRIVALS: Final = ArrivalHistory()


def drawn_arrivals(history: ArrivalHistory, now_s: float, seed: int) -> Iterator[tuple[float, PastArrival]]:
    """Arrivals after ``now_s``, each with its time. The iterator does not end unless the history is empty."""
    random = RandomNumbers(seed, 2)
    past = history.arrivals
    span_s = now_s - history.since_s
    if not past or span_s <= 0:
        return
    times = [each.unit.created_s for each in past]
    at_s, is_empty = now_s, False
    while True:
        # A block without arrivals is followed by the whole past, so that arrivals always come.
        from_s = history.since_s if is_empty else _start_of_block(span_s, now_s, random)
        block = past[bisect_left(times, from_s) :]
        for each in block:
            yield at_s + each.unit.created_s - from_s, each
        at_s += max(now_s - from_s, 1.0)
        is_empty = not block


def _start_of_block(span_s: float, now_s: float, random: RandomNumbers) -> float:
    days = int(span_s // _DAY_S)
    if days:
        return now_s - (1 + int(random.uniform() * days)) * _DAY_S
    return now_s - span_s * random.uniform()


def created_again(
    arrival: PastArrival, number: int, now_s: float
) -> tuple[tuple[tuple[APIResource, Object], ...], Unit]:
    """The objects of an arrival under new names, and their unit."""
    suffix = f"-arrival-{number}"
    unit = msgspec.structs.replace(
        arrival.unit,
        key=f"{arrival.unit.key}{suffix}",
        created_s=now_s,
        started_s=None,
        ended_s=None,
        is_arrival=True,
    )
    made = []
    for resource, obj in arrival.objects:
        metadata = dict(obj["metadata"])
        metadata["name"] = f"{metadata['name']}{suffix}"
        metadata["uid"] = f"{resource.plural}-{metadata['name']}"
        metadata["creationTimestamp"] = format_time(now_s)
        metadata["generation"] = 1
        if resource == PODS:
            annotations = dict(metadata.get("annotations") or {})
            for name in GROUP_NAMES:
                if annotations.get(name):
                    annotations[name] = f"{annotations[name]}{suffix}"
            metadata["annotations"] = annotations
            pod = {**obj, "metadata": metadata, "status": {"phase": "Pending"}}
            made.append((resource, stored_pod(pod, metadata["name"], metadata["uid"])))
        else:
            made.append((resource, {**obj, "metadata": metadata, "status": {}}))
    return tuple(made), unit


def as_created(resource: APIResource, obj: Object) -> Object:
    """The object as its user created it, and as admission changed it then: without a node, a status and promises."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _STRIPPED}
    if resource != PODS:
        return {**obj, "metadata": metadata, "status": {}}
    annotations = dict(metadata.get("annotations") or {})
    was_gated = annotations.pop(STAMP, None) is not None or annotations.get(OPT_IN) == "true"
    annotations.pop(LAPSED, None)
    metadata["annotations"] = annotations
    spec = {name: value for name, value in obj["spec"].items() if name not in ("nodeName", "schedulingGates")}
    if was_gated:
        spec["schedulingGates"] = [{"name": GATE}]
    return {**obj, "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


_STRIPPED: Final = frozenset(
    {
        "resourceVersion",
        "managedFields",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "finalizers",
        "ownerReferences",
    }
)


def arrivals_of(
    units: Sequence[tuple[Unit, Sequence[tuple[APIResource, Object]]]],
) -> ArrivalHistory:
    """``units``: with their objects. They are taken to be all since the first one."""
    made = sorted(
        (
            PastArrival(
                unit,
                tuple((resource, as_created(resource, obj)) for resource, obj in sorted(objects, key=_groups_first)),
            )
            for unit, objects in units
            if not unit.is_service
        ),
        key=lambda each: (each.unit.created_s, each.unit.key),
    )
    if not made:
        return NO_ARRIVALS
    return ArrivalHistory(tuple(made), made[0].unit.created_s)


def _groups_first(pair: tuple[APIResource, Object]) -> tuple[bool, str]:
    return pair[0] != POD_GROUPS, pair[1]["metadata"]["name"]
