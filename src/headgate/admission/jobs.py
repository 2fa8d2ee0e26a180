"""Jobs on their way in: those that wait in a queue wait from the start, stay in it while they run, and keep rules.

For every kind of job that can be suspended, built in or told of by its file. A job that came in running all the same is
stopped by ``jobs/``, which also starts it. Pods are ``kueue_pods.py``'s, what makes pods is ``templates.py``'s.
"""

from __future__ import annotations

from headgate.admission.draft import LABELS, Draft
from headgate.admission.managing import (
    has_default_queue,
    has_known_controller,
    is_asked,
    queue_for,
    unsure,
)
from headgate.admission.policy import Policy, View
from headgate.admission.review import ALLOWED, Answer, Request
from headgate.jobs.ancestors import Unsure
from headgate.jobs.builtin import JOB
from headgate.jobs.job_rules import problems_of_changed_job, problems_of_new_job
from headgate.jobs.kind import JobKind, at, is_suspended
from headgate.jobs.names import DEFAULT_QUEUE, QUEUE_NAME
from headgate.jobs.rules import problems_of_change, problems_of_new, template_gates_problems
from headgate.jobs.workload import queue_of
from headgate.kube.errors import FieldErrors, aggregate


def suspend_new(kind: JobKind, request: Request, policy: Policy, view: View) -> Answer:
    if not is_asked(request, policy, view):
        return ALLOWED
    queue = queue_for(request, policy, view)
    if isinstance(queue, Unsure):
        return Answer(refusal=unsure(queue))
    if queue is None:
        return ALLOWED
    draft = Draft(request.obj)
    if queue == DEFAULT_QUEUE and not queue_of(request.obj):
        if has_known_controller(request.obj, policy):
            return ALLOWED  # what its owner makes is the owner's to send to a queue
        draft.put((*LABELS, QUEUE_NAME), queue)
    draft.put(kind.suspend, True)
    return Answer(patch=draft.patch)


def validate(kind: JobKind, request: Request, policy: Policy, view: View) -> Answer:
    """Everything that is wrong, at once."""
    if not is_asked(request, policy, view):
        return ALLOWED
    problems = _problems(kind, request, policy, view)
    return Answer(refusal=aggregate(problems)) if problems else ALLOWED


def _problems(kind: JobKind, request: Request, policy: Policy, view: View) -> FieldErrors:
    new, old, is_job = request.obj, request.old, kind.resource == JOB.resource
    if request.operation == "CREATE":
        found = problems_of_new(new, policy.features) + (problems_of_new_job(new) if is_job else [])
        return found + _template_problems(kind, request, policy)
    found = problems_of_change(
        new,
        old,
        policy.features,
        was_waiting=is_suspended(kind, old),
        is_waiting=is_suspended(kind, new),
        has_default=bool(queue_of(old)) and not queue_of(new) and has_default_queue(request.namespace, view),
    )
    return found + (problems_of_changed_job(new, old) if is_job else []) + _template_problems(kind, request, policy)


def _template_problems(kind: JobKind, request: Request, policy: Policy) -> FieldErrors:
    """Of gates in the templates of pods."""
    found: FieldErrors = []
    for place in kind.pod_sets:
        new, old = at(request.obj, place.template), at(request.old, place.template)
        if isinstance(new, dict):
            path = ".".join(place.template)
            found += template_gates_problems(new, path, policy.features, old if isinstance(old, dict) else None)
    return found
