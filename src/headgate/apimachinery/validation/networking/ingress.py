"""Validation of Ingress and IngressClass."""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.ip_addresses import is_valid_ip_for_legacy_field, parse_ip
from headgate.kube import names
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, not_supported, required, too_long
from headgate.kube.validation.object_meta import validate_object_meta, validate_object_meta_update
from headgate.kube.validation.values import (
    validate_domain_prefixed_path,
    validate_immutable,
    validate_port_number,
    validate_text,
)

Object = dict[str, Any]

CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_SUFFIXES: Final = ("/..", "/.")
_MAX_CONTROLLER: Final = 250
_SCOPES: Final = ("Cluster", "Namespace")


def _validate_path_segment(value: str, path: str) -> FieldErrors:
    return validate_text(lambda text: names.name_is_path_segment(text, False), value, path)


def validate_ingress_create(obj: Object) -> FieldErrors:
    errors = _validate_ingress(obj, None)
    annotations, spec = obj["metadata"].get("annotations") or {}, obj.get("spec") or {}
    class_name, annotated_class = spec.get("ingressClassName"), annotations.get(CLASS_ANNOTATION)
    if annotated_class is not None and class_name is not None and annotated_class != class_name:
        text = "must match `ingressClassName` when both are specified"
        errors.append(invalid(f"annotations.{CLASS_ANNOTATION}", annotated_class, text))
    return errors


def validate_ingress_update(new: Object, old: Object) -> FieldErrors:
    return validate_object_meta_update(new["metadata"], old["metadata"]) + _validate_ingress(new, old)


def _secret_name_errors(name: str) -> list[str]:
    return names.is_dns1123_subdomain(name) if name else []


def _validate_ingress(obj: Object, old: Object | None) -> FieldErrors:
    spec, old_spec = obj.get("spec") or {}, (old or {}).get("spec") or {}
    any_secret = any(_secret_name_errors(each.get("secretName", "")) for each in old_spec.get("tls") or ())
    any_wildcard = any("*" in each.get("host", "") and _validate_http(each, "") for each in old_spec.get("rules") or ())
    errors = validate_object_meta(obj["metadata"], namespaced=True, name_rule=names.name_is_dns_subdomain)
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        errors.append(invalid("spec", None, "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        errors += _validate_backend(backend, "spec.defaultBackend")
    for i, rule in enumerate(rules):
        path, host = f"spec.rules[{i}]", rule.get("host", "")
        if host:
            if parse_ip(host) is not None:
                errors.append(invalid(f"{path}.host", host, "must be a DNS name, not an IP address"))
            errors += _validate_host(host, f"{path}.host")
        if "*" not in host or not any_wildcard:
            errors += _validate_http(rule, path)
    for i, tls in enumerate(spec.get("tls") or ()):
        for j, host in enumerate(tls.get("hosts") or ()):
            errors += _validate_host(host, f"spec.tls[{i}].hosts[{j}]")
        if not any_secret:
            errors += validate_text(_secret_name_errors, tls.get("secretName", ""), f"spec.tls[{i}].secretName")
    if spec.get("ingressClassName") is not None:
        errors += validate_text(names.is_dns1123_subdomain, spec["ingressClassName"], "spec.ingressClassName")
    return errors


def _validate_host(host: str, path: str) -> FieldErrors:
    rule = names.is_wildcard_dns1123_subdomain if "*" in host else names.is_dns1123_subdomain
    return validate_text(rule, host, path)


def _validate_http(rule: Object, path: str) -> FieldErrors:
    http = rule.get("http")
    if http is None:
        return []
    paths = http.get("paths") or []
    errors = [] if paths else [required(f"{path}.http.paths")]
    for i, each in enumerate(paths):
        errors += _validate_path(each, f"{path}.http.paths[{i}]")
    return errors


def _validate_path(rule: Object, path: str) -> FieldErrors:
    kind, target = rule.get("pathType"), rule.get("path", "")
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: FieldErrors = []
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif (target or kind != "ImplementationSpecific") and not target.startswith("/"):
        errors.append(invalid(f"{path}.path", target, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        for text in _BAD_SEQUENCES:
            if text in target:
                errors.append(invalid(f"{path}.path", target, f"must not contain '{text}'"))
        for text in _BAD_SUFFIXES:
            if target.endswith(text):
                errors.append(invalid(f"{path}.path", target, f"cannot end with '{text}'"))
    return errors + _validate_backend(rule.get("backend") or {}, f"{path}.backend")


def _validate_backend(backend: Object, path: str) -> FieldErrors:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _validate_reference(resource, f"{path}.resource")
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name, port = service.get("name", ""), service.get("port") or {}
    field_path = f"{path}.service"
    errors = (
        validate_text(names.is_dns1035_label, name, f"{field_path}.name") if name else [required(f"{field_path}.name")]
    )
    if port.get("name") and port.get("number"):
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        errors += validate_text(names.is_valid_port_name, port["name"], f"{field_path}.port.name")
    elif port.get("number"):
        errors += validate_port_number(port["number"], f"{field_path}.port.number")
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def _validate_reference(reference: Object, path: str) -> FieldErrors:
    errors: FieldErrors = []
    if reference.get("apiGroup") is not None:
        errors += validate_text(names.is_dns1123_subdomain, reference["apiGroup"], f"{path}.apiGroup")
    for field in ("kind", "name"):
        value = reference.get(field, "")
        errors += _validate_path_segment(value, f"{path}.{field}") if value else [required(f"{path}.{field}")]
    return errors


def validate_ingress_status_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    given = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    known = {each.get("ip") for each in ((old.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()}
    for i, ingress in enumerate(given):
        path, hostname = f"status.loadBalancer.ingress[{i}]", ingress.get("hostname", "")
        if ingress.get("ip") and ingress["ip"] not in known:
            errors += validate_text(is_valid_ip_for_legacy_field, ingress["ip"], f"{path}.ip")
        if hostname:
            errors += validate_text(names.is_dns1123_subdomain, hostname, f"{path}.hostname")
            if parse_ip(hostname) is not None:
                errors.append(invalid(f"{path}.hostname", hostname, "must be a DNS name, not an IP address"))
    return errors


def validate_ingress_class(obj: Object) -> FieldErrors:
    spec = obj.get("spec") or {}
    controller, parameters = spec.get("controller", ""), spec.get("parameters")
    errors = validate_object_meta(obj["metadata"], namespaced=False, name_rule=names.name_is_dns_subdomain)
    if len(controller.encode()) > _MAX_CONTROLLER:
        errors.append(too_long("spec.controller", _MAX_CONTROLLER))
    errors += validate_domain_prefixed_path(controller, "spec.controller")
    return errors + _validate_parameters(parameters, "spec.parameters") if parameters is not None else errors


def _validate_parameters(parameters: Object, path: str) -> FieldErrors:
    errors = _validate_reference(parameters, path)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope is None:
        return [*errors, required(f"{path}.scope")]
    if scope not in _SCOPES:
        return [*errors, not_supported(f"{path}.scope", scope, _SCOPES)]
    if scope == "Cluster" and namespace is not None:
        errors.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    if scope == "Namespace":
        field_path = f"{path}.namespace"
        if namespace is None:
            errors.append(required(field_path, "`parameters.scope` is set to 'Namespace'"))
        else:
            errors += validate_text(names.is_dns1123_label, namespace, field_path)
    return errors


def validate_ingress_class_update(new: Object, old: Object) -> FieldErrors:
    errors = validate_object_meta_update(new["metadata"], old["metadata"])
    controllers = ((each.get("spec") or {}).get("controller", "") for each in (new, old))
    return (
        errors
        + validate_immutable(next(controllers), next(controllers), "spec.controller")
        + validate_ingress_class(new)
    )
