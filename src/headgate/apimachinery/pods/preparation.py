"""Changes that the API server makes to a pod after defaulting and admission and before validation.

One function per endpoint: the pod itself, its ``status``, ``resize`` and ``ephemeralcontainers``. Each changes the new
pod in place and may share parts of the old one with it. Times are RFC 3339 text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.apimachinery.pods.app_armor import sync_app_armor
from headgate.apimachinery.pods.disabled_fields import drop_disabled_spec_fields, drop_disabled_status_fields
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.pod_resources import qos_class
from headgate.kube.pods.equality import semantically_equal
from headgate.kube.scheduling_gates import gated_condition

Object = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
# Metadata that a write to a subresource of the spec cannot change, in addition to name, uid and similar fields.
_KEPT_META: Final = (
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)


def prepare_pod_create(obj: Object, features: FeatureGates, now: str) -> None:
    obj["metadata"]["generation"] = 1
    spec = obj["spec"]
    obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj)}
    drop_disabled_spec_fields(spec, None, features)
    if spec.get("schedulingGates"):
        obj["status"]["conditions"] = [gated_condition(now)]
    labels = obj["metadata"].get("labels") or {}
    merged: Object = {}
    if spec.get("affinity"):
        merged["affinity"] = _merge_affinity(spec["affinity"], labels)
    if spec.get("topologySpreadConstraints"):
        constraints = spec["topologySpreadConstraints"]
        merged["topologySpreadConstraints"] = [_merge_label_keys(each, labels) for each in constraints]
    if merged:
        # A copy is changed, because a retry with another generated name starts from the same spec.
        obj["spec"] = {**spec, **merged}
    sync_app_armor(obj)


def prepare_pod_update(new: Object, old: Object, features: FeatureGates) -> None:
    _copy_field(new, old, "status")
    drop_disabled_spec_fields(new["spec"], old["spec"], features)
    _bump_generation(new, old)


def prepare_pod_status_update(new: Object, old: Object) -> None:
    new["spec"] = old["spec"]
    meta = new["metadata"]
    meta.pop("deletionTimestamp", None)
    # Old kubelets corrupted owner references, which broke garbage collection.
    _copy_field(meta, old["metadata"], "ownerReferences")
    status, old_status = new.setdefault("status", {}), old.get("status") or {}
    if not status.get("qosClass") and old_status.get("qosClass"):
        status["qosClass"] = old_status["qosClass"]
    _keep_observed_generations(status, old_status)
    drop_disabled_status_fields(status)


def prepare_pod_resize(new: Object, old: Object, features: FeatureGates) -> None:
    """Only the containers' resources and resize policies are taken from the new pod.

    If containers were added, removed or renamed, the new list is kept, and validation rejects it.
    """
    spec, old_spec = new["spec"], old["spec"]
    lists = ("containers", "initContainers")
    if all(len(spec.get(field) or ()) == len(old_spec.get(field) or ()) for field in lists):
        merged = {field: _merge_resources(spec[field], old_spec[field]) for field in lists if spec.get(field)}
        new["spec"] = {**old_spec, **merged}
        _keep_status_and_metadata(new, old)
    drop_disabled_spec_fields(new["spec"], old_spec, features)
    _bump_generation(new, old)


def prepare_pod_ephemeral_containers(new: Object, old: Object, features: FeatureGates) -> None:
    containers = new["spec"].get("ephemeralContainers")
    new["spec"] = {field: value for field, value in old["spec"].items() if field != "ephemeralContainers"}
    if containers is not None:
        new["spec"]["ephemeralContainers"] = containers
    _keep_status_and_metadata(new, old)
    _bump_generation(new, old)


def prepare_pod_template(template: Object, old: Object | None, features: FeatureGates) -> None:
    """For every workload kind, on create (``old`` is ``None``) and on update."""
    spec = template.get("spec")
    if spec:
        drop_disabled_spec_fields(spec, None if old is None else old.get("spec"), features)


def grace_period_s(pod: Object, requested_s: int | None) -> int:
    """The grace period of a deleted pod: the requested one, else that of its spec; zero if it does not run."""
    spec, phase = pod["spec"], (pod.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Failed", "Succeeded"):
        return 0
    period_s = spec.get("terminationGracePeriodSeconds", 0) if requested_s is None else requested_s
    return 1 if period_s < 0 else period_s


def _merge_affinity(affinity: Object, labels: Object) -> Object:
    merged = dict(affinity)
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind)
        if not pods:
            continue
        merged[kind] = dict(pods)
        if pods.get(_REQUIRED):
            merged[kind][_REQUIRED] = [_merge_label_keys(term, labels) for term in pods[_REQUIRED]]
        if pods.get(_PREFERRED):
            merged[kind][_PREFERRED] = [
                {**weighted, "podAffinityTerm": _merge_label_keys(weighted["podAffinityTerm"], labels)}
                if weighted.get("podAffinityTerm")
                else weighted
                for weighted in pods[_PREFERRED]
            ]
    return merged


def _merge_label_keys(term: Object, labels: Object) -> Object:
    """Adds the pod's value of each key to the selector (KEP-3633)."""
    selector = term.get("labelSelector")
    if selector is None:
        return term
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field) or ()
        if key in labels
    ]
    if not added:
        return term
    expressions = [*(selector.get("matchExpressions") or ()), *added]
    return {**term, "labelSelector": {**selector, "matchExpressions": expressions}}


def _copy_field(new: Object, old: Object, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _bump_generation(new: Object, old: Object) -> None:
    if not semantically_equal(new["spec"], old["spec"]):
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def _keep_status_and_metadata(new: Object, old: Object) -> None:
    _copy_field(new, old, "status")
    for field in _KEPT_META:
        _copy_field(new["metadata"], old["metadata"], field)


def _merge_resources(new: Sequence[Object], old: Sequence[Object]) -> list[Object]:
    if any(each.get("name") != other.get("name") for each, other in zip(new, old, strict=True)):
        return list(new)
    merged = []
    for container, before in zip(new, old, strict=True):
        result = dict(before)
        for field in ("resources", "resizePolicy"):
            _copy_field(result, container, field)
        merged.append(result)
    return merged


def _keep_observed_generations(status: Object, old_status: Object) -> None:
    """Restores the observed generations that a write omits, because some clients do not know the field."""
    if not status.get("observedGeneration") and old_status.get("observedGeneration"):
        status["observedGeneration"] = old_status["observedGeneration"]
    seen: dict[str, list[int]] = {}
    for condition in old_status.get("conditions") or ():
        seen.setdefault(condition.get("type", ""), []).append(condition.get("observedGeneration") or 0)
    conditions = []
    for condition in status.get("conditions") or ():
        before = seen.get(condition.get("type", ""))
        generation = before.pop(0) if before else 0
        is_cleared = generation and not condition.get("observedGeneration")
        conditions.append({**condition, "observedGeneration": generation} if is_cleared else condition)
    if conditions:
        status["conditions"] = conditions
