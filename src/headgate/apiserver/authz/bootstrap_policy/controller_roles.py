"""The default ClusterRoles of single controllers, each bound to a service account of ``kube-system``.

This module has only tables; ``policy_objects.py`` creates the objects.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.authz.bootstrap_policy.rule_builders import READ, on
from headgate.apiserver.authz.rules import PolicyRule

ROLES: Final[dict[str, tuple[PolicyRule, ...]]] = {
    "system:controller:attachdetach-controller": (
        on("list watch", "core", "persistentvolumeclaims persistentvolumes"),
        on(READ, "core", "nodes"),
        on("patch update", "core", "nodes/status"),
        on("list watch", "core", "pods"),
        on("create patch update", "core events.k8s.io", "events"),
        on("create delete get list watch", "storage.k8s.io", "volumeattachments"),
        on(READ, "storage.k8s.io", "csidrivers"),
        on(READ, "storage.k8s.io", "csinodes"),
    ),
    "system:controller:certificate-controller": (
        on("delete get list watch", "certificates.k8s.io", "certificatesigningrequests"),
        on("update", "certificates.k8s.io", "certificatesigningrequests/approval certificatesigningrequests/status"),
        on("approve", "certificates.k8s.io", "signers", names="kubernetes.io/kube-apiserver-client-kubelet"),
        on(
            "sign",
            "certificates.k8s.io",
            "signers",
            names="kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet "
            "kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown",
        ),
        on("create", "authorization.k8s.io", "subjectaccessreviews"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:clusterrole-aggregation-controller": (
        on("escalate get list patch update watch", "rbac.authorization.k8s.io", "clusterroles"),
    ),
    "system:controller:cronjob-controller": (
        on("get list update watch", "batch", "cronjobs"),
        on("create delete get list patch update watch", "batch", "jobs"),
        on("update", "batch", "cronjobs/status"),
        on("update", "batch", "cronjobs/finalizers"),
        on("delete list watch", "core", "pods"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:daemon-set-controller": (
        on(READ, "apps extensions", "daemonsets"),
        on("update", "apps extensions", "daemonsets/status"),
        on("update", "apps extensions", "daemonsets/finalizers"),
        on("list watch", "core", "nodes"),
        on("create delete list patch watch", "core", "pods"),
        on("create", "core", "pods/binding"),
        on("create delete get list patch update watch", "apps", "controllerrevisions"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:deployment-controller": (
        on("get list update watch", "apps extensions", "deployments"),
        on("update", "apps extensions", "deployments/status"),
        on("update", "apps extensions", "deployments/finalizers"),
        on("create delete get list patch update watch", "apps extensions", "replicasets"),
        on("get list update watch", "core", "pods"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:disruption-controller": (
        on(READ, "apps extensions", "deployments"),
        on(READ, "apps extensions", "replicasets"),
        on(READ, "core", "replicationcontrollers"),
        on(READ, "policy", "poddisruptionbudgets"),
        on(READ, "apps", "statefulsets"),
        on("update", "policy", "poddisruptionbudgets/status"),
        on("patch update", "core", "pods/status"),
        on("get", "*", "*/scale"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:endpoint-controller": (
        on(READ, "core", "pods services"),
        on("create delete get list update watch", "core", "endpoints"),
        on("create", "core", "endpoints/restricted"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:endpointslice-controller": (
        on(READ, "core", "nodes pods services"),
        on("update", "core", "services/finalizers"),
        on("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:endpointslicemirroring-controller": (
        on(READ, "core", "endpoints services"),
        on("update", "core", "services/finalizers"),
        on("update", "core", "endpoints/finalizers"),
        on("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:ephemeral-volume-controller": (
        on(READ, "core", "pods"),
        on("update", "core", "pods/finalizers"),
        on("create get list watch", "core", "persistentvolumeclaims"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:expand-controller": (
        on("get list patch update watch", "core", "persistentvolumes"),
        on("patch update", "core", "persistentvolumeclaims/status"),
        on(READ, "core", "persistentvolumeclaims"),
        on("create patch update", "core events.k8s.io", "events"),
        on("get", "core", "services"),
    ),
    "system:controller:generic-garbage-collector": (
        on("delete get list patch update watch", "*", "*"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:horizontal-pod-autoscaler": (
        on(READ, "autoscaling", "horizontalpodautoscalers"),
        on("update", "autoscaling", "horizontalpodautoscalers/status"),
        on("get update", "*", "*/scale"),
        on("list watch", "core", "pods"),
        on("list watch", "metrics.k8s.io", "pods"),
        on(READ, "custom.metrics.k8s.io", "*"),
        on(READ, "external.metrics.k8s.io", "*"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:job-controller": (
        on("get list patch update watch", "batch", "jobs"),
        on("update", "batch", "jobs/status"),
        on("update", "batch", "jobs/finalizers"),
        on("create delete list patch watch", "core", "pods"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:legacy-service-account-token-cleaner": (
        on("get", "core", "configmaps", names="kube-apiserver-legacy-service-account-token-tracking"),
        on("delete patch", "core", "secrets"),
    ),
    "system:controller:namespace-controller": (
        on("delete get list watch", "core", "namespaces"),
        on("update", "core", "namespaces/finalize namespaces/status"),
        on("delete deletecollection get list watch", "*", "*"),
    ),
    "system:controller:node-controller": (
        on("delete get list patch update watch", "core", "nodes"),
        on("patch update", "core", "nodes/status"),
        on("patch update", "core", "pods/status"),
        on("delete get list watch", "core", "pods"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:persistent-volume-binder": (
        on("create delete get list update watch", "core", "persistentvolumes"),
        on("update", "core", "persistentvolumes/status"),
        on("get list update watch", "core", "persistentvolumeclaims"),
        on("update", "core", "persistentvolumeclaims/status"),
        on("create delete get list watch", "core", "pods"),
        on(READ, "storage.k8s.io", "storageclasses"),
        on("list watch", "core", "nodes"),
        on("create patch update", "core events.k8s.io", "events"),
        on("watch", "core", "events"),
        on("get", "core", "services"),
    ),
    "system:controller:pod-garbage-collector": (
        on("delete list watch", "core", "pods"),
        on(READ, "core", "nodes"),
        on("patch", "core", "pods/status"),
    ),
    "system:controller:pv-protection-controller": (
        on("get list update watch", "core", "persistentvolumes"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:pvc-protection-controller": (
        on("get list update watch", "core", "persistentvolumeclaims"),
        on(READ, "core", "pods"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:replicaset-controller": (
        on("get list update watch", "apps extensions", "replicasets"),
        on("update", "apps extensions", "replicasets/status"),
        on("update", "apps extensions", "replicasets/finalizers"),
        on("create delete list patch watch", "core", "pods"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:replication-controller": (
        on("get list update watch", "core", "replicationcontrollers"),
        on("update", "core", "replicationcontrollers/status"),
        on("update", "core", "replicationcontrollers/finalizers"),
        on("create delete list patch watch", "core", "pods"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:resource-claim-controller": (
        on(READ, "core", "pods"),
        on("update", "core", "pods/finalizers"),
        on("create delete get list watch", "resource.k8s.io", "resourceclaims"),
        on("patch update", "resource.k8s.io", "resourceclaims resourceclaims/status"),
        on("patch update", "core", "pods/status"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:resourcequota-controller": (
        on("list watch", "*", "*"),
        on("update", "core", "resourcequotas/status"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:root-ca-cert-publisher": (
        on("create update", "core", "configmaps"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:route-controller": (
        on("list watch", "core", "nodes"),
        on("patch", "core", "nodes/status"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:selinux-warning-controller": (
        on("create patch update", "core events.k8s.io", "events"),
        on(READ, "core", "persistentvolumes"),
        on(READ, "core", "persistentvolumeclaims"),
        on(READ, "core", "pods"),
        on(READ, "storage.k8s.io", "csidrivers"),
    ),
    "system:controller:service-account-controller": (
        on("create", "core", "serviceaccounts"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:service-cidrs-controller": (
        on("get list patch update watch", "networking.k8s.io", "servicecidrs"),
        on("patch update", "networking.k8s.io", "servicecidrs/finalizers"),
        on("patch update", "networking.k8s.io", "servicecidrs/status"),
        on(READ, "networking.k8s.io", "ipaddresses"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:service-controller": (
        on(READ, "core", "services"),
        on("patch update", "core", "services/status"),
        on("list watch", "core", "nodes"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:statefulset-controller": (
        on("list watch", "core", "pods"),
        on(READ, "apps", "statefulsets"),
        on("update", "apps", "statefulsets/status"),
        on("update", "apps", "statefulsets/finalizers"),
        on("create delete get patch update", "core", "pods"),
        on("create delete get list patch update watch", "apps", "controllerrevisions"),
        on("create get list watch", "core", "persistentvolumeclaims"),
        on("delete update", "core", "persistentvolumeclaims"),
        on("update", "core", "pods/finalizers"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:ttl-after-finished-controller": (
        on("delete get list watch", "batch", "jobs"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:ttl-controller": (
        on("list patch update watch", "core", "nodes"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:validatingadmissionpolicy-status-controller": (
        on(READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
        on("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:controller:volumeattributesclass-protection-controller": (
        on(READ, "core", "persistentvolumeclaims"),
        on(READ, "core", "persistentvolumes"),
        on("get list update watch", "storage.k8s.io", "volumeattributesclasses"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
}
