"""Admission of job kinds whose pods wait behind gates, because no field of their objects suspends them.

The handler writes the labels of the queue, and what names the pod groups, into the pod templates; ``kueue_pods.py``
reads them when a pod is created, and ``jobs/pods/`` admits the groups. The names of the groups begin with a name that
contains a hash of the templates: pods of an older version of the object are in groups of their own, so that a rolling
update, or a new object with the same name, does not mix pods of two shapes. ``jobs.py`` validates these objects.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, Object
from headgate.admission.patch_builder import LABELS, PatchBuilder
from headgate.admission.queue_selection import (
    has_known_controller,
    is_managed_namespace,
    select_queue,
    unknown_ancestor_message,
)
from headgate.admission.settings import AdmissionSettings, ClusterView
from headgate.jobs import names
from headgate.jobs.framework.management import UnknownAncestor
from headgate.jobs.framework.workload import queue_of
from headgate.jobs.kinds.job_kind import JobKind, PodGating, job_pod_sets, template_of
from headgate.kube.lenient_reader import get_path

_HASH_LENGTH: Final = 8
_MAX_NAME_LENGTH: Final = 230
"""Of the beginning of the name of a group: a Workload has its name, and the index of the group follows."""
_PARENT: Final = ("metadata", "annotations", names.SUSPENDING_PARENT)


def mark_templates(
    kind: JobKind, request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView
) -> AdmissionResponse:
    """Writes the labels of the queue, and annotations with the owner's kind and the pod group, into the templates."""
    gate = kind.gate
    is_managed = kind in settings.jobs.kinds and is_managed_namespace(request, settings, view)
    if gate is None or not is_managed or kind.is_ignored(request.obj) or get_path(request.obj, _DELETION) is not None:
        return ALLOWED
    queue = select_queue(request, settings, view)
    if isinstance(queue, UnknownAncestor):
        is_new = request.operation == "CREATE"
        return AdmissionResponse(refusal=unknown_ancestor_message(queue)) if is_new else ALLOWED
    if queue is None or not (queue_of(request.obj) or _may_wait_without_queue_name(kind, request, settings)):
        return ALLOWED
    builder = PatchBuilder(request.obj)
    if queue and not queue_of(request.obj):
        builder.put((*LABELS, names.QUEUE_NAME), queue)
    labels = {names.QUEUE_NAME: queue, names.PRIORITY_CLASS: get_path(request.obj, (*LABELS, names.PRIORITY_CLASS))}
    marks = {names.MANAGED: "true", **{name: value for name, value in labels.items() if value}}
    annotations = {names.SUSPENDING_PARENT: kind.integration, **_group_annotations(kind, gate, request)}
    for pod_set in job_pod_sets(kind, request.obj):
        path = tuple(map(str, pod_set.template))
        builder.put_all((*path, "metadata", "annotations"), annotations)
        builder.put_all((*path, *LABELS), marks)
    return AdmissionResponse(patch=builder.patch)


_DELETION: Final = ("metadata", "deletionTimestamp")


def _may_wait_without_queue_name(kind: JobKind, request: AdmissionRequest, settings: AdmissionSettings) -> bool:
    """Whether an object that names no queue may wait: only if it is new or its templates are marked already, and if
    its own controller is not of a kind that can wait in a queue."""
    if has_known_controller(request.obj, settings):
        return False
    marked = (get_path(template_of(request.old, each), _PARENT) for each in job_pod_sets(kind, request.old))
    return request.operation == "CREATE" or any(each is not None for each in marked)


def _group_annotations(kind: JobKind, gate: PodGating, request: AdmissionRequest) -> dict[str, str]:
    """The annotations that all groups of the object have in common."""
    if not gate.group:
        return {}
    size = gate.size(request.obj)
    shapes = [size, *((each.name, _shape(template_of(request.obj, each))) for each in job_pod_sets(kind, request.obj))]
    digest = hashlib.sha256(msgspec.json.encode(shapes, order="deterministic")).hexdigest()[:_HASH_LENGTH]
    name = f"{kind.kind.kind.lower()}-{request.obj['metadata'].get('name') or request.name}"[:_MAX_NAME_LENGTH]
    return {
        names.POD_GROUP_PREFIX: f"{name}-{digest}",
        names.TOTAL_COUNT: str(size),
        **({names.SERVING: "true"} if gate.is_serving else {}),
    }


def _shape(template: Object) -> Object:
    """The fields of a template that the user writes, without the marks of an earlier call."""
    metadata = template.get("metadata") or {}
    found: Object = {"spec": template.get("spec")}
    for field in ("labels", "annotations"):
        kept = {key: value for key, value in (metadata.get(field) or {}).items() if key not in _MARKS}
        if kept:
            found[field] = kept
    return found


_MARKS: Final = frozenset(
    {
        names.MANAGED,
        names.QUEUE_NAME,
        names.PRIORITY_CLASS,
        names.SUSPENDING_PARENT,
        names.POD_GROUP_PREFIX,
        names.TOTAL_COUNT,
        names.SERVING,
    }
)
