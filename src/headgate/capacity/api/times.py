"""Times that a pod or a PodGroup states: how long it may run, and how long it may wait until it is protected.

``capacity/cache/run_times.py`` keeps when pods end; ``capacity/grants/head_of_line.py`` uses both times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.names import SLA_WAITING_TIMES
from headgate.kube.timestamps import parse_duration

_NS: Final = 1e-9


class RunTime(msgspec.Struct, frozen=True, gc=False):
    """The run-time limit of a pod, which the kubelet enforces. ``limit_s``: ``spec.activeDeadlineSeconds``.
    ``grace_s``: how long the pod may still run when it is stopped. ``started_s``: ``status.startTime`` in seconds since
    1970; None until the pod has started."""

    limit_s: float
    grace_s: float = 0.0
    started_s: float | None = None


def read_sla_s(annotations: Mapping[str, Any]) -> float | None:
    """The waiting time in seconds; None if there is none, or if it is not a duration above 0."""
    text = next((annotations[each] for each in SLA_WAITING_TIMES if annotations.get(each)), None)
    nanoseconds = parse_duration(text) if isinstance(text, str) else ""
    return None if isinstance(nanoseconds, str) or nanoseconds <= 0 else nanoseconds * _NS
