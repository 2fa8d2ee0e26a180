"""Admission of pods: adds the queue gate to pods that opt in, and protects Headgate's stamp.

A pod opts in with its annotation, exactly ``"true"``. Without it, its queue, its namespace or the installation may opt
in, and the annotation is then written on the pod, because later components read only the pod. A creation is never
rejected: forbidden fields are removed. ``scheduling/gates/`` removes the gate after ``capacity/`` has reserved the
capacity. A resize of a pod on a node is rejected if its queue has no capacity for it.
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
from headgate.admission.policy import AdmissionPolicy, ClusterView, Object
from headgate.capacity.api.stamp import read_stamp
from headgate.capacity.kinds.resize_validation import find_resize_shortage
from headgate.capacity.names import DEFAULT, GATE, GROUP_NAMES, OPT_IN, POD_GROUPS, QUEUE_NAME, QUEUES, STAMP
from headgate.kube.api_resources import NAMESPACES
from headgate.kube.field_errors import quote
from headgate.kube.lenient_reader import find_object, find_text
from headgate.kube.pods.requests import pod_requests
from headgate.kube.resource_amounts import is_counted, units

_NOT_A_CREATE: Final = "expect operation to be 'CREATE'"
_WORDS: Final = {"true": True, "false": False}
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_ENDED: Final = ("Succeeded", "Failed")
_ANNOTATIONS: Final = "/metadata/annotations"
_GATES: Final = "/spec/schedulingGates"
_AT_OPT_IN: Final = f"{_ANNOTATIONS}/{escape(OPT_IN)}"
_AT_STAMP: Final = f"{_ANNOTATIONS}/{escape(STAMP)}"
_HOW: Final = f'metadata.annotations[{OPT_IN}]: only "true" asks for the gate and only "false" declines it'
_NEVER_LIFTED: Final = f'spec.schedulingGates: {GATE} is not lifted from a pod without the annotation {OPT_IN}: "true"'


def gate_new(request: AdmissionRequest, policy: AdmissionPolicy, view: ClusterView) -> AdmissionResponse:
    """A new pod: without a stamp, with the queue gate if it opts in."""
    if request.operation != "CREATE":
        return AdmissionResponse(refusal=_NOT_A_CREATE, code=400)
    if not policy.gates or request.namespace in policy.exempt:
        return ALLOWED
    annotations, spec = annotations_of(request.obj), find_object(request.obj, "spec")
    patch: list[Operation] = []
    if STAMP in annotations:
        patch.append({"op": "remove", "path": _AT_STAMP})
    warnings = _remarks(annotations)
    if opted_in(request, policy, view):
        if _is_ours(spec, policy):
            patch += _opting(annotations, spec)
        elif annotations.get(OPT_IN) == "true" and not spec.get("nodeName"):
            warnings.append(_not_ours(spec))
    elif _has_gate(spec):
        warnings.append(_NEVER_LIFTED)
    return AdmissionResponse(patch=tuple(patch), warnings=tuple(warnings)) if patch or warnings else ALLOWED


def opted_in(request: AdmissionRequest, policy: AdmissionPolicy, view: ClusterView) -> bool:
    """The nearest word counts: the pod's own, its queue's, its namespace's, the installation's."""
    annotations = annotations_of(request.obj)
    own = _opt_in_choice(annotations)
    if own is not None:
        return own
    namespace = view.get(NAMESPACES, "", request.namespace) or {}
    queue = _queue_of(request.namespace, annotations, namespace, view)
    for place in (view.get(QUEUES, "", queue) if queue else None, namespace):
        word = _opt_in_choice(annotations_of(place or {}))
        if word is not None:
            return word
    return policy.gates_all


def guard_stamp(request: AdmissionRequest, policy: AdmissionPolicy, view: ClusterView) -> AdmissionResponse:
    """An update of a pod: only Headgate may write, change or remove the stamp."""
    if not policy.gates or request.user in policy.trusted or request.namespace in policy.exempt:
        return ALLOWED
    before, after = annotations_of(request.old).get(STAMP), annotations_of(request.obj).get(STAMP)
    return ALLOWED if before == after else _refusal(request)


def guard_binding(request: AdmissionRequest, policy: AdmissionPolicy, view: ClusterView) -> AdmissionResponse:
    """What a Binding is annotated with, its pod is annotated with afterwards."""
    if not policy.gates or request.user in policy.trusted or request.namespace in policy.exempt:
        return ALLOWED
    return _refusal(request) if STAMP in annotations_of(request.obj) else ALLOWED


def validate_resize(request: AdmissionRequest, policy: AdmissionPolicy, view: ClusterView) -> AdmissionResponse:
    """A pod on a node grows only as far as its queue allows. One without a node may ask for anything: it waits until
    its queue has that much."""
    spec = find_object(request.obj, "spec")
    if request.namespace in policy.exempt or (spec.get("schedulerName") or _DEFAULT_SCHEDULER) not in policy.schedulers:
        return ALLOWED
    if not spec.get("nodeName") or find_object(request.old, "status").get("phase") in _ENDED:
        return ALLOWED
    added = _added(request.old, request.obj)
    queue = _queue_of_counted(request, view) if added else ""
    shortage = find_resize_shortage(
        queue, added, view.queues, lambda name: find_object(view.get(QUEUES, "", name) or {}, "status")
    )
    if shortage is None:
        return ALLOWED
    way = "make it smaller, or wait until others have gone"
    text = f"{shortage.describe('in use or promised')}; a pod on a node cannot grow over the limit of its queue: {way}"
    return AdmissionResponse(refusal=f"spec.containers: {text}")


def _added(old: Object, new: Object) -> dict[str, int]:
    """What the pod would hold beyond what it is counted with now."""
    before, after = pod_requests(old), pod_requests(new, spec_only=True)
    found = {
        name: units(name, amount) - (units(name, before[name]) if name in before else 0)
        for name, amount in after.items()
        if is_counted(name)
    }
    return {name: more for name, more in found.items() if more > 0}


def _queue_of_counted(request: AdmissionRequest, view: ClusterView) -> str:
    """Of a pod that is there: its stamp says it, or its words."""
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


def _refusal(request: AdmissionRequest) -> AdmissionResponse:
    says = "only Headgate itself writes, changes or removes the proof that a pod was admitted"
    way = f"user {quote(request.user)} is not among its users (--trusted-user)"
    return AdmissionResponse(refusal=f"metadata.annotations[{STAMP}]: {says}; {way}")


def _queue_of(pods_namespace: str, annotations: Mapping[str, Any], namespace: Object, view: ClusterView) -> str:
    """Empty if it is not known yet: the pod is here before its PodGroup."""
    group = next((annotations[each] for each in GROUP_NAMES if annotations.get(each)), "")
    named: Any = ""
    if group:
        found = view.get(POD_GROUPS, pods_namespace, group)
        if found is None:
            return ""
        named = find_object(found, "spec").get("queue")
    named = named or annotations.get(QUEUE_NAME) or annotations_of(namespace).get(QUEUE_NAME) or DEFAULT
    return named if isinstance(named, str) else ""


def _is_ours(spec: Mapping[str, Any], policy: AdmissionPolicy) -> bool:
    """A pod that has its node cannot have gates: the API server refuses both together."""
    return (spec.get("schedulerName") or _DEFAULT_SCHEDULER) in policy.schedulers and not spec.get("nodeName")


def _opting(annotations: Mapping[str, Any], spec: Mapping[str, Any]) -> list[Operation]:
    patch: list[Operation] = []
    if not annotations:
        patch.append({"op": "add", "path": _ANNOTATIONS, "value": {OPT_IN: "true"}})
    elif annotations.get(OPT_IN) != "true":
        patch.append({"op": "add", "path": _AT_OPT_IN, "value": "true"})
    gates = spec.get("schedulingGates")
    if gates is None:
        patch.append({"op": "add", "path": _GATES, "value": [{"name": GATE}]})
    elif not _has_gate(spec):
        # At the end, so that gates which other webhooks add at the same time are neither lost nor moved.
        patch.append({"op": "add", "path": f"{_GATES}/-", "value": {"name": GATE}})
    return patch


def _has_gate(spec: Mapping[str, Any]) -> bool:
    gates = spec.get("schedulingGates")
    return isinstance(gates, list) and any(isinstance(gate, dict) and gate.get("name") == GATE for gate in gates)


def _remarks(annotations: Mapping[str, Any]) -> list[str]:
    value = annotations.get(OPT_IN)
    if value is None or value in _WORDS:
        return []
    return [f"{_HOW}; {quote(str(value))} is ignored"]


def _not_ours(spec: Mapping[str, Any]) -> str:
    name = quote(str(spec.get("schedulerName") or _DEFAULT_SCHEDULER))
    return f"metadata.annotations[{OPT_IN}]: no gate is set, since Headgate does not serve spec.schedulerName {name}"


def _opt_in_choice(annotations: Mapping[str, Any]) -> bool | None:
    value = annotations.get(OPT_IN)
    return _WORDS.get(value) if isinstance(value, str) else None
