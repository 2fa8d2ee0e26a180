"""Annotations of pods, PodGroups and PriorityClasses whose values cannot be read and have no effect.

A pod is never rejected for such a value, so the value must be reported: ``admission/`` warns about it when the object
is written, and ``headgate explain`` shows it (``capacity/explanation.py``). Invalid annotations of queues are rejected
(``capacity/kinds/queue_validation.py``), or make an existing queue invalid (``queue.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.capacity.api.lease import read_lease_s
from headgate.capacity.names import LEASE, OPT_IN, PREEMPTABLE, SLA_WAITING_TIMES
from headgate.kube.field_errors import quote
from headgate.kube.timestamps import MAX_DURATION_HOURS, parse_duration

_CHOICES: Final = ("true", "false")


def find_ignored_annotations(annotations: Mapping[str, Any]) -> list[str]:
    """One text for each annotation of a pod that has no effect because of its value."""
    found = find_ignored_lease(annotations) + find_ignored_sla(annotations)
    choice = annotations.get(OPT_IN)
    if choice is not None and choice not in _CHOICES:
        found.append(_ignored(OPT_IN, choice, 'only "true" asks for the gate and only "false" declines it'))
    choice = annotations.get(PREEMPTABLE)
    if choice is not None and choice not in _CHOICES:
        found.append(_ignored(PREEMPTABLE, choice, 'only "true" and "false" have an effect'))
    return found


def find_ignored_lease(annotations: Mapping[str, Any]) -> list[str]:
    """The same for the lease of a pod, a PriorityClass or a queue."""
    value = annotations.get(LEASE)
    error = read_lease_s(value if value is None or isinstance(value, str) else str(value))
    return [f"{_path(LEASE)}: {error}; it is ignored"] if isinstance(error, str) else []


def find_ignored_sla(annotations: Mapping[str, Any]) -> list[str]:
    """The same for the waiting time of a pod or a PodGroup."""
    key = next((each for each in SLA_WAITING_TIMES if annotations.get(each)), "")
    value = annotations.get(key)
    nanoseconds = parse_duration(value) if isinstance(value, str) else 1
    if isinstance(nanoseconds, int) and nanoseconds > 0:
        return []
    return [_ignored(key, value, f"only a duration above 0 and up to {MAX_DURATION_HOURS}, such as 10m, has an effect")]


def _ignored(key: str, value: Any, rule: str) -> str:
    return f"{_path(key)}: {rule}; {quote(str(value))} is ignored"


def _path(key: str) -> str:
    return f"metadata.annotations[{key}]"
