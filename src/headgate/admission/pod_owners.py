"""Admission of Deployments, ReplicaSets and StatefulSets, whose pods wait in Kueue's queues.

The handlers write the queue's labels into the pod template; ``kueue_pods.py`` reads them when a pod is created. The
annotation ``scheduling-gated-by`` stays on the owner: in the template its change would roll the pods.
"""

from __future__ import annotations

from typing import Final

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, Object, annotations_of
from headgate.admission.patch_builder import ANNOTATIONS, LABELS, PatchBuilder
from headgate.admission.policy import AdmissionPolicy, ClusterView
from headgate.admission.queue_selection import (
    find_managed_ancestor,
    has_known_controller,
    is_managed_namespace,
    select_queue,
    unknown_ancestor_message,
)
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
_TEMPLATE: Final = ("spec", "template")
_GATES: Final = (names.SCHEDULING_GATED_BY, ADMISSION_GATED_BY)
_DROPPED: Final = "cannot be added after creation and was left out; kubectl rollout undo restores old ones"


def mark_template(
    parent: str, request: AdmissionRequest, policy: AdmissionPolicy, view: ClusterView
) -> AdmissionResponse:
    """``parent``: the owner's kind, as its pods name it."""
    if not is_managed_namespace(request, policy, view) or _is_terminating(request.obj):
        return ALLOWED
    if parent == REPLICA_SET and controller_of(request.obj) is not None:
        return ALLOWED  # its template comes from its Deployment, which would restore it
    builder = PatchBuilder(request.obj)
    warnings = _drop_copied_gates(builder, request) if parent == DEPLOYMENT and request.operation == "UPDATE" else ()
    queue = select_queue(request, policy, view)
    if isinstance(queue, UnknownAncestor) and request.operation == "CREATE":
        return AdmissionResponse(refusal=unknown_ancestor_message(queue))
    if queue is None or isinstance(queue, UnknownAncestor):
        return AdmissionResponse(patch=builder.patch, warnings=warnings)
    if not queue_of(request.obj):
        if not _may_use_default_queue(request, policy):
            return AdmissionResponse(patch=builder.patch, warnings=warnings)
        if queue:
            builder.put((*LABELS, names.QUEUE_NAME), queue)
    priority = get_path(request.obj, (*LABELS, names.PRIORITY_CLASS))
    labels = {names.QUEUE_NAME: queue, names.PRIORITY_CLASS: priority}
    builder.put((*_TEMPLATE, "metadata", "annotations", names.SUSPENDING_PARENT), parent)
    builder.put_all(
        (*_TEMPLATE, *LABELS), {names.MANAGED: "true", **{name: value for name, value in labels.items() if value}}
    )
    return AdmissionResponse(patch=builder.patch, warnings=warnings)


def _drop_copied_gates(builder: PatchBuilder, request: AdmissionRequest) -> tuple[str, ...]:
    """``kubectl rollout undo`` writes the template of an old ReplicaSet and its annotations, which are copies of what
    the Deployment had when it was created. A gate cannot be added later, so a gate that comes with another template is
    removed. One that comes alone is rejected (``validate``)."""
    if get_path(request.obj, _TEMPLATE) == get_path(request.old, _TEMPLATE):
        return ()
    before, after = annotations_of(request.old), annotations_of(request.obj)
    dropped = [name for name in _GATES if name in after and name not in before]
    for name in dropped:
        builder.remove((*ANNOTATIONS, name))
    return tuple(f"metadata.annotations[{name}]: {_DROPPED}" for name in dropped)


def validate(parent: str, request: AdmissionRequest, policy: AdmissionPolicy, view: ClusterView) -> AdmissionResponse:
    """Reports all problems at once."""
    if not is_managed_namespace(request, policy, view):
        return ALLOWED
    new, old = request.obj, request.old
    if request.operation == "CREATE":
        problems = validate_new_owner(new, policy.features)
    else:
        problems = validate_owner_update(new, old, policy.features)
        if parent == STATEFUL_SET and _is_marked(new) and find_managed_ancestor(request, policy, view) is None:
            problems += validate_stateful_set_update(new, old)
    return AdmissionResponse(refusal=aggregate(problems)) if problems else ALLOWED


def validate_scale(request: AdmissionRequest, policy: AdmissionPolicy, view: ClusterView) -> AdmissionResponse:
    """Validates the Scale of a StatefulSet by the same rule as its ``spec.replicas``."""
    if not is_managed_namespace(request, policy, view):
        return ALLOWED
    owner = view.get(STATEFUL_SETS, request.namespace, request.name)
    if owner is None or not _is_marked(owner):
        return ALLOWED
    wanted, before = (get_path(scale, ("spec", "replicas")) or 0 for scale in (request.obj, request.old))
    problems = scale_problems(wanted, before, get_path(owner, ("status", "replicas")) or 0)
    return AdmissionResponse(refusal=aggregate(problems)) if problems else ALLOWED


def _may_use_default_queue(request: AdmissionRequest, policy: AdmissionPolicy) -> bool:
    """Whether the owner may get a default queue: at creation, and not with a later, unrelated update."""
    if has_known_controller(request.obj, policy):
        return False
    return request.operation == "CREATE" or _is_marked(request.old)


def _is_marked(owner: Object) -> bool:
    return get_path(owner, (*_TEMPLATE, "metadata", "annotations", names.SUSPENDING_PARENT)) is not None


def _is_terminating(obj: Object) -> bool:
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))
