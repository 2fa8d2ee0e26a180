"""Strategies of networking and discovery: ingresses, policies, address ranges, endpoint slices."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.strategy.contract import (
    Object,
    Strategy,
    StrategyContext,
    UpdateRules,
    validate_create_without_context,
    validate_update_without_context,
)
from headgate.apimachinery.strategy.prepare import (
    SPEC,
    STATUS,
    bump_generation,
    bump_generation_on_change,
    drop_status,
    drop_status_start_generation,
    keep_spec,
    keep_spec_and_metadata,
    keep_status,
    keep_status_bump_generation,
    start_generation,
)
from headgate.apimachinery.validation.networking.endpoints import (
    endpoint_slice_warnings,
    validate_endpoint_slice,
    validate_endpoint_slice_update,
)
from headgate.apimachinery.validation.networking.ingress import (
    CLASS_ANNOTATION,
    validate_ingress_class,
    validate_ingress_class_update,
    validate_ingress_create,
    validate_ingress_status_update,
    validate_ingress_update,
)
from headgate.apimachinery.validation.networking.network_policy import (
    validate_network_policy_create,
    validate_network_policy_update,
)
from headgate.apimachinery.validation.networking.service_cidr import (
    validate_ip_address_create,
    validate_ip_address_update,
    validate_service_cidr_create,
    validate_service_cidr_update,
)
from headgate.apimachinery.validation.warnings import network_policy_warnings

_INGRESS_ANNOTATION: Final = (
    f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
)


def _prepare_slice_create(obj: Object, ctx: StrategyContext) -> None:
    obj["metadata"]["generation"] = 1
    _drop_topology(obj, None)


def _prepare_slice_update(new: Object, old: Object, ctx: StrategyContext) -> None:
    fields = ("addressType", "endpoints", "ports")
    labels = [each["metadata"].get("labels") or {} for each in (new, old)]
    if labels[0] != labels[1] or any(new.get(field) != old.get(field) for field in fields):
        bump_generation(new, old)
    _drop_topology(new, old)


def _drop_topology(new: Object, old: Object | None) -> None:
    """This field from before Kubernetes 1.19 is read-only."""
    if old is None or new.get("endpoints") != old.get("endpoints"):
        for endpoint in new.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)


DISCOVERY: Final[dict[str, Strategy]] = {
    "EndpointSlice": Strategy(
        prepare_create=_prepare_slice_create,
        validate_create=validate_create_without_context(validate_endpoint_slice),
        warnings_create=lambda obj, ctx: endpoint_slice_warnings(obj, created=True),
        update=UpdateRules(
            prepare=_prepare_slice_update,
            validate=validate_update_without_context(validate_endpoint_slice_update),
            warnings=lambda new, old, ctx: endpoint_slice_warnings(new, created=False),
        ),
    )
}


def _ingress_warnings(obj: Object, ctx: StrategyContext) -> list[str]:
    return [_INGRESS_ANNOTATION] if CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {}) else []


NETWORKING: Final[dict[str, Strategy]] = {
    "IPAddress": Strategy(
        namespaced=False,
        validate_create=validate_create_without_context(validate_ip_address_create),
        update=UpdateRules(validate=validate_update_without_context(validate_ip_address_update)),
    ),
    "Ingress": Strategy(
        prepare_create=drop_status_start_generation,
        validate_create=validate_create_without_context(validate_ingress_create),
        warnings_create=_ingress_warnings,
        update=UpdateRules(
            prepare=keep_status_bump_generation,
            validate=validate_update_without_context(validate_ingress_update),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec,
                validate=validate_update_without_context(validate_ingress_status_update),
                reset_fields=SPEC,
            )
        },
    ),
    "IngressClass": Strategy(
        namespaced=False,
        prepare_create=start_generation,
        validate_create=validate_create_without_context(validate_ingress_class),
        update=UpdateRules(
            prepare=bump_generation_on_change("spec"),
            validate=validate_update_without_context(validate_ingress_class_update),
        ),
    ),
    "NetworkPolicy": Strategy(
        prepare_create=start_generation,
        validate_create=validate_create_without_context(validate_network_policy_create),
        warnings_create=lambda obj, ctx: network_policy_warnings(obj),
        update=UpdateRules(
            prepare=bump_generation_on_change("spec"),
            validate=validate_update_without_context(validate_network_policy_update),
            warnings=lambda new, old, ctx: network_policy_warnings(new),
        ),
    ),
    "ServiceCIDR": Strategy(
        namespaced=False,
        prepare_create=drop_status,
        validate_create=validate_create_without_context(validate_service_cidr_create),
        # No reset_fields: kube-apiserver defines them for a version that is not served.
        update=UpdateRules(prepare=keep_status, validate=validate_update_without_context(validate_service_cidr_update)),
        subresources={"status": UpdateRules(prepare=keep_spec_and_metadata)},
    ),
}
