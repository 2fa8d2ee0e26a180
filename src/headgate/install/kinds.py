"""The API resources of the kinds in an installation, and how an object is named in messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headgate.capacity.names import QUEUES
from headgate.kube.api_resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    APIResource,
)

Object = Mapping[str, Any]

_RBAC: Final = "rbac.authorization.k8s.io"
_MONITORING: Final = "monitoring.coreos.com"
_REGISTRATION: Final = "admissionregistration.k8s.io"
SECRETS: Final = APIResource("", "v1", "secrets", namespaced=True)
MUTATING: Final = APIResource(_REGISTRATION, "v1", "mutatingwebhookconfigurations", namespaced=False)
VALIDATING: Final = APIResource(_REGISTRATION, "v1", "validatingwebhookconfigurations", namespaced=False)
ENDPOINT_SLICES: Final = APIResource("discovery.k8s.io", "v1", "endpointslices", namespaced=True)
RESOURCES: Final[Mapping[str, APIResource]] = {
    "Namespace": NAMESPACES,
    "CustomResourceDefinition": CUSTOM_RESOURCE_DEFINITIONS,
    "ServiceAccount": SERVICE_ACCOUNTS,
    "Secret": SECRETS,
    "ConfigMap": CONFIG_MAPS,
    "Service": SERVICES,
    "Deployment": DEPLOYMENTS,
    "PodDisruptionBudget": POD_DISRUPTION_BUDGETS,
    "NetworkPolicy": APIResource("networking.k8s.io", "v1", "networkpolicies", namespaced=True),
    "ClusterRole": CLUSTER_ROLES,
    "ClusterRoleBinding": APIResource(_RBAC, "v1", "clusterrolebindings", namespaced=False),
    "Role": APIResource(_RBAC, "v1", "roles", namespaced=True),
    "RoleBinding": APIResource(_RBAC, "v1", "rolebindings", namespaced=True),
    "PodMonitor": APIResource(_MONITORING, "v1", "podmonitors", namespaced=True),
    "ServiceMonitor": APIResource(_MONITORING, "v1", "servicemonitors", namespaced=True),
    "PrometheusRule": APIResource(_MONITORING, "v1", "prometheusrules", namespaced=True),
    "MutatingWebhookConfiguration": MUTATING,
    "ValidatingWebhookConfiguration": VALIDATING,
    "Queue": QUEUES,
}


def resource_of(obj: Object) -> APIResource:
    return RESOURCES[obj["kind"]]


def place_of(obj: Object) -> tuple[str, str]:
    """Namespace, empty for a cluster-scoped object, and name."""
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def path_of(obj: Object) -> str:
    return resource_of(obj).object_path(*place_of(obj))


def display_name(obj: Object) -> str:
    """As kubectl names it: ``deployment.apps/headgate``; an object of another namespace than that of the installation
    is not marked, because names are unique."""
    group = resource_of(obj).group
    kind = str(obj["kind"]).lower()
    return f"{kind}{f'.{group}' if group else ''}/{place_of(obj)[1]}"
