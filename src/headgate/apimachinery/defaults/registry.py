"""The defaulting function of each kind. A kind without an entry has no defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headgate.apimachinery.defaults.admissionregistration import (
    default_mutating_webhook_configuration,
    default_validating_admission_policy,
    default_validating_admission_policy_binding,
    default_validating_webhook_configuration,
)
from headgate.apimachinery.defaults.apiextensions import default_custom_resource_definition
from headgate.apimachinery.defaults.autoscaling import (
    default_horizontal_pod_autoscaler_v1,
    default_horizontal_pod_autoscaler_v2,
)
from headgate.apimachinery.defaults.core import (
    default_endpoints,
    default_limit_range,
    default_namespace,
    default_node,
    default_persistent_volume,
    default_persistent_volume_claim,
    default_resource_quota,
    default_secret,
)
from headgate.apimachinery.defaults.other_groups import (
    default_csi_driver,
    default_endpoint_slice,
    default_ingress_class,
    default_network_policy,
    default_priority_class,
    default_resource_claim,
    default_resource_claim_template,
    default_role_binding,
    default_storage_class,
    default_token_request,
    default_volume_attachment,
)
from headgate.apimachinery.defaults.pod import default_pod
from headgate.apimachinery.defaults.service import default_service
from headgate.apimachinery.defaults.workloads import (
    default_cron_job,
    default_daemon_set,
    default_deployment,
    default_job,
    default_pod_template,
    default_replica_set,
    default_replication_controller,
    default_stateful_set,
)

Defaulter = Callable[[dict[str, Any]], None]

DEFAULTERS: Final[dict[tuple[str, str, str], Defaulter]] = {
    ("", "v1", "Endpoints"): default_endpoints,
    ("", "v1", "LimitRange"): default_limit_range,
    ("", "v1", "Namespace"): default_namespace,
    ("", "v1", "Node"): default_node,
    ("", "v1", "PersistentVolume"): default_persistent_volume,
    ("", "v1", "PersistentVolumeClaim"): default_persistent_volume_claim,
    ("", "v1", "Pod"): default_pod,
    ("", "v1", "PodTemplate"): default_pod_template,
    ("", "v1", "ReplicationController"): default_replication_controller,
    ("", "v1", "ResourceQuota"): default_resource_quota,
    ("", "v1", "Secret"): default_secret,
    ("", "v1", "Service"): default_service,
    ("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"): default_mutating_webhook_configuration,
    ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"): default_validating_admission_policy,
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
    ): default_validating_admission_policy_binding,
    ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"): default_validating_webhook_configuration,
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"): default_custom_resource_definition,
    ("apps", "v1", "DaemonSet"): default_daemon_set,
    ("apps", "v1", "Deployment"): default_deployment,
    ("apps", "v1", "ReplicaSet"): default_replica_set,
    ("apps", "v1", "StatefulSet"): default_stateful_set,
    ("authentication.k8s.io", "v1", "TokenRequest"): default_token_request,
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): default_horizontal_pod_autoscaler_v1,
    ("autoscaling", "v2", "HorizontalPodAutoscaler"): default_horizontal_pod_autoscaler_v2,
    ("batch", "v1", "CronJob"): default_cron_job,
    ("batch", "v1", "Job"): default_job,
    ("discovery.k8s.io", "v1", "EndpointSlice"): default_endpoint_slice,
    ("networking.k8s.io", "v1", "IngressClass"): default_ingress_class,
    ("networking.k8s.io", "v1", "NetworkPolicy"): default_network_policy,
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"): default_role_binding,
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"): default_role_binding,
    ("resource.k8s.io", "v1", "ResourceClaim"): default_resource_claim,
    ("resource.k8s.io", "v1", "ResourceClaimTemplate"): default_resource_claim_template,
    ("scheduling.k8s.io", "v1", "PriorityClass"): default_priority_class,
    ("storage.k8s.io", "v1", "CSIDriver"): default_csi_driver,
    ("storage.k8s.io", "v1", "StorageClass"): default_storage_class,
    ("storage.k8s.io", "v1", "VolumeAttachment"): default_volume_attachment,
}
