"""The live page in a cluster: a Deployment of ``headgate dashboard`` with an account, a Service and a NetworkPolicy.

It is served over TLS. Every viewer logs in with a bearer token of the cluster and sees what the API server lets this
user list; no token of the pod is printed, because it would show what the account of the pod may read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headgate.install.deployment import container, placement
from headgate.install.names import DASHBOARD, NAME, NAMESPACE, labels, metadata
from headgate.install.rights import DASHBOARD_RULES
from headgate.install.roles import roles_and_bindings
from headgate.install.template import Condition, Setting, TemplateObject, When, text, when

Object = dict[str, Any]

PAGE_PORT: Final = 8443
PAGE_SELECTOR: Final[Object] = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "dashboard"}
_HTTPS: Final = 443
_ENABLED: Final = when("dashboard.enabled")
_POLICY: Final = Condition(("dashboard.enabled",), all_of=("networkPolicy.enabled",))
_SECRET: Final = when("dashboard.tlsSecret")
_ACTIONS: Final = when("dashboard.allowActions")
_NO_SECRET: Final = Condition(("dashboard.tlsSecret",), negated=True)
_GRACE_S: Final = 5
_CERTIFICATES: Final = "/etc/headgate-tls"


def live_page() -> Iterator[TemplateObject]:
    yield TemplateObject(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(DASHBOARD, NAMESPACE)}, _ENABLED
    )
    for body in roles_and_bindings(DASHBOARD, DASHBOARD_RULES, DASHBOARD):
        yield TemplateObject(body, _ENABLED)
    port = {"name": "https", "port": _HTTPS, "targetPort": "https", "protocol": "TCP"}
    service = {"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack", "selector": PAGE_SELECTOR, "ports": [port]}
    yield TemplateObject(_object("v1", "Service", service), _ENABLED)
    policy = {
        "podSelector": {"matchLabels": PAGE_SELECTOR},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": PAGE_PORT, "protocol": "TCP"}]}],
    }
    yield TemplateObject(_object("networking.k8s.io/v1", "NetworkPolicy", policy), _POLICY)
    yield TemplateObject(_object("apps/v1", "Deployment", _deployment()), _ENABLED)


def _object(api_version: str, kind: str, spec: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata(DASHBOARD, NAMESPACE), "spec": spec}


def _deployment() -> Object:
    arguments = [
        "dashboard",
        f"--listen=0.0.0.0:{PAGE_PORT}",
        "--user-tokens-only",
        When(_ACTIONS, "--allow-actions"),
        When(_NO_SECRET, "--own-certificate"),
        When(_SECRET, f"--tls-cert-file={_CERTIFICATES}/tls.crt"),
        When(_SECRET, f"--tls-private-key-file={_CERTIFICATES}/tls.key"),
        text("--log-level=", Setting("logLevel")),
        text("--log-format=", Setting("logFormat")),
    ]
    probe = {"port": "https", "scheme": "HTTPS"}
    made = container(
        "dashboard",
        arguments,
        resources="dashboard.resources",
        ports=[{"name": "https", "containerPort": PAGE_PORT, "protocol": "TCP"}],
        livenessProbe={"httpGet": {"path": "/livez", **probe}, "periodSeconds": 20, "timeoutSeconds": 5},
        readinessProbe={"httpGet": {"path": "/readyz", **probe}, "periodSeconds": 5, "timeoutSeconds": 5},
    )
    mount = {"name": "certificate", "mountPath": _CERTIFICATES, "readOnly": True}
    volume = {"name": "certificate", "secret": {"secretName": Setting("dashboard.tlsSecret")}}
    fields = placement()
    del fields["priorityClassName"]  # the page must not preempt what it shows
    pod: Object = {
        "serviceAccountName": DASHBOARD,
        "terminationGracePeriodSeconds": _GRACE_S,
        **fields,
        "volumes": [*fields["volumes"], When(_SECRET, volume)],
        "containers": [{**made, "volumeMounts": [*made["volumeMounts"], When(_SECRET, mount)]}],
    }
    return {
        # Sessions are kept by the process, so a viewer has to reach the same one.
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "selector": {"matchLabels": PAGE_SELECTOR},
        "template": {"metadata": {"labels": labels("dashboard")}, "spec": pod},
    }
