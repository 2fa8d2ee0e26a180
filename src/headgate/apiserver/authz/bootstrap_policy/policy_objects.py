"""The default roles and bindings of a cluster as objects, made from the tables of this package."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from headgate.apiserver.authn.user import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from headgate.apiserver.authz.bootstrap_policy import component_roles, controller_roles, user_roles
from headgate.apiserver.authz.bootstrap_policy.rule_builders import READ, on
from headgate.apiserver.authz.rules import PolicyRule

Object = dict[str, Any]

_GROUP: Final = "rbac.authorization.k8s.io"
AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_CONTROLLER: Final = "system:controller:"
_MANAGER, _SCHEDULER = "User system:kube-controller-manager", "User system:kube-scheduler"
_LEASE_RULES: Final = tuple(
    on("create get list update watch", "coordination.k8s.io", each) for each in ("leases", "leasecandidates")
)
_EVENTS: Final = on("create patch update", "core events.k8s.io", "events")

# Aggregated roles, and the aggregated role that each is a part of.
_AGGREGATED: Final = {"admin": "", "edit": "admin", "view": "edit"}
_PARTS: Final = {f"system:aggregate-to-{name}": name for name in _AGGREGATED}

_CLUSTER_BINDINGS: Final = {
    "cluster-admin": (f"Group {MASTERS}",),
    "system:basic-user": (f"Group {AUTHENTICATED}",),
    "system:discovery": (f"Group {AUTHENTICATED}",),
    "system:kube-controller-manager": (_MANAGER,),
    "system:kube-dns": ("kube-dns",),
    "system:kube-scheduler": (_SCHEDULER,),
    "system:monitoring": ("Group system:monitoring",),
    "system:node": (),
    "system:node-proxier": ("User system:kube-proxy",),
    "system:public-info-viewer": (f"Group {AUTHENTICATED}", f"Group {UNAUTHENTICATED}"),
    "system:service-account-issuer-discovery": ("Group system:serviceaccounts",),
    "system:volume-scheduler": (_SCHEDULER,),
}
# Namespace, role, its rules, the name of the binding if it differs, and its subjects.
_NAMESPACED: Final[tuple[tuple[str, str, tuple[PolicyRule, ...], str, tuple[str, ...]], ...]] = (
    (
        "kube-public",
        "system:controller:bootstrap-signer",
        (on(READ, "core", "configmaps"), on("update", "core", "configmaps", names="cluster-info"), _EVENTS),
        "",
        ("bootstrap-signer",),
    ),
    (
        "kube-system",
        "extension-apiserver-authentication-reader",
        (on(READ, "core", "configmaps", names="extension-apiserver-authentication"),),
        "system::extension-apiserver-authentication-reader",
        (_MANAGER, _SCHEDULER),
    ),
    (
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        _LEASE_RULES,
        "",
        (_MANAGER, "kube-controller-manager", "leader-election-controller"),
    ),
    ("kube-system", "system::leader-locking-kube-scheduler", _LEASE_RULES, "", (_SCHEDULER, "kube-scheduler")),
    (
        "kube-system",
        "system:controller:bootstrap-signer",
        (on(READ, "core", "secrets"),),
        "",
        ("bootstrap-signer",),
    ),
    (
        "kube-system",
        "system:controller:cloud-provider",
        (on("create get list watch", "core", "configmaps"),),
        "",
        ("cloud-provider",),
    ),
    (
        "kube-system",
        "system:controller:token-cleaner",
        (on("delete get list watch", "core", "secrets"), _EVENTS),
        "",
        ("token-cleaner",),
    ),
)


def default_policy() -> list[Object]:
    """All default roles and bindings, roles first."""
    tables = {**user_roles.ROLES, **component_roles.ROLES, **controller_roles.ROLES}
    aggregated = [_aggregated_role(name, part_of) for name, part_of in _AGGREGATED.items()]
    roles = [_cluster_role(name, rules, _PARTS.get(name, "")) for name, rules in tables.items()]
    controller_bindings = {name: (name.removeprefix(_CONTROLLER),) for name in controller_roles.ROLES}
    bindings = [
        _binding("", name, "ClusterRole", name, subject_texts)
        for name, subject_texts in (_CLUSTER_BINDINGS | controller_bindings).items()
    ]
    return [*aggregated, *roles, *bindings, *(each for row in _NAMESPACED for each in _namespaced(*row))]


def _named(kind: str, name: str, namespace: str = "", part_of: str = "") -> Object:
    labels = _LABELS | ({f"{_GROUP}/aggregate-to-{part_of}": "true"} if part_of else {})
    metadata: Object = {"name": name, "labels": labels, "annotations": {AUTO_UPDATE: "true"}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata}


def _cluster_role(name: str, rules: Iterable[PolicyRule], part_of: str) -> Object:
    return {**_named("ClusterRole", name, part_of=part_of), "rules": [rule.wire() for rule in rules]}


def _aggregated_role(name: str, part_of: str) -> Object:
    selector = {"matchLabels": {f"{_GROUP}/aggregate-to-{name}": "true"}}
    return {**_named("ClusterRole", name, part_of=part_of), "aggregationRule": {"clusterRoleSelectors": [selector]}}


def _namespaced(
    namespace: str, name: str, rules: tuple[PolicyRule, ...], binding: str, subject_texts: tuple[str, ...]
) -> tuple[Object, Object]:
    role = {**_named("Role", name, namespace), "rules": [rule.wire() for rule in rules]}
    return role, _binding(namespace, binding or name, "Role", name, subject_texts)


def _binding(namespace: str, name: str, role_kind: str, role: str, subject_texts: Iterable[str]) -> Object:
    obj = _named("RoleBinding" if namespace else "ClusterRoleBinding", name, namespace)
    obj["roleRef"] = {"apiGroup": _GROUP, "kind": role_kind, "name": role}
    if subjects := [_subject(each) for each in subject_texts]:
        obj["subjects"] = subjects
    return obj


def _subject(text: str) -> Object:
    """``User x``, ``Group x``, or a service account of kube-system."""
    kind, blank, name = text.partition(" ")
    if not blank:
        return {"kind": "ServiceAccount", "name": text, "namespace": "kube-system"}
    return {"kind": kind, "apiGroup": _GROUP, "name": name}
