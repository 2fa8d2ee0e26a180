"""Validation of a Service's cluster IPs and IP families: they must be consistent, and allocated values do not change.

``apimachinery/strategy/service.py`` allocates them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from headgate.apimachinery.ip_addresses import is_valid_ip_for_legacy_field
from headgate.kube.field_errors import FieldErrors, duplicate, invalid, not_supported, required
from headgate.kube.validation.values import are_duplicates

Object = dict[str, Any]

_FAMILIES: Final = ("IPv4", "IPv6")
_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_FIXED: Final = "may not change once set"


def is_headless(spec: Object) -> bool:
    return spec.get("clusterIPs") == ["None"]


def family_of(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def validate_addresses(spec: Object, known: Collection[str]) -> FieldErrors:
    """``known`` are the addresses of the stored service, which were valid by older rules."""
    if spec.get("type") == "ExternalName":
        return []
    addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    errors = _validate_pair(spec.get("clusterIP") or "", addresses)
    for i, (family, repeated) in enumerate(zip(families, are_duplicates(families), strict=True)):
        if family not in _FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{i}]", family, _FAMILIES))
        if repeated:
            errors.append(duplicate(f"spec.ipFamilies[{i}]", family))
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, _POLICIES))
    address_errors = _validate_each(addresses, known)
    errors += address_errors
    if len(addresses) > 2:
        errors.append(invalid("spec.clusterIPs", addresses, "may only hold up to 2 values"))
    if address_errors:
        return errors
    if len(addresses) > 1 and len({family_of(each) for each in addresses}) < len(addresses):
        errors.append(invalid("spec.clusterIPs", addresses, "may specify no more than one IP for each IP family"))
    if not is_headless(spec):
        for i, (address, family) in enumerate(zip(addresses, families, strict=False)):
            if family in _FAMILIES and family != family_of(address):
                text = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
                errors.append(invalid(f"spec.clusterIPs[{i}]", address, text))
    return errors


def _validate_pair(address: str, addresses: list[str]) -> FieldErrors:
    """``clusterIP`` must be the first of ``clusterIPs``."""
    if not address:
        text = "must be empty when `clusterIP` is not specified"
        return [invalid("spec.clusterIPs", addresses, text)] if addresses else []
    if not addresses:
        return [required("spec.clusterIPs")]
    if addresses[0] != address:
        return [invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")]
    return []


def _validate_each(addresses: list[str], known: Collection[str]) -> FieldErrors:
    errors: FieldErrors = []
    for i, address in enumerate(addresses):
        if i == 0 and address == "None":
            if len(addresses) > 1:
                errors.append(invalid("spec.clusterIPs", addresses, "'None' must be the first and only value"))
        elif address not in known:
            messages = is_valid_ip_for_legacy_field(address)
            errors += [invalid(f"spec.clusterIPs[{i}]", address, message) for message in messages]
    return errors


def validate_addresses_kept(spec: Object, old: Object) -> FieldErrors:
    if "ExternalName" in (spec.get("type"), old.get("type")) or (is_headless(spec) and is_headless(old)):
        return []
    addresses, stored = spec.get("clusterIPs") or [], old.get("clusterIPs") or []
    if len(addresses) == len(stored):
        return [
            invalid(f"spec.clusterIPs[{i}]", addresses, _FIXED)
            for i, (new_value, old_value) in enumerate(zip(addresses, stored, strict=True))
            if new_value != old_value
        ]
    errors: FieldErrors = []
    if not addresses:
        errors.append(invalid("spec.clusterIPs[0]", addresses or None, "primary clusterIP can not be unset"))
    if addresses and stored and addresses[0] != stored[0]:
        errors.append(invalid("spec.clusterIPs[0]", addresses, _FIXED))
    if len(addresses) == 1 and len(stored) > 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        errors.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), text))
    return errors


def validate_families_kept(spec: Object, old: Object) -> FieldErrors:
    if "ExternalName" in (spec.get("type"), old.get("type")) or is_headless(spec) or is_headless(old):
        return []
    families, stored = spec.get("ipFamilies") or [], old.get("ipFamilies") or []
    if len(families) == len(stored):
        changed = sum(new_value != old_value for new_value, old_value in zip(families, stored, strict=True))
        return [invalid("spec.ipFamilies[0]", families, _FIXED)] * changed
    errors: FieldErrors = []
    if len(stored) > len(families) and not spec.get("clusterIPs"):
        errors.append(invalid("spec.ipFamilies[0]", families, "primary ipFamily can not be unset"))
    if families and stored and families[0] != stored[0]:
        errors.append(invalid("spec.ipFamilies[0]", spec.get("clusterIPs"), _FIXED))
    if len(families) == 1 and len(stored) > 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        text = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        errors.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), text))
    return errors
