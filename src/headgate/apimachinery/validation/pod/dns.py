"""Validation of DNS settings, host aliases and hostnames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headgate.apimachinery.ip_addresses import is_valid_ip_for_legacy_field
from headgate.kube.field_errors import FieldErrors, forbidden, invalid, required, too_long
from headgate.kube.names import is_dns1123_subdomain, is_dns1123_subdomain_with_underscore

Object = dict[str, Any]

_MAX_NAMESERVERS: Final = 3
_MAX_SEARCHES: Final = 32
_MAX_SEARCH_BYTES: Final = 2048
_MAX_HOSTNAME_BYTES: Final = 64


def validate_dns_config(config: Object | None, policy: str, path: str) -> FieldErrors:
    if policy == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", detail)]
    if not config:
        return []
    errors: FieldErrors = []
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    if len(servers) > _MAX_NAMESERVERS:
        detail = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        errors.append(invalid(f"{path}.nameservers", servers, detail))
    for index, server in enumerate(servers):
        field_path = f"{path}.nameservers[{index}]"
        errors += [invalid(field_path, server, message) for message in is_valid_ip_for_legacy_field(server)]
    if len(searches) > _MAX_SEARCHES:
        detail = f"must not have more than {_MAX_SEARCHES} search paths"
        errors.append(invalid(f"{path}.searches", searches, detail))
    if len(" ".join(searches).encode("utf-8", "surrogatepass")) > _MAX_SEARCH_BYTES:
        detail = f"must not have more than {_MAX_SEARCH_BYTES} characters (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", searches, detail))
    for index, search in enumerate(searches):
        if search == ".":
            continue
        domain, field_path = search.removesuffix("."), f"{path}.searches[{index}]"
        errors += [invalid(field_path, domain, message) for message in is_dns1123_subdomain_with_underscore(domain)]
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{index}]", "must not be empty"))
    return errors


def validate_host_aliases(aliases: Sequence[Object], path: str) -> FieldErrors:
    errors: FieldErrors = []
    for index, alias in enumerate(aliases):
        address = alias.get("ip", "")
        field_path = f"{path}[{index}].ip"
        errors += [invalid(field_path, address, message) for message in is_valid_ip_for_legacy_field(address)]
        for number, name in enumerate(alias.get("hostnames") or ()):
            field_path = f"{path}[{index}].hostnames[{number}]"
            errors += [invalid(field_path, name, message) for message in is_dns1123_subdomain(name)]
    return errors


def validate_hostname_override(spec: Object, path: str) -> FieldErrors:
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    errors: FieldErrors = []
    field_path = f"{path}.hostnameOverride"
    if spec.get("setHostnameAsFQDN"):
        errors.append(forbidden(field_path, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(forbidden(field_path, "may not be specified when hostNetwork is true"))
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_HOSTNAME_BYTES:
        errors.append(too_long(field_path, _MAX_HOSTNAME_BYTES))
    return errors + [invalid(field_path, name, message) for message in is_dns1123_subdomain(name)]
