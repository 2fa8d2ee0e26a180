"""Validation of a Service. ``service_addresses.py`` validates its addresses and IP families."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.apimachinery.ip_addresses import (
    is_valid_cidr_for_legacy_field,
    is_valid_ip_for_legacy_field,
    parse_ip,
    warnings_for_cidr,
    warnings_for_ip,
)
from headgate.apimachinery.validation.networking.endpoints import validate_endpoint_ip
from headgate.apimachinery.validation.networking.service_addresses import (
    is_headless,
    validate_addresses,
    validate_addresses_kept,
    validate_families_kept,
)
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, duplicate, forbidden, invalid, not_supported, required
from headgate.kube.validation.labels import validate_labels
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import (
    validate_one_of,
    validate_port_number,
    validate_port_number_or_name,
    validate_required_one_of,
    validate_text,
)

Object = dict[str, Any]

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_TRAFFIC: Final = ("Cluster", "Local")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_MAX_AFFINITY_SECONDS: Final = 86400
_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_MODE: Final = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_ONLY_BALANCER: Final = "may only be used when `type` is 'LoadBalancer'"


def validate_service_create(obj: Object) -> FieldErrors:
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns1035_label)
    return errors + _validate(obj, None)


def validate_service_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    errors += validate_addresses_kept(new["spec"], old["spec"])
    errors += validate_families_kept(new["spec"], old["spec"])
    errors += _validate_balancer_class(new["spec"], old["spec"])
    health_ports = [each.get("healthCheckNodePort", 0) for each in (new["spec"], old["spec"])]
    checked = needs_health_check(old["spec"]) and needs_health_check(new["spec"])
    if checked and health_ports[0] != health_ports[1]:
        errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    return errors + _validate(new, old)


def needs_health_check(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def externally_accessible(spec: Object) -> bool:
    kind = spec.get("type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def _validate(obj: Object, old: Object | None) -> FieldErrors:
    spec, old_spec = obj["spec"], (old or {}).get("spec") or {}
    ports = spec.get("ports") or []
    errors = _validate_topology_annotations(obj["metadata"].get("annotations") or {})
    if not ports and not is_headless(spec) and spec.get("type") != "ExternalName":
        errors.append(required("spec.ports"))
    errors += _validate_type_fields(spec)
    errors += _validate_ports(ports)
    errors += validate_labels(spec.get("selector"), "spec.selector")
    errors += _validate_session(spec)
    errors += validate_addresses(spec, old_spec.get("clusterIPs") or ())
    for i, address in enumerate(spec.get("externalIPs") or ()):
        messages = [] if address in (old_spec.get("externalIPs") or ()) else is_valid_ip_for_legacy_field(address)
        path = f"spec.externalIPs[{i}]"
        errors += [invalid(path, address, text) for text in messages] or validate_endpoint_ip(address, path)
    errors += validate_required_one_of(spec.get("type", ""), "spec.type", _TYPES)
    errors += _validate_port_numbers(spec, ports)
    errors += _validate_source_ranges(obj, old)
    if spec.get("allocateLoadBalancerNodePorts") is not None and spec.get("type") != "LoadBalancer":
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCER))
    if spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
        errors.append(required("allocateLoadBalancerNodePorts"))
    errors += _validate_balancer_class(spec, None)
    return errors + _validate_traffic(spec)


def _validate_topology_annotations(annotations: dict[str, str]) -> FieldErrors:
    mode, hints = annotations.get(_MODE), annotations.get(_HINTS)
    if mode is None or hints is None or mode == hints:
        return []
    text = f"must match annotations[{_HINTS}] when both are specified"
    return [invalid(f"metadata.annotations[{_MODE}]", mode, text)]


def _validate_type_fields(spec: Object) -> FieldErrors:
    kind = spec.get("type")
    if kind in ("LoadBalancer", "NodePort"):
        if is_headless(spec):
            return [invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")]
        return []
    if kind != "ExternalName":
        return []
    errors = [
        forbidden(f"spec.{field}", "may not be set for ExternalName services")
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(field)
    ]
    name = (spec.get("externalName") or "").removesuffix(".")
    return errors + (
        validate_text(names.is_dns1123_subdomain, name, "spec.externalName")
        if name
        else [required("spec.externalName")]
    )


def _validate_ports(ports: list[Object]) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for i, port in enumerate(ports):
        path, name = f"spec.ports[{i}]", port.get("name", "")
        if name:
            errors += validate_text(names.is_dns1123_label, name, f"{path}.name")
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{path}.name"))
        errors += validate_port_number(port.get("port", 0), f"{path}.port")
        errors += validate_required_one_of(port.get("protocol", ""), f"{path}.protocol", PROTOCOLS)
        errors += validate_port_number_or_name(port.get("targetPort", 0), f"{path}.targetPort")
        if port.get("appProtocol") is not None:
            errors += validate_text(names.is_qualified_name, port["appProtocol"], f"{path}.appProtocol")
    return errors


def _validate_session(spec: Object) -> FieldErrors:
    affinity, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    found = validate_required_one_of(affinity, "spec.sessionAffinity", ("ClientIP", "None"))
    path = "spec.sessionAffinityConfig"
    if affinity == "None" and config is not None:
        found.append(forbidden(path, "must not be set when session affinity is None"))
    if affinity == "ClientIP":
        seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
        if seconds is None:
            found.append(required(f"{path}.clientIP.timeoutSeconds", "when session affinity type is ClientIP"))
        elif not 0 < seconds <= _MAX_AFFINITY_SECONDS:
            text = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
            found.append(invalid(f"{path}.clientIP.timeoutSeconds", seconds, text))
    return found


def _validate_port_numbers(spec: Object, ports: list[Object]) -> FieldErrors:
    """Ports must be unique by number and protocol, and so must node ports."""
    errors: FieldErrors = []
    if spec.get("type") == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        errors += [forbidden(f"spec.ports[{i}].nodePort", text) for i, port in enumerate(ports) if port.get("nodePort")]
    used: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("nodePort", 0))
        if key[1] and key in used:
            errors.append(duplicate(f"spec.ports[{i}].nodePort", key[1]))
        used.add(key)
    seen: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in seen:
            errors.append(duplicate(f"spec.ports[{i}]", _port_value(*key)))
        seen.add(key)
    return errors


def _port_value(protocol: str, port: int) -> Any:
    shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": port, "TargetPort": 0, "NodePort": 0}
    return msgspec.Raw(msgspec.json.encode(shown))


def _validate_source_ranges(obj: Object, old: Object | None) -> FieldErrors:
    spec, old_spec = obj["spec"], (old or {}).get("spec") or {}
    balanced = spec.get("type") == "LoadBalancer"
    ranges = spec.get("loadBalancerSourceRanges") or []
    errors: FieldErrors = []
    if ranges:
        path = "spec.LoadBalancerSourceRanges"  # with a capital letter, as in Kubernetes
        if not balanced:
            errors.append(forbidden(path, _ONLY_BALANCER))
        known = {each.strip() for each in old_spec.get("loadBalancerSourceRanges") or ()}
        for i, block in enumerate(each.strip() for each in ranges):
            if block not in known:
                errors += validate_text(is_valid_cidr_for_legacy_field, block, f"{path}[{i}]")
        return errors
    text = (obj["metadata"].get("annotations") or {}).get(_SOURCE_RANGES)
    if text is None:
        return errors
    path = f"metadata.annotations[{_SOURCE_RANGES}]"
    if not balanced:
        errors.append(forbidden(path, _ONLY_BALANCER))
    old_text = ((old or {}).get("metadata", {}).get("annotations") or {}).get(_SOURCE_RANGES)
    if text != old_text and text.strip():
        for block in text.split(","):
            errors += validate_text(is_valid_cidr_for_legacy_field, block.strip(), path)
    return errors


def _validate_balancer_class(spec: Object, old_spec: Object | None) -> FieldErrors:
    path, name = "spec.loadBalancerClass", spec.get("loadBalancerClass")
    if spec.get("type") != "LoadBalancer":
        return [forbidden(path, _ONLY_BALANCER)] if name is not None else []
    errors: FieldErrors = []
    if old_spec is not None and old_spec.get("type") == "LoadBalancer" and name != old_spec.get("loadBalancerClass"):
        errors.append(invalid(path, name, "may not change once set"))
    return errors + (validate_text(names.is_qualified_name, name, path) if name is not None else [])


def _validate_traffic(spec: Object) -> FieldErrors:
    external, health_port = spec.get("externalTrafficPolicy", ""), spec.get("healthCheckNodePort", 0)
    errors: FieldErrors = []
    if externally_accessible(spec):
        errors += validate_required_one_of(external, "spec.externalTrafficPolicy", _TRAFFIC)
    elif external:
        text = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", external, text))
    path = "spec.healthCheckNodePort"
    if needs_health_check(spec):
        errors += validate_port_number(health_port, path) if health_port else [required(path)]
    elif health_port:
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid(path, health_port, text))
    internal = spec.get("internalTrafficPolicy")
    if internal is not None:
        errors += validate_one_of(internal, "spec.internalTrafficPolicy", _TRAFFIC)
    elif spec.get("type") in ("NodePort", "LoadBalancer", "ClusterIP"):
        errors.append(required("spec.internalTrafficPolicy"))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))
    return errors


def validate_service_status_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    balancer = (new.get("status") or {}).get("loadBalancer") or {}
    old_balancer = (old.get("status") or {}).get("loadBalancer") or {}
    return errors + _validate_ingress(balancer, old_balancer, new["spec"])


def _validate_ingress(balancer: Object, old: Object, spec: Object) -> FieldErrors:
    base, ingresses = "status.loadBalancer.ingress", balancer.get("ingress") or []
    if spec.get("type") != "LoadBalancer":
        return [forbidden(base, "may only be used when `spec.type` is 'LoadBalancer'")] if ingresses else []
    known = {each.get("ip") for each in old.get("ingress") or ()}
    errors: FieldErrors = []
    for i, ingress in enumerate(ingresses):
        path, address, mode = f"{base}[{i}]", ingress.get("ip", ""), ingress.get("ipMode")
        if address and address not in known:
            errors += validate_text(is_valid_ip_for_legacy_field, address, f"{path}.ip")
        if mode is None:
            if address:
                errors.append(required(f"{path}.ipMode", "must be specified when `ip` is set"))
        elif not address:
            errors.append(forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set"))
        else:
            errors += validate_one_of(mode, f"{path}.ipMode", ("Proxy", "VIP"))
        if hostname := ingress.get("hostname", ""):
            errors += validate_text(names.is_dns1123_subdomain, hostname, f"{path}.hostname")
            if parse_ip(hostname) is not None:
                errors.append(invalid(f"{path}.hostname", hostname, "must be a DNS name, not an IP address"))
    return errors


def service_warnings(obj: Object) -> list[str]:
    spec = obj["spec"]
    warnings: list[str] = []
    if _HINTS in (obj["metadata"].get("annotations") or {}):
        warnings.append(f"annotation {_HINTS} is deprecated, please use {_MODE} instead")
    if spec.get("clusterIP", "None") not in ("", "None"):
        for i, address in enumerate(spec.get("clusterIPs") or ()):
            warnings += warnings_for_ip(f"spec.clusterIPs[{i}]", address)
    if is_headless(spec):
        ignored = {"loadBalancerIP": spec.get("loadBalancerIP"), "externalIPs": spec.get("externalIPs")}
        ignored["SessionAffinity"] = spec.get("sessionAffinity", "None") != "None"
        warnings += [f"spec.{name} is ignored for headless services" for name, given in ignored.items() if given]
    for i, address in enumerate(spec.get("externalIPs") or ()):
        warnings += warnings_for_ip(f"spec.externalIPs[{i}]", address)
    if spec.get("loadBalancerIP"):
        warnings += warnings_for_ip("spec.loadBalancerIP", spec["loadBalancerIP"])
    for i, block in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        warnings += warnings_for_cidr(f"spec.loadBalancerSourceRanges[{i}]", block)
    named = spec.get("type") == "ExternalName"
    if named and spec.get("externalIPs"):
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if not named and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        warnings.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return warnings
