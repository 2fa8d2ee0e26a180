"""The default ClusterRoles of users and their tools: ``cluster-admin``, and the parts of ``admin``, ``edit`` and
``view``.

This module has only tables; ``policy_objects.py`` creates the objects.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.authz.bootstrap_policy.rule_builders import READ, READ_WRITE, WRITE, on, urls
from headgate.apiserver.authz.rules import PolicyRule

ROLES: Final[dict[str, tuple[PolicyRule, ...]]] = {
    "cluster-admin": (
        on("*", "*", "*"),
        urls("*", "*"),
    ),
    "system:aggregate-to-admin": (
        on("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        on(READ_WRITE, "rbac.authorization.k8s.io", "rolebindings roles"),
    ),
    "system:aggregate-to-edit": (
        on(READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
        on("impersonate", "core", "serviceaccounts"),
        on(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
        on("create", "core", "pods/eviction"),
        on(
            WRITE,
            "core",
            "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale "
            "secrets serviceaccounts services services/proxy",
        ),
        on("create", "core", "serviceaccounts/token"),
        on(WRITE, "core events.k8s.io", "events"),
        on(
            WRITE,
            "apps",
            "daemonsets deployments deployments/rollback deployments/scale replicasets "
            "replicasets/scale statefulsets statefulsets/scale",
        ),
        on(WRITE, "autoscaling", "horizontalpodautoscalers"),
        on(WRITE, "batch", "cronjobs jobs"),
        on(
            WRITE,
            "extensions",
            "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies "
            "replicasets replicasets/scale replicationcontrollers/scale",
        ),
        on(WRITE, "policy", "poddisruptionbudgets"),
        on(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
        on(READ_WRITE, "coordination.k8s.io", "leases"),
        on(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    ),
    "system:aggregate-to-view": (
        on(
            READ,
            "core",
            "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
            "replicationcontrollers replicationcontrollers/scale serviceaccounts services "
            "services/status",
        ),
        on(
            READ,
            "core",
            "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status "
            "resourcequotas resourcequotas/status",
        ),
        on(READ, "core", "namespaces"),
        on(READ, "core events.k8s.io", "events"),
        on(READ, "discovery.k8s.io", "endpointslices"),
        on(
            READ,
            "apps",
            "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
            "deployments/status replicasets replicasets/scale replicasets/status statefulsets "
            "statefulsets/scale statefulsets/status",
        ),
        on(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
        on(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
        on(
            READ,
            "extensions",
            "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses "
            "ingresses/status networkpolicies replicasets replicasets/scale replicasets/status "
            "replicationcontrollers/scale",
        ),
        on(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
        on(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
        on(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
    ),
    "system:basic-user": (
        on("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        on("create", "authentication.k8s.io", "selfsubjectreviews"),
    ),
    "system:discovery": (
        urls("get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"),
    ),
    "system:monitoring": (
        urls("get", "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*"),
        on("get", "core", "nodes/metrics"),
    ),
    "system:public-info-viewer": (urls("get", "/healthz /livez /readyz /version /version/"),),
    "system:service-account-issuer-discovery": (
        urls(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        ),
    ),
}
