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
from headgate.jobs.kinds.job_kind import JobKind, is_suspended
from headgate.jobs.names import DEFAULT_QUEUE, QUEUE_NAME
from headgate.jobs.validation.batch_job_validation import validate_job_update, validate_new_job
from headgate.jobs.validation.job_validation import (
    validate_new,
    validate_template_gated_by_annotations,
    validate_update,
)
from headgate.kube.field_errors import FieldErrors, aggregate
from headgate.kube.lenient_reader import get_path


def suspend_new_job(
    kind: JobKind, request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView
) -> AdmissionResponse:
    if kind not in settings.jobs.kinds or not is_managed_namespace(request, settings, view):
        return ALLOWED
    queue = select_queue(request, settings, view)
    if isinstance(queue, UnknownAncestor):
        return AdmissionResponse(refusal=unknown_ancestor_message(queue))
    if queue is None:
        return ALLOWED
    builder = PatchBuilder(request.obj)
    if queue == DEFAULT_QUEUE and not queue_of(request.obj):
        if has_known_controller(request.obj, settings):
            return ALLOWED  # a job of another object does not get the default queue
        builder.put((*LABELS, QUEUE_NAME), queue)
    builder.put(kind.suspend, True)
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
        return found + _find_template_gate_problems(kind, request, settings)
    found = validate_update(
        new,
        old,
        settings.features,
        was_waiting=is_suspended(kind, old),
        is_waiting=is_suspended(kind, new),
        has_default=bool(queue_of(old)) and not queue_of(new) and has_default_queue(request.namespace, view),
    )
    return (
        found
        + (validate_job_update(new, old) if is_job else [])
        + _find_template_gate_problems(kind, request, settings)
    )


def _find_template_gate_problems(kind: JobKind, request: AdmissionRequest, settings: AdmissionSettings) -> FieldErrors:
    """Problems of the gate annotations in the pod templates."""
    found: FieldErrors = []
    for source in kind.pod_sets:
        new, old = get_path(request.obj, source.template), get_path(request.old, source.template)
        if isinstance(new, dict):
            path = ".".join(source.template)
            found += validate_template_gated_by_annotations(
                new, path, settings.features, old if isinstance(old, dict) else None
            )
    return found
