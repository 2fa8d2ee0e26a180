"""Binding a pod to a node: the only way to set ``spec.nodeName`` of an existing pod.

``check_binding`` validates a Binding before the pod is read. ``bind_pod`` makes the bound pod.
``apiserver/subresources/binding.py`` checks the preconditions in the metadata of the Binding (uid, resourceVersion) and
stages the pod without yielding in between.
"""

from __future__ import annotations

from typing import Any

from headgate.apimachinery import api_errors
from headgate.apimachinery.api_errors import GroupResource, StatusError
from headgate.kube.conditions import POD_SCHEDULED, with_condition
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, aggregate, not_supported, quote, required

Object = dict[str, Any]


def validate_binding(binding: Object) -> FieldErrors:
    errors: FieldErrors = []
    target = binding.get("target") or {}
    kind = target.get("kind", "")
    if kind not in ("", "Node"):
        errors.append(not_supported("target.kind", kind, ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    return errors


def check_binding(binding: Object, url_name: str) -> StatusError | None:
    """``url_name`` is the pod's name in the request path; for the legacy endpoint, the Binding's own name."""
    if url_name != (binding.get("metadata") or {}).get("name", ""):
        return api_errors.bad_request("name in URL does not match name in Binding object")
    errors = validate_binding(binding)
    # kube-apiserver returns these errors as 500, not as Invalid.
    return StatusError(500, "", aggregate(errors)) if errors else None


def bind_pod(pod: Object, binding: Object, features: FeatureGates, now: str) -> Object | StatusError:
    """The bound pod, which shares its unchanged parts with ``pod``; or the error."""
    meta, spec = pod["metadata"], pod["spec"]
    name = meta["name"]
    problem = ""
    if meta.get("deletionTimestamp"):
        problem = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        problem = f"pod {name} is already assigned to node {quote(spec['nodeName'])}"
    elif spec.get("schedulingGates") and features.pod_scheduling_readiness:
        problem = f"pod {name} has non-empty .spec.schedulingGates"
    if problem:
        return api_errors.conflict(GroupResource("", "pods/binding"), name, problem)
    bound_meta = dict(meta)
    for field in ("annotations", "labels"):
        added = (binding.get("metadata") or {}).get(field)
        if added:
            bound_meta[field] = {**(meta.get(field) or {}), **added}
    # A nominated node is only for the scheduler; a bound pod does not need it.
    bound_status = {field: value for field, value in (pod.get("status") or {}).items() if field != "nominatedNodeName"}
    scheduled = {"type": POD_SCHEDULED, "status": "True"}
    bound_status["conditions"] = with_condition(bound_status.get("conditions"), scheduled, now)
    return {
        **pod,
        "metadata": bound_meta,
        "spec": {**spec, "nodeName": binding["target"]["name"]},
        "status": bound_status,
    }
