"""Objects for Prometheus and Grafana: PodMonitor, ServiceMonitor, PrometheusRule, and a dashboard.

All are optional. The first three are kinds of the Prometheus Operator. ``alert_rules.py`` and ``dashboard_panels.py``
have the alerts and the panels; docs/observability.md explains them.
"""

from __future__ import annotations

import json
from typing import Any, Final

from headgate.install.alert_rules import rule_groups
from headgate.install.dashboard_panels import dashboard_json
from headgate.install.names import DASHBOARD, METRICS_TOKEN, NAME, NAMESPACE, SELECTOR, labels
from headgate.install.template import Merged, Setting, TemplateObject, When, when

Object = dict[str, Any]

_API_VERSION: Final = "monitoring.coreos.com/v1"
_SECURE: Final = when("metrics.secure")


def monitors() -> tuple[TemplateObject, ...]:
    pod = {"selector": {"matchLabels": SELECTOR}, "podMetricsEndpoints": [_endpoint("monitoring.podMonitor")]}
    service_labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "metrics"}
    service = {"selector": {"matchLabels": service_labels}, "endpoints": [_endpoint("monitoring.serviceMonitor")]}
    return (
        _monitor("PodMonitor", "podMonitor", pod),
        _monitor("ServiceMonitor", "serviceMonitor", service),
        _monitor("PrometheusRule", "prometheusRule", {"groups": rule_groups(NAME)}),
    )


def dashboard() -> TemplateObject:
    path = "monitoring.dashboard"
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": DASHBOARD, "namespace": NAMESPACE, "labels": Merged(labels(), f"{path}.labels")},
        "data": {"headgate.json": json.dumps(dashboard_json(NAME), indent=1)},
    }
    return TemplateObject(body, when(f"{path}.enabled"))


def _monitor(kind: str, switch: str, spec: Object) -> TemplateObject:
    path = f"monitoring.{switch}"
    meta = {"name": NAME, "namespace": NAMESPACE, "labels": Merged(labels(), f"{path}.labels")}
    body = {"apiVersion": _API_VERSION, "kind": kind, "metadata": meta, "spec": spec}
    return TemplateObject(body, when(f"{path}.enabled"))


def _endpoint(path: str) -> Object:
    token = {"name": METRICS_TOKEN, "key": "token"}
    return {
        "port": "metrics",
        "path": "/metrics",
        "interval": Setting(f"{path}.interval"),
        "scheme": When(_SECURE, "https"),
        # The processes make their certificates themselves, so that no authority is known here.
        "tlsConfig": When(_SECURE, {"insecureSkipVerify": True}),
        "authorization": When(_SECURE, {"type": "Bearer", "credentials": token}),
    }
