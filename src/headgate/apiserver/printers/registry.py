"""Which printer serves which kind, by the group and kind that it is stored as.

A kind that is missing here (limit ranges, roles, storage capacities, custom resources without columns of their own)
is printed by :data:`DEFAULT`: its name and time of creation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.apiserver.printers import autoscaling, core, network, pods, rbac_and_admission, storage, workloads
from headgate.apiserver.printers.printer import CREATED_AT, NAME, Cells, Object, Printer, name_of, part

_ADMISSION: Final = "admissionregistration.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"
_NETWORKING: Final = "networking.k8s.io"
_STORAGE: Final = "storage.k8s.io"
_RESOURCE: Final = "resource.k8s.io"


def _name_and_creation(obj: Object, now: float) -> Cells:
    return [name_of(obj), part(obj, "metadata").get("creationTimestamp") or "0001-01-01T00:00:00Z"]


DEFAULT: Final = Printer((NAME, CREATED_AT), _name_and_creation, empty_rows="null")

PRINTERS: Final[Mapping[tuple[str, str], Printer]] = {
    ("", "ComponentStatus"): core.COMPONENT_STATUS,
    ("", "ConfigMap"): core.CONFIG_MAP,
    ("", "Endpoints"): network.ENDPOINTS,
    ("", "Event"): core.EVENT,
    ("", "Namespace"): core.NAMESPACE,
    ("", "Node"): core.NODE,
    ("", "PersistentVolume"): storage.PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): storage.PERSISTENT_VOLUME_CLAIM,
    ("", "Pod"): pods.POD,
    ("", "PodTemplate"): pods.POD_TEMPLATE,
    ("", "ReplicationController"): workloads.REPLICATION_CONTROLLER,
    ("", "ResourceQuota"): autoscaling.RESOURCE_QUOTA,
    ("", "Secret"): core.SECRET,
    ("", "Service"): network.SERVICE,
    ("", "ServiceAccount"): core.NAME_AND_AGE,
    ("apps", "ControllerRevision"): workloads.CONTROLLER_REVISION,
    ("apps", "DaemonSet"): workloads.DAEMON_SET,
    ("apps", "Deployment"): workloads.DEPLOYMENT,
    ("apps", "ReplicaSet"): workloads.REPLICA_SET,
    ("apps", "StatefulSet"): workloads.STATEFUL_SET,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscaling.HORIZONTAL_POD_AUTOSCALER,
    ("autoscaling", "Scale"): workloads.SCALE,
    ("batch", "CronJob"): workloads.CRON_JOB,
    ("batch", "Job"): workloads.JOB,
    ("coordination.k8s.io", "Lease"): core.LEASE,
    ("discovery.k8s.io", "EndpointSlice"): network.ENDPOINT_SLICE,
    ("node.k8s.io", "RuntimeClass"): core.RUNTIME_CLASS,
    ("policy", "PodDisruptionBudget"): autoscaling.POD_DISRUPTION_BUDGET,
    ("scheduling.k8s.io", "PriorityClass"): autoscaling.PRIORITY_CLASS,
    (_ADMISSION, "MutatingWebhookConfiguration"): rbac_and_admission.WEBHOOKS,
    (_ADMISSION, "ValidatingAdmissionPolicy"): rbac_and_admission.ADMISSION_POLICY,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): rbac_and_admission.ADMISSION_POLICY_BINDING,
    (_ADMISSION, "ValidatingWebhookConfiguration"): rbac_and_admission.WEBHOOKS,
    (_NETWORKING, "IPAddress"): network.IP_ADDRESS,
    (_NETWORKING, "Ingress"): network.INGRESS,
    (_NETWORKING, "IngressClass"): network.INGRESS_CLASS,
    (_NETWORKING, "NetworkPolicy"): network.NETWORK_POLICY,
    (_NETWORKING, "ServiceCIDR"): network.SERVICE_CIDR,
    (_RBAC, "ClusterRoleBinding"): rbac_and_admission.ROLE_BINDING,
    (_RBAC, "RoleBinding"): rbac_and_admission.ROLE_BINDING,
    (_RESOURCE, "DeviceClass"): core.NAME_AND_AGE,
    (_RESOURCE, "ResourceClaim"): storage.RESOURCE_CLAIM,
    (_RESOURCE, "ResourceClaimTemplate"): core.NAME_AND_AGE,
    (_RESOURCE, "ResourceSlice"): storage.RESOURCE_SLICE,
    (_STORAGE, "CSIDriver"): storage.CSI_DRIVER,
    (_STORAGE, "CSINode"): storage.CSI_NODE,
    (_STORAGE, "StorageClass"): storage.STORAGE_CLASS,
    (_STORAGE, "VolumeAttachment"): storage.VOLUME_ATTACHMENT,
    (_STORAGE, "VolumeAttributesClass"): storage.VOLUME_ATTRIBUTES_CLASS,
}
