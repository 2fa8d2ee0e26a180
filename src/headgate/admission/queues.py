"""Queues on their way in, and out: the rules of ``capacity/queue_changes.py``, asked about one write.

A queue that comes in all the same (webhooks fail open) disables its own branch and nothing else; that is the engine's
business. Groups in queues are ``pod_groups.py``'s.
"""

from __future__ import annotations

from headgate.admission.policy import Policy, View
from headgate.admission.review import ALLOWED, Answer, Request
from headgate.capacity.queue_changes import problems_of_deletion, problems_of_queue, remarks_of_queue


def validate_queue(request: Request, policy: Policy, view: View) -> Answer:
    """Everything that is wrong, at once."""
    if request.operation == "DELETE":
        problems, remarks = problems_of_deletion(_name(request), view.queues, view.tenants), []
    else:
        old = request.old if request.operation == "UPDATE" else None
        problems = problems_of_queue(request.obj, old, view.queues, view.tenants)
        remarks = remarks_of_queue(request.obj, old)
    if problems:
        return Answer(refusal="; ".join(map(str, problems)))
    return Answer(warnings=tuple(remarks)) if remarks else ALLOWED


def _name(request: Request) -> str:
    """One that is deleted with many others is named by itself only."""
    metadata = request.old.get("metadata")
    named = metadata.get("name") if isinstance(metadata, dict) else None
    return request.name or str(named or "")
