"""The labels by which people hold and resume jobs and change their priority: when they have an effect, and the request.

Headgate removes a label for activation after it has changed the Workload (``jobs/framework/activation_labels.py``); the
priority of the Workload follows the label of the job.
"""

from __future__ import annotations

from typing import Any

from headgate.client.write_requests import patch
from headgate.http.transport import HTTPRequest
from headgate.jobs.kinds.job_kind import JobKind, has_suspend_set, hold_value
from headgate.jobs.names import PRIORITY_CLASS
from headgate.quota import names
from headgate.quota.api.activation import LABEL_OF, ActivationEvent

Object = dict[str, Any]


def why_impossible(kind: JobKind, job: Object) -> str:
    """Why the labels for activation would be ignored; empty if they would not."""
    if kind.outcome(job) is not None:
        return "has ended"
    if not has_suspend_set(kind, job):
        state = f"{'.'.join(kind.hold.path)} is not {hold_value(kind)}"
        return f"runs: only a suspended job can be held or resumed ({state})"
    return ""


def activation_request(kind: JobKind, namespace: str, name: str, uid: str, event: ActivationEvent) -> HTTPRequest:
    labels = {names.ACTIVATE: None, names.DEACTIVATE: None, LABEL_OF[event]: "true"}
    return patch(kind.resource, namespace, name, uid, {"metadata": {"labels": labels}})


def priority_request(kind: JobKind, namespace: str, name: str, uid: str, priority_class: str) -> HTTPRequest:
    return patch(kind.resource, namespace, name, uid, {"metadata": {"labels": {PRIORITY_CLASS: priority_class}}})
