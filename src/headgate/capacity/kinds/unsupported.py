"""Fields of Queue and PodGroup that Headgate does not support: reported in a condition, never ignored silently.

A group with hard network topology also waits (:func:`find_hold`): its pods must not be placed without regard to it. The
table maps fields to messages. The schemas keep such fields (``definitions.py``), so that manifests apply unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headgate.kube.conditions import Condition

CONDITION: Final = "Supported"
REASON: Final = "NotSupported"

Check = Callable[[Any], bool]


def _is_hard(topology: Any) -> bool:
    return isinstance(topology, Mapping) and topology.get("mode", "hard") == "hard"


def _is_soft(topology: Any) -> bool:
    return isinstance(topology, Mapping) and not _is_hard(topology)


def _is_set(value: Any) -> bool:
    return bool(value)


_HARD_TOPOLOGY: Final = (
    "hard network topology is not supported: its pods wait; with mode soft they are placed without regard to it"
)
_GROUP_FIELDS: Final[tuple[tuple[str, Check, str], ...]] = (
    ("networkTopology", _is_hard, _HARD_TOPOLOGY),
    ("networkTopology", _is_soft, "network topology is not supported: its pods are placed without regard to it"),
    ("subGroupPolicy", _is_set, "subgroups are not supported: only minMember and minTaskMember count"),
)
_QUEUE_FIELDS: Final[tuple[tuple[str, Check, str], ...]] = (
    ("affinity", _is_set, "node groups are not supported: its pods may go to any node"),
    ("extendClusters", _is_set, "other clusters are not supported: its pods stay in this one"),
    ("dra", _is_set, "quota for devices of resource claims is not supported: it limits nothing"),
)


def find_hold(spec: Mapping[str, Any]) -> str:
    """Why the group with this spec waits; empty if it need not."""
    return f"spec.networkTopology: {_HARD_TOPOLOGY}" if _is_hard(spec.get("networkTopology")) else ""


def group_condition(spec: Any) -> Condition | None:
    return _condition(_GROUP_FIELDS, spec)


def queue_condition(spec: Any) -> Condition | None:
    return _condition(_QUEUE_FIELDS, spec)


def _condition(table: tuple[tuple[str, Check, str], ...], spec: Any) -> Condition | None:
    """None if all fields are supported."""
    if not isinstance(spec, Mapping):
        return None
    texts = [f"spec.{name}: {text}" for name, check, text in table if check(spec.get(name))]
    if not texts:
        return None
    return {"type": CONDITION, "status": "False", "reason": REASON, "message": "; ".join(texts)}
