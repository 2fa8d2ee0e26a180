"""The default ClusterRoles of cluster components: scheduler, controller manager, nodes, add-ons.

This module has only tables; ``policy_objects.py`` creates the objects.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.authz.bootstrap_policy.rule_builders import READ, READ_WRITE, on
from headgate.apiserver.authz.rules import PolicyRule

ROLES: Final[dict[str, tuple[PolicyRule, ...]]] = {
    "system:auth-delegator": (
        on("create", "authentication.k8s.io", "tokenreviews"),
        on("create", "authorization.k8s.io", "subjectaccessreviews"),
    ),
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": (
        on("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient"),
    ),
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": (
        on("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient"),
    ),
    "system:certificates.k8s.io:kube-apiserver-client-approver": (
        on("approve", "certificates.k8s.io", "signers", names="kubernetes.io/kube-apiserver-client"),
    ),
    "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver": (
        on("approve", "certificates.k8s.io", "signers", names="kubernetes.io/kube-apiserver-client-kubelet"),
    ),
    "system:certificates.k8s.io:kubelet-serving-approver": (
        on("approve", "certificates.k8s.io", "signers", names="kubernetes.io/kubelet-serving"),
    ),
    "system:certificates.k8s.io:legacy-unknown-approver": (
        on("approve", "certificates.k8s.io", "signers", names="kubernetes.io/legacy-unknown"),
    ),
    "system:heapster": (
        on(READ, "core", "events namespaces nodes pods"),
        on(READ, "extensions", "deployments"),
    ),
    "system:kube-aggregator": (on(READ, "core", "endpoints services"),),
    "system:kube-controller-manager": (
        on("create patch update", "core events.k8s.io", "events"),
        on("create", "coordination.k8s.io", "leases"),
        on("get update", "coordination.k8s.io", "leases", names="kube-controller-manager"),
        on("create", "core", "secrets serviceaccounts"),
        on("delete", "core", "secrets"),
        on("get", "core", "configmaps namespaces secrets serviceaccounts"),
        on("update", "core", "secrets serviceaccounts"),
        on("create", "authentication.k8s.io", "tokenreviews"),
        on("create", "authorization.k8s.io", "subjectaccessreviews"),
        on("list watch", "*", "*"),
        on("create", "core", "serviceaccounts/token"),
    ),
    "system:kube-dns": (on("list watch", "core", "endpoints services"),),
    "system:kube-scheduler": (
        on("create patch update", "core events.k8s.io", "events"),
        on("create", "coordination.k8s.io", "leases"),
        on("get list update watch", "coordination.k8s.io", "leases", names="kube-scheduler"),
        on(READ_WRITE, "coordination.k8s.io", "leasecandidates"),
        on(READ, "core", "nodes"),
        on("delete get list watch", "core", "pods"),
        on("create", "core", "bindings pods/binding"),
        on("patch update", "core", "pods/status"),
        on(READ, "core", "replicationcontrollers services"),
        on(READ, "apps extensions", "replicasets"),
        on(READ, "apps", "statefulsets"),
        on(READ, "policy", "poddisruptionbudgets"),
        on(READ, "core", "persistentvolumeclaims persistentvolumes"),
        on("create", "authentication.k8s.io", "tokenreviews"),
        on("create", "authorization.k8s.io", "subjectaccessreviews"),
        on(READ, "storage.k8s.io", "csinodes"),
        on(READ, "storage.k8s.io", "volumeattachments"),
        on(READ, "core", "namespaces"),
        on(READ, "storage.k8s.io", "csidrivers"),
        on(READ, "storage.k8s.io", "csistoragecapacities"),
        on(READ, "resource.k8s.io", "deviceclasses"),
        on("get list patch update watch", "resource.k8s.io", "resourceclaims"),
        on("get list patch update watch", "resource.k8s.io", "resourceclaims/status"),
        on("update", "core", "pods/finalizers"),
        on(READ, "resource.k8s.io", "resourceslices"),
    ),
    "system:kubelet-api-admin": (
        on(READ, "core", "nodes"),
        on("proxy", "core", "nodes"),
        on("*", "core", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
        on("*", "core", "nodes/configz nodes/healthz nodes/pods"),
    ),
    "system:node": (
        on("create", "authentication.k8s.io", "tokenreviews"),
        on("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
        on(READ, "core", "services"),
        on("create get list watch", "core", "nodes"),
        on("patch update", "core", "nodes/status"),
        on("patch update", "core", "nodes"),
        on("create patch update", "core events.k8s.io", "events"),
        on(READ, "core", "pods"),
        on("create delete", "core", "pods"),
        on("patch update", "core", "pods/status"),
        on("create", "core", "pods/eviction"),
        on(READ, "core", "configmaps secrets"),
        on("get", "core", "persistentvolumeclaims persistentvolumes"),
        on("get", "core", "endpoints"),
        on("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
        on("create delete get patch update", "coordination.k8s.io", "leases"),
        on("get", "storage.k8s.io", "volumeattachments"),
        on("create", "core", "serviceaccounts/token"),
        on("get patch update", "core", "persistentvolumeclaims/status"),
        on(READ, "storage.k8s.io", "csidrivers"),
        on("create delete get patch update", "storage.k8s.io", "csinodes"),
        on(READ, "node.k8s.io", "runtimeclasses"),
        on("get", "resource.k8s.io", "resourceclaims"),
        on("deletecollection", "resource.k8s.io", "resourceslices"),
        on("get", "core", "serviceaccounts"),
    ),
    "system:node-bootstrapper": (on("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),),
    "system:node-problem-detector": (
        on("get", "core", "nodes"),
        on("patch", "core", "nodes/status"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:node-proxier": (
        on("list watch", "core", "endpoints services"),
        on(READ, "core", "nodes"),
        on("create patch update", "core events.k8s.io", "events"),
        on("list watch", "networking.k8s.io", "servicecidrs"),
        on("list watch", "discovery.k8s.io", "endpointslices"),
    ),
    "system:persistent-volume-provisioner": (
        on("create delete get list watch", "core", "persistentvolumes"),
        on("get list update watch", "core", "persistentvolumeclaims"),
        on(READ, "storage.k8s.io", "storageclasses"),
        on("watch", "core", "events"),
        on("create patch update", "core events.k8s.io", "events"),
    ),
    "system:volume-scheduler": (
        on("get list patch update watch", "core", "persistentvolumes"),
        on(READ, "storage.k8s.io", "storageclasses"),
        on("get list patch update watch", "core", "persistentvolumeclaims"),
    ),
}
