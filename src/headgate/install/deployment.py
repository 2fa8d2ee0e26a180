"""The Deployment of Headgate, its budget, and the arguments of its processes.

The pods fulfil the Pod Security standard ``restricted``. Every replica answers webhooks; of the components that write,
the elected leader works.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.install.names import (
    CONFIGURATION,
    CONFIGURATION_FILE,
    CONFIGURATION_HASH,
    NAME,
    NAMESPACE,
    SELECTOR,
    labels,
    metadata,
)
from headgate.install.options import FEATURE_GATES, GATE_OWNERSHIP, GRACE_S
from headgate.install.rights import SECRET_NAME
from headgate.install.template import (
    SHA256,
    Either,
    Items,
    JSONText,
    Merged,
    Setting,
    TemplateObject,
    Tree,
    When,
    text,
    when,
)

Object = dict[str, Any]

WEBHOOK_PORT: Final = 9443
METRICS_PORT: Final = 8080
USER: Final = 65532
_WEBHOOKS: Final = when("components.webhooks")
_CONFIGURED: Final = when("configuration")
_SECURE_METRICS: Final = when("metrics.secure")
_CONFIGURATION_PATH: Final = "/etc/headgate"
_CONFIGURATION_TEXT: Final = JSONText("configuration", {"apiVersion": "headgate.dev/v1alpha1", "kind": "Configuration"})


def run_arguments() -> list[Tree]:
    """The arguments of ``headgate``."""
    return [
        "run",
        When(_CONFIGURED, f"--config={_CONFIGURATION_PATH}/{CONFIGURATION_FILE}"),
        text("--components=", Setting("$components")),
        f"--metrics-listen=0.0.0.0:{METRICS_PORT}",
        When(_SECURE_METRICS, "--metrics-secure"),
        When(_WEBHOOKS, text("--webhook-service=", NAMESPACE, f"/{NAME}")),
        When(_WEBHOOKS, text("--webhook-secret=", NAMESPACE, f"/{SECRET_NAME}")),
        When(_WEBHOOKS, f"--webhook-listen=0.0.0.0:{WEBHOOK_PORT}"),
        When(when("gatePolicies.enabled"), f"{FEATURE_GATES}={GATE_OWNERSHIP}=true"),
        text("--log-level=", Setting("logLevel")),
        text("--log-format=", Setting("logFormat")),
        Items("extraArgs"),
    ]


def pod_security() -> Object:
    """The security context of a pod."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container(name: str, arguments: list[Tree], *, resources: str = "resources", **more: Tree) -> Object:
    """A container that runs ``headgate`` without privileges, on a root file system that it cannot write. ``resources``:
    the option with its requests and limits."""
    return {
        "name": name,
        "image": Setting("$image"),
        "imagePullPolicy": Setting("image.pullPolicy"),
        "command": ["headgate"],
        "args": arguments,
        "env": [{"name": "HOME", "value": "/tmp"}],
        **more,
        "resources": Setting(resources),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def placement() -> Object:
    """The fields of a pod that say where and as what it runs, for the Deployment and for hooks."""
    return {
        "imagePullSecrets": When(when("imagePullSecrets"), Setting("imagePullSecrets")),
        "priorityClassName": When(when("priorityClassName"), Setting("priorityClassName")),
        "nodeSelector": When(when("nodeSelector"), Setting("nodeSelector")),
        "tolerations": When(when("tolerations"), Setting("tolerations")),
        "affinity": When(when("affinity"), Setting("affinity")),
        "securityContext": pod_security(),
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }


def deployment() -> TemplateObject:
    probe = {"port": "metrics", "scheme": When(_SECURE_METRICS, "HTTPS")}
    ports = [
        {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        When(_WEBHOOKS, {"name": "webhooks", "containerPort": WEBHOOK_PORT, "protocol": "TCP"}),
    ]
    probes: Object = {
        "startupProbe": {"httpGet": {"path": "/livez", **probe}, "periodSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {"httpGet": {"path": "/livez", **probe}, "periodSeconds": 20, "timeoutSeconds": 5},
        # The Service of the webhooks needs replicas that answer them, whether or not they lead: a new leader lists all
        # objects, and its other port says meanwhile that it is not ready, or answers late.
        "readinessProbe": {
            "httpGet": Either(
                _WEBHOOKS,
                {"path": "/readyz", "port": "webhooks", "scheme": "HTTPS"},
                {"path": "/readyz", **probe},
            ),
            "periodSeconds": 5,
            "timeoutSeconds": 5,
        },
    }
    pod: Object = {
        "serviceAccountName": NAME,
        "hostNetwork": When(when("hostNetwork"), True),
        "dnsPolicy": When(when("hostNetwork"), "ClusterFirstWithHostNet"),
        "terminationGracePeriodSeconds": GRACE_S,
        **placement(),
        "topologySpreadConstraints": [_spread("kubernetes.io/hostname"), _spread("topology.kubernetes.io/zone")],
        "containers": [_manager(container(NAME, run_arguments(), ports=ports, **probes))],
    }
    configured = When(_CONFIGURED, {"name": "configuration", "configMap": {"name": CONFIGURATION}})
    pod["volumes"] = [*pod["volumes"], configured, Items("extraVolumes")]
    pod_metadata: Object = {
        "labels": Merged(labels("manager"), "podLabels"),
        # A changed configuration restarts the pods: they read only a part of it again.
        "annotations": When(
            when("configuration", "podAnnotations"),
            Merged({CONFIGURATION_HASH: SHA256(_CONFIGURATION_TEXT)}, "podAnnotations"),
        ),
    }
    spec: Object = {
        "replicas": Setting("replicas"),
        "revisionHistoryLimit": 10,
        # A new replica is ready, and so answers webhooks, before an old one stops.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "selector": {"matchLabels": SELECTOR},
        "template": {"metadata": pod_metadata, "spec": pod},
    }
    return TemplateObject(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(NAME, NAMESPACE), "spec": spec}
    )


def _manager(made: Object) -> Object:
    mount = {"name": "configuration", "mountPath": _CONFIGURATION_PATH, "readOnly": True}
    mounts = [*made["volumeMounts"], When(_CONFIGURED, mount), Items("extraVolumeMounts")]
    return {**made, "volumeMounts": mounts}


def configuration() -> TemplateObject:
    """The configuration file of the processes, if there is one."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(CONFIGURATION, NAMESPACE),
        "data": {CONFIGURATION_FILE: _CONFIGURATION_TEXT},
    }
    return TemplateObject(body, _CONFIGURED)


def disruption_budget() -> TemplateObject:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": SELECTOR}}
    return TemplateObject(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(NAME, NAMESPACE), "spec": spec}
    )


def _spread(key: str) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": SELECTOR},
    }
