"""Future arrivals: units that were created in the past, created again.

A unit that arrives later may still start earlier: it has a higher priority, another queue, or is smaller. So a replay
needs arrivals. They are a block bootstrap: the past is cut into blocks of an hour, and blocks are drawn one after the
other, those from about the same time of the day more often. A block has its units in their order and with their
distances, so bursts stay bursts. Each replay first weighs the blocks at random (the Bayesian bootstrap, Rubin 1981):
how many units arrive in the long run, and in which queues, is not known exactly either.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
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
_BLOCK_S: Final = 3600.0
_MIN_BLOCKS: Final = 12
_LONGEST_PAST_S: Final = 60 * _DAY_S
"""Older arrivals do not count."""
_SAME_TIME_S: Final = 4 * 3600.0
"""How far the times of the day of two blocks may differ if one day is known; with more days it is less."""
_OTHER_TIME: Final = 0.02
"""The weight of a block from another time of the day, relative to one from the same time."""


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
    """Arrivals after ``now_s``, each with its time. The iterator ends only if nothing arrived before."""
    past = history.arrivals
    span_s = min(now_s - history.since_s, _LONGEST_PAST_S)
    times = [each.unit.created_s for each in past]
    if bisect_left(times, now_s - span_s) == bisect_left(times, now_s):
        return
    random = RandomNumbers(seed, 2)
    blocks = _Blocks(span_s, random)
    at_s = now_s
    while True:
        from_s = now_s - blocks.drawn_age_s(at_s - now_s)
        for each in past[bisect_left(times, from_s) : bisect_left(times, from_s + blocks.length_s)]:
            yield at_s + each.unit.created_s - from_s, each
        at_s += blocks.length_s


class _Blocks:
    """The past in blocks of equal length, the newest first, with random weights."""

    def __init__(self, span_s: float, random: RandomNumbers) -> None:
        count = max(math.ceil(span_s / _BLOCK_S), _MIN_BLOCKS)
        self.length_s: Final = _BLOCK_S if span_s > _DAY_S else span_s / count
        self._random = random
        self._weights = [random.exponential(1.0) for _ in range(count)]
        self._width_s = _SAME_TIME_S / max(span_s / _DAY_S, 1.0)
        self._cumulative: dict[float, list[float]] = {}

    def drawn_age_s(self, after_s: float) -> float:
        """How long before now the block began that arrives again ``after_s`` from now."""
        of_day = round(after_s % _DAY_S, 3)
        cumulative = self._cumulative.get(of_day)
        if cumulative is None:
            near = (self._nearness((number + 1) * self.length_s + of_day) for number in range(len(self._weights)))
            weights = (weight * each for weight, each in zip(self._weights, near, strict=True))
            cumulative = self._cumulative[of_day] = list(accumulate(weights))
        return (1 + self._random.choice(range(len(cumulative)), cumulative)) * self.length_s

    def _nearness(self, apart_s: float) -> float:
        """How well a block stands for another one that is so long after it."""
        of_day = apart_s % _DAY_S
        distance = min(of_day, _DAY_S - of_day) / self._width_s
        return _OTHER_TIME + math.exp(-distance * distance / 2)


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
