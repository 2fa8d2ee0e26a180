"""Validation of a PersistentVolume. Sources that pods also have are validated by the rules for pods.

For cloud disks and other removed in-tree sources only the required fields are checked.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any, Final

from headgate.apimachinery.file_paths import validate_no_backsteps
from headgate.apimachinery.object_diff import object_diff
from headgate.apimachinery.validation.persistent_volume_claim import validate_storage_amount
from headgate.apimachinery.validation.pod.affinity import validate_node_selector
from headgate.apimachinery.validation.pod.volume_network import NETWORK_SOURCES
from headgate.apimachinery.validation.pod.volume_sources import FILE_SOURCES, validate_csi_driver
from headgate.kube import names, quantity
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import IMMUTABLE, NOT_POSITIVE, validate_immutable, validate_one_of, validate_text

Object = dict[str, Any]

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
_VOLUME_MODES: Final = ("Block", "Filesystem")
_SECRETS: Final = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
_NOT_INLINE: Final = "may not be specified in the context of inline volumes"
# Beta topology labels of a volume may be replaced by their successors.
_SUCCESSORS: Final = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def _validate_local(source: Object, path: str) -> FieldErrors:
    file = source.get("path", "")
    return validate_no_backsteps(file, f"{path}.path") if file else [required(f"{path}.path")]


def _validate_csi(source: Object, path: str) -> FieldErrors:
    errors = validate_csi_driver(source.get("driver", ""), f"{path}.driver")
    if not source.get("volumeHandle"):
        errors.append(required(f"{path}.volumeHandle"))
    for field in _SECRETS:
        secret = source.get(field)
        if secret is None:
            continue
        for part, rule in (("name", names.is_dns1123_subdomain), ("namespace", names.is_dns1123_label)):
            field_path = f"{path}.{field}.{part}"
            errors += validate_text(rule, secret[part], field_path) if secret.get(part) else [required(field_path)]
    return errors


_SOURCES: Final[dict[str, Callable[[Object, str], FieldErrors]]] = {
    "hostPath": FILE_SOURCES["hostPath"],
    **NETWORK_SOURCES,
    "local": _validate_local,
    "csi": _validate_csi,
}


def validate_volume_spec(spec: Object, path: str, *, inline: bool = False, any_value: bool = False) -> FieldErrors:
    """``inline``: the spec is part of a VolumeAttachment."""
    errors = _validate_inline(spec, path) if inline else []
    modes = spec.get("accessModes") or []
    if not modes:
        errors.append(required(f"{path}.accessModes"))
    for mode in modes:
        errors += validate_one_of(mode, f"{path}.accessModes", _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and set(modes) & set(_ACCESS_MODES[:-1]):
        errors.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    if not inline:
        errors += _validate_capacity(spec.get("capacity") or {}, f"{path}.capacity")
        if spec.get("persistentVolumeReclaimPolicy"):
            field = "persistentVolumeReclaimPolicy"
            errors += validate_one_of(spec[field], f"{path}.{field}", _RECLAIM_POLICIES)
        errors += _validate_node_affinity(spec.get("nodeAffinity"), f"{path}.nodeAffinity", any_value)
    errors += _validate_source(spec, path)
    host_path = spec.get("hostPath")
    recycles = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if host_path is not None and recycles and posixpath.normpath(host_path.get("path") or ".") == "/":
        text = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", text))
    if not inline:
        if spec.get("storageClassName"):
            errors += validate_text(names.is_dns1123_subdomain, spec["storageClassName"], f"{path}.storageClassName")
        if spec.get("volumeMode") is not None:
            errors += validate_one_of(spec["volumeMode"], f"{path}.volumeMode", _VOLUME_MODES)
    return errors + _validate_attributes_class(spec, path)


def _validate_inline(spec: Object, path: str) -> FieldErrors:
    errors = [forbidden(f"{path}.{field}", _NOT_INLINE) for field in ("claimRef", "capacity") if spec.get(field)]
    if "csi" not in spec:
        errors.append(required(f"{path}.csi", "has to be specified in the context of inline volumes"))
    if spec.get("persistentVolumeReclaimPolicy", "Retain") != "Retain":
        text = "may only be Retain in the context of inline volumes"
        errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", text))
    errors += [
        forbidden(f"{path}.{field}", _NOT_INLINE) for field in ("nodeAffinity", "storageClassName") if spec.get(field)
    ]
    return errors


def _validate_capacity(capacity: dict[str, str], path: str) -> FieldErrors:
    errors = [] if capacity else [required(path)]
    if set(capacity) != {"storage"}:
        errors.append(not_supported(path, capacity or None, ["storage"]))
    for name, amount in capacity.items():
        errors += validate_storage_amount(amount, f"{path}[{name}]")
        if quantity.amount(amount).nano <= 0:
            errors.append(invalid(f"{path}[{name}]", amount, NOT_POSITIVE))
    return errors


def _validate_node_affinity(affinity: Object | None, path: str, any_value: bool) -> FieldErrors:
    if affinity is None:
        return []
    if affinity.get("required") is None:
        return [required(f"{path}.required", "must specify required node constraints")]
    return validate_node_selector(affinity["required"], f"{path}.required", any_value=any_value)


def _validate_source(spec: Object, path: str) -> FieldErrors:
    given = [name for name in _SOURCES if spec.get(name) is not None]
    if not given:
        return [required(path, "must specify a volume type")]
    found = _SOURCES[given[0]](spec[given[0]], f"{path}.{given[0]}")
    if given[0] == "local" and spec.get("nodeAffinity") is None:
        found.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    return found + [forbidden(f"{path}.{name}", "may not specify more than 1 volume type") for name in given[1:]]


def _validate_attributes_class(spec: Object, path: str) -> FieldErrors:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return []
    field_path = f"{path}.volumeAttributesClassName"
    errors = (
        validate_text(names.is_dns1123_subdomain, name, field_path)
        if name
        else [required(field_path, "an empty string is disallowed")]
    )
    if "csi" not in spec:
        errors.append(required(f"{path}.csi", "has to be specified when using volumeAttributesClassName"))
    return errors


def validate_volume_create(obj: Object, old: Object | None = None) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain)
    stored = ((old or {}).get("spec") or {}).get("nodeAffinity") or {}
    any_value = bool(stored.get("required") and validate_node_selector(stored["required"], ""))
    return errors + validate_volume_spec(obj.get("spec") or {}, "spec", any_value=any_value)


def validate_volume_update(new: Object, old: Object) -> FieldErrors:
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    # The validation runs twice, because kube-apiserver reports each error twice.
    errors = validate_volume_create(new, old) * 2
    source, old_source = _source_of(spec, old_spec), _source_of(old_spec, old_spec)
    if source != old_source:
        text = f"spec.persistentvolumesource is immutable after creation\n{object_diff(old_source, source)}"
        errors.append(forbidden("spec.persistentvolumesource", text))
    errors += validate_immutable(spec.get("volumeMode"), old_spec.get("volumeMode"), "volumeMode")
    affinity, old_affinity = spec.get("nodeAffinity"), old_spec.get("nodeAffinity")
    if old_affinity is not None and affinity != old_affinity and affinity != _with_successors(old_affinity, affinity):
        errors.append(invalid("nodeAffinity", affinity, f"{IMMUTABLE}, except for updating from beta label to GA"))
    if old_spec.get("volumeAttributesClassName") is not None and spec.get("volumeAttributesClassName") is None:
        text = "update from non-nil value to nil is forbidden"
        errors.append(forbidden("spec.volumeAttributesClassName", text))
    return errors


def _source_of(spec: Object, old_spec: Object) -> Object:
    """The source without an expansion secret that is added to a CSI volume, which is allowed."""
    source = {name: spec[name] for name in _SOURCES if spec.get(name) is not None}
    if "csi" in source and "controllerExpandSecretRef" not in (old_spec.get("csi") or {}):
        source["csi"] = {name: value for name, value in source["csi"].items() if name != "controllerExpandSecretRef"}
    return source


def _with_successors(old: Object, new: Object | None) -> Object:
    """The old affinity, in which those beta keys are replaced that the new affinity replaces."""
    renamed = [
        {**term, "matchExpressions": [_successor(each, i, j, new) for j, each in enumerate(term["matchExpressions"])]}
        if term.get("matchExpressions")
        else term
        for i, term in enumerate((old.get("required") or {}).get("nodeSelectorTerms") or ())
    ]
    return {**old, "required": {**(old.get("required") or {}), "nodeSelectorTerms": renamed}}


def _successor(expression: Object, term: int, index: int, new: Object | None) -> Object:
    terms = ((new or {}).get("required") or {}).get("nodeSelectorTerms") or []
    expressions = (terms[term].get("matchExpressions") or []) if term < len(terms) else []
    # A key without a successor may be replaced by an empty key, as in kube-apiserver.
    successor = _SUCCESSORS.get(expression.get("key", ""), "")
    if index < len(expressions) and expressions[index].get("key", "") == successor:
        return {**expression, "key": successor}
    return expression


def validate_volume_status_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    if not new["metadata"].get("resourceVersion"):
        errors.append(required("resourceVersion"))
    return errors
