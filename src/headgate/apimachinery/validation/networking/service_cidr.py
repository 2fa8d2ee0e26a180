"""Validation of IPAddress and ServiceCIDR, which record the service addresses of a cluster."""

from __future__ import annotations

from typing import Any

from headgate.apimachinery.ip_addresses import is_valid_cidr, is_valid_ip
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, invalid, required
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import IMMUTABLE, validate_immutable, validate_text

Object = dict[str, Any]


def validate_ip_address_create(obj: Object) -> FieldErrors:
    parent = (obj.get("spec") or {}).get("parentRef")
    errors = validate_object_meta(obj["metadata"], namespaced=False, name_rule=lambda name, prefix: is_valid_ip(name))
    if parent is None:
        return [*errors, required("spec.parentRef")]
    if parent.get("group"):
        errors += validate_text(names.is_dns1123_subdomain, parent["group"], "spec.parentRef.group")
    for field in ("resource", "name"):
        value = parent.get(field, "")
        field_path = f"spec.parentRef.{field}"
        errors += (
            validate_text(lambda text: names.name_is_path_segment(text, False), value, field_path)
            if value
            else [required(field_path)]
        )
    if parent.get("namespace"):
        rule = names.name_is_path_segment
        errors += validate_text(lambda text: rule(text, False), parent["namespace"], "spec.parentRef.namespace")
    return errors


def validate_ip_address_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_ip_address_create(new) + validate_object_meta_update(new["metadata"], old["metadata"])
    parents = [(each.get("spec") or {}).get("parentRef") for each in (new, old)]
    return errors + validate_immutable(parents[0], parents[1], "spec.parentRef")


def _cidrs(obj: Object) -> list[str]:
    cidrs: list[str] = (obj.get("spec") or {}).get("cidrs") or []
    return cidrs


def validate_service_cidr_create(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain)
    return errors + _validate_cidrs(_cidrs(obj))


def _validate_cidrs(cidrs: list[str]) -> FieldErrors:
    if not cidrs:
        return [required("spec.cidrs", "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid("spec.cidrs", {"CIDRs": cidrs}, "may only hold up to 2 values")]
    errors = [error for i, cidr in enumerate(cidrs) for error in validate_text(is_valid_cidr, cidr, f"spec.cidrs[{i}]")]
    if not errors and len({":" in each for each in cidrs}) < len(cidrs):
        families = "i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(invalid("spec.cidrs", cidrs, f"may specify no more than one IP for each IP family, {families}"))
    return errors


def validate_service_cidr_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    cidrs, stored = _cidrs(new), _cidrs(old)
    if len(cidrs) == len(stored):
        pairs = enumerate(zip(cidrs, stored, strict=True))
        return errors + [
            invalid(f"spec.cidrs[{i}]", new_cidr, IMMUTABLE)
            for i, (new_cidr, old_cidr) in pairs
            if new_cidr != old_cidr
        ]
    if len(stored) == 1 and len(cidrs) == 2:
        if cidrs[0] != stored[0]:
            errors.append(invalid("spec.cidrs[0]", cidrs[0], IMMUTABLE))
        return errors + _validate_cidrs(cidrs)
    return [*errors, invalid("spec.cidrs", (new.get("spec") or {}).get("cidrs"), IMMUTABLE)]
