"""Strategies of the groups without pods in them: networking, storage, RBAC, policy, webhooks, autoscaling, devices."""

from __future__ import annotations

from typing import Final

from headgate.kube.strategy.adapt import checks, checks_update
from headgate.kube.strategy.contract import Context, Object, Strategy, UpdateRules
from headgate.kube.strategy.prepare import (
    ISOLATED_STATUS,
    PLAIN_STATUS,
    SPEC,
    SPEC_AND_METADATA,
    STATUS,
    bump_generation,
    count_changes,
    drop_status,
    drop_status_start_generation,
    keep_spec,
    keep_spec_and_metadata,
    keep_status,
    keep_status_count_spec,
    start_generation,
)
from headgate.kube.validation.admission_policy import (
    validate_admission_policy,
    validate_admission_policy_binding,
    validate_admission_policy_status,
)
from headgate.kube.validation.autoscaler import (
    validate_autoscaler_create,
    validate_autoscaler_status_update,
    validate_autoscaler_update,
    validate_scale,
)
from headgate.kube.validation.disruption_budget import validate_disruption_budget, validate_disruption_budget_status
from headgate.kube.validation.endpoints import (
    endpoint_slice_warnings,
    validate_endpoint_slice,
    validate_endpoint_slice_update,
)
from headgate.kube.validation.ingress import (
    CLASS_ANNOTATION,
    validate_ingress_class,
    validate_ingress_class_update,
    validate_ingress_create,
    validate_ingress_status_update,
    validate_ingress_update,
)
from headgate.kube.validation.lease import validate_lease_create, validate_lease_update
from headgate.kube.validation.network_policy import validate_network_policy_create, validate_network_policy_update
from headgate.kube.validation.priority_class import validate_priority_class_create, validate_priority_class_update
from headgate.kube.validation.rbac import (
    validate_cluster_role,
    validate_cluster_role_binding,
    validate_cluster_role_binding_update,
    validate_cluster_role_update,
    validate_role,
    validate_role_binding,
    validate_role_binding_update,
    validate_role_update,
)
from headgate.kube.validation.resource_claim import (
    validate_claim_template_create,
    validate_claim_template_update,
    validate_device_class,
    validate_device_class_update,
    validate_resource_claim_create,
    validate_resource_claim_update,
    validate_resource_slice,
    validate_resource_slice_update,
)
from headgate.kube.validation.runtime_class import validate_runtime_class, validate_runtime_class_update
from headgate.kube.validation.service_cidr import (
    validate_ip_address_create,
    validate_ip_address_update,
    validate_service_cidr_create,
    validate_service_cidr_update,
)
from headgate.kube.validation.storage import (
    validate_csi_driver_create,
    validate_csi_driver_update,
    validate_csi_node,
    validate_csi_node_update,
    validate_csi_storage_capacity,
    validate_csi_storage_capacity_update,
    validate_storage_class_create,
    validate_storage_class_update,
    validate_volume_attachment_create,
    validate_volume_attachment_update,
    validate_volume_attributes_class,
    validate_volume_attributes_class_update,
)
from headgate.kube.validation.warnings import (
    network_policy_warnings,
    runtime_class_warnings,
    storage_capacity_warnings,
    storage_class_warnings,
)
from headgate.kube.validation.webhooks import validate_webhook_configuration

_INGRESS_ANNOTATION: Final = (
    f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
)

_WEBHOOKS: Final = Strategy(
    namespaced=False,
    prepare_create=start_generation,
    validate_create=checks(validate_webhook_configuration),
    update=UpdateRules(
        prepare=count_changes("webhooks"), validate=lambda new, old, ctx: validate_webhook_configuration(new, old)
    ),
    unconditional_update=False,
)

ADMISSION: Final[dict[str, Strategy]] = {
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingAdmissionPolicy": Strategy(
        namespaced=False,
        prepare_create=drop_status_start_generation,
        validate_create=checks(validate_admission_policy),
        update=UpdateRules(
            prepare=keep_status_count_spec,
            validate=lambda new, old, ctx: validate_admission_policy(new),
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
        validate_create=checks(validate_admission_policy_binding),
        update=UpdateRules(
            prepare=count_changes("spec"),
            validate=lambda new, old, ctx: validate_admission_policy_binding(new),
        ),
        unconditional_update=False,
    ),
}


def _stored_form(obj: Object) -> Object:
    """An autoscaler as the rules know it: the CPU target of the first version is a metric of the second."""
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
        validate_create=lambda obj, ctx: validate_autoscaler_create(_stored_form(obj)),
        update=UpdateRules(
            prepare=keep_status,
            validate=lambda new, old, ctx: validate_autoscaler_update(_stored_form(new), _stored_form(old)),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec, validate=checks_update(validate_autoscaler_status_update), reset_fields=SPEC
            )
        },
    ),
    "Scale": Strategy(validate_create=checks(validate_scale)),
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
        validate_create=checks(validate_lease_create),
        update=UpdateRules(
            prepare=lambda new, old, ctx: _drop_strategy_fields(new, old),
            validate=checks_update(validate_lease_update),
        ),
        unconditional_update=False,
    )
}


def _prepare_slice_create(obj: Object, ctx: Context) -> None:
    obj["metadata"]["generation"] = 1
    _drop_topology(obj, None)


def _prepare_slice_update(new: Object, old: Object, ctx: Context) -> None:
    fields = ("addressType", "endpoints", "ports")
    labels = [each["metadata"].get("labels") or {} for each in (new, old)]
    if labels[0] != labels[1] or any(new.get(field) != old.get(field) for field in fields):
        bump_generation(new, old)
    _drop_topology(new, old)


def _drop_topology(new: Object, old: Object | None) -> None:
    """The field of before 1.19 is read-only."""
    if old is None or new.get("endpoints") != old.get("endpoints"):
        for endpoint in new.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)


DISCOVERY: Final[dict[str, Strategy]] = {
    "EndpointSlice": Strategy(
        prepare_create=_prepare_slice_create,
        validate_create=checks(validate_endpoint_slice),
        warnings_create=lambda obj, ctx: endpoint_slice_warnings(obj, created=True),
        update=UpdateRules(
            prepare=_prepare_slice_update,
            validate=checks_update(validate_endpoint_slice_update),
            warnings=lambda new, old, ctx: endpoint_slice_warnings(new, created=False),
        ),
    )
}


def _ingress_warnings(obj: Object, ctx: Context) -> list[str]:
    return [_INGRESS_ANNOTATION] if CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}) else []


NETWORKING: Final[dict[str, Strategy]] = {
    "IPAddress": Strategy(
        namespaced=False,
        validate_create=checks(validate_ip_address_create),
        update=UpdateRules(validate=checks_update(validate_ip_address_update)),
    ),
    "Ingress": Strategy(
        prepare_create=drop_status_start_generation,
        validate_create=checks(validate_ingress_create),
        warnings_create=_ingress_warnings,
        update=UpdateRules(
            prepare=keep_status_count_spec, validate=checks_update(validate_ingress_update), reset_fields=STATUS
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec, validate=checks_update(validate_ingress_status_update), reset_fields=SPEC
            )
        },
    ),
    "IngressClass": Strategy(
        namespaced=False,
        prepare_create=start_generation,
        validate_create=checks(validate_ingress_class),
        update=UpdateRules(prepare=count_changes("spec"), validate=checks_update(validate_ingress_class_update)),
    ),
    "NetworkPolicy": Strategy(
        prepare_create=start_generation,
        validate_create=checks(validate_network_policy_create),
        warnings_create=lambda obj, ctx: network_policy_warnings(obj),
        update=UpdateRules(
            prepare=count_changes("spec"),
            validate=checks_update(validate_network_policy_update),
            warnings=lambda new, old, ctx: network_policy_warnings(new),
        ),
    ),
    "ServiceCIDR": Strategy(
        namespaced=False,
        prepare_create=drop_status,
        validate_create=checks(validate_service_cidr_create),
        update=UpdateRules(
            prepare=keep_status, validate=checks_update(validate_service_cidr_update), reset_fields=STATUS
        ),
        subresources=PLAIN_STATUS,
    ),
}

NODE: Final[dict[str, Strategy]] = {
    "RuntimeClass": Strategy(
        namespaced=False,
        allow_create_on_update=True,
        validate_create=checks(validate_runtime_class),
        warnings_create=lambda obj, ctx: runtime_class_warnings(obj),
        update=UpdateRules(
            validate=checks_update(validate_runtime_class_update),
            warnings=lambda new, old, ctx: runtime_class_warnings(new),
        ),
        unconditional_update=False,
    )
}

POLICY: Final[dict[str, Strategy]] = {
    "Eviction": Strategy(),
    "PodDisruptionBudget": Strategy(
        prepare_create=drop_status_start_generation,
        validate_create=checks(validate_disruption_budget),
        update=UpdateRules(
            prepare=keep_status_count_spec,
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
        validate_create=checks(validate_cluster_role),
        update=UpdateRules(validate=checks_update(validate_cluster_role_update)),
    ),
    "ClusterRoleBinding": Strategy(
        namespaced=False,
        allow_create_on_update=True,
        validate_create=checks(validate_cluster_role_binding),
        update=UpdateRules(validate=checks_update(validate_cluster_role_binding_update)),
    ),
    "Role": Strategy(
        allow_create_on_update=True,
        validate_create=checks(validate_role),
        update=UpdateRules(validate=checks_update(validate_role_update)),
    ),
    "RoleBinding": Strategy(
        allow_create_on_update=True,
        validate_create=checks(validate_role_binding),
        update=UpdateRules(validate=checks_update(validate_role_binding_update)),
    ),
}


def _stamp_taints(obj: Object, ctx: Context) -> None:
    for device in (obj.get("spec") or {}).get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", ctx.now)


def _prepare_resource_slice_create(obj: Object, ctx: Context) -> None:
    obj["metadata"]["generation"] = 1
    _stamp_taints(obj, ctx)


def _prepare_resource_slice_update(new: Object, old: Object, ctx: Context) -> None:
    _stamp_taints(new, ctx)
    if new.get("spec") != old.get("spec"):
        bump_generation(new, old)


RESOURCE: Final[dict[str, Strategy]] = {
    "DeviceClass": Strategy(
        namespaced=False,
        prepare_create=start_generation,
        validate_create=checks(validate_device_class),
        update=UpdateRules(prepare=count_changes("spec"), validate=checks_update(validate_device_class_update)),
    ),
    "ResourceClaim": Strategy(
        prepare_create=drop_status,
        validate_create=checks(validate_resource_claim_create),
        update=UpdateRules(
            prepare=keep_status, validate=checks_update(validate_resource_claim_update), reset_fields=STATUS
        ),
        subresources=ISOLATED_STATUS,
    ),
    "ResourceClaimTemplate": Strategy(
        validate_create=checks(validate_claim_template_create),
        update=UpdateRules(validate=checks_update(validate_claim_template_update)),
    ),
    "ResourceSlice": Strategy(
        namespaced=False,
        prepare_create=_prepare_resource_slice_create,
        validate_create=checks(validate_resource_slice),
        update=UpdateRules(
            prepare=_prepare_resource_slice_update, validate=checks_update(validate_resource_slice_update)
        ),
    ),
}

SCHEDULING: Final[dict[str, Strategy]] = {
    "PriorityClass": Strategy(
        namespaced=False,
        prepare_create=start_generation,
        validate_create=checks(validate_priority_class_create),
        update=UpdateRules(validate=checks_update(validate_priority_class_update)),
    )
}

STORAGE: Final[dict[str, Strategy]] = {
    "CSIDriver": Strategy(
        namespaced=False,
        validate_create=checks(validate_csi_driver_create),
        update=UpdateRules(prepare=count_changes("spec"), validate=checks_update(validate_csi_driver_update)),
        unconditional_update=False,
    ),
    "CSINode": Strategy(
        namespaced=False,
        validate_create=checks(validate_csi_node),
        update=UpdateRules(validate=checks_update(validate_csi_node_update)),
        unconditional_update=False,
    ),
    "CSIStorageCapacity": Strategy(
        validate_create=checks(validate_csi_storage_capacity),
        warnings_create=lambda obj, ctx: storage_capacity_warnings(obj),
        update=UpdateRules(
            validate=checks_update(validate_csi_storage_capacity_update),
            warnings=lambda new, old, ctx: storage_capacity_warnings(new),
        ),
        unconditional_update=False,
    ),
    "StorageClass": Strategy(
        namespaced=False,
        validate_create=checks(validate_storage_class_create),
        warnings_create=lambda obj, ctx: storage_class_warnings(obj),
        update=UpdateRules(
            warnings=lambda new, old, ctx: storage_class_warnings(new),
            validate=lambda new, old, ctx: validate_storage_class_create(new) + validate_storage_class_update(new, old),
        ),
    ),
    "VolumeAttachment": Strategy(
        namespaced=False,
        prepare_create=drop_status,
        validate_create=checks(validate_volume_attachment_create),
        update=UpdateRules(
            prepare=keep_status, validate=checks_update(validate_volume_attachment_update), reset_fields=STATUS
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec_and_metadata,
                validate=checks_update(validate_volume_attachment_update),
                reset_fields=SPEC_AND_METADATA,
            )
        },
        unconditional_update=False,
    ),
    "VolumeAttributesClass": Strategy(
        namespaced=False,
        validate_create=checks(validate_volume_attributes_class),
        update=UpdateRules(validate=checks_update(validate_volume_attributes_class_update)),
    ),
}
