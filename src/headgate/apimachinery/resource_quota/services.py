"""The usage of a ResourceQuota by services: the object, node ports, load balancers.

The quota is checked before node ports are allocated, so the ports that will be allocated are counted.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.kube import quantity
from headgate.kube.pod_resources import Amounts

Object = dict[str, Any]

_NAMES: Final = frozenset({"count/services", "services", "services.nodeports", "services.loadbalancers"})
_ONE: Final = quantity.of_units(1)


def tracks(name: str) -> bool:
    return name in _NAMES


def usage(service: Object) -> Amounts:
    spec = service.get("spec") or {}
    is_load_balancer = spec.get("type") == "LoadBalancer"
    return {
        "count/services": _ONE,
        "services": _ONE,
        "services.loadbalancers": _ONE if is_load_balancer else quantity.ZERO,
        "services.nodeports": quantity.of_units(_node_ports(spec)),
    }


def _node_ports(spec: Object) -> int:
    ports = spec.get("ports") or ()
    if spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        return sum(bool(port.get("nodePort")) for port in ports)
    return len(ports) if spec.get("type") in ("NodePort", "LoadBalancer") else 0
