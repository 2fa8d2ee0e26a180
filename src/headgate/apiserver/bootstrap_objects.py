"""The objects that a cluster has from its first start: namespaces, system priority classes, the ``kubernetes`` Service.

This module only lists them; ``cli/embedded/bootstrap.py`` creates those that are missing at each start.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.apimachinery.strategy.service import CLUSTER_RANGE, KUBERNETES_ADDRESS

Object = dict[str, Any]

_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease", "default")
_PRIORITIES: Final = (
    ("system-node-critical", 2_000_001_000, "For pods that a node cannot do without and that cannot move."),
    ("system-cluster-critical", 2_000_000_000, "For pods that the cluster cannot do without, on whichever node."),
)


def bootstrap_objects(host: str, port: int, today: str) -> list[Object]:
    """``host`` and ``port`` are where this server listens; ``today`` is a date in UTC."""
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in _NAMESPACES),
        *(_priority_class(*row) for row in _PRIORITIES),
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": [str(CLUSTER_RANGE)]},
        },
        {
            # Controllers read since when the use of legacy service account tokens has been tracked.
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"},
            "data": {"since": today},
        },
        _service(port),
        _endpoints(host, port),
        _endpoint_slice(host, port),
    ]


def _priority_class(name: str, value: int, description: str) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": description,
    }


def _service(port: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": KUBERNETES_ADDRESS,
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "type": "ClusterIP",
        },
    }


def _endpoints(host: str, port: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": host}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
    }


def _endpoint_slice(host: str, port: int) -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv6" if ":" in host else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
