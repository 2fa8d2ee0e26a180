"""Which pods of a ReplicaSet are deleted first when there are too many.

The order: without a node before with one, pending before running, not ready before ready, lower deletion cost first,
then where more pods of the same Deployment are, then those that were ready for a shorter time, restarted more often, or
are younger. Times are compared by their magnitude (the binary logarithm of the age), and within one magnitude by uid,
so that scaling down does not always hit the youngest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any, Final

import msgspec

from headgate.controllers.ownership import pods as facts
from headgate.kube.labels import parse_int64

Object = dict[str, Any]

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


class _DeletionRank(msgspec.Struct, frozen=True):
    first: tuple[bool, int, bool, int, int]
    """The criteria that precede all times."""
    uid: str
    ready_s: float | None
    restarts: tuple[int, int]
    created_s: float | None
    pod: Object


def pods_to_delete(active: Iterable[Object], related: Mapping[str, int], count: int, now_s: float) -> list[Object]:
    """The ``count`` pods to delete. ``related``: the number of active pods of the same Deployment by node."""
    pods = sorted(active, key=lambda pod: str(pod["metadata"]["name"]))
    if count >= len(pods):
        return pods
    ranks = [_deletion_rank(pod, related) for pod in pods]
    ranks.sort(key=cmp_to_key(lambda one, other: _compare(one, other, now_s)))
    return [rank.pod for rank in ranks[:count]]


def on_nodes(pods: Iterable[Object]) -> dict[str, int]:
    """The number of pods by node."""
    counts: dict[str, int] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName", "")
        counts[node] = counts.get(node, 0) + 1
    return counts


def deletion_cost(pod: Object) -> int:
    """The value of the deletion cost annotation; zero if it is not a 32-bit integer."""
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "")
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (text[0] == "0" and text != "0"):
        return 0
    number = parse_int64(text)
    return number if number is not None and -(2**31) <= number < 2**31 else 0


def _deletion_rank(pod: Object, related: Mapping[str, int]) -> _DeletionRank:
    node = (pod.get("spec") or {}).get("nodeName", "")
    ready_s = facts.ready_since_s(pod)
    ready = facts.is_ready(pod)
    first = (bool(node), _PHASES.get(facts.phase_of(pod), 0), ready, deletion_cost(pod), -related.get(node, 0))
    metadata = pod["metadata"]
    return _DeletionRank(
        first, metadata["uid"], ready_s, _restarts(pod), facts.seconds(metadata.get("creationTimestamp")), pod
    )


def _restarts(pod: Object) -> tuple[int, int]:
    """The most restarts of any container, and of any sidecar; negative, so that more comes first."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    sidecars = {each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    inits = [each for each in status.get("initContainerStatuses") or () if each.get("name") in sidecars]
    return -_most(status.get("containerStatuses") or ()), -_most(inits)


def _most(statuses: Sequence[Object]) -> int:
    return max((each.get("restartCount", 0) for each in statuses), default=0)


def _compare(one: _DeletionRank, other: _DeletionRank, now_s: float) -> int:
    if one.first != other.first:
        return -1 if one.first < other.first else 1
    if one.first[2]:
        by_ready = _by_time(one.ready_s, other.ready_s, one, other, now_s)
        if by_ready:
            return by_ready
    if one.restarts != other.restarts:
        return -1 if one.restarts < other.restarts else 1
    return _by_time(one.created_s, other.created_s, one, other, now_s)


def _by_time(
    time_s: float | None, other_s: float | None, one: _DeletionRank, other: _DeletionRank, now_s: float
) -> int:
    """A pod without a time comes first, then the one with the later magnitude; zero if the times are equal."""
    if time_s == other_s:
        return 0
    if time_s is None or other_s is None:
        return -1 if time_s is None else 1
    magnitude, other_magnitude = _magnitude(now_s - time_s), _magnitude(now_s - other_s)
    if magnitude == other_magnitude:
        return -1 if one.uid < other.uid else 1
    return -1 if magnitude < other_magnitude else 1


def _magnitude(age_s: float) -> int:
    return int(math.log2(age_s * 1e9)) if age_s > 0 else -1
