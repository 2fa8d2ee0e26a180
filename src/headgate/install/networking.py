"""The Services of webhooks and metrics, and the NetworkPolicy of the pods."""

from __future__ import annotations

from typing import Any, Final

from headgate.install.deployment import METRICS_PORT, WEBHOOK_PORT
from headgate.install.names import METRICS_SERVICE, NAME, NAMESPACE, SELECTOR, labels, metadata
from headgate.install.template import TemplateObject, When, when

Object = dict[str, Any]

_HTTPS: Final = 443
_WEBHOOKS: Final = when("components.webhooks")


def services() -> tuple[TemplateObject, ...]:
    """Both prefer two address families where the cluster has them."""
    webhooks = {"name": "webhooks", "port": _HTTPS, "targetPort": "webhooks", "protocol": "TCP"}
    metrics = {"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics", "protocol": "TCP"}
    return (
        TemplateObject(_service(NAME, webhooks), _WEBHOOKS),
        TemplateObject({**_service(METRICS_SERVICE, metrics), "metadata": _metrics_metadata()}),
    )


def _metrics_metadata() -> Object:
    return {"name": METRICS_SERVICE, "namespace": NAMESPACE, "labels": labels("metrics")}


def _service(name: str, port: Object) -> Object:
    spec = {"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack", "selector": SELECTOR, "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(name, NAMESPACE), "spec": spec}


def network_policy() -> TemplateObject:
    """Connections to webhooks and metrics only. API servers have no pod labels, so the sender is not limited; neither
    are connections from the pods, because the address of the API server is not known here."""
    ports = [
        {"port": METRICS_PORT, "protocol": "TCP"},
        When(_WEBHOOKS, {"port": WEBHOOK_PORT, "protocol": "TCP"}),
    ]
    spec = {"podSelector": {"matchLabels": SELECTOR}, "policyTypes": ["Ingress"], "ingress": [{"ports": ports}]}
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(NAME, NAMESPACE),
        "spec": spec,
    }
    return TemplateObject(body, when("networkPolicy.enabled"))
