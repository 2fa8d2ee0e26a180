"""Validation of ResourceSlice: the nodes of a pool of devices, and the attributes of each device.

Taints, counters, binding conditions, consumable capacity and nodes per device belong to feature gates that are off in
Kubernetes v1.35: ``apimachinery/strategy/devices.py`` drops those fields before validation.
"""

from __future__ import annotations

import re
from typing import Any, Final

from headgate.apimachinery.validation.devices.device_names import (
    each_once,
    name_of,
    size,
    validate_pool_name,
    validate_qualified_map,
)
from headgate.apimachinery.validation.pod.affinity import validate_node_selector
from headgate.apimachinery.validation.pod.volume_sources import validate_csi_driver
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, invalid, required, too_long
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import NOT_POSITIVE, validate_immutable, validate_text

Object = dict[str, Any]

_MAX_DEVICES: Final = 128
_MAX_PROPERTIES: Final = 32
_MAX_VALUE: Final = 64
_ONE_CHOICE: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_BEFORE: Final = r"(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD: Final = r"[0-9a-zA-Z-]+"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_BEFORE}(\.{_BEFORE})*)?(\+{_BUILD}(\.{_BUILD})*)?"  # semver.org, 2.0.0
)


def validate_resource_slice(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain)
    return errors + _validate_spec(obj.get("spec") or {}, None)


def validate_resource_slice_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    return errors + _validate_spec(new.get("spec") or {}, old.get("spec") or {})


def _validate_spec(spec: Object, old: Object | None) -> FieldErrors:
    pool = spec.get("pool") or {}
    errors = validate_csi_driver(spec.get("driver", ""), "spec.driver") + _validate_pool(pool, "spec.pool")
    if old is not None:
        errors += validate_immutable(name_of(pool), name_of(old.get("pool") or {}), "spec.pool.name")
        errors += validate_immutable(spec.get("driver", ""), old.get("driver", ""), "spec.driver")
        errors += validate_immutable(spec.get("nodeName"), old.get("nodeName"), "spec.nodeName")
    return (
        errors
        + _validate_nodes(spec)
        + each_once(spec.get("devices") or [], "spec.devices", _MAX_DEVICES, _validate_device, name_of)
    )


def _validate_pool(pool: Object, path: str) -> FieldErrors:
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    errors = validate_pool_name(name_of(pool), f"{path}.name")
    if count <= 0:
        errors.append(invalid(f"{path}.resourceSliceCount", count, NOT_POSITIVE))
    if generation < 0:
        errors.append(invalid(f"{path}.generation", generation, "must be greater than or equal to zero"))
    return errors


def _validate_nodes(spec: Object) -> FieldErrors:
    """The nodes that can access the devices: one node, the nodes of a selector, or all."""
    errors: FieldErrors = []
    chosen: list[str] = []
    node, selector, everywhere = spec.get("nodeName"), spec.get("nodeSelector"), spec.get("allNodes")
    if node:
        chosen.append("`nodeName`")
        errors += validate_text(lambda name: names.name_is_dns_subdomain(name, False), node, "spec.nodeName")
    elif node is not None:
        errors.append(invalid("spec.nodeName", node, "must be either unset or set to a non-empty string"))
    if selector is not None:
        chosen.append("`nodeSelector`")
        errors += validate_node_selector(selector, "spec.nodeSelector")
        terms = selector.get("nodeSelectorTerms")
        if len(terms or ()) != 1:
            text = "must have exactly one node selector term"
            errors.append(invalid("spec.nodeSelector.nodeSelectorTerms", terms, text))
    if everywhere:
        chosen.append("`allNodes`")
    elif everywhere is not None:
        errors.append(invalid("spec.allNodes", everywhere, "must be either unset or set to true"))
    if not chosen:
        errors.append(required("spec", _ONE_CHOICE))
    if len(chosen) > 1:
        shown = "{" + ", ".join(chosen) + "}"
        errors.append(invalid("spec", shown, f"{_ONE_CHOICE}, but multiple fields are set"))
    return errors


def _validate_device(device: Object, path: str) -> FieldErrors:
    attributes, capacity = device.get("attributes"), device.get("capacity")
    errors = validate_text(names.is_dns1123_label, name_of(device), f"{path}.name")
    total = len(attributes or ()) + len(capacity or ())
    if total > _MAX_PROPERTIES:
        text = f"the total number of attributes and capacities must not exceed {_MAX_PROPERTIES}"
        errors.append(invalid(path, total, text))
    errors += validate_qualified_map(attributes, f"{path}.attributes", _validate_attribute)
    return errors + validate_qualified_map(capacity, f"{path}.capacity", lambda amount, at: [])


def _validate_attribute(attribute: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    text, version = attribute.get("string"), attribute.get("version")
    if text is not None and size(text) > _MAX_VALUE:
        errors.append(too_long(f"{path}.string", _MAX_VALUE))
    if version is not None:
        if _VERSION.fullmatch(version) is None:
            message = "must be a string compatible with semver.org spec 2.0.0"
            errors.append(invalid(f"{path}.version", version, message))
        if size(version) > _MAX_VALUE:
            errors.append(too_long(f"{path}.version", _MAX_VALUE))
    given = [field for field in ("bool", "int", "string", "version") if attribute.get(field) is not None]
    if len(given) != 1:
        errors.append(invalid(path, attribute if given else "", "exactly one value must be specified"))
    return errors
