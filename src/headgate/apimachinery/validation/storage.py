"""Validation of the storage group: classes, CSI drivers and nodes, attachments, capacities."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from headgate.apimachinery.validation.persistent_volume import validate_volume_spec
from headgate.apimachinery.validation.pod.volume_sources import validate_csi_driver
from headgate.kube import names, quantity
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, not_supported, required, too_long
from headgate.kube.validation.labels import has_invalid_selector_value, validate_label_selector
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import (
    IMMUTABLE,
    NEGATIVE,
    are_duplicates,
    validate_immutable,
    validate_nonnegative,
    validate_one_of,
    validate_text,
)

Object = dict[str, Any]

_MAX_PARAMETERS: Final = 512
_MAX_PARAMETER_BYTES: Final = 256 * 1024
_MAX_NODE_ID: Final = 256
_MAX_REPETITIONS: Final = 100  # of one term; all have the same error text
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_RECLAIM_POLICIES: Final = ("Delete", "Retain")
_FS_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")


def _validate_meta(obj: Object, *, namespaced: bool = False) -> FieldErrors:
    return validate_object_meta(obj["metadata"], namespaced=namespaced, name_rule=names.name_is_dns_subdomain)


def _validate_provisioner(name: str, path: str) -> FieldErrors:
    return validate_text(names.is_qualified_name, name.lower(), path) if name else [required(path)]


def _validate_parameters(parameters: dict[str, str] | None, path: str, *, allow_empty: bool) -> FieldErrors:
    parameters = parameters or {}
    if len(parameters) > _MAX_PARAMETERS:
        return [too_long(path, _MAX_PARAMETERS)]
    errors: FieldErrors = [invalid(path, key, "field can not be empty.") for key in parameters if not key]
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _MAX_PARAMETER_BYTES:
        errors.append(too_long(path, _MAX_PARAMETER_BYTES))
    if not allow_empty and not parameters:
        errors.append(required(path, "must contain at least one key/value pair"))
    return errors


def validate_storage_class_create(obj: Object) -> FieldErrors:
    errors = _validate_meta(obj)
    errors += _validate_provisioner(obj.get("provisioner", ""), "provisioner")
    errors += _validate_parameters(obj.get("parameters"), "parameters", allow_empty=True)
    if obj.get("reclaimPolicy"):
        errors += validate_one_of(obj["reclaimPolicy"], "reclaimPolicy", _RECLAIM_POLICIES)
    mode = obj.get("volumeBindingMode")
    errors += (
        [required("volumeBindingMode")] if mode is None else validate_one_of(mode, "volumeBindingMode", _BINDING_MODES)
    )
    return errors + _validate_topologies(obj.get("allowedTopologies") or [])


def _validate_topologies(terms: list[Object]) -> FieldErrors:
    """Terms must not be empty and must be unique."""
    errors: FieldErrors = []
    # As in Kubernetes, an empty term always counts as a duplicate.
    seen = Counter({frozenset[tuple[str, frozenset[str]]](): len(terms)})
    for i, term in enumerate(terms):
        path = f"allowedTopologies[{i}].matchLabelExpressions"
        values_by_key: dict[str, frozenset[str]] = {}
        for j, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = expression.get("key", ""), expression.get("values") or []
            if not values:
                errors.append(required(f"{path}[{j}].values"))
            errors += [
                duplicate(f"{path}[{j}].values[{n}]", values[n])
                for n, repeated in enumerate(are_duplicates(values))
                if repeated
            ]
            errors += validate_text(names.is_qualified_name, key, f"{path}[{j}].key")
            if key in values_by_key:
                errors.append(duplicate(f"{path}[{j}].key", key))
            values_by_key[key] = frozenset(values)
        term_values = frozenset(values_by_key.items())
        errors += [duplicate(path, "")] * min(seen[term_values], _MAX_REPETITIONS)
        seen[term_values] += 1
    return errors


def validate_storage_class_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if (new.get(field) or None) != (old.get(field) or None):
            errors.append(forbidden(field, f"updates to {field} are forbidden."))
    return errors + validate_immutable(new.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode")


def validate_volume_attributes_class(obj: Object) -> FieldErrors:
    errors = _validate_meta(obj) + _validate_provisioner(obj.get("driverName", ""), "driverName")
    return errors + _validate_parameters(obj.get("parameters"), "parameters", allow_empty=False)


def validate_volume_attributes_class_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    for field in ("driverName", "parameters"):
        if (new.get(field) or None) != (old.get(field) or None):
            errors.append(forbidden(field, f"updates to {field} are forbidden."))
    return errors + validate_volume_attributes_class(new)


def validate_volume_attachment_create(obj: Object) -> FieldErrors:
    spec = obj.get("spec") or {}
    errors = _validate_meta(obj) + _validate_attachment_spec(spec)
    errors += validate_csi_driver(spec.get("attacher", ""), "spec.attacher")
    volume = (spec.get("source") or {}).get("persistentVolumeName")
    if volume is not None:
        errors += validate_text(names.is_dns1123_subdomain, volume, "spec.source.persistentVolumeName")
    return errors


def _validate_attachment_spec(spec: Object) -> FieldErrors:
    errors = [] if spec.get("attacher") else [required("spec.attacher")]
    source = spec.get("source") or {}
    volume, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if volume is None and inline is None:
        errors.append(required("spec.source", text))
    elif volume is not None and inline is not None:
        errors.append(forbidden("spec.source", text))
    elif inline is not None:
        errors += validate_volume_spec(inline, "spec.source.inlineVolumeSpec", inline=True)
    elif not volume:
        errors.append(required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"))
    return errors + validate_text(names.is_dns1123_subdomain, spec.get("nodeName", ""), "spec.nodeName")


def validate_volume_attachment_update(new: Object, old: Object) -> FieldErrors:
    errors = _validate_meta(new) + _validate_attachment_spec(new.get("spec") or {})
    return errors + validate_immutable(new.get("spec"), old.get("spec"), "spec")


def validate_csi_node(obj: Object) -> FieldErrors:
    errors = _validate_meta(obj)
    seen: set[str] = set()
    for i, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
        path = f"spec.drivers[{i}]"
        name, node_id = driver.get("name", ""), driver.get("nodeID", "")
        errors += validate_csi_driver(name, f"{path}.name")
        if not node_id:
            errors.append(required(f"{path}.nodeID"))
        if len(node_id.encode()) > _MAX_NODE_ID:
            errors.append(invalid(f"{path}.nodeID", node_id, f"must be {_MAX_NODE_ID} characters or less"))
        if "count" in (driver.get("allocatable") or {}):
            errors += validate_nonnegative(driver["allocatable"]["count"], f"{path}.allocatable.count")
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        errors += _validate_topology_keys(driver.get("topologyKeys") or [], path)
    return errors


def _validate_topology_keys(keys: list[str], path: str) -> FieldErrors:
    errors: FieldErrors = []
    for key, repeated in zip(keys, are_duplicates(keys), strict=True):
        if not key:
            errors.append(required(path))
        if repeated:
            errors.append(duplicate(path, key))
        errors += validate_text(names.is_qualified_name, key, path)
    return errors


def validate_csi_node_update(new: Object, old: Object) -> FieldErrors:
    # The validation runs twice, because kube-apiserver reports each error twice.
    errors = validate_csi_node(new) * 2
    old_drivers = {each.get("name"): each for each in (old.get("spec") or {}).get("drivers") or ()}
    for driver in (new.get("spec") or {}).get("drivers") or ():
        stored = old_drivers.get(driver.get("name"))
        if stored is not None and _immutable_part(driver) != _immutable_part(stored):
            errors.append(invalid("spec.drivers", _immutable_part(driver), IMMUTABLE))
    return errors


def _immutable_part(driver: Object) -> Object:
    return {name: value for name, value in driver.items() if name != "allocatable"}


def validate_csi_driver_create(obj: Object) -> FieldErrors:
    return _validate_meta(obj) + _validate_driver_spec(obj.get("spec") or {})


def validate_csi_driver_update(new: Object, old: Object) -> FieldErrors:
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    errors = validate_object_meta_update(new["metadata"], old["metadata"]) + _validate_driver_spec(spec)
    errors += validate_immutable(spec.get("attachRequired"), old_spec.get("attachRequired"), "spec.attachedRequired")
    modes = "volumeLifecycleModes"
    return errors + validate_immutable(spec.get(modes), old_spec.get(modes), f"spec.{modes}")


def _validate_driver_spec(spec: Object) -> FieldErrors:
    errors: FieldErrors = []
    if spec.get("fsGroupPolicy") is not None:
        errors += validate_one_of(spec["fsGroupPolicy"], "spec.fsGroupPolicy", _FS_GROUP_POLICIES)
    seen: set[str] = set()
    for i, request in enumerate(spec.get("tokenRequests") or ()):
        path, audience = f"spec.tokenRequests[{i}]", request.get("audience", "")
        if audience in seen:
            errors.append(duplicate(f"{path}.audience", audience))
            continue
        seen.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            text = "may not specify a duration less than 10 minutes"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, text))
        if seconds is not None and seconds > 1 << 32:
            text = "may not specify a duration larger than 2^32 seconds"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, text))
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            errors.append(not_supported("spec.volumeLifecycleModes", mode, ["Persistent", "Ephemeral"]))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        path = "spec.nodeAllocatableUpdatePeriodSeconds"
        errors.append(invalid(path, period, "must be greater than or equal to 10 seconds"))
    if spec.get("serviceAccountTokenInSecrets") is not None and not spec.get("tokenRequests"):
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid("spec.serviceAccountTokenInSecrets", spec["serviceAccountTokenInSecrets"], text))
    return errors


def validate_csi_storage_capacity(obj: Object, old: Object | None = None) -> FieldErrors:
    errors = _validate_meta(obj, namespaced=True)
    tolerated = has_invalid_selector_value(old.get("nodeTopology")) if old else False
    errors += validate_label_selector(obj.get("nodeTopology"), "nodeTopology", any_value=tolerated)
    errors += validate_text(names.is_dns1123_subdomain, obj.get("storageClassName", ""), "storageClassName")
    if "capacity" in obj and quantity.amount(obj["capacity"]).nano < 0:
        errors.append(invalid("capacity", obj["capacity"], NEGATIVE))
    return errors


def validate_csi_storage_capacity_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_csi_storage_capacity(new, old)
    errors += validate_object_meta_update(new["metadata"], old["metadata"])
    errors += validate_immutable(new.get("nodeTopology"), old.get("nodeTopology"), "nodeTopology")
    errors += validate_immutable(new.get("storageClassName", ""), old.get("storageClassName", ""), "storageClassName")
    return errors
