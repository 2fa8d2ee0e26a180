"""The built-in kinds of RBAC, access reviews and admission configuration."""

from __future__ import annotations

from typing import Final

from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.kinds.rows.row import CREATE, STATUS, builtin_kind

_EXTENSIONS: Final = ("api-extensions",)

RBAC: Final[tuple[ServedKind, ...]] = (
    builtin_kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", "Cluster"),
    builtin_kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", "Cluster"),
    builtin_kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", "Namespaced"),
    builtin_kind("rbac.authorization.k8s.io/v1", "Role", "roles", "Namespaced"),
)

AUTHENTICATION: Final[tuple[ServedKind, ...]] = (
    builtin_kind("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", "Cluster", verbs=CREATE),
    builtin_kind("authentication.k8s.io/v1", "TokenReview", "tokenreviews", "Cluster", verbs=CREATE),
)

AUTHORIZATION: Final[tuple[ServedKind, ...]] = (
    builtin_kind(
        "authorization.k8s.io/v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", "Namespaced", verbs=CREATE
    ),
    builtin_kind(
        "authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", "Cluster", verbs=CREATE
    ),
    builtin_kind(
        "authorization.k8s.io/v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", "Cluster", verbs=CREATE
    ),
    builtin_kind("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", "Cluster", verbs=CREATE),
)

ADMISSION: Final[tuple[ServedKind, ...]] = (
    builtin_kind(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "Cluster",
        categories=_EXTENSIONS,
    ),
    builtin_kind(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "Cluster",
        categories=_EXTENSIONS,
        subresources=(STATUS,),
    ),
    builtin_kind(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "Cluster",
        categories=_EXTENSIONS,
    ),
    builtin_kind(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "Cluster",
        categories=_EXTENSIONS,
    ),
)
