"""Validation of a RuntimeClass: its handler, and the overhead and scheduling of its pods."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apimachinery.validation.pod.options import options_for_create
from headgate.apimachinery.validation.pod.resources import validate_overhead
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, duplicate
from headgate.kube.validation.labels import validate_labels
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.taints import validate_tolerations
from headgate.kube.validation.values import validate_immutable, validate_text

Object = dict[str, Any]


def validate_runtime_class(obj: Object) -> FieldErrors:
    errors = validate_object_meta(
        obj["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain, kube_finalizers=False
    )
    errors += validate_text(names.is_dns1123_label, obj.get("handler", ""), "handler")
    if obj.get("overhead") is not None:
        amounts = obj["overhead"].get("podFixed") or {}
        errors += validate_overhead(amounts, "overhead", options_for_create(is_pod=False))
    scheduling = obj.get("scheduling")
    if scheduling is not None:
        errors += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        errors += _validate_tolerations(scheduling.get("tolerations") or [])
    return errors


def _validate_tolerations(tolerations: list[Object]) -> FieldErrors:
    path = "scheduling.tolerations"
    errors = validate_tolerations(tolerations, path)
    seen: set[tuple[str, ...]] = set()
    for i, toleration in enumerate(tolerations):
        key = tuple(toleration.get(field, "") for field in ("key", "operator", "value", "effect"))
        if key in seen:
            shown = dict(zip(("Key", "Operator", "Value", "Effect"), key, strict=True))
            value = {**shown, "TolerationSeconds": toleration.get("tolerationSeconds")}
            errors.append(duplicate(f"{path}[{i}]", msgspec.Raw(msgspec.json.encode(value))))
        seen.add(key)
    return errors


def validate_runtime_class_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_runtime_class(new)
    errors += validate_object_meta_update(new["metadata"], old["metadata"], kube_finalizers=False)
    return errors + validate_immutable(new.get("handler", ""), old.get("handler", ""), "handler")
