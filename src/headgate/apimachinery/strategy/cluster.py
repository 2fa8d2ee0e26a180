"""Strategies of RBAC, policies, webhooks, autoscaling, leases, and priority and runtime classes."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.strategy.cel_warnings import policy_binding_warnings, policy_warnings
from headgate.apimachinery.strategy.contract import (
    Object,
    Strategy,
    UpdateRules,
    update_without_context,
    without_context,
)
from headgate.apimachinery.strategy.prepare import (
    SPEC,
    SPEC_AND_METADATA,
    STATUS,
    bump_generation_on_change,
    drop_status,
    drop_status_start_generation,
    keep_spec,
    keep_spec_and_metadata,
    keep_status,
    keep_status_bump_generation,
    start_generation,
)
from headgate.apimachinery.validation.admission_policy import (
    validate_admission_policy,
    validate_admission_policy_binding,
    validate_admission_policy_status,
)
from headgate.apimachinery.validation.horizontal_pod_autoscaler import (
    validate_autoscaler_create,
    validate_autoscaler_status_update,
    validate_autoscaler_update,
    validate_scale,
)
from headgate.apimachinery.validation.lease import validate_lease_create, validate_lease_update
from headgate.apimachinery.validation.pod_disruption_budget import (
    validate_disruption_budget,
    validate_disruption_budget_status,
)
from headgate.apimachinery.validation.priority_class import (
    validate_priority_class_create,
    validate_priority_class_update,
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
from headgate.apimachinery.validation.runtime_class import validate_runtime_class, validate_runtime_class_update
from headgate.apimachinery.validation.warnings import runtime_class_warnings
from headgate.apimachinery.validation.webhooks import validate_webhook_configuration

_WEBHOOKS: Final = Strategy(
    namespaced=False,
    prepare_create=start_generation,
    validate_create=without_context(validate_webhook_configuration),
    update=UpdateRules(
        prepare=bump_generation_on_change("webhooks"),
        validate=lambda new, old, ctx: validate_webhook_configuration(new, old),
    ),
    unconditional_update=False,
)

ADMISSION: Final[dict[str, Strategy]] = {
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingAdmissionPolicy": Strategy(
        namespaced=False,
        prepare_create=drop_status_start_generation,
        validate_create=without_context(validate_admission_policy),
        warnings_create=lambda obj, ctx: policy_warnings(obj, None),
        update=UpdateRules(
            prepare=keep_status_bump_generation,
            validate=lambda new, old, ctx: validate_admission_policy(new),
            warnings=lambda new, old, ctx: policy_warnings(new, old),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec_and_metadata,
                validate=lambda new, old, ctx: validate_admission_policy_status(new),
                reset_fields=SPEC_AND_METADATA,
            )
        },
        unconditional_update=False,
    ),
    "ValidatingAdmissionPolicyBinding": Strategy(
        namespaced=False,
        prepare_create=start_generation,
        validate_create=without_context(validate_admission_policy_binding),
        warnings_create=lambda obj, ctx: policy_binding_warnings(obj, None),
        update=UpdateRules(
            prepare=bump_generation_on_change("spec"),
            validate=lambda new, old, ctx: validate_admission_policy_binding(new),
            warnings=lambda new, old, ctx: policy_binding_warnings(new, old),
        ),
        unconditional_update=False,
    ),
}


def _as_v2(obj: Object) -> Object:
    """An autoscaler as v2, which validation uses: the CPU target of v1 is a metric of v2."""
    spec = obj.get("spec") or {}
    if not str(obj.get("apiVersion", "")).endswith("/v1"):
        return obj
    percent = spec.get("targetCPUUtilizationPercentage")
    metrics = []
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    return {**obj, "spec": {**spec, "metrics": metrics}}


AUTOSCALING: Final[dict[str, Strategy]] = {
    "HorizontalPodAutoscaler": Strategy(
        prepare_create=drop_status,
        validate_create=lambda obj, ctx: validate_autoscaler_create(_as_v2(obj)),
        update=UpdateRules(
            prepare=keep_status,
            validate=lambda new, old, ctx: validate_autoscaler_update(_as_v2(new), _as_v2(old)),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec, validate=update_without_context(validate_autoscaler_status_update), reset_fields=SPEC
            )
        },
    ),
    "Scale": Strategy(validate_create=without_context(validate_scale)),
}


def _drop_strategy_fields(new: Object, old: Object | None) -> None:
    """Coordinated leader election is behind a gate that is off in v1.35."""
    stored = (old or {}).get("spec") or {}
    for field in ("strategy", "preferredHolder"):
        if field not in stored:
            (new.get("spec") or {}).pop(field, None)


COORDINATION: Final[dict[str, Strategy]] = {
    "Lease": Strategy(
        allow_create_on_update=True,
        prepare_create=lambda obj, ctx: _drop_strategy_fields(obj, None),
        validate_create=without_context(validate_lease_create),
        update=UpdateRules(
            prepare=lambda new, old, ctx: _drop_strategy_fields(new, old),
            validate=update_without_context(validate_lease_update),
        ),
        unconditional_update=False,
    )
}


NODE: Final[dict[str, Strategy]] = {
    "RuntimeClass": Strategy(
        namespaced=False,
        allow_create_on_update=True,
        validate_create=without_context(validate_runtime_class),
        warnings_create=lambda obj, ctx: runtime_class_warnings(obj),
        update=UpdateRules(
            validate=update_without_context(validate_runtime_class_update),
            warnings=lambda new, old, ctx: runtime_class_warnings(new),
        ),
        unconditional_update=False,
    )
}

POLICY: Final[dict[str, Strategy]] = {
    "Eviction": Strategy(),
    "PodDisruptionBudget": Strategy(
        prepare_create=drop_status_start_generation,
        validate_create=without_context(validate_disruption_budget),
        update=UpdateRules(
            prepare=keep_status_bump_generation,
            validate=lambda new, old, ctx: validate_disruption_budget(new, old),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec,
                validate=lambda new, old, ctx: validate_disruption_budget_status(new),
                reset_fields=SPEC,
            )
        },
        unconditional_update=False,
    ),
}

RBAC: Final[dict[str, Strategy]] = {
    "ClusterRole": Strategy(
        namespaced=False,
        allow_create_on_update=True,
        validate_create=without_context(validate_cluster_role),
        update=UpdateRules(validate=update_without_context(validate_cluster_role_update)),
    ),
    "ClusterRoleBinding": Strategy(
        namespaced=False,
        allow_create_on_update=True,
        validate_create=without_context(validate_cluster_role_binding),
        update=UpdateRules(validate=update_without_context(validate_cluster_role_binding_update)),
    ),
    "Role": Strategy(
        allow_create_on_update=True,
        validate_create=without_context(validate_role),
        update=UpdateRules(validate=update_without_context(validate_role_update)),
    ),
    "RoleBinding": Strategy(
        allow_create_on_update=True,
        validate_create=without_context(validate_role_binding),
        update=UpdateRules(validate=update_without_context(validate_role_binding_update)),
    ),
}


SCHEDULING: Final[dict[str, Strategy]] = {
    "PriorityClass": Strategy(
        namespaced=False,
        prepare_create=start_generation,
        validate_create=without_context(validate_priority_class_create),
        update=UpdateRules(validate=update_without_context(validate_priority_class_update)),
    )
}
