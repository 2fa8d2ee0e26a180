"""Findings of an audit, and the rules that they break.

A finding is *certain* if the recording shows every state that it depends on. It is *possible* if states are missing,
or if a component that Headgate does not know may have had a reason.
"""

from __future__ import annotations

from typing import Final

import msgspec

RULES: Final = {
    "over-admission": "A grant lifts the use of a queue, a cohort or one of their ancestors above its limit.",
    "promise-changed": "What was promised to a pod or Workload changes without a revocation or eviction.",
    "promise-lost": "A promise ends although nothing required it: no lapse, no preemptor, no lowered limit.",
    "promise-mismatch": "The promise is smaller than the requests of the pod.",
    "stamp-of-another-pod": "A pod has a stamp that does not name its uid.",
    "gate-lifted-twice": "The same gate of the same pod is removed a second time.",
    "gate-lifted-without-promise": "The queue gate is removed from a pod that opted in, and there is no promise.",
    "gate-lifted-before-admission": "The gate of a pod in a Kueue queue is removed before its Workload is admitted.",
    "gate-lifted-early": "The queue gate is removed while the pod has gates of other components.",
    "foreign-gate-removed": "The write that removes Headgate's gate removes a gate of another component, too.",
    "gate-added": "A gate appears on an existing pod.",
    "gate-not-lifted": "A pod keeps its gate although its Workload is admitted or its capacity is promised.",
    "orphaned-gate": "A pod waits behind a gate that no component removes.",
    "orphaned-finalizer": "An object that is being deleted keeps a finalizer although nothing uses it.",
    "bound-with-gate": "A pod with a gate has a node.",
    "node-changed": "A pod that was bound has another node, or none.",
    "node-overcommitted": "A binding lifts the requests of pods on a node above its allocatable.",
    "unschedulable-behind-gate": "A pod with a gate is marked Unschedulable.",
    "unschedulable-while-terminating": "A pod is marked Unschedulable although it fits when terminating pods are gone.",
    "unschedulable-before-gang": (
        "A member of a gang is marked Unschedulable while fewer members than its minimum are without a gate."
    ),
    "admitted-twice": "A Workload is admitted a second time without an eviction.",
    "two-holders": "Two Workloads of one owner hold quota.",
    "finished-again": "A Workload that was finished is unfinished.",
    "runs-without-admission": "A job or pod runs although its Workload is not admitted.",
    "quota-leaked": "A Workload holds quota although its owner, or all its pods, have ended.",
    "starved": (
        "A unit waits long after its queue admitted a unit that came later, is at least as large and has no higher "
        "priority."
    ),
}
"""By id of the rule, what breaks it."""


class Finding(msgspec.Struct, frozen=True):
    """``subject``: kind, namespace and name. ``until_s``: for a state that lasts, when it ended or was last seen."""

    rule: str
    subject: str
    text: str
    at_s: float
    revision: int
    certain: bool = True
    until_s: float | None = None

    @property
    def line(self) -> str:
        return f"at {self.revision}: {self.subject}: {self.text}"


def subject_of(kind: str, namespace: str, name: str) -> str:
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
