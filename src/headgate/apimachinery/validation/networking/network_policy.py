"""Validation of a NetworkPolicy."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import ip_network
from typing import Any, Final

from headgate.apimachinery.ip_addresses import is_valid_cidr_for_legacy_field
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required
from headgate.kube.validation.labels import validate_label_selector
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import validate_port_number, validate_text

Object = dict[str, Any]

_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_DIRECTIONS: Final = (("ingress", "from"), ("egress", "to"))
_TYPES: Final = ("Ingress", "Egress")


def validate_network_policy_create(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    return errors + _validate_spec(obj.get("spec") or {}, any_value=False, known=())


def validate_network_policy_update(new: Object, old: Object) -> FieldErrors:
    old_spec = old.get("spec") or {}
    any_value = bool(validate_label_selector(old_spec.get("podSelector"), ""))
    known = {cidr for _, cidr in ip_blocks(old_spec)}
    # kube-apiserver also validates the new object like a created one and reports both, so old errors are reported too.
    errors = validate_object_meta(new["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    errors += _validate_spec(new.get("spec") or {}, any_value=any_value, known=())
    errors += validate_object_meta_update(new["metadata"], old["metadata"])
    return errors + _validate_spec(new.get("spec") or {}, any_value=any_value, known=known)


def ip_blocks(spec: Object) -> Iterator[tuple[str, str]]:
    """All CIDRs of a policy, with their paths."""
    for direction, peers in _DIRECTIONS:
        for i, rule in enumerate(spec.get(direction) or ()):
            for j, peer in enumerate(rule.get(peers) or ()):
                block = peer.get("ipBlock")
                if block is None:
                    continue
                path = f"spec.{direction}[{i}].{peers}[{j}].ipBlock"
                yield f"{path}.cidr", block.get("cidr", "")
                for k, excluded in enumerate(block.get("except") or ()):
                    yield f"{path}.except[{k}]", excluded


def _validate_spec(spec: Object, *, any_value: bool, known: Collection[str]) -> FieldErrors:
    errors = validate_label_selector(spec.get("podSelector"), "spec.podSelector", any_value=any_value)
    for direction, peers in _DIRECTIONS:
        for i, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{i}]"
            for j, port in enumerate(rule.get("ports") or ()):
                errors += _validate_port(port, f"{path}.ports[{j}]")
            for j, peer in enumerate(rule.get(peers) or ()):
                errors += _validate_peer(peer, f"{path}.{peers}[{j}]", any_value, known)
    types = spec.get("policyTypes") or []
    if len(types) > len(_TYPES):
        return [*errors, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
    return errors + [
        not_supported(f"spec.policyTypes[{i}]", kind, _TYPES) for i, kind in enumerate(types) if kind not in _TYPES
    ]


def _validate_port(rule: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    protocol, port, end = rule.get("protocol"), rule.get("port"), rule.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    if port is None:
        if end is not None:
            errors.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified"))
    elif isinstance(port, str):
        if end is not None:
            errors.append(invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
        errors += validate_text(names.is_valid_port_name, port, f"{path}.port")
    else:
        errors += validate_port_number(port, f"{path}.port")
        if end is not None:
            if end < port:
                errors.append(invalid(f"{path}.endPort", port, "must be greater than or equal to `port`"))
            errors += validate_port_number(end, f"{path}.endPort")
    return errors


def _validate_peer(peer: Object, path: str, any_value: bool, known: Collection[str]) -> FieldErrors:
    errors: FieldErrors = []
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    for name in selectors:
        errors += validate_label_selector(peer[name], f"{path}.{name}", any_value=any_value)
    block = peer.get("ipBlock")
    if block is not None:
        errors += _validate_block(block, f"{path}.ipBlock", known)
        if selectors:
            errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    elif not selectors:
        errors.append(required(path, "must specify a peer"))
    return errors


def _validate_block(block: Object, path: str, known: Collection[str]) -> FieldErrors:
    cidr = block.get("cidr", "")
    if not cidr:
        return [required(f"{path}.cidr")]
    errors = [] if cidr in known else validate_text(is_valid_cidr_for_legacy_field, cidr, f"{path}.cidr")
    if is_valid_cidr_for_legacy_field(cidr):
        return errors
    for i, excluded in enumerate(block.get("except") or ()):
        field_path = f"{path}.except[{i}]"
        errors += [] if excluded in known else validate_text(is_valid_cidr_for_legacy_field, excluded, field_path)
        if not is_valid_cidr_for_legacy_field(excluded) and not _strictly_within(excluded, cidr):
            errors.append(invalid(field_path, excluded, "must be a strict subset of `cidr`"))
    return errors


def _strictly_within(inner: str, outer: str) -> bool:
    small, large = ip_network(inner, strict=False), ip_network(outer, strict=False)
    if small.version != large.version or small.prefixlen <= large.prefixlen:
        return False
    return small.network_address in large
