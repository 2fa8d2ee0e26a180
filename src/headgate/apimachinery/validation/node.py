"""Validation of a Node: taints, addresses, resources, and fields that cannot change after they are set.

A node is created with its status, because kubelets and cluster autoscalers register it that way.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.apimachinery.ip_addresses import is_valid_cidr_for_legacy_field, warnings_for_cidr
from headgate.apimachinery.validation.pod.resources import validate_amount
from headgate.kube import names, quantity
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.taints import validate_taints
from headgate.kube.validation.values import validate_positive, validate_text

Object = dict[str, Any]


def validate_node_create(node: Object) -> FieldErrors:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    errors = validate_object_meta(node["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain)
    # The path is wrong in Kubernetes too.
    errors += validate_taints(spec.get("taints") or [], "metadata.taints")
    errors += _validate_resources(status)
    swap = (status.get("nodeInfo") or {}).get("swap") or {}
    if "capacity" in swap:
        errors += validate_positive(swap["capacity"], "metadata.nodeSwapStatus.capacity")
    return errors + _validate_pod_cidrs(spec.get("podCIDRs") or [])


def _validate_resources(status: Object) -> FieldErrors:
    return [
        error
        for field in ("capacity", "allocatable")
        for name, amount in (status.get(field) or {}).items()
        for error in validate_amount(name, quantity.amount(amount), f"status.{field}.{name}")
    ]


def _validate_pod_cidrs(cidrs: list[str]) -> FieldErrors:
    errors: FieldErrors = []
    for i, cidr in enumerate(cidrs):
        errors += validate_text(is_valid_cidr_for_legacy_field, cidr, f"spec.podCIDRs[{i}]")
    families = {":" in cidr for cidr in cidrs}
    if len(cidrs) > 1 and not errors and (len(families) != 2 or len(cidrs) > 2):
        errors.append(invalid("spec.podCIDRs", cidrs, "may specify no more than one CIDR for each IP family"))
    return errors


def validate_node_update(new: Object, old: Object) -> FieldErrors:
    return validate_node_create(new) + validate_node_status_update(new, old)


def validate_node_status_update(new: Object, old: Object) -> FieldErrors:
    spec, old_spec, status = new.get("spec") or {}, old.get("spec") or {}, new.get("status") or {}
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    errors += _validate_resources(status)
    seen: set[tuple[str, str]] = set()
    for i, address in enumerate(status.get("addresses") or ()):
        pair = (address.get("type", ""), address.get("address", ""))
        if pair in seen:
            shown = {"Type": pair[0], "Address": pair[1]}
            errors.append(duplicate(f"status.addresses[{i}]", msgspec.Raw(msgspec.json.encode(shown))))
        seen.add(pair)
    errors += _validate_cidrs_kept(spec.get("podCIDRs") or [], old_spec.get("podCIDRs") or [])
    if old_spec.get("providerID") and old_spec["providerID"] != spec.get("providerID"):
        text = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden("spec.providerID", text))
    errors += validate_taints(spec.get("taints") or [], "metadata.taints")
    if spec.get("externalID", "") != old_spec.get("externalID", ""):
        errors.append(forbidden("spec.externalID", "may not be updated"))
    return errors


def _validate_cidrs_kept(new: list[str], old: list[str]) -> FieldErrors:
    if not old:
        return []
    text = 'node updates may not change podCIDR except from "" to valid'
    if len(new) != len(old):
        return [forbidden("spec.podCIDRs", text)]
    return [
        forbidden("spec.podCIDRs", text) for new_cidr, old_cidr in zip(new, old, strict=True) if new_cidr != old_cidr
    ]


def node_warnings(node: Object) -> list[str]:
    spec = node.get("spec") or {}
    warnings: list[str] = []
    if "configSource" in spec:
        warnings.append("spec.configSource: the feature is removed")
    if spec.get("externalID"):
        warnings.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    for i, cidr in enumerate(spec.get("podCIDRs") or ()):
        warnings += warnings_for_cidr(f"spec.podCIDRs[{i}]", cidr)
    return warnings
