"""Printers of services, endpoints, ingresses, network policies and addresses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headgate.apiserver.printers.cells import labels_text, selector_text, shortened
from headgate.apiserver.printers.printer import (
    AGE,
    NAME,
    NONE,
    SELECTOR,
    UNKNOWN,
    UNSET,
    Cells,
    Object,
    Printer,
    age_of,
    name_of,
    part,
    text,
)

_MAX_SHOWN: Final = 3


def _service_cells(obj: Object, now: float) -> Cells:
    spec = part(obj, "spec")
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or NONE]
    return [
        name_of(obj),
        spec.get("type") or "",
        addresses[0],
        _external_address(obj),
        ",".join(map(_port, spec.get("ports") or ())) or NONE,
        age_of(obj, now),
        labels_text(spec.get("selector")),
    ]


def _external_address(service: Object) -> str:
    spec = part(service, "spec")
    given = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            return ",".join([*_balancer_addresses(service), *given]) or "<pending>"
        case "ExternalName":
            return spec.get("externalName") or ""
        case _:
            return UNKNOWN


def _balancer_addresses(obj: Object) -> list[str]:
    ingress = part(obj, "status", "loadBalancer").get("ingress") or ()
    return sorted({each.get("ip") or each.get("hostname") or "" for each in ingress} - {""})


def _port(port: Object) -> str:
    number = f"{port.get('port')}:{port['nodePort']}" if port.get("nodePort") else f"{port.get('port')}"
    return f"{number}/{port.get('protocol') or ''}"


def _endpoints_cells(obj: Object, now: float) -> Cells:
    subsets = obj.get("subsets")
    return [name_of(obj), shortened(list(_endpoints(subsets)), _MAX_SHOWN) if subsets else NONE, age_of(obj, now)]


def _endpoints(subsets: Iterable[Object]) -> Iterable[str]:
    for subset in subsets:
        ips = [each.get("ip") or "" for each in subset.get("addresses") or ()]
        ports = subset.get("ports")
        if not ports:
            yield from ips
            continue
        for port in ports:
            yield from (f"[{ip}]:{port.get('port')}" if ":" in ip else f"{ip}:{port.get('port')}" for ip in ips)


def _endpoint_slice_cells(obj: Object, now: float) -> Cells:
    addresses = [address for each in obj.get("endpoints") or () for address in each.get("addresses") or ()]
    return [
        name_of(obj),
        obj.get("addressType") or "",
        shortened([_slice_port(each) for each in obj.get("ports") or ()], _MAX_SHOWN) or UNSET,
        shortened(addresses, _MAX_SHOWN) or UNSET,
        age_of(obj, now),
    ]


def _slice_port(port: Object) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    name: str | None = port.get("name")
    return "*" if name is None else name


def _ingress_cells(obj: Object, now: float) -> Cells:
    spec = part(obj, "spec")
    return [
        name_of(obj),
        spec.get("ingressClassName") or NONE,
        _hosts(spec.get("rules") or []),
        ",".join(_balancer_addresses(obj)),
        "80, 443" if spec.get("tls") else "80",
        age_of(obj, now),
    ]


def _hosts(rules: list[Object]) -> str:
    """The hosts of the rules, shortened. Rules without a host are not shown, but are counted in ``+ n more``."""
    hosts: list[str] = []
    more = False
    for rule in rules:
        more = more or len(hosts) == _MAX_SHOWN
        if not more and rule.get("host"):
            hosts.append(rule["host"])
    if not hosts:
        return "*"
    return f"{','.join(hosts)} + {len(rules) - _MAX_SHOWN} more..." if more else ",".join(hosts)


def _ingress_class_cells(obj: Object, now: float) -> Cells:
    spec = part(obj, "spec")
    parameters, shown = spec.get("parameters"), NONE
    if parameters is not None:
        group = parameters.get("apiGroup")
        kind = parameters.get("kind") or ""
        shown = f"{kind}.{group}/{parameters.get('name')}" if group is not None else f"{kind}/{parameters.get('name')}"
    return [name_of(obj), spec.get("controller") or "", shown, age_of(obj, now)]


def _network_policy_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), selector_text(part(obj, "spec", "podSelector")), age_of(obj, now)]


def _service_cidr_cells(obj: Object, now: float) -> Cells:
    return [name_of(obj), ",".join(part(obj, "spec").get("cidrs") or ()), age_of(obj, now)]


def _ip_address_cells(obj: Object, now: float) -> Cells:
    """There is one cell more than columns, as in Kubernetes; clients ignore it."""
    parent, shown = part(obj, "spec").get("parentRef"), NONE
    if parent is not None:
        group, resource = parent.get("group"), parent.get("resource") or ""
        steps = [f"{resource}.{group}".lower() if group else resource.lower()]
        steps += [parent["namespace"]] if parent.get("namespace") else []
        shown = "/".join([*steps, parent.get("name") or ""])
    return [name_of(obj), shown, age_of(obj, now)]


SERVICE: Final = Printer(
    (
        NAME,
        text("Type", "How it is reached."),
        text("Cluster-IP", "Address inside the cluster."),
        text("External-IP", "Addresses from outside."),
        text("Port(s)", "Ports it listens on."),
        AGE,
        SELECTOR,
    ),
    _service_cells,
)
ENDPOINTS: Final = Printer((NAME, text("Endpoints", "Addresses and ports."), AGE), _endpoints_cells)
ENDPOINT_SLICE: Final = Printer(
    (
        NAME,
        text("AddressType", "What the addresses are."),
        text("Ports", "Ports of every endpoint."),
        text("Endpoints", "Addresses of the endpoints."),
        AGE,
    ),
    _endpoint_slice_cells,
)
INGRESS: Final = Printer(
    (
        NAME,
        text("Class", "Which class serves it."),
        text("Hosts", "Hosts that it serves."),
        text("Address", "Where it is reached."),
        text("Ports", "Ports it listens on."),
        AGE,
    ),
    _ingress_cells,
)
INGRESS_CLASS: Final = Printer(
    (NAME, text("Controller", "The controller of the class."), text("Parameters", "Where its settings are."), AGE),
    _ingress_class_cells,
)
NETWORK_POLICY: Final = Printer((NAME, text("Pod-Selector", "Which pods it is for."), AGE), _network_policy_cells)
SERVICE_CIDR: Final = Printer((NAME, text("CIDRs", "Ranges of addresses."), AGE), _service_cidr_cells)
IP_ADDRESS: Final = Printer((NAME, text("ParentRef", "What uses the address.")), _ip_address_cells)
