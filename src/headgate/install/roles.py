"""Roles and bindings from the table of rights (``rights.py``).

Each component has its own ClusterRole and Roles, so that an installation without a component does not have its rights.
The ServiceAccount of the pods is bound to those of the chosen components.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from headgate.install.names import NAME, NAMESPACE, metadata
from headgate.install.rights import (
    COMPONENT_ROLE,
    GATE_POLICY_RULES,
    GATE_POLICY_USER_RULES,
    LEASE_NAMESPACE,
    RULES,
    USER_RULES,
    RightRule,
    RightScope,
)
from headgate.install.template import Items, TemplateObject, Tree, when

Object = dict[str, Any]

RBAC: Final = "rbac.authorization.k8s.io"
API_VERSION: Final = f"{RBAC}/v1"
_AGGREGATED: Final = {"view": ("view",), "edit": ("edit",), "admin": ("admin",)}
"""Kubernetes aggregates view into edit, and edit into admin."""


def policy_rules(rules: Iterable[RightRule]) -> list[Object]:
    """The rules of a role; rules with the same objects are joined."""
    verbs: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for rule in rules:
        joined = verbs.setdefault((rule.group, rule.resources, rule.names), [])
        joined += [verb for verb in rule.verbs if verb not in joined]
    return [
        {
            "apiGroups": [group],
            "resources": list(resources),
            **({"resourceNames": list(names)} if names else {}),
            "verbs": listed,
        }
        for (group, resources, names), listed in verbs.items()
    ]


def component_roles() -> Iterator[TemplateObject]:
    """The roles of each component, with their bindings."""
    for component, rules in RULES.items():
        condition = when(f"components.{component}")
        for body in roles_and_bindings(f"{COMPONENT_ROLE}-{component}", rules, NAME):
            yield TemplateObject(body, condition)


def gate_policy_roles() -> Iterator[TemplateObject]:
    """The roles for GatePolicies: of the pods, and of users that read policies."""
    condition = when("gatePolicies.enabled")
    for body in roles_and_bindings(f"{COMPONENT_ROLE}-gate-policies", GATE_POLICY_RULES, NAME):
        yield TemplateObject(body, condition)
    viewer = {"apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": metadata(f"{NAME}-gate-policy-viewer")}
    yield TemplateObject({**viewer, "rules": policy_rules(GATE_POLICY_USER_RULES)}, condition)


def additional_role() -> Iterator[TemplateObject]:
    """The rules that an administrator adds, for job kinds or scheduler plugins."""
    rules = [Items("additionalRules")]
    for body in _role_and_binding(f"{COMPONENT_ROLE}-additional", None, rules, NAME):
        yield TemplateObject(body, when("additionalRules"))


def roles_and_bindings(name: str, rules: Iterable[RightRule], account: str, **more: Tree) -> Iterator[Object]:
    """The roles of these rules, one for each scope, bound to a ServiceAccount. ``more``: of the metadata."""
    listed = tuple(rules)
    for scope, namespace in (
        (RightScope.CLUSTER, None),
        (RightScope.OWN_NAMESPACE, NAMESPACE),
        (RightScope.LEASE_NAMESPACE, LEASE_NAMESPACE),
    ):
        chosen = policy_rules(rule for rule in listed if rule.scope is scope)
        if chosen:
            yield from _role_and_binding(name, namespace, chosen, account, **more)


def _role_and_binding(name: str, namespace: Tree, rules: list[Tree], account: str, **more: Tree) -> tuple[Object, ...]:
    """``namespace``: None for a ClusterRole."""
    prefix = "Cluster" if namespace is None else ""
    role: Object = {
        "apiVersion": API_VERSION,
        "kind": f"{prefix}Role",
        "metadata": metadata(name, namespace, **more),
        "rules": rules,
    }
    binding: Object = {
        "apiVersion": API_VERSION,
        "kind": f"{prefix}RoleBinding",
        "metadata": metadata(name, namespace, **more),
        "roleRef": {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    }
    return role, binding


def cluster_role_and_binding(name: str, rules: list[Tree], account: str) -> tuple[Object, ...]:
    """A ClusterRole with these rules, bound to a ServiceAccount."""
    return _role_and_binding(name, None, rules, account)


def user_roles() -> Iterator[TemplateObject]:
    """ClusterRoles for users: aggregated to view, edit and admin, or to be bound by an administrator."""
    for role, rules in USER_RULES.items():
        meta = metadata(f"{NAME}-{role}")
        for aggregate in _AGGREGATED.get(role, ()):
            meta["labels"] = {**meta["labels"], f"{RBAC}/aggregate-to-{aggregate}": "true"}
        body: Object = {"apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": meta}
        yield TemplateObject({**body, "rules": policy_rules(rules)}, when("userRoles.enabled"))
