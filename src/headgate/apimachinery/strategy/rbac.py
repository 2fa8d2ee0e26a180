"""Strategies of ``rbac.authorization.k8s.io``."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.strategy.contract import (
    Strategy,
    UpdateRules,
    validate_create_without_context,
    validate_update_without_context,
)
from headgate.apimachinery.validation.rbac import (
    validate_cluster_role,
    validate_cluster_role_binding,
    validate_cluster_role_binding_update,
    validate_cluster_role_update,
    validate_role,
    validate_role_binding,
    validate_role_binding_update,
    validate_role_update,
)

RBAC: Final[dict[str, Strategy]] = {
    "ClusterRole": Strategy(
        namespaced=False,
        allow_create_on_update=True,
        validate_create=validate_create_without_context(validate_cluster_role),
        update=UpdateRules(validate=validate_update_without_context(validate_cluster_role_update)),
    ),
    "ClusterRoleBinding": Strategy(
        namespaced=False,
        allow_create_on_update=True,
        validate_create=validate_create_without_context(validate_cluster_role_binding),
        update=UpdateRules(validate=validate_update_without_context(validate_cluster_role_binding_update)),
    ),
    "Role": Strategy(
        allow_create_on_update=True,
        validate_create=validate_create_without_context(validate_role),
        update=UpdateRules(validate=validate_update_without_context(validate_role_update)),
    ),
    "RoleBinding": Strategy(
        allow_create_on_update=True,
        validate_create=validate_create_without_context(validate_role_binding),
        update=UpdateRules(validate=validate_update_without_context(validate_role_binding_update)),
    ),
}
