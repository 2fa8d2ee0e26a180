"""Validation of a new pod, and of the pod template of a workload."""

from __future__ import annotations

from typing import Any

from headgate.apimachinery.validation.pod.annotations import validate_pod_annotations, validate_profiles_match
from headgate.apimachinery.validation.pod.containers import validate_image_text
from headgate.apimachinery.validation.pod.options import PodOptions, options_for_create, options_for_update
from headgate.apimachinery.validation.pod.spec import validate_pod_spec
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, forbidden
from headgate.kube.names import name_is_dns_subdomain
from headgate.kube.validation.labels import validate_labels
from headgate.kube.validation.object_meta import validate_annotations, validate_object_meta

Object = dict[str, Any]


def validate_pod_create(obj: Object, features: FeatureGates) -> FieldErrors:
    """For a pod with defaults, preparation (``apimachinery/pods/preparation.py``) and a generated name."""
    options = options_for_create(is_pod=True, allow_privileged=features.allow_privileged)
    meta, spec = obj["metadata"], obj["spec"]
    errors = validate_metadata_and_spec(meta, spec, options)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if features.pod_scheduling_readiness and spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors + validate_profiles_match(meta.get("annotations"), spec, "spec")


def validate_metadata_and_spec(meta: Object, spec: Object, options: PodOptions) -> FieldErrors:
    """The rules for new and existing pods."""
    errors = validate_object_meta(meta, namespaced=True, name_rule=name_is_dns_subdomain)
    errors += validate_pod_annotations(meta.get("annotations"), spec, "metadata.annotations", options)
    errors += validate_pod_spec(spec, meta, "spec", options)
    if not spec.get("serviceAccountName"):
        errors += _validate_no_tokens(spec)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            errors += validate_image_text(container, f"spec.{field}[{index}]")
    return errors


def _validate_no_tokens(spec: Object) -> FieldErrors:
    detail = "must not be specified when serviceAccountName is not set"
    return [
        forbidden(f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken", detail)
        for index, volume in enumerate(spec.get("volumes") or ())
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ())
        if source.get("serviceAccountToken") is not None
    ]


def validate_pod_template_spec(
    template: Object, path: str, features: FeatureGates, old: Object | None = None
) -> FieldErrors:
    """A workload's pod template. Violations of newer rules in the stored template ``old`` are tolerated."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    if old is None:
        options = options_for_create(is_pod=False, allow_privileged=features.allow_privileged)
    else:
        old_annotations = (old.get("metadata") or {}).get("annotations")
        options = options_for_update(
            old.get("spec") or {}, old_annotations, is_pod=False, allow_privileged=features.allow_privileged
        )
    annotations = meta.get("annotations")
    errors = validate_labels(meta.get("labels"), f"{path}.labels")
    errors += validate_annotations(annotations, f"{path}.annotations")
    errors += validate_pod_annotations(annotations, spec, f"{path}.annotations", options)
    errors += validate_pod_spec(spec, None, f"{path}.spec", options)
    errors += validate_profiles_match(annotations, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", detail))
    return errors
