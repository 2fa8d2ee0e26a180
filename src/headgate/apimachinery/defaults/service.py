"""Defaults of a Service that follow from the manifest alone.

Cluster IPs, IP families and node ports depend on allocations: ``apimachinery/strategy/service.py``.
"""

from __future__ import annotations

from typing import Any, Final

_SESSION_SECONDS: Final = 10800
_EXTERNAL_TYPES: Final = ("LoadBalancer", "NodePort")
_PROXIED_TYPES: Final = ("ClusterIP", *_EXTERNAL_TYPES)


def default_service(obj: dict[str, Any]) -> None:
    spec = obj.setdefault("spec", {})
    _default_session(spec)
    spec["type"] = kind = spec.get("type") or "ClusterIP"
    for port in spec.get("ports", ()):
        port["protocol"] = port.get("protocol") or "TCP"
        port["targetPort"] = port.get("targetPort") or port.get("port", 0)
    if not spec.get("externalTrafficPolicy") and _externally_accessible(spec):
        spec["externalTrafficPolicy"] = "Cluster"
    if kind in _PROXIED_TYPES:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in obj.get("status", {}).get("loadBalancer", {}).get("ingress", ()):
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def _default_session(spec: dict[str, Any]) -> None:
    spec["sessionAffinity"] = affinity = spec.get("sessionAffinity") or "None"
    if affinity == "None":
        spec.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP":
        client_ip = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client_ip.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _SESSION_SECONDS}}


def _externally_accessible(spec: dict[str, Any]) -> bool:
    if spec["type"] in _EXTERNAL_TYPES:
        return True
    return spec["type"] == "ClusterIP" and bool(spec.get("externalIPs"))
