"""Admission of pods for Kueue's queues: adds the gate, labels and finalizer, and validates managed pods.

A scheduling gate can only be added when a pod is created, so only this handler can make a pod wait. ``jobs/pods/``
removes the gate. ``pods.py`` handles the gate of Headgate's own queues.
"""

from __future__ import annotations

from typing import Final

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse, Object, annotations_of
from headgate.admission.patch_builder import ANNOTATIONS, LABELS, PatchBuilder
from headgate.admission.queue_selection import (
    has_default_queue,
    has_known_controller,
    is_managed_namespace,
    select_queue,
    unknown_ancestor_message,
)
from headgate.admission.settings import AdmissionSettings, ClusterView
from headgate.jobs import names
from headgate.jobs.framework.management import UnknownAncestor
from headgate.jobs.framework.workload import queue_of, workload_name_for
from headgate.jobs.pods.pod_metadata import is_managed, role_of
from headgate.jobs.validation.pod_owner_validation import STATEFUL_SET_PARENT
from headgate.jobs.validation.pod_validation import validate_new_pod, validate_pod_update
from headgate.kube.api_resources import STATEFUL_SETS
from headgate.kube.feature_gates import pod_integration_problem
from headgate.kube.field_errors import aggregate, quote
from headgate.kube.lenient_reader import get_path
from headgate.kube.object_meta import controller_of
from headgate.kube.schema import GroupVersionKind

_STATEFUL_SET: Final = GroupVersionKind("apps", "v1", "StatefulSet")
_OWNER_IS_MANAGED_WARNING: Final = (
    f"pod owner is managed by kueue, label '{names.MANAGED}=true' might lead to unexpected behaviour"
)


def gate_new_pod(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> AdmissionResponse:
    if not is_managed_namespace(request, settings, view):
        return ALLOWED
    builder = PatchBuilder(request.obj)
    if names.SUSPENDING_PARENT in annotations_of(request.obj):
        problem = _join_group_of_stateful_set(builder, request, view) or _join_group_of_kind(builder, request, settings)
        if problem:
            return AdmissionResponse(refusal=problem)
    else:
        queue = select_queue(request, settings, view)
        if isinstance(queue, UnknownAncestor):
            return AdmissionResponse(refusal=unknown_ancestor_message(queue))
        if queue is None or _is_placed(request.obj):
            return ALLOWED
        builder.put_all(LABELS, {names.MANAGED: "true", **({names.QUEUE_NAME: queue} if queue else {})})
        builder.append(("metadata", "finalizers"), names.MANAGED)
    if pod_integration_problem(settings.features):
        return AdmissionResponse(refusal=pod_integration_problem(settings.features))
    builder.append(("spec", "schedulingGates"), {"name": names.ADMISSION_GATE})
    builder.put((*ANNOTATIONS, names.ROLE_HASH), role_of(request.obj))
    return AdmissionResponse(patch=builder.patch)


def validate(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> AdmissionResponse:
    """Reports all problems at once."""
    if not is_managed_namespace(request, settings, view):
        return ALLOWED
    new, old, features = request.obj, request.old, settings.features
    if request.operation == "CREATE":
        problems = validate_new_pod(new, features)
    else:
        loses_queue_name = bool(queue_of(old)) and not queue_of(new)
        has_default = loses_queue_name and has_default_queue(request.namespace, view)
        problems = validate_pod_update(new, old, features, has_default=has_default)
    return AdmissionResponse(refusal=aggregate(problems) if problems else "", warnings=_warnings(new, settings))


def _join_group_of_stateful_set(builder: PatchBuilder, request: AdmissionRequest, view: ClusterView) -> str:
    """Makes a pod of a StatefulSet a member of the pod group of that StatefulSet. Returns an error message if the size
    of the group is not known yet, otherwise an empty text. A pod of another owner does not join a group."""
    if annotations_of(request.obj)[names.SUSPENDING_PARENT] != STATEFUL_SET_PARENT:
        return ""
    owner = controller_of(request.obj) or {}
    name, uid = str(owner.get("name", "")), str(owner.get("uid", ""))
    found = view.get(STATEFUL_SETS, request.namespace, name, uid)
    if found is None or found["metadata"].get("uid") != uid:
        return f"the StatefulSet {quote(name)} that it waits for is not known"
    replicas = (found.get("spec") or {}).get("replicas", 1)
    if not replicas:  # its pods are being created: the cached version is too old to know the size of the group
        return f"how many replicas the StatefulSet {quote(name)} has is not known yet"
    builder.put_all(
        ANNOTATIONS,
        {
            names.POD_GROUP_NAME: workload_name_for(_STATEFUL_SET, found),
            names.TOTAL_COUNT: str(replicas),
            names.FAST_ADMISSION: "true",
            names.SERVING: "true",
        },
    )
    return ""


def _join_group_of_kind(builder: PatchBuilder, request: AdmissionRequest, settings: AdmissionSettings) -> str:
    """Makes a pod of a kind with a gate a member of its group. Returns an error message if the pod does not say which
    group it is in, otherwise an empty text."""
    annotations = annotations_of(request.obj)
    prefix, parent = annotations.get(names.POD_GROUP_PREFIX), annotations[names.SUSPENDING_PARENT]
    kind = next((each for each in settings.jobs.kinds if each.integration == parent), None)
    if not prefix or kind is None or kind.gate is None:
        return ""
    labels = get_path(request.obj, LABELS) or {}
    group = next((labels[each] for each in kind.gate.group if each in labels), None)
    if group is None:
        return f"it has none of the labels that name its group: {', '.join(kind.gate.group)}"
    builder.put((*ANNOTATIONS, names.POD_GROUP_NAME), f"{prefix}-{group}")
    return ""


def _is_placed(pod: Object) -> bool:
    """Whether the pod has a node and names no queue. It is not gated, because the API server rejects gates on a pod
    with a node. A pod with a node that names a queue is gated, so that the API server rejects it."""
    return bool((pod.get("spec") or {}).get("nodeName")) and not queue_of(pod)


def _warnings(pod: Object, settings: AdmissionSettings) -> tuple[str, ...]:
    waits_for_owner = names.SUSPENDING_PARENT in annotations_of(pod)
    return (
        (_OWNER_IS_MANAGED_WARNING,)
        if is_managed(pod) and not waits_for_owner and has_known_controller(pod, settings)
        else ()
    )
