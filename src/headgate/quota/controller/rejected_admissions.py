"""Admissions that the server rejected: their back-off, and the Event with the reason.

A failing webhook or a stricter schema may reject one workload repeatedly. Its quota is free for other workloads
meanwhile, and it is retried with growing delays.

After an answer such as 504 the admission may still be performed. Then its quota is released only when a later write has
changed the version of the workload, so that the server rejects the admission, or when no request can still be in
progress. Until then the admission is not sent again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from headgate.controllers.framework.effects import UNREACHABLE, EffectResponse, EmitEvent
from headgate.controllers.framework.mutation_cache import ObservedVersion
from headgate.controllers.ownership.pods import object_reference
from headgate.kube.backoff import ExponentialBackoff
from headgate.quota.controller.workload_writes import COMPONENT, KIND

Object = dict[str, Any]

REASON: Final = "AdmissionRefused"
_BACKOFF: Final = ExponentialBackoff(1.0, 60.0)
MAX_REQUEST_S: Final = 120.0
"""No request is in progress for longer: kube-apiserver ends a write after a minute."""
_MAX_MESSAGE: Final = 1024
_FAILED_WEBHOOK: Final = "failed calling webhook"


class OpenAdmission(NamedTuple):
    """An admission that may still be performed: it was decided on this version of the workload."""

    rejection: EffectResponse
    decided_on: ObservedVersion
    sent_s: float


class RejectedAdmissions:
    def __init__(self) -> None:
        self._counts: Final[dict[str, int]] = {}
        self._open: Final[dict[str, OpenAdmission]] = {}

    def backoff_s(self, key: str) -> float:
        """Counts one more rejection and returns the delay after it."""
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return _BACKOFF.delay_s(count)

    def find_open(self, key: str) -> OpenAdmission | None:
        return self._open.get(key)

    def keep_open(self, key: str, rejection: EffectResponse, decided_on: ObservedVersion) -> None:
        """The first rejection counts: the admission is not sent again after it."""
        self._open.setdefault(key, OpenAdmission(rejection, decided_on, rejection.now_s))

    def close(self, key: str) -> None:
        self._open.pop(key, None)

    def forget(self, key: str) -> None:
        self._counts.pop(key, None)
        self.close(key)

    def pending_text(self, key: str, reason: str) -> str:
        """The message of the write that makes the admission impossible. It differs from that of the last attempt:
        otherwise the write would change nothing."""
        text = f"It is not known whether attempt {self._counts.get(key, 0) + 1} to reserve quota succeeded: {reason}"
        return text[:_MAX_MESSAGE]


def may_be_performed(rejection: EffectResponse) -> bool:
    """Whether the server answered with an error, and may have performed the write, or may do so later. Webhooks are
    called before the write."""
    return rejection.unknown and rejection.status != UNREACHABLE and _FAILED_WEBHOOK not in rejection.message


def rejected_event(workload: Object, reason: str) -> EmitEvent:
    text = f"The API server rejected the admission: {reason}"
    return EmitEvent(object_reference(workload, KIND), "Warning", REASON, text[:_MAX_MESSAGE], COMPONENT)
