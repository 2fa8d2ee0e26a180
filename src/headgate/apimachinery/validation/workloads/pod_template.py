"""Validation of PodTemplate objects and of a Binding."""

from __future__ import annotations

from typing import Any

from headgate.apimachinery.validation.workloads.workload_template import validate_template
from headgate.kube import names
from headgate.kube.feature_gates import FeatureGates
from headgate.kube.field_errors import FieldErrors, not_supported, required
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update

Object = dict[str, Any]


def validate_pod_template_create(obj: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    return errors + validate_template(obj.get("template") or {}, "template", features, None)


def validate_pod_template_update(new: Object, old: Object, features: FeatureGates) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    return errors + validate_template(new.get("template") or {}, "template", features, old.get("template"))


def validate_binding(obj: Object) -> FieldErrors:
    target = obj.get("target") or {}
    errors: FieldErrors = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
    if not target.get("name"):
        errors.append(required("target.name"))
    return errors
