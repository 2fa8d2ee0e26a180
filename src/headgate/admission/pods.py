"""Admission of pods: adds the queue gate to pods that opt in, and protects Headgate's stamp and record of lapses.

A pod opts in with its annotation, exactly ``"true"``. Without the annotation, that of its queue or its namespace, or a
setting of the installation, decides. The handler then writes the annotation to the pod, because later components read
only the pod. The creation of a pod is never rejected; a stamp on a new pod is removed. ``scheduling/gates/`` removes
the gate after ``capacity/`` has reserved the capacity. A resize of a pod on a node is rejected if its queue has no
capacity for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.admission.admission_review import (
    ALLOWED,
    AdmissionRequest,
    AdmissionResponse,
    Operation,
    annotations_of,
    escape,
)
from headgate.admission.assumed_resizes import AllowedResize, Growth
from headgate.admission.settings import AdmissionSettings, ClusterView, Object
from headgate.capacity.api.ignored_annotations import find_ignored_annotations, find_ignored_lease
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.kinds.resize_validation import find_resize_shortage, read_usage
from headgate.capacity.names import (
    DEFAULT,
    GATE,
    GROUP_NAMES,
    LAPSED,
    LEASE,
    OPT_IN,
    POD_GROUPS,
    QUEUE_NAME,
    QUEUES,
    STAMP,
)
from headgate.kube.api_resources import NAMESPACES
from headgate.kube.field_errors import quote
from headgate.kube.lenient_reader import find_object, find_text
from headgate.kube.pods.requests import pod_requests
from headgate.kube.resource_amounts import is_counted, units

_NOT_A_CREATE: Final = "expect operation to be 'CREATE'"
_OPT_IN_CHOICES: Final = {"true": True, "false": False}
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_ENDED: Final = ("Succeeded", "Failed")
_ANNOTATIONS: Final = "/metadata/annotations"
_GATES: Final = "/spec/schedulingGates"
_OPT_IN_POINTER: Final = f"{_ANNOTATIONS}/{escape(OPT_IN)}"
_STAMP_POINTER: Final = f"{_ANNOTATIONS}/{escape(STAMP)}"
_PROTECTED: Final = {STAMP: "the proof that a pod was admitted", LAPSED: "the record of promises that lapsed"}
"""The annotations of pods that decide what a queue grants. Without the second one, a pod would skip its back-off."""
_GATE_NOT_REMOVED: Final = (
    f'spec.schedulingGates: {GATE} is not lifted from a pod without the annotation {OPT_IN}: "true"'
)


def gate_new_pod(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> AdmissionResponse:
    """Handles a new pod: removes a stamp, and adds the queue gate if the pod opts in."""
    if request.operation != "CREATE":
        return AdmissionResponse(refusal=_NOT_A_CREATE, code=400)
    if not settings.queue_gate_enabled or request.namespace in settings.exempt_namespaces:
        return ALLOWED
    annotations, spec = annotations_of(request.obj), find_object(request.obj, "spec")
    patch: list[Operation] = []
    if STAMP in annotations:
        patch.append({"op": "remove", "path": _STAMP_POINTER})
    warnings: list[str] = []
    if OPT_IN in annotations or opted_in(request, settings, view):
        warnings += find_ignored_annotations(annotations)
    if opted_in(request, settings, view):
        if _can_be_gated(spec, settings):
            patch += _gate_patch(annotations, spec)
        elif annotations.get(OPT_IN) == "true" and not spec.get("nodeName"):
            warnings.append(_other_scheduler_warning(spec))
    elif _has_gate(spec):
        warnings.append(_GATE_NOT_REMOVED)
    return AdmissionResponse(patch=tuple(patch), warnings=tuple(warnings)) if patch or warnings else ALLOWED


def opted_in(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> bool:
    """The annotation of the pod, its queue or its namespace decides, in this order; then the installation."""
    annotations = annotations_of(request.obj)
    own = _opt_in_choice(annotations)
    if own is not None:
        return own
    namespace = view.get(NAMESPACES, "", request.namespace) or {}
    queue = _queue_of(request.namespace, annotations, namespace, view)
    for obj in (view.get(QUEUES, "", queue) if queue else None, namespace):
        choice = _opt_in_choice(annotations_of(obj or {}))
        if choice is not None:
            return choice
    return settings.gates_all_pods


def reject_stamp_change(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> AdmissionResponse:
    """Rejects an update of a pod that adds, changes or removes the stamp or the record of lapses, unless Headgate makes
    the update. Warns about a changed lease that cannot be read."""
    if (
        not settings.queue_gate_enabled
        or request.user in settings.trusted_users
        or request.namespace in settings.exempt_namespaces
    ):
        return ALLOWED
    before, after = annotations_of(request.old), annotations_of(request.obj)
    changed = next((each for each in _PROTECTED if before.get(each) != after.get(each)), None)
    if changed is not None:
        return _reject_write(changed, request)
    ignored = find_ignored_lease(after) if before.get(LEASE) != after.get(LEASE) else []
    return AdmissionResponse(warnings=tuple(ignored)) if ignored else ALLOWED


def reject_binding_with_stamp(
    request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView
) -> AdmissionResponse:
    """Rejects a Binding that carries a stamp or a record of lapses, because the API server copies the annotations of a
    Binding to the pod."""
    if (
        not settings.queue_gate_enabled
        or request.user in settings.trusted_users
        or request.namespace in settings.exempt_namespaces
    ):
        return ALLOWED
    carried = next((each for each in _PROTECTED if each in annotations_of(request.obj)), None)
    return ALLOWED if carried is None else _reject_write(carried, request)


def validate_resize(request: AdmissionRequest, settings: AdmissionSettings, view: ClusterView) -> AdmissionResponse:
    """Rejects a resize with which a pod on a node would exceed the limits of its queue. A pod without a node can
    request any amount: it waits until its queue has that amount."""
    spec = find_object(request.obj, "spec")
    if (
        request.namespace in settings.exempt_namespaces
        or (spec.get("schedulerName") or _DEFAULT_SCHEDULER) not in settings.schedulers
    ):
        return ALLOWED
    if not spec.get("nodeName") or find_object(request.old, "status").get("phase") in _ENDED:
        return ALLOWED
    growths = _growths(request.old, request.obj)
    if not growths:
        return ALLOWED
    uid, shown_usage = find_text(request.old, "metadata", "uid"), dict[str, dict[str, int]]()

    def usage_of(queue: str) -> dict[str, int]:
        usage = shown_usage[queue] = read_usage(find_object(view.get(QUEUES, "", queue) or {}, "status"))
        return {
            name: view.resizes.used(queue, name, usage.get(name, 0), uid, growth, request.now_s)
            for name, growth in growths.items()
        }

    added = {name: growth.after - growth.before for name, growth in growths.items()}
    shortage = find_resize_shortage(_queue_of_existing(request, view), added, view.queues, usage_of)
    if shortage is None:
        is_assumed = shown_usage and not request.dry_run
        return AdmissionResponse(assumes=AllowedResize(uid, growths, shown_usage)) if is_assumed else ALLOWED
    advice = "make it smaller, or wait until others have gone"
    text = (
        f"{shortage.describe('in use or promised')}; a pod on a node cannot grow over the limit of its queue: {advice}"
    )
    return AdmissionResponse(refusal=f"spec.containers: {text}")


def _growths(old: Object, new: Object) -> dict[str, Growth]:
    """The resources of which the pod would use more."""
    before, after = pod_requests(old), pod_requests(new, spec_only=True)
    found = {
        name: Growth(units(name, before[name]) if name in before else 0, units(name, amount))
        for name, amount in after.items()
        if is_counted(name)
    }
    return {name: growth for name, growth in found.items() if growth.after > growth.before}


def _queue_of_existing(request: AdmissionRequest, view: ClusterView) -> str:
    """The queue of an existing pod: by its stamp, its PodGroup or its annotation."""
    annotations = annotations_of(request.old)
    stamp = read_stamp(find_text(annotations, STAMP), find_text(request.old, "metadata", "uid"))
    if stamp is not None:
        return stamp.queue
    namespace = view.get(NAMESPACES, "", request.namespace) or {}
    named = _queue_of(request.namespace, annotations, namespace, view)
    if named:
        return named
    own = annotations.get(QUEUE_NAME) or annotations_of(namespace).get(QUEUE_NAME)
    return own if own and isinstance(own, str) else DEFAULT


def _reject_write(annotation: str, request: AdmissionRequest) -> AdmissionResponse:
    rule = f"only Headgate itself writes, changes or removes {_PROTECTED[annotation]}"
    advice = f"user {quote(request.user)} is not among its users (--trusted-user)"
    return AdmissionResponse(refusal=f"metadata.annotations[{annotation}]: {rule}; {advice}")


def _queue_of(pods_namespace: str, annotations: Mapping[str, Any], namespace: Object, view: ClusterView) -> str:
    """The queue that a new pod names, through its PodGroup or by annotation; empty if its PodGroup does not exist
    yet."""
    group = next((annotations[each] for each in GROUP_NAMES if annotations.get(each)), "")
    named: Any = ""
    if group:
        found = view.get(POD_GROUPS, pods_namespace, group)
        if found is None:
            return ""
        named = find_object(found, "spec").get("queue")
    named = named or annotations.get(QUEUE_NAME) or annotations_of(namespace).get(QUEUE_NAME) or DEFAULT
    return named if isinstance(named, str) else ""


def _can_be_gated(spec: Mapping[str, Any], settings: AdmissionSettings) -> bool:
    """Whether the scheduler is Headgate's and the pod has no node: the API server rejects gates on a bound pod."""
    return (spec.get("schedulerName") or _DEFAULT_SCHEDULER) in settings.schedulers and not spec.get("nodeName")


def _gate_patch(annotations: Mapping[str, Any], spec: Mapping[str, Any]) -> list[Operation]:
    patch: list[Operation] = []
    if not annotations:
        patch.append({"op": "add", "path": _ANNOTATIONS, "value": {OPT_IN: "true"}})
    elif annotations.get(OPT_IN) != "true":
        patch.append({"op": "add", "path": _OPT_IN_POINTER, "value": "true"})
    gates = spec.get("schedulingGates")
    if gates is None:
        patch.append({"op": "add", "path": _GATES, "value": [{"name": GATE}]})
    elif not _has_gate(spec):
        # "-" appends to the list, so that gates which other webhooks add at the same time are neither lost nor moved.
        patch.append({"op": "add", "path": f"{_GATES}/-", "value": {"name": GATE}})
    return patch


def _has_gate(spec: Mapping[str, Any]) -> bool:
    gates = spec.get("schedulingGates")
    return isinstance(gates, list) and any(isinstance(gate, dict) and gate.get("name") == GATE for gate in gates)


def _other_scheduler_warning(spec: Mapping[str, Any]) -> str:
    name = quote(str(spec.get("schedulerName") or _DEFAULT_SCHEDULER))
    return f"metadata.annotations[{OPT_IN}]: no gate is set, since Headgate does not serve spec.schedulerName {name}"


def _opt_in_choice(annotations: Mapping[str, Any]) -> bool | None:
    value = annotations.get(OPT_IN)
    return _OPT_IN_CHOICES.get(value) if isinstance(value, str) else None
