"""The rules of a RuntimeClass: its handler, and the overhead and placement it imposes on pods."""

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
from headgate.kube.validation.values import immutable, validate_text

Object = dict[str, Any]


def validate_runtime_class(obj: Object) -> FieldErrors:
    found = validate_object_meta(
        obj["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain, kube_finalizers=False
    )
    found += validate_text(names.is_dns1123_label, obj.get("handler", ""), "handler")
    if obj.get("overhead") is not None:
        amounts = obj["overhead"].get("podFixed") or {}
        found += validate_overhead(amounts, "overhead", options_for_create(is_pod=False))
    scheduling = obj.get("scheduling")
    if scheduling is not None:
        found += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        found += _validate_tolerations(scheduling.get("tolerations") or [])
    return found


def _validate_tolerations(tolerations: list[Object]) -> FieldErrors:
    path = "scheduling.tolerations"
    found = validate_tolerations(tolerations, path)
    seen: set[tuple[str, ...]] = set()
    for i, toleration in enumerate(tolerations):
        key = tuple(toleration.get(field, "") for field in ("key", "operator", "value", "effect"))
        if key in seen:
            shown = dict(zip(("Key", "Operator", "Value", "Effect"), key, strict=True))
            value = {**shown, "TolerationSeconds": toleration.get("tolerationSeconds")}
            found.append(duplicate(f"{path}[{i}]", msgspec.Raw(msgspec.json.encode(value))))
        seen.add(key)
    return found


def validate_runtime_class_update(new: Object, old: Object) -> FieldErrors:
    found = validate_runtime_class(new)
    found += validate_object_meta_update(new["metadata"], old["metadata"], kube_finalizers=False)
    return found + immutable(new.get("handler", ""), old.get("handler", ""), "handler")
