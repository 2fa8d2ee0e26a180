"""API resources: group, version, plural, and the URL paths that follow from them.

The constants below are the resources that Headgate's controllers use; others are constructed where they are needed.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec


class APIResource(msgspec.Struct, frozen=True):
    group: str
    version: str
    plural: str
    namespaced: bool

    def collection_path(self, namespace: str | None = None) -> str:
        """The path of a list; ``None`` lists over all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        namespace_part = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace is not None else ""
        return f"{root}{namespace_part}/{self.plural}"

    def object_path(self, namespace: str, name: str, subresource: str = "") -> str:
        """The path of one object; the namespace of a cluster-scoped one is ignored."""
        tail = f"/{subresource}" if subresource else ""
        return f"{self.collection_path(namespace)}/{quote(name, safe='')}{tail}"


NODES: Final = APIResource("", "v1", "nodes", namespaced=False)
PODS: Final = APIResource("", "v1", "pods", namespaced=True)
NAMESPACES: Final = APIResource("", "v1", "namespaces", namespaced=False)
CONFIG_MAPS: Final = APIResource("", "v1", "configmaps", namespaced=True)
SERVICE_ACCOUNTS: Final = APIResource("", "v1", "serviceaccounts", namespaced=True)
SERVICES: Final = APIResource("", "v1", "services", namespaced=True)
REPLICATION_CONTROLLERS: Final = APIResource("", "v1", "replicationcontrollers", namespaced=True)
REPLICA_SETS: Final = APIResource("apps", "v1", "replicasets", namespaced=True)
DEPLOYMENTS: Final = APIResource("apps", "v1", "deployments", namespaced=True)
STATEFUL_SETS: Final = APIResource("apps", "v1", "statefulsets", namespaced=True)
DAEMON_SETS: Final = APIResource("apps", "v1", "daemonsets", namespaced=True)
CONTROLLER_REVISIONS: Final = APIResource("apps", "v1", "controllerrevisions", namespaced=True)
PERSISTENT_VOLUMES: Final = APIResource("", "v1", "persistentvolumes", namespaced=False)
PERSISTENT_VOLUME_CLAIMS: Final = APIResource("", "v1", "persistentvolumeclaims", namespaced=True)
LIMIT_RANGES: Final = APIResource("", "v1", "limitranges", namespaced=True)
RUNTIME_CLASSES: Final = APIResource("node.k8s.io", "v1", "runtimeclasses", namespaced=False)
STORAGE_CLASSES: Final = APIResource("storage.k8s.io", "v1", "storageclasses", namespaced=False)
VOLUME_ATTRIBUTES_CLASSES: Final = APIResource("storage.k8s.io", "v1", "volumeattributesclasses", namespaced=False)
JOBS: Final = APIResource("batch", "v1", "jobs", namespaced=True)
CRON_JOBS: Final = APIResource("batch", "v1", "cronjobs", namespaced=True)
HORIZONTAL_POD_AUTOSCALERS: Final = APIResource("autoscaling", "v2", "horizontalpodautoscalers", namespaced=True)
EVENTS: Final = APIResource("", "v1", "events", namespaced=True)
CLUSTER_ROLES: Final = APIResource("rbac.authorization.k8s.io", "v1", "clusterroles", namespaced=False)
LEASES: Final = APIResource("coordination.k8s.io", "v1", "leases", namespaced=True)
CUSTOM_RESOURCE_DEFINITIONS: Final = APIResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False
)
POD_DISRUPTION_BUDGETS: Final = APIResource("policy", "v1", "poddisruptionbudgets", namespaced=True)
