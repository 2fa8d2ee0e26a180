"""Taints on nodes, and the tolerations of pods.

A toleration without key tolerates every key (with ``Exists``), without effect every effect. ``Lt`` and ``Gt`` compare
integers and are an alpha feature of Kubernetes 1.35, disabled by default.
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


def first_untolerated(
    taints: Iterable[Taint] | None,
    tolerations: Sequence[Toleration] | None,
    effects: Collection[str] = HARD_EFFECTS,
    *,
    comparisons: bool = False,
) -> Taint | None:
    """The first taint with one of ``effects`` that the pod does not tolerate."""
    for taint in taints or ():
        if taint.get("effect") in effects and not is_tolerated(taint, tolerations or (), comparisons=comparisons):
            return taint
    return None


def count_untolerated_preferences(taints: Iterable[Taint] | None, tolerations: Sequence[Toleration] | None) -> int:
    """The number of ``PreferNoSchedule`` taints that are not tolerated, for the score of a node."""
    relevant = [each for each in tolerations or () if each.get("effect") in (None, "", PREFER_NO_SCHEDULE)]
    return sum(
        taint.get("effect") == PREFER_NO_SCHEDULE and not is_tolerated(taint, relevant) for taint in taints or ()
    )


def is_same_taint(one: Taint, other: Taint) -> bool:
    """A node has one taint per key and effect; the value may differ."""
    return (one.get("key"), one.get("effect")) == (other.get("key"), other.get("effect"))


def describe(taint: Taint) -> str:
    """``key=value:effect``, as ``kubectl describe node`` prints it."""
    value = taint.get("value")
    key = f"{taint.get('key', '')}={value}" if value else str(taint.get("key", ""))
    return f"{key}:{taint['effect']}" if taint.get("effect") else key
