"""Jobs on their way in: those with a queue wait from the start, stay in it while they run, and keep their gates' rules.

A job that came in running all the same is stopped by ``jobs/``, which also starts it.
"""

from __future__ import annotations

from typing import Final

from headgate.admission.policy import Policy, View
from headgate.admission.review import ALLOWED, Answer, Request
from headgate.jobs.gating import changes_of_gate, problems_of_gate
from headgate.jobs.names import QUEUE_NAME
from headgate.jobs.workload import queue_of
from headgate.kube.errors import FieldErrors, aggregate
from headgate.kube.validation.values import immutable
from headgate.quota.kinds.gated_by import gate_changes, gate_problems

_QUEUE_PATH: Final = f"metadata.labels[{QUEUE_NAME}]"


def suspend_new(request: Request, policy: Policy, view: View) -> Answer:
    if not policy.suspends_jobs or not queue_of(request.obj) or request.obj["spec"].get("suspend") is True:
        return ALLOWED
    return Answer(patch=({"op": "add", "path": "/spec/suspend", "value": True},))


def validate(request: Request, policy: Policy, view: View) -> Answer:
    """Everything that is wrong, at once."""
    if not policy.suspends_jobs:
        return ALLOWED
    problems = _problems(request, policy)
    return Answer(refusal=aggregate(problems)) if problems else ALLOWED


def _problems(request: Request, policy: Policy) -> FieldErrors:
    new, old, features = request.obj, request.old, policy.features
    found: FieldErrors = []
    if request.operation == "CREATE":
        found += gate_problems(new) if features.admission_gated_by else []
        return found + (problems_of_gate(new) if features.scheduling_gated_by else [])
    if new["spec"].get("suspend") is not True:
        found += immutable(queue_of(new), queue_of(old), _QUEUE_PATH)
    found += gate_changes(new, old) if features.admission_gated_by else []
    return found + (changes_of_gate(new, old) if features.scheduling_gated_by else [])
