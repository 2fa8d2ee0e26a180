"""Admissions that the server rejected: their back-off, and the Event with the reason.

A failing webhook or a stricter schema may reject one workload repeatedly. Its quota is free for other workloads
meanwhile, and it is retried with growing delays.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.framework.effects import EmitEvent
from headgate.controllers.ownership.pods import object_reference
from headgate.kube.backoff import ExponentialBackoff
from headgate.quota.controller.workload_writes import COMPONENT, KIND

Object = dict[str, Any]

REASON: Final = "AdmissionRefused"
_BACKOFF: Final = ExponentialBackoff(1.0, 60.0)
_MAX_MESSAGE: Final = 1024


class RejectedAdmissions:
    def __init__(self) -> None:
        self._counts: Final[dict[str, int]] = {}

    def backoff_s(self, key: str) -> float:
        """Counts one more rejection and returns the delay after it."""
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return _BACKOFF.delay_s(count)

    def forget(self, key: str) -> None:
        self._counts.pop(key, None)


def rejected_event(workload: Object, reason: str) -> EmitEvent:
    text = f"The API server rejected the admission: {reason}"
    return EmitEvent(object_reference(workload, KIND), "Warning", REASON, text[:_MAX_MESSAGE], COMPONENT)
