"""Taints on nodes, and the tolerations of pods.

A toleration without a key tolerates every key (with ``Exists``), and one without an effect every effect. ``Lt`` and
``Gt`` compare integers and are an alpha feature of Kubernetes 1.35, disabled by default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from headgate.kube.labels import parse_int64
from headgate.kube.names import is_decimal_integer

Taint = Mapping[str, Any]
Toleration = Mapping[str, Any]

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"
HARD_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""Effects that keep a pod off a node."""

UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_FEW: Final = 8


def tolerates(toleration: Toleration, taint: Taint, *, comparisons: bool = False) -> bool:
    effect = toleration.get("effect")
    if effect and effect != taint.get("effect"):
        return False
    key = toleration.get("key")
    if key and key != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
        case "Exists":
            return True
        case "Lt" | "Gt" as operator if comparisons:
            bound, number = _integer(toleration.get("value")), _integer(taint.get("value"))
            if bound is None or number is None:
                return False
            return number < bound if operator == "Lt" else number > bound
        case _:
            return False


def _integer(text: str | None) -> int | None:
    return parse_int64(text) if text and not is_decimal_integer(text) else None


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration], *, comparisons: bool = False) -> bool:
    return any(tolerates(each, taint, comparisons=comparisons) for each in tolerations)


class TolerationIndex:
    """The tolerations of one pod, found by the key of a taint.

    A pod and a node may have thousands of tolerations and taints, so that not every toleration is compared with every
    taint. A few tolerations are compared one by one.
    """

    __slots__ = ("_all", "_by_key")

    def __init__(self, tolerations: Sequence[Toleration] | None) -> None:
        self._all: Final = tolerations or ()
        self._by_key: Final[dict[str, list[int]]] = {}  # positions; without a key each different toleration once
        if len(self._all) > _FEW:
            without_key = set[tuple[Any, ...]]()
            for position, each in enumerate(self._all):
                key = each.get("key") or ""
                fields = (each.get("operator"), each.get("value"), each.get("effect"))
                if key or fields not in without_key:
                    self._by_key.setdefault(key, []).append(position)
                if not key:
                    without_key.add(fields)

    def first_match(self, taint: Taint, *, comparisons: bool = False) -> Toleration | None:
        """The first toleration, in the order of the pod, that tolerates the taint."""
        for each in self._candidates(taint.get("key") or ""):
            if tolerates(each, taint, comparisons=comparisons):
                return each
        return None

    def _candidates(self, key: str) -> Iterable[Toleration]:
        if not self._by_key:
            return self._all
        positions = {*self._by_key.get(key, ()), *self._by_key.get("", ())}
        return (self._all[position] for position in sorted(positions))


def first_untolerated(
    taints: Iterable[Taint] | None,
    tolerations: Sequence[Toleration] | None,
    effects: Collection[str] = HARD_EFFECTS,
    *,
    comparisons: bool = False,
) -> Taint | None:
    """The first taint with one of ``effects`` that the pod does not tolerate."""
    index = TolerationIndex(tolerations)
    for taint in taints or ():
        if taint.get("effect") in effects and index.first_match(taint, comparisons=comparisons) is None:
            return taint
    return None


def count_untolerated_preferences(taints: Iterable[Taint] | None, tolerations: Sequence[Toleration] | None) -> int:
    """The number of ``PreferNoSchedule`` taints that are not tolerated, for the score of a node."""
    index = TolerationIndex(
        [each for each in tolerations or () if each.get("effect") in (None, "", PREFER_NO_SCHEDULE)]
    )
    return sum(taint.get("effect") == PREFER_NO_SCHEDULE and index.first_match(taint) is None for taint in taints or ())


def is_same_taint(one: Taint, other: Taint) -> bool:
    """A node has one taint per key and effect; the value may differ."""
    return (one.get("key"), one.get("effect")) == (other.get("key"), other.get("effect"))


def describe(taint: Taint) -> str:
    """``key=value:effect``, as ``kubectl describe node`` prints it."""
    value = taint.get("value")
    key = f"{taint.get('key', '')}={value}" if value else str(taint.get("key", ""))
    return f"{key}:{taint['effect']}" if taint.get("effect") else key
