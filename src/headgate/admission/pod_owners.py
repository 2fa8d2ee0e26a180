"""Admission of Deployments, ReplicaSets and StatefulSets, whose pods wait in Kueue's queues.

The handlers write the labels of the queue into the pod template; ``kueue_pods.py`` reads them when a pod is created.
The annotation ``scheduling-gated-by`` stays on the owner and is not copied into the template, because its removal from
the template would start a rollout.
"""

from __future__ import annotations

from typing import Final

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, Object, annotations_of
from headgate.admission.patch_builder import ANNOTATIONS, LABELS, PatchBuilder
from headgate.admission.queue_selection import (
    find_managed_ancestor,
    has_known_controller,
    is_managed_namespace,
    select_queue,
    unknown_ancestor_message,
)
from headgate.admission.settings import AdmissionSettings, ClusterView
from headgate.jobs import names
from headgate.jobs.framework.management import UnknownAncestor
from headgate.jobs.framework.workload import queue_of
from headgate.jobs.validation.pod_owner_validation import (
    STATEFUL_SET_PARENT,
    scale_problems,
    validate_new_owner,
    validate_owner_update,
    validate_stateful_set_update,
)
from headgate.kube.api_resources import STATEFUL_SETS
from headgate.kube.field_errors import aggregate
from headgate.kube.lenient_reader import get_path
from headgate.kube.object_meta import controller_of
from headgate.quota.names import ADMISSION_GATED_BY

DEPLOYMENT, REPLICA_SET, STATEFUL_SET = "deployment", "replicaset", STATEFUL_SET_PARENT
"""The kinds of owners, as the annotation of their pods names them."""
_TEMPLATE: Final = ("spec", "template")
_GATE_ANNOTATIONS: Final = (names.SCHEDULING_GATED_BY, ADMISSION_GATED_BY)
_GATE_REMOVED: Final = "cannot be added after creation and was left out; kubectl rollout undo restores old ones"


def put_queue_in_template(
    owner_kind: str, request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView
) -> AdmissionResponse:
    """Writes the labels of the queue, and an annotation with the owner's kind, into the pod template. ``owner_kind`` is
    one of the constants above."""
    if not is_managed_namespace(request, settings, view) or _is_terminating(request.obj):
        return ALLOWED
    if owner_kind == REPLICA_SET and controller_of(request.obj) is not None:
        return ALLOWED  # its Deployment owns the template and would undo the change
    if _parent_in_template(request.obj) not in (None, owner_kind):
        return ALLOWED  # its template is that of an object whose pods wait already
    builder = PatchBuilder(request.obj)
    warnings = (
        _drop_copied_gates(builder, request) if owner_kind == DEPLOYMENT and request.operation == "UPDATE" else ()
    )
    queue = select_queue(request, settings, view)
    if isinstance(queue, UnknownAncestor) and request.operation == "CREATE":
        return AdmissionResponse(refusal=unknown_ancestor_message(queue))
    if queue is None or isinstance(queue, UnknownAncestor):
        return AdmissionResponse(patch=builder.patch, warnings=warnings)
    if not queue_of(request.obj):
        if not _may_wait_without_queue_name(request, settings):
            return AdmissionResponse(patch=builder.patch, warnings=warnings)
        if queue:
            builder.put((*LABELS, names.QUEUE_NAME), queue)
    priority = get_path(request.obj, (*LABELS, names.PRIORITY_CLASS))
    labels = {names.QUEUE_NAME: queue, names.PRIORITY_CLASS: priority}
    builder.put((*_TEMPLATE, "metadata", "annotations", names.SUSPENDING_PARENT), owner_kind)
    builder.put_all(
        (*_TEMPLATE, *LABELS), {names.MANAGED: "true", **{name: value for name, value in labels.items() if value}}
    )
    return AdmissionResponse(patch=builder.patch, warnings=warnings)


def _drop_copied_gates(builder: PatchBuilder, request: AdmissionRequest) -> tuple[str, ...]:
    """Removes gate annotations that an update of a Deployment adds together with a changed template. Returns warnings.

    ``kubectl rollout undo`` sends such an update: it writes the template and the annotations of an old ReplicaSet. That
    ReplicaSet has the annotations that the Deployment had when the ReplicaSet was created. A gate cannot be added after
    creation; an update that adds one and does not change the template is rejected (``validate``)."""
    if get_path(request.obj, _TEMPLATE) == get_path(request.old, _TEMPLATE):
        return ()
    before, after = annotations_of(request.old), annotations_of(request.obj)
    dropped = [name for name in _GATE_ANNOTATIONS if name in after and name not in before]
    for name in dropped:
        builder.remove((*ANNOTATIONS, name))
    return tuple(f"metadata.annotations[{name}]: {_GATE_REMOVED}" for name in dropped)


def validate(
    owner_kind: str, request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView
) -> AdmissionResponse:
    """Reports all problems at once."""
    if not is_managed_namespace(request, settings, view):
        return ALLOWED
    new, old = request.obj, request.old
    if request.operation == "CREATE":
        problems = validate_new_owner(new, settings.features)
    else:
        problems = validate_owner_update(new, old, settings.features)
        if (
            owner_kind == STATEFUL_SET
            and _has_queue_in_template(new)
            and find_managed_ancestor(request, settings, view) is None
        ):
            problems += validate_stateful_set_update(new, old)
    return AdmissionResponse(refusal=aggregate(problems)) if problems else ALLOWED


def validate_scale(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> AdmissionResponse:
    """Validates the Scale of a StatefulSet by the same rule as its ``spec.replicas``."""
    if not is_managed_namespace(request, settings, view):
        return ALLOWED
    owner = view.get(STATEFUL_SETS, request.namespace, request.name)
    if owner is None or not _has_queue_in_template(owner):
        return ALLOWED
    wanted, before = (get_path(scale, ("spec", "replicas")) or 0 for scale in (request.obj, request.old))
    problems = scale_problems(wanted, before, get_path(owner, ("status", "replicas")) or 0)
    return AdmissionResponse(refusal=aggregate(problems)) if problems else ALLOWED


def _may_wait_without_queue_name(request: AdmissionRequest, settings: AdmissionSettings) -> bool:
    """Whether an owner that names no queue may wait in a queue: only if it is being created or already has a queue in
    its template, and if its own controller is not of a kind that can wait in a queue."""
    if has_known_controller(request.obj, settings):
        return False
    return request.operation == "CREATE" or _has_queue_in_template(request.old)


def _has_queue_in_template(owner: Object) -> bool:
    """Whether ``put_queue_in_template`` has changed the owner, so that its pods wait in a queue."""
    return _parent_in_template(owner) is not None


def _parent_in_template(owner: Object) -> str | None:
    found: str | None = get_path(owner, (*_TEMPLATE, "metadata", "annotations", names.SUSPENDING_PARENT))
    return found


def _is_terminating(obj: Object) -> bool:
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))
