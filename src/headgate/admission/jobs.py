"""Admission of jobs: suspends new jobs with a queue, and validates managed jobs.

It applies to every job kind that can be suspended, built-in or from a file. ``jobs/`` suspends a job that was created
without this handler, and starts jobs whose Workload is admitted. ``kueue_pods.py`` handles pods, ``pod_owners.py``
handles their owners.
"""

from __future__ import annotations

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from headgate.admission.patch_builder import LABELS, PatchBuilder
from headgate.admission.queue_selection import (
    has_default_queue,
    has_known_controller,
    is_managed_namespace,
    select_queue,
    unknown_ancestor_message,
)
from headgate.admission.settings import AdmissionSettings, ClusterView
from headgate.jobs.framework.management import UnknownAncestor
from headgate.jobs.framework.workload import queue_of
from headgate.jobs.kinds.batch_job import JOB
from headgate.jobs.kinds.job_fields import Object, path_text
from headgate.jobs.kinds.job_kind import JobKind, is_suspended, job_pod_sets, template_of
from headgate.jobs.names import DEFAULT_QUEUE, QUEUE_NAME
from headgate.jobs.validation.batch_job_validation import validate_job_update, validate_new_job
from headgate.jobs.validation.job_validation import (
    validate_new,
    validate_template_gated_by_annotations,
    validate_update,
)
from headgate.kube.field_errors import FieldErrors, aggregate


def suspend_new_job(
    kind: JobKind, request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView
) -> AdmissionResponse:
    if kind not in settings.jobs.kinds or not is_managed_namespace(request, settings, view):
        return ALLOWED
    queue = None if kind.is_ignored(request.obj) else select_queue(request, settings, view)
    if isinstance(queue, UnknownAncestor):
        return AdmissionResponse(refusal=unknown_ancestor_message(queue))
    if queue is None:
        return ALLOWED
    builder = PatchBuilder(request.obj)
    if queue == DEFAULT_QUEUE and not queue_of(request.obj):
        if has_known_controller(request.obj, settings):
            return ALLOWED  # a job of another object does not get the default queue
        builder.put((*LABELS, QUEUE_NAME), queue)
    builder.put(kind.hold.path, kind.hold.held)
    return AdmissionResponse(patch=builder.patch)


def validate(
    kind: JobKind, request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView
) -> AdmissionResponse:
    """Reports all problems at once."""
    if kind not in settings.jobs.kinds or not is_managed_namespace(request, settings, view):
        return ALLOWED
    problems = _find_problems(kind, request, settings, view)
    return AdmissionResponse(refusal=aggregate(problems)) if problems else ALLOWED


def _find_problems(
    kind: JobKind, request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView
) -> FieldErrors:
    new, old, is_job = request.obj, request.old, kind.resource == JOB.resource
    if request.operation == "CREATE":
        found = validate_new(new, settings.features) + (validate_new_job(new) if is_job else [])
        return found + _find_refusals(kind, request, settings) + _find_template_gate_problems(kind, request, settings)
    found = validate_update(
        new,
        old,
        settings.features,
        was_waiting=_is_waiting(kind, old),
        is_waiting=_is_waiting(kind, new),
        has_default=bool(queue_of(old)) and not queue_of(new) and has_default_queue(request.namespace, view),
    )
    return (
        found
        + (validate_job_update(new, old) if is_job else [])
        + _find_refusals(kind, request, settings)
        + _find_template_gate_problems(kind, request, settings)
    )


def _is_waiting(kind: JobKind, job: Object) -> bool:
    """Whether a job is suspended, or, if its pods have gates, whether none of them runs."""
    return is_suspended(kind, job) if kind.gate is None else not kind.is_active(job)


def _find_refusals(kind: JobKind, request: AdmissionRequest, settings: AdmissionSettings) -> FieldErrors:
    """What a job that waits in a queue must not contain, except for what it contains already. Its status is not
    checked: a user cannot change it."""
    manages_all = settings.jobs.manages_all
    if kind.is_ignored(request.obj) or not (queue_of(request.obj) or manages_all):
        return []
    found = [each for each in kind.refusals(request.obj) if not each.path.startswith("status.")]
    was_managed = request.operation != "CREATE" and (queue_of(request.old) or manages_all)
    known = {str(each) for each in kind.refusals(request.old)} if was_managed else set[str]()
    return [each for each in found if str(each) not in known]


def _find_template_gate_problems(kind: JobKind, request: AdmissionRequest, settings: AdmissionSettings) -> FieldErrors:
    """Problems of the gate annotations in the pod templates."""
    found: FieldErrors = []
    before = {each.name: template_of(request.old, each) for each in job_pod_sets(kind, request.old)}
    for pod_set in job_pod_sets(kind, request.obj):
        found += validate_template_gated_by_annotations(
            template_of(request.obj, pod_set), path_text(pod_set.template), settings.features, before.get(pod_set.name)
        )
    return found
