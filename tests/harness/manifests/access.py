"""Manifests of roles and of admission registration. The webhooks match nothing, so no server ever calls one."""

from __future__ import annotations

from typing import Any

from harness.manifests.kind import Kind, labelled

RULES = [{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"], "resourceNames": ["p"]}]
OTHER_RULES = [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}]
SUBJECTS: list[dict[str, Any]] = [
    {"kind": "User", "name": "alice"},
    {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "g"},
    {"kind": "ServiceAccount", "name": "s", "namespace": "{ns}"},
]
NOTHING = {"apiGroups": ["nothing.example"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}
HOOK: dict[str, Any] = {
    "name": "a.hook.example",
    "clientConfig": {"url": "https://hook.example/path"},
    "rules": [NOTHING],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
RICH_HOOK: dict[str, Any] = {
    **HOOK,
    "name": "b.hook.example",
    "clientConfig": {"service": {"namespace": "n", "name": "s"}},
    "failurePolicy": "Ignore",
    "objectSelector": {"matchLabels": {"a": "b"}},
}

ACCESS_KINDS: tuple[Kind, ...] = (
    Kind(
        "rbac.authorization.k8s.io/v1",
        "Role",
        "roles",
        {},
        {**labelled(app="a"), "rules": RULES},
        {"rules": OTHER_RULES},
    ),
    Kind(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "clusterroles",
        {},
        {**labelled(app="a"), "rules": [*RULES, {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]},
        {"rules": OTHER_RULES},
        namespaced=False,
    ),
    Kind(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        "rolebindings",
        {"roleRef": {"kind": "Role", "name": "r"}},
        {**labelled(app="a"), "roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": SUBJECTS},
        {"subjects": None},
    ),
    Kind(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        {"roleRef": {"kind": "ClusterRole", "name": "r"}},
        {**labelled(app="a"), "roleRef": {"kind": "ClusterRole", "name": "no-such"}, "subjects": SUBJECTS[:2]},
        {"subjects": None},
        namespaced=False,
    ),
    Kind(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        {},
        {**labelled(app="a"), "webhooks": [HOOK, {**RICH_HOOK, "reinvocationPolicy": "IfNeeded"}]},
        {"webhooks": [{**HOOK, "timeoutSeconds": 3}]},
        namespaced=False,
    ),
    Kind(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        {},
        {**labelled(app="a"), "webhooks": [HOOK, RICH_HOOK]},
        {"webhooks": [{**HOOK, "timeoutSeconds": 3}]},
        namespaced=False,
    ),
)
