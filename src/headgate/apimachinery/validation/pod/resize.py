"""Validation of ``pods/resize`` (KEP-1287): cpu and memory of containers may change, the QoS class may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.apimachinery.validation.pod.annotations import MIRROR
from headgate.apimachinery.validation.pod.create import validate_metadata_and_spec
from headgate.apimachinery.validation.pod.update import options_of
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, forbidden, invalid
from headgate.kube.pod_resources import compute_qos_class, is_sidecar, qos_class
from headgate.kube.pods.equality import same_container, semantically_equal
from headgate.kube.validation.go_values import go_named_string
from headgate.kube.validation.object_meta import validate_object_meta_update

Object = dict[str, Any]


def validate_pod_resize(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    """``new`` is the result of :func:`headgate.apimachinery.pods.preparation.prepare_pod_resize`."""
    meta, spec, old_spec = new["metadata"], new["spec"], old["spec"]
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden("[]", "static pods cannot be resized")]
    if (old_spec.get("os") or {}).get("name") == "windows":
        return [forbidden("[]", "windows pods cannot be resized")]
    errors = validate_object_meta_update(meta, old["metadata"])
    errors += validate_metadata_and_spec(meta, spec, options_of(old, features))
    if qos_class(old) != compute_qos_class(spec):
        shown = go_named_string((new.get("status") or {}).get("qosClass") or "")
        errors.append(invalid("spec", shown, "Pod QOS Class may not change as a result of resizing"))
    if not _node_can_resize(old):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    if _has_pod_level(old_spec) or _has_pod_level(spec):
        detail = (
            "resize of pods with pod-level resources is forbidden when InPlacePodLevelResourcesVerticalScalingEnabled "
            "feature gate is disabled"
        )
        return [*errors, forbidden("[]", detail)]
    order_errors = _validate_order(spec, old_spec)
    if order_errors:
        return errors + order_errors
    errors += _validate_removals(spec, old_spec)
    errors += _validate_only_cpu_and_memory(spec, old_spec)
    others = {**spec, **{field: old_spec[field] for field in ("containers", "initContainers") if field in old_spec}}
    if not errors and not semantically_equal(others, old_spec):
        errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    return errors


def _node_can_resize(pod: Object) -> bool:
    """A kubelet that can resize reports the resources of running containers."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if (status.get("state") or {}).get("running") is not None:
            return status.get("resources") is not None
    return True


def _has_pod_level(spec: Object) -> bool:
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _validate_order(spec: Object, old_spec: Object) -> FieldErrors:
    errors: FieldErrors = []
    for field in ("containers", "initContainers"):
        new, old = spec.get(field) or (), old_spec.get(field) or ()
        if len(new) != len(old):
            errors.append(forbidden(f"spec.{field}", f"{field} may not be added or removed on resize"))
            continue
        errors += [
            forbidden(f"spec.{field}[{index}].name", f"{field} may not be renamed or reordered on resize")
            for index, (container, before) in enumerate(zip(new, old, strict=True))
            if container.get("name") != before.get("name")
        ]
    return errors


def _validate_removals(spec: Object, old_spec: Object) -> FieldErrors:
    errors: FieldErrors = []
    for field in ("initContainers", "containers"):
        for index, before in enumerate(old_spec.get(field) or ()):
            if field == "initContainers" and not is_sidecar(before):
                continue
            resources = spec[field][index].get("resources") or {}
            for which in ("requests", "limits"):
                if set((before.get("resources") or {}).get(which) or ()) - set(resources.get(which) or ()):
                    path = f"spec.{field}[{index}].resources.{which}"
                    errors.append(forbidden(path, f"resource {which} cannot be removed"))
    return errors


def _validate_only_cpu_and_memory(spec: Object, old_spec: Object) -> FieldErrors:
    errors: FieldErrors = []
    for container, before in zip(spec.get("containers") or (), old_spec.get("containers") or (), strict=True):
        if not same_container(_without_resize(container, before), before):
            errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    pairs = zip(spec.get("initContainers") or (), old_spec.get("initContainers") or (), strict=True)
    for container, before in pairs:
        if is_sidecar(container):
            if not same_container(_without_resize(container, before), before):
                errors.append(forbidden("spec", "only cpu and memory resources for sidecar containers are mutable"))
        elif not same_container(container, before):
            errors.append(forbidden("spec", "resources for non-sidecar init containers are immutable"))
    return errors


def _without_resize(container: Object, before: Object) -> Object:
    """The container with its old cpu and memory. Claims are dropped, so a container with claims is rejected."""
    resources, old = container.get("resources") or {}, before.get("resources") or {}
    munged: Object = {}
    for which in ("limits", "requests"):
        amounts = _with_old_cpu_and_memory(resources.get(which) or {}, old.get(which) or {})
        if amounts:
            munged[which] = amounts
    return {**container, "resources": munged}


def _with_old_cpu_and_memory(new: Mapping[str, Any], old: Mapping[str, Any]) -> Object:
    amounts = {name: value for name, value in new.items() if name not in ("cpu", "memory")}
    return amounts | {name: old[name] for name in ("cpu", "memory") if name in old}
