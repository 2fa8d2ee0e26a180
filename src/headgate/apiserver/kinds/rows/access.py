"""Rows for RBAC, access reviews and admission configuration."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.rows.row import CREATE, STATUS, row

_EXTENSIONS: Final = ("api-extensions",)

RBAC: Final[tuple[ServedKind, ...]] = (
    row("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", "Cluster"),
    row("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", "Cluster"),
    row("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", "Namespaced"),
    row("rbac.authorization.k8s.io/v1", "Role", "roles", "Namespaced"),
)

AUTHENTICATION: Final[tuple[ServedKind, ...]] = (
    row("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", "Cluster", verbs=CREATE),
    row("authentication.k8s.io/v1", "TokenReview", "tokenreviews", "Cluster", verbs=CREATE),
)

AUTHORIZATION: Final[tuple[ServedKind, ...]] = (
    row("authorization.k8s.io/v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", "Namespaced", verbs=CREATE),
    row("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", "Cluster", verbs=CREATE),
    row("authorization.k8s.io/v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", "Cluster", verbs=CREATE),
    row("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", "Cluster", verbs=CREATE),
)

ADMISSION: Final[tuple[ServedKind, ...]] = (
    row(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "Cluster",
        categories=_EXTENSIONS,
    ),
    row(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "Cluster",
        categories=_EXTENSIONS,
        subresources=(STATUS,),
    ),
    row(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "Cluster",
        categories=_EXTENSIONS,
    ),
    row(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "Cluster",
        categories=_EXTENSIONS,
    ),
)
